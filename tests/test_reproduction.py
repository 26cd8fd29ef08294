"""The reproduction on the ladder (`experiments`): runs that can start and resume, honest intervals, a page in step."""

import itertools
import json
import signal
import threading
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from child_processes import has_ended, wait_until
from made_samples import sample as made_sample

from coda_trl import train as TRAIN
from coda_trl.data import DataArguments
from coda_trl.evaluation import Estimate
from coda_trl.evaluation.ladder import style_of
from experiments import runner
from experiments.files import fill, read_results, record
from experiments.ladder import matrix, rebuild, reproduce, testbed
from experiments.ladder.claims import Claim, Measure, claims_table
from experiments.ladder.repetition import ENOUGH, compared, counts_table, numbers
from experiments.ladder.results import Results, change, new_run, over_seeds_and_problems
from experiments.ladder.summaries import summarise_samples, thin_log
from experiments.ladder.tables import METHODS, all_tables, line_styles

ROOT = Path(__file__).parent.parent


@pytest.mark.parametrize("name", [name for name, run in matrix.RUNS.items() if run.recipe is not None])
def test_every_run_of_the_matrix_can_start(name, ladder, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    argv = ladder.train_arguments(matrix.RUNS[name], 7, tmp_path)
    args = dict(zip(TRAIN.ARGUMENTS, TRAIN.parse(argv), strict=True))
    config, data = args[TRAIN.CodaGRPOConfig], args[DataArguments]
    assert (config.seed, config.max_steps, config.output_dir) == (7, 100, str(tmp_path)), "overlays must not win"
    assert config.generation_batch_size == 160, "every run sees as many answers a step"
    assert data.dataset[0].endswith("=4000")
    assert (config.length_shaping == "none") == name.startswith("grpo")


def test_all_methods_come_before_the_second_seed_and_ablations_last():
    jobs = matrix.jobs(["main", "ablations"], seeds=5, first_seed=3)
    seeds = [seed for name, seed in jobs if name in matrix.MAIN]
    assert seeds == sorted(seeds) and set(seeds) == {3, 4, 5, 6, 7}
    assert [name for name, _ in jobs].index(next(iter(matrix.ABLATIONS))) == len(seeds)
    assert jobs.count(("start", 3)) == 1 and ("start", 4) not in jobs
    assert len(jobs) == 1 + (len(matrix.MAIN) - 1) * 5 + 3 * len(matrix.ABLATIONS)


@pytest.fixture
def ladder(tmp_path):
    signal.signal(signal.SIGINT, signal.default_int_handler)  # children of a shell's background would ignore it
    argv = ["--results", str(tmp_path / "results.jsonl"), "--work", str(tmp_path / "work")]
    return reproduce.ladder(reproduce.read_command_line(argv))


def test_runs_that_are_evaluated_are_skipped(tmp_path):
    def todo(*argv: str) -> list[tuple[str, int]]:
        args = reproduce.read_command_line(["--results", str(tmp_path / "results.jsonl"), *argv])
        return reproduce.ladder(args).todo(matrix.jobs(args.runs, args.seeds, args.first_seed))

    everything = todo()
    for seed, evaluations in ((1, [{}]), (2, [])):
        record(tmp_path / "results.jsonl", {"method": "coda", "seed": seed, "evaluations": evaluations})
    assert set(everything) - set(todo()) == {("coda", 1)}
    assert todo("--runs", "main", "--only", "vlp", "--seeds", "2") == [("vlp", 0), ("vlp", 1)]


@pytest.mark.parametrize("argv", [[], ["--results", "experiments/ladder/results.jsonl"]])
def test_a_rehearsal_does_not_write_among_the_results(argv, monkeypatch):
    monkeypatch.chdir(ROOT)
    with pytest.raises(SystemExit):
        reproduce.read_command_line(["--tiny", *argv])


def test_a_clone_has_everything_left_to_do():
    """The committed runs are not taken for the reader's own: `make reproduce` had nothing to do."""
    assert reproduce.read_command_line([]).results != reproduce.RESULTS


def call_and_stop(ladder, folder: Path, script: str) -> str:
    """Calls a script, stops it once it has written something, and returns all that it wrote."""
    log = folder / "log.txt"

    def stop_when_up() -> None:
        wait_until(lambda: log.exists() and log.read_text().strip())
        ladder.stop.set()

    threading.Thread(target=stop_when_up).start()
    with pytest.raises(runner.Stopped):
        ladder.call(["-c", script], folder)
    return log.read_text()


def test_an_interrupt_ends_a_process_and_leaves_its_work(ladder, tmp_path):
    script = "import time\ntry:\n    print('up', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: print('saved')"
    assert "saved" in call_and_stop(ladder, tmp_path, script), "it was interrupted, not killed"


def test_what_does_not_end_is_killed_with_its_own_processes(ladder, tmp_path, monkeypatch):
    """A vLLM engine is such a process, and would keep its memory."""
    monkeypatch.setattr(runner, "GRACE", 0.5)
    script = "import signal, subprocess, time; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    script += "print(subprocess.Popen(['sleep', '600']).pid, flush=True); time.sleep(600)"
    child = int(call_and_stop(ladder, tmp_path, script))
    assert wait_until(lambda: has_ended(child))


def test_a_training_is_recorded_before_its_evaluation_and_not_repeated(ladder, tmp_path, monkeypatch):
    """An evaluation that fails leaves a line without it; the next session trains no more and adds to the seconds."""
    called = []

    def call(command, work):
        called.append(Path(command[0]).name)
        if called[-1] == "train.py":
            if called.count("train.py") == 1:
                raise runner.Stopped
            (work / "model").mkdir()
            history = [{"step": step, "coda/mean_score": 0.5} for step in (5, 10)]
            (work / "model/trainer_state.json").write_text(json.dumps({"log_history": history}))
        elif called.count("evaluate.py") == 1:
            raise runner.Failed("no memory")
        else:
            (work / "eval").mkdir()
            (work / "eval/summary.json").write_text(json.dumps({"wall_seconds": 2.04}))

    monkeypatch.setattr(ladder, "call", call)
    monkeypatch.setattr(testbed, "read_samples", lambda path: samples())
    with pytest.raises(runner.Stopped):
        ladder.run("coda", 0)
    assert not ladder.args.results.exists()
    with pytest.raises(runner.Failed, match="no memory"):
        ladder.run("coda", 0)
    (trained,) = read_results(ladder.args.results)
    assert trained["evaluations"] == [] and trained["log"]["coda/mean_score"] == [0.5]
    assert trained["shared"]["steps"] == 10 and trained["shared"]["learning_rate"] == 2e-4
    ladder.run("coda", 0)
    (row,) = read_results(ladder.args.results)
    assert called == ["train.py", "train.py", "evaluate.py", "evaluate.py"]
    assert row["evaluations"][0]["seconds"] == 2.0 and row | {"evaluations": []} == trained
    assert Results([row]).measured("coda", (1, 0)).samples == 4
    assert not (tmp_path / "work/coda-seed0").exists(), "models of finished runs are not kept"


TEXTS = ["ans 16", "7 16 verify 9 16 same ans 16", "7 16 verify 9 15 wait 16 ans 16", "7 15 verify 9", "okay we add 1"]


def samples(shift: int = 0) -> list[dict]:
    """Two problems a rung, four samples each."""
    found = []
    for problem in range(12):
        for sample in range(4):
            text = TEXTS[(problem + sample + shift) % len(TEXTS)]
            fields = {"benchmark": "ladder", "rung": problem % 6 + 1, "completion": text}
            found.append(made_sample(problem, text.endswith("ans 16"), len(text.split()) + 1, **fields))
    return found


def line(name: str, seed: int, shift: int = 0, **shared: str) -> dict:
    """A run as in a results file."""
    log = thin_log([{"step": step, "coda/mean_w_easy": step / 100 + seed} for step in range(5, 105, 5)], 10)
    summary = summarise_samples(samples(shift), style_of, reproduce.rechecks)
    return {
        "method": name,
        "seed": seed,
        "train_seconds": 60.0,
        "device": "cpu",
        "shared": {"checkpoint": "abc", "steps": 100} | shared,
        "evaluations": [{"budget": budget, **summary} for budget in matrix.RUNS[name].budgets],
        "log": log,
    }


def test_a_line_keeps_what_the_samples_say(tmp_path):
    record(tmp_path / "results.jsonl", line("coda", 4) | {"evaluations": []})
    record(tmp_path / "results.jsonl", line("coda", 4))
    (found,) = read_results(tmp_path / "results.jsonl")
    columns = Results([found]).measured("coda", (1, 4)).columns
    mine = [sample for sample in samples() if sample["problem_id"] == "3"]
    assert columns["rung"].tolist() == [1, 2, 3, 4, 5, 6] * 2
    assert columns["correct"][3] == sum(sample["correct"] for sample in mine)
    assert columns["tokens"][3] == sum(sample["tokens"] for sample in mine)
    assert columns["rechecks"].sum() < columns["reflective"].sum(), "a check that was not carried through"
    assert columns["verbose"].sum() == sum(sample["completion"].startswith("okay") for sample in samples())
    rung = found["evaluations"][0]["rungs"]["4"]
    assert rung["accuracy"] == pytest.approx(columns["correct"][[3, 9]].sum() / 8)
    assert found["log"] == {
        "step": list(range(10, 110, 10)),
        "coda/mean_w_easy": pytest.approx([4.075 + 0.1 * i for i in range(10)], rel=1e-3),
    }


def test_a_log_with_gaps_keeps_its_steps():
    log = thin_log([{"step": 5, "entropy": 1.0}, {"step": 10, "entropy": 3.0}, {"step": 25, "entropy": 4.0}], 10)
    assert log == {"step": [10, 20, 25], "entropy": [2.0, None, 4.0]}


def rows(generator: np.random.Generator, seeds: int, spread: float, problems: float) -> np.ndarray:
    """Numbers around 0: every seed off by its own error, all of them by one that the choice of problems makes."""
    common = generator.normal(0, problems)
    values = generator.normal(0, spread, size=seeds) + common
    return np.column_stack([values, values[:, None] + generator.normal(0, problems, size=(1, 500))])


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize(("spread", "problems"), [(1.0, 0.0), (1.0, 1.0), (0.1, 1.0)])
def test_interval_covers_the_truth_as_often_as_it_says(seeds, spread, problems):
    generator = np.random.default_rng(0)
    intervals = [over_seeds_and_problems(rows(generator, seeds, spread, problems)) for _ in range(600)]
    assert 0.92 <= np.mean([found.low <= 0 <= found.high for found in intervals]) <= 0.99


def share_inside(interval, seeds: int, runs: int, problems: float) -> float:
    """How often the mean of new runs on the same problems lies in the interval that earlier ones gave."""
    generator = np.random.default_rng(2)
    inside = []
    for _ in range(1000):
        both = rows(generator, seeds + runs, 3.0, problems)
        stated = interval(both[:seeds])
        inside.append(stated.low <= both[seeds:, 0].mean() <= stated.high)
    return np.mean(inside)


@pytest.mark.parametrize("seeds", [3, 5])
@pytest.mark.parametrize("runs", [1, 5])
@pytest.mark.parametrize("problems", [0.0, 5.0])
def test_new_runs_on_the_same_problems_fall_inside_as_often_as_it_says(seeds, runs, problems):
    interval = partial(new_run, runs=runs, resolution=0.0)
    assert 0.93 <= share_inside(interval, seeds, runs, problems) <= 0.97


@pytest.mark.parametrize(("runs", "share"), [(1, 0.68), (5, 0.88)])
def test_an_interval_for_the_mean_is_none_for_new_seeds(runs, share):
    """The page says how often new seeds fall inside, so that nobody expects 95%."""
    assert share_inside(over_seeds_and_problems, 5, runs, 0.0) == pytest.approx(share, abs=0.03)


def test_a_run_that_is_new_in_the_matrix_can_be_drawn():
    assert line_styles([*METHODS, "new"])["new"] not in line_styles(METHODS).values()


def test_a_single_seed_has_no_interval_unless_nothing_was_trained():
    one = rows(np.random.default_rng(2), 1, 1.0, 1.0)
    assert over_seeds_and_problems(one).low is None
    assert over_seeds_and_problems(one, has_seeds=False).low is not None
    assert new_run(one).low is None


def test_seeds_that_agree_to_the_digit_do_not_promise_that_the_next_will():
    stated = new_run(np.full((5, 11), 100.0))
    assert stated.high - stated.low >= 1.0


@pytest.fixture
def results() -> Results:
    runs = [line(name, seed, shift) for seed in range(3) for name, shift in (("grpo", 0), ("coda", seed))]
    return Results([*runs, line("start", 0)])


def test_differences_are_paired_by_seed_and_problem(results):
    same = results.estimate(change("correct", (1, 2, 3)), "grpo", "grpo")
    assert same.value == 0 and same.low < 0 < same.high, "a few problems are not all there are"
    assert results.estimate(change("tokens", (1, 2)), "grpo", "start") == Estimate(0.0, 0.0, 0.0), (
        "one start for all seeds"
    )
    assert results.estimate(change("correct", (1,)), "vlp", "grpo") is None


def test_tables_and_claims_are_there_without_all_runs(results):
    assert {"vlp (seeds 0, 1, 2, 3, 4)", "grpo (seeds 3, 4)"} <= set(rebuild.missing(results))
    for table in [claims_table(results), *all_tables(results)]:
        assert all(len(row) == len(table.header) for row in table.rows), table.key


def test_runs_from_different_checkpoints_are_not_mixed(results):
    with pytest.raises(ValueError, match="coda, seed 3 differs in checkpoint"):
        Results([*results.lines, line("coda", 3, checkpoint="other")])


def claim(rule: str, bound: float = 0.0, same: float = 1.0) -> Claim:
    return Claim("", "", Measure("Δ accuracy (points)", None, same), "average", (), (), rule, bound)


@pytest.mark.parametrize(
    ("rule", "bound", "sure", "likely", "verdict"),
    [
        ("above", 0.0, (0.5, 2.5), (1.0, 2.0), "**holds**"),
        ("above", 0.0, (0.1, 0.9), (0.2, 0.8), "**holds**"),  # small, but there
        ("above", 0.0, (-0.5, 2.5), (0.1, 2.0), "holds weakly"),
        ("above", 0.0, (-0.5, 2.5), (-0.1, 2.0), "cannot be told"),  # the number agrees, which is not enough
        ("above", 0.0, (-2.5, 0.5), (-2.0, -0.1), "cannot be told"),  # it disagrees, nor is that
        ("above", 0.0, (-2.5, -0.5), (-2.0, -1.0), "does not hold"),
        ("above", 0.0, (-0.9, 0.9), (-0.5, 0.5), "does not hold"),  # no difference worth the name
        ("above", 0.0, (-0.2, 0.9), (0.1, 0.8), "does not hold"),
        ("above", 0.0, (0.0, 0.0), (0.0, 0.0), "does not hold"),
        ("below", 0.0, (-0.9, 0.9), (-0.5, 0.5), "does not hold"),
        ("above", -1.0, (-0.8, 0.4), (-0.5, 0.1), "**holds**"),
        ("above", -1.0, (-1.1, 0.4), (-0.8, 0.1), "holds weakly"),
        ("above", -1.0, (-3.0, 0.9), (-2.4, 0.0), "cannot be told"),
        ("below", -60.0, (-65.0, -51.0), (-62.0, -54.0), "cannot be told"),
        ("below", -60.0, (-59.0, -51.0), (-58.0, -52.0), "does not hold"),
        ("same", 5.0, (1.0, 4.9), (2.0, 4.0), "**holds**"),
        ("same", 5.0, (1.0, 5.1), (2.0, 4.0), "holds weakly"),
        ("same", 5.0, (1.0, 9.0), (2.0, 8.0), "cannot be told"),
        ("same", 5.0, (-6.5, -5.5), (-6.2, -5.8), "does not hold"),
    ],
)
def test_verdicts(rule, bound, sure, likely, verdict):
    assert claim(rule, bound).judge(Estimate(0.0, *sure), Estimate(0.0, *likely)) == verdict


def test_a_single_seed_tells_nothing_and_no_seed_even_less():
    assert claim("above").verdict(np.full((1, 11), 99.0)) == "cannot be told"
    assert claim("above").verdict(None) == claim("above").verdict(np.full((3, 11), np.nan)) == "not run yet"


@pytest.mark.parametrize("seeds", [3, 5])
def test_a_wrong_claim_holds_as_seldom_as_the_page_says(seeds):
    """At worst, that is with a true number at the bound: 1 in 40, and 1 in 10 at least weakly."""
    generator = np.random.default_rng(3)
    found = [claim("above", same=0.0).verdict(rows(generator, seeds, 1.0, 0.5)) for _ in range(1000)]
    assert 0.01 <= found.count("**holds**") / 1000 <= 0.04
    assert found.count("**holds**") + found.count("holds weakly") == pytest.approx(100, abs=25)
    assert found.count("does not hold") <= 40, "nor is it refuted more often"


def test_a_true_difference_is_seldom_taken_for_none():
    """At worst, that is with one as large as what still counts as none."""
    generator = np.random.default_rng(4)
    found = [claim("above").verdict(rows(generator, 5, 0.3, 0.1) + 1.0) for _ in range(1000)]
    assert found.count("does not hold") <= 40


@pytest.fixture(scope="module")
def published() -> tuple[Results, Results]:
    """The committed runs, which remember what was computed of them."""
    return rebuild.read()


@pytest.mark.slow
def test_page_is_in_step_with_the_runs(published):
    """After new runs: `make reproduction-tables`."""
    results, repetition = published
    tables = rebuild.ladder_tables(results, repetition)
    page = rebuild.PAGE.read_text(encoding="utf-8")
    assert fill(page, rebuild.page_blocks(results, repetition, tables)) == page
    assert rebuild.TABLES.read_text(encoding="utf-8") == rebuild.further_tables(tables, page)


def test_a_repetition_is_held_against_the_intervals(results, capsys):
    console = rebuild.Console(width=200)
    assert rebuild.check(results, Results([line("grpo", 100)]), console)
    assert "14 of 14 (100%) means" in capsys.readouterr().out
    assert not rebuild.check(results, Results([line("grpo", 100, shift=1)]), console)
    assert "Too few" in capsys.readouterr().out


def test_a_repetition_has_seeds_of_its_own_and_the_same_settings(results):
    with pytest.raises(ValueError, match="a run of grpo with seed 2"):
        Results([*results.lines, line("grpo", 2)])
    with pytest.raises(ValueError, match="no run in common"):
        numbers(results, Results([]))


def test_numbers_that_hardly_vary_are_told_apart():
    flat = compared("g", "flat", np.full((5, 3), 100.0), np.full((2, 3), 100.4))
    wide = compared("g", "wide", np.arange(15.0).reshape(5, 3), np.array([[6.0] * 3, [90.0] * 3]))
    assert (flat["inside"], flat["varies"], flat["single"].tolist()) == (True, False, [True, True])
    assert (wide["inside"], wide["varies"], wide["single"].tolist()) == (False, True, [True, False])
    shown = [[cell.text for cell in row] for row in counts_table(pd.DataFrame([flat, wide])).rows]
    assert shown[0] == ["g", "1 of 2 (50%)", "0 of 1 (0%)", "3 of 4 (75%)"]


@pytest.mark.parametrize("runs", [1, 5])
@pytest.mark.slow
def test_a_fair_repetition_seldom_fails_the_check(runs, published):
    """Old and new seeds drawn alike, with the spread of the real ones, all numbers of a seed together."""
    real = numbers(*published)
    real = real[real["stated"].map(len) == 5]
    values = np.array([stated[:, 0] for stated in real["stated"]])
    spread = (values - values.mean(axis=1, keepdims=True)) / 2
    generator = np.random.default_rng(5)
    shares = []
    for _ in range(200):
        old, new = (generator.normal(size=(5, seeds)) for seeds in (5, runs))
        drawn = (
            compared("", "", (line @ old)[:, None], (line @ new)[:, None], resolution)["inside"]
            for line, resolution in zip(spread, real["resolution"], strict=True)
        )
        shares.append(np.mean([*drawn]))
    assert np.mean(shares) >= 0.95
    assert np.mean(np.array(shares) < ENOUGH) <= 0.08


def test_no_run_of_a_seed_sorts_the_problems_that_it_is_judged_on():
    runs = {(name, seed): line(name, seed, seed) for name, seed in itertools.product(("grpo", "coda"), range(3))}
    before = [Results(runs.values()).buckets((1, seed)).tolist() for seed in range(3)]
    runs["grpo", 0] = line("grpo", 0, shift=3)
    after = [Results(runs.values()).buckets((1, seed)).tolist() for seed in range(3)]
    assert after[0] == before[0] and after[1:] != before[1:]
