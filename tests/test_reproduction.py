"""The reproduction on the ladder (`benchmarks/ladder`): runs that can start, honest intervals, a page in step."""

import importlib.util
import json
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from trl import TrlParser

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "benchmarks/ladder"))

import matrix  # noqa: E402
import rebuild  # noqa: E402
import reproduce  # noqa: E402
from claims import CLAIMS, Claim, claims_table  # noqa: E402
from results import Results, new_run, over_seeds  # noqa: E402
from summaries import read_summary, summarise_samples, summary_path, thin_log, write_summary  # noqa: E402
from tables import accuracy_change, all_tables, token_change  # noqa: E402

from coda_trl.data import DataArguments  # noqa: E402
from coda_trl.evaluation import Estimate  # noqa: E402

SPEC = importlib.util.spec_from_file_location("train", ROOT / "recipes/train.py")
TRAIN = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TRAIN)


@pytest.mark.parametrize("name", [name for name, run in matrix.RUNS.items() if run.recipe is not None])
def test_every_run_of_the_matrix_can_start(name, monkeypatch, tmp_path):
    monkeypatch.chdir(ROOT)
    run = matrix.RUNS[name]
    argv = reproduce.train_arguments(run, 7, tmp_path, use_cpu=True)
    parsed = TrlParser(TRAIN.ARGUMENTS).parse_args_and_config(TRAIN.apply_overlays(argv))
    args = dict(zip(TRAIN.ARGUMENTS, parsed, strict=True))
    config, data = args[TRAIN.CodaGRPOConfig], args[DataArguments]
    assert (config.seed, config.max_steps, config.output_dir) == (7, 100, str(tmp_path)), "overlays must not win"
    assert config.generation_batch_size == 160, "every run sees as many answers a step"
    assert data.dataset[0].endswith("=4000")
    assert (config.length_shaping == "none") == name.startswith("grpo")


def test_an_ablation_changes_what_its_name_says():
    changed = {name: (run.overlays, run.overrides) for name, run in matrix.ABLATIONS.items()}
    assert len({str(change) for name, change in changed.items() if name.startswith("coda")}) == len(
        [name for name in changed if name.startswith("coda")]
    ), "no two are the same"


def test_all_methods_come_before_the_second_seed_and_ablations_last():
    jobs = matrix.jobs(["main", "ablations"], seeds=5, first_seed=3)
    seeds = [seed for name, seed in jobs if name in matrix.MAIN]
    assert seeds == sorted(seeds) and set(seeds) == {3, 4, 5, 6, 7}
    assert [name for name, _ in jobs].index(next(iter(matrix.ABLATIONS))) == len(seeds)
    assert jobs.count(("start", 3)) == 1 and ("start", 4) not in jobs
    assert len(jobs) == 1 + 6 * 5 + 3 * len(matrix.ABLATIONS)


def test_finished_runs_are_skipped_and_shards_share_the_rest(tmp_path):
    def todo(*argv: str) -> list[tuple[str, int]]:
        return reproduce.select(reproduce.parse(["--out", str(tmp_path), *argv]))

    everything = todo()
    (tmp_path / "coda-seed1.json").write_text("{}")
    assert set(everything) - set(todo()) == {("coda", 1)}
    assert sorted(todo("--shard", "0/2") + todo("--shard", "1/2")) == sorted(todo())
    assert todo("--runs", "main", "--only", "vlp", "--seeds", "2") == [("vlp", 0), ("vlp", 1)]


def test_a_rehearsal_does_not_write_among_the_results():
    with pytest.raises(SystemExit):
        reproduce.parse(["--tiny"])


@pytest.fixture
def runner(tmp_path):
    return reproduce.Runner(reproduce.parse(["--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]))


def test_time_is_up_ends_a_process_and_leaves_its_work(runner, tmp_path):
    script = "import time\ntry:\n    print('up', flush=True); time.sleep(60)\nexcept KeyboardInterrupt: print('saved')"
    log = tmp_path / "log.txt"

    def stop_when_up() -> None:
        while not log.exists() or "up" not in log.read_text():
            time.sleep(0.05)
        runner.stop.set()

    threading.Thread(target=stop_when_up).start()
    with pytest.raises(reproduce.Stopped):
        runner._call(["-c", script], log)
    assert "saved" in log.read_text(), "it was interrupted, not killed"


def test_a_failed_run_shows_its_log(runner, tmp_path):
    with pytest.raises(RuntimeError, match="out of luck"):
        runner._call(["-c", "raise SystemExit('out of luck')"], tmp_path / "log.txt")


def test_a_finished_training_is_not_repeated(runner, tmp_path, monkeypatch):
    called = []
    monkeypatch.setattr(runner, "_call", lambda command, log: called.append(str(command[0])))
    work = tmp_path / "work/coda-seed0"
    work.mkdir(parents=True)
    (work / "train.json").write_text("{}")
    runner.run("coda", 0)
    assert [Path(path).name for path in called] == ["evaluate_run.py"]
    assert not work.exists(), "models of finished runs are not kept"


TEXTS = ["ans 16", "7 16 verify 9 16 same ans 16", "7 16 verify 9 15 wait 16 ans 16", "7 15 verify 9", "okay we add 1"]


def samples(shift: int = 0) -> list[dict]:
    """Two problems a rung, four samples each."""
    found = []
    for problem in range(12):
        for sample in range(4):
            text = TEXTS[(problem + sample + shift) % len(TEXTS)]
            found.append(
                {
                    "problem_id": str(problem),
                    "rung": problem % 6 + 1,
                    "completion": text,
                    "tokens": len(text.split()) + 1,
                    "finish_reason": "stop",
                    "correct": text.endswith("ans 16"),
                }
            )
    return found


def write(folder: Path, name: str, seed: int, shift: int = 0) -> None:
    log = thin_log([{"step": step, "coda/mean_w_easy": step / 100 + seed} for step in range(5, 105, 5)])
    evaluations = [{"budget": budget, **summarise_samples(samples(shift))} for budget in matrix.RUNS[name].budgets]
    content = {"name": name, "seed": seed, "train_seconds": 60.0, "device": "cpu"}
    content["shared"] = {"checkpoint": "abc", "steps": 100}
    write_summary(summary_path(folder, name, seed), content | {"evaluations": evaluations, "log": log})


def test_a_summary_keeps_what_the_samples_say(tmp_path):
    write(tmp_path, "coda", 4)
    summary = read_summary(summary_path(tmp_path, "coda", 4))
    assert (summary.name, summary.seed) == ("coda", 4)
    columns = summary.evaluations[None].columns
    mine = [sample for sample in samples() if sample["problem_id"] == "3"]
    assert columns["rung"].tolist() == [1, 2, 3, 4, 5, 6] * 2
    assert columns["correct"][3] == sum(sample["correct"] for sample in mine)
    assert columns["tokens"][3] == sum(sample["tokens"] for sample in mine)
    assert columns["rechecks"].sum() < columns["reflective"].sum(), "a check that was not carried through"
    assert columns["verbose"].sum() == sum(sample["completion"].startswith("okay") for sample in samples())
    rung = summary.content["evaluations"][0]["rungs"]["4"]
    assert rung["accuracy"] == pytest.approx(columns["correct"][[3, 9]].sum() / 8)
    assert summary.log == {
        "step": list(range(10, 110, 10)),
        "coda/mean_w_easy": pytest.approx([4.075 + 0.1 * i for i in range(10)], rel=1e-3),
    }


def test_a_log_with_gaps_keeps_its_steps():
    log = thin_log([{"step": 5, "entropy": 1.0}, {"step": 10, "entropy": 3.0}, {"step": 25, "entropy": 4.0}])
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
    intervals = [over_seeds(rows(generator, seeds, spread, problems)) for _ in range(600)]
    assert 0.92 <= np.mean([found.low <= 0 <= found.high for found in intervals]) <= 0.99


@pytest.mark.parametrize("runs", [1, 5])
def test_a_new_run_falls_inside_as_often_as_it_says(runs):
    generator = np.random.default_rng(1)
    inside = []
    for _ in range(1000):
        stated = new_run(rows(generator, 5, 3.0, 0.0), runs, resolution=0.0)
        inside.append(stated.low <= generator.normal(0, 3.0, size=runs).mean() <= stated.high)
    assert 0.93 <= np.mean(inside) <= 0.97


def test_a_single_seed_has_no_interval_unless_nothing_was_trained():
    one = rows(np.random.default_rng(2), 1, 1.0, 1.0)
    assert over_seeds(one).low is None
    assert over_seeds(one, has_seeds=False).low is not None
    assert new_run(one).low is None


def test_seeds_that_agree_to_the_digit_do_not_promise_that_the_next_will():
    stated = new_run(np.full((5, 11), 100.0))
    assert stated.high - stated.low >= 1.0


@pytest.fixture
def results(tmp_path) -> Results:
    for seed in range(3):
        write(tmp_path, "grpo", seed)
        write(tmp_path, "coda", seed, shift=seed)
    write(tmp_path, "start", 0)
    return Results(tmp_path)


def test_differences_are_paired_by_seed_and_problem(results):
    same = results.estimate(accuracy_change((1, 2, 3)), "grpo", "grpo")
    assert (same.value, same.low, same.high) == (0.0, 0.0, 0.0)
    assert results.estimate(token_change((1, 2)), "grpo", "start") == Estimate(0.0, 0.0, 0.0), (
        "one start for all seeds"
    )
    assert results.estimate(accuracy_change((1,)), "vlp", "grpo") is None


def test_tables_and_claims_are_there_without_all_runs(results):
    assert "vlp (seeds 0, 1, 2, 3, 4)" in results.missing(5) and "grpo (seeds 3, 4)" in results.missing(5)
    for table in [claims_table(results), *all_tables(results)]:
        assert all(len(row) == len(table.header) for row in table.rows), table.key


def test_runs_from_different_checkpoints_are_not_mixed(results, tmp_path):
    path = summary_path(tmp_path, "coda", 0)
    path.write_text(json.dumps(json.loads(path.read_text()) | {"shared": {"checkpoint": "other", "steps": 100}}))
    with pytest.raises(ValueError, match="differ in checkpoint"):
        Results(tmp_path)


@pytest.mark.parametrize(
    ("rule", "bound", "result", "verdict"),
    [
        ("above", 0.0, Estimate(1.0, 0.5, 1.5), "**holds**"),
        ("above", 0.0, Estimate(1.0, -0.5, 2.5), "holds weakly"),
        ("above", 0.0, Estimate(1.0), "holds weakly"),
        ("above", 0.0, Estimate(-1.0, -2.5, 0.5), "does not hold"),
        ("above", -1.0, Estimate(-0.2, -0.8, 0.4), "**holds**"),
        ("below", -60.0, Estimate(-58.0, -65.0, -51.0), "does not hold"),
        ("same", 5.0, Estimate(3.0, 1.0, 4.9), "**holds**"),
        ("same", 5.0, Estimate(3.0, 1.0, 5.1), "holds weakly"),
        ("same", 5.0, Estimate(-6.0, -6.5, -5.5), "does not hold"),
        ("same", 5.0, None, "not run yet"),
    ],
)
def test_verdicts(rule, bound, result, verdict):
    assert Claim("", "", "", lambda results: result, rule, bound).verdict(result) == verdict


def test_claims_point_to_tables_that_exist(tmp_path):
    keys = {table.key for table in all_tables(Results(tmp_path))} | {"gates"}
    assert {claim.file for claim in CLAIMS} <= keys


def test_page_is_in_step_with_the_summaries():
    """After new runs: `make reproduction-tables`."""
    results = Results(rebuild.RESULTS)
    tables = [claims_table(results), *all_tables(results)]
    page = rebuild.PAGE.read_text(encoding="utf-8")
    assert rebuild.fill(page, rebuild.page_blocks(results, tables)) == page
    for table in tables:
        assert f"<!-- begin {table.key} -->" in page
        assert (rebuild.TABLES / f"{table.key}.md").read_text(encoding="utf-8") == rebuild.markdown(table)


def test_a_repetition_is_held_against_the_intervals(results, tmp_path):
    write(tmp_path / "again", "grpo", 100)
    write(tmp_path / "off", "grpo", 100, shift=1)
    quiet = rebuild.Console(quiet=True)
    assert rebuild.check(results, Results(tmp_path / "again"), quiet) == 1.0
    assert rebuild.check(results, Results(tmp_path / "off"), quiet) < 0.85
