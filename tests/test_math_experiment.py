"""The experiment on GSM8K and MATH (`experiments/math`): the committed rules, the record of a run, the queue."""

import math
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import yaml
from made_samples import sample as made_sample
from made_samples import write_lines
from matplotlib.figure import Figure

from coda_trl.data.reading import read_file
from coda_trl.evaluation import Estimate, over_seeds
from experiments.files import fill, key_of, read_results, record
from experiments.math import data, measures, tables
from experiments.math import run as queue
from experiments.math.collapse import ungated_penalty
from experiments.math.data import BENCHMARKS, choose_mix, compose, read_scan
from experiments.math.figures import draw_steps
from experiments.math.results import read_steps, summarise_samples

RECIPES = queue.RECIPES


def strata(gsm8k, math3, math4, math5, rows=1000):
    """Kinds of problems by their shares of easy and of all-wrong ones."""
    found = {"gsm8k": gsm8k, "math3": math3, "math4": math4, "math5": math5}
    others = {"accuracy": 0.5, "tokens": 300, "cut_off": 0.0, "code": 0.0, "rows": rows}
    return {name: {"easy": easy, "all_wrong": wrong} | others for name, (easy, wrong) in found.items()}


@pytest.mark.parametrize(
    ("found", "share", "levels"),
    [
        (strata((0.5, 0.05), (0.4, 0.1), (0.3, 0.2), (0.1, 0.3)), 0.55, (3, 4, 5)),
        (strata((0.45, 0.05), (0.2, 0.2), (0.1, 0.3), (0.0, 0.5)), 0.75, (3, 4, 5)),  # 35% easy
        (strata((0.6, 0.05), (0.3, 0.2), (0.2, 0.3), (0.0, 0.9)), 0.65, (3, 4, 5)),  # at most 20% all wrong
        (strata((0.3, 0.05), (0.6, 0.1), (0.5, 0.1), (0.0, 0.5)), 0.55, (3, 4)),  # more of GSM8K does not help
        (strata((0.3, 0.05), (0.6, 0.1), (0.1, 0.1), (0.0, 0.5)), 0.55, (3,)),
        (strata((0.2, 0.3), (0.1, 0.5), (0.1, 0.5), (0.0, 0.5)), 0.80, (3,)),  # none fits
    ],
)
def test_the_mix_is_the_first_that_fits(found, share, levels):
    mix = choose_mix(found)
    assert (mix["gsm8k"], mix["levels"]) == (pytest.approx(share), levels)
    assert mix["fits"] == (mix["easy"] >= 0.35 and mix["all_wrong"] <= 0.20)


def test_a_training_set_has_the_shares_of_its_mix_and_no_problem_twice():
    pool = [{"prompt": f"g{i}", "stratum": "gsm8k"} for i in range(700)]
    pool += [{"prompt": f"m{i}", "stratum": f"math{level}", "level": level} for level in (3, 4, 5) for i in range(200)]
    pool = [row | {"prompt": f"{row['stratum']}{row['prompt']}"} for row in pool]
    mix = choose_mix(strata((0.3, 0.05), (0.6, 0.1), (0.5, 0.1), (0.0, 0.5)))  # 55% GSM8K, levels 3 and 4
    rows = compose(pool, mix)
    assert len(rows) == len({row["prompt"] for row in rows}) == 400 + int(400 / 0.45 * 0.55)
    assert {row.get("level") for row in rows} == {None, 3, 4}
    assert compose(pool, mix) == rows, "drawn anew, it is the same"


@pytest.fixture
def hub(monkeypatch):
    """Small data sets with the hub's columns, by id, configuration and split; what was asked of it is in `asked`."""
    asked = []

    def load_dataset(name, config, split):
        asked.append((name, config, split))
        texts = [f"{name} {config} {split} {number}" for number in range(4)]
        if name == "EleutherAI/hendrycks_math":
            levels, boxes = ("Level 1", "Level ?", "Level 3", "Level 4"), ("1", "2", r" \frac{3}{4} ", "5")
            return [
                {"problem": text, "level": level, "solution": rf"$\boxed{{{box}}}$"}
                for text, level, box in zip(texts, levels, boxes, strict=True)
            ]
        fixed = {"answer": "#### 7" if name == "openai/gsm8k" else "7", "Answer": "7", "answerKey": "A"}
        fixed["choices"] = {"label": ["A", "B"], "text": ["one", "two"]}
        return [fixed | dict.fromkeys(("question", "problem", "question_concat"), text) for text in texts]

    monkeypatch.setattr("coda_trl.data.reading.load_dataset", load_dataset)
    monkeypatch.setattr(data, "TEST_PROBLEMS", 10)
    monkeypatch.setattr(data, "SCANNED", {"gsm8k": 2, "math3": 2, "math4": 2})
    return asked


def test_problems_come_from_the_hub_and_are_compared_with_those_of_the_published_runs(hub, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["data", "--out", str(tmp_path)])
    data.main()
    assert ("openai/gsm8k", "main", "train") in hub and ("tau/commonsense_qa", None, "validation") in hub
    assert ("EleutherAI/hendrycks_math", "algebra", "test") in hub and len(hub) == 6 + 2 * 7
    pool = read_file(tmp_path / "pool.jsonl")
    assert [row["stratum"] for row in pool] == 4 * ["gsm8k"] + 7 * ["math3", "math4"]
    assert pool[4]["solution"] == r" \frac{3}{4} ", "the box as it is, as in the published runs"
    assert data.compare(tmp_path).startswith(
        "Not the problems of the published runs: gsm8k has other problems or gold"
    )

    monkeypatch.setattr(data, "PUBLISHED", data.signatures(tmp_path))
    assert data.compare(tmp_path) == "These are the problems of the published runs."
    data.write_rows(tmp_path / "pool.jsonl", pool[::-1])
    assert data.compare(tmp_path) == "Not the problems of the published runs: pool has another order."


def test_the_scan_counts_easy_and_all_wrong_problems():
    problems = [{"stratum": name} for name in ("gsm8k", "gsm8k", "math3", "math4", "math5")]
    right = [8, 6, 7, 0, 1]  # of 8: above .75, not above, above, none, one
    samples = [
        {"problem_id": str(i), "correct": j < right[i], "tokens": 100, "finish_reason": "length" if j else "stop"}
        | {"completion": "```python" if j == 0 else "4"}
        for i in range(5)
        for j in range(8)
    ]
    found = read_scan(problems, samples, problems)
    assert [found[name]["easy"] for name in ("gsm8k", "math3", "math4")] == [0.5, 1, 0]
    assert [found[name]["all_wrong"] for name in ("gsm8k", "math4", "math5")] == [0, 1, 0]
    shown = ("accuracy", "cut_off", "rows", "code")
    assert [found["gsm8k"][of] for of in shown] == [14 / 16, 7 / 8, 2, 1 / 8]


def sample(benchmark, problem, number, correct=True, tokens=10, **more):
    return made_sample(problem, correct, tokens, benchmark=benchmark, sample=number, **more)


def test_samples_are_summed_up_by_problem_and_benchmarks_that_are_not_complete_left_out():
    samples = [
        sample("math500", problem, number, number < problem, 10 * problem, level=problem, completion=completion)
        for problem in (2, 1, 0)
        for number, completion in enumerate(("C", "```", r"\boxed{C}", r"\boxed{\text{C}}"))
    ]
    samples += [sample("gsm8k", 0, number) for number in range(3)]  # the fourth is missing
    found = summarise_samples(samples, {"math500": 3, "gsm8k": 1, "svamp": 1}, range(2, 4))
    assert list(found) == ["math500"] or list(found) == ["math500", "gsm8k"]
    found = summarise_samples(samples, {"math500": 3, "gsm8k": 1, "svamp": 1}, range(4))
    assert list(found) == ["math500"]
    assert found["math500"]["counts"] == {
        "correct": "0 1 2",
        "tokens": "0 40 80",
        "cut_off": "0 0 0",
        "level": "0 1 2",
    }
    assert found["math500"]["accuracy"] == 0.25 and found["math500"]["tokens"] == 10
    assert found["math500"]["code"] == 0.25 and found["math500"]["no_box"] == 0.5
    assert found["math500"]["by_level"]["2"] == {"accuracy": 0.5, "tokens": 20.0, "cut_off": 0.0}


def test_a_run_takes_the_place_of_its_earlier_record(tmp_path):
    path = tmp_path / "results.jsonl"
    for content in (1, 2):
        for method in ("grpo", "coda"):
            record(path, {"method": method, "seed": 0, "content": content})
    record(path, {"method": "grpo", "seed": 0, "variant": "calibration"})
    assert [key_of(row)[:3] for row in read_results(path)] == [
        ("grpo", 0, None),
        ("coda", 0, None),
        ("grpo", 0, "calibration"),
    ]
    assert [row.get("content") for row in read_results(path)] == [2, 2, None]


def test_steps_are_read_while_they_are_written(tmp_path):
    path = tmp_path / "steps.jsonl"
    assert read_steps(path) == []
    path.write_text('{"step": 1}\n{"step": 2}\n{"step": 3')
    assert read_steps(path) == [{"step": 1}, {"step": 2}]


def step(number):
    log = {"loss": 0.0, "rewards/accuracy_reward/mean": 0.5, "completions/mean_length": 200 + number}
    log |= {
        "coda/easy/mean_length": 100 - number,
        "coda/hard/mean_length": 300,
        "completions/clipped_ratio": 0,
        "entropy": None,
    }
    phases = {"generation": 4.0, "update": 1.0}
    return {"step": number, "time": 100.0 + 5 * number, "seconds": 5.0, "phases": phases, "peak_gib": 40, "log": log}


class Machine:
    """Stands in for the processes of a queue: trainings of a few steps, evaluations with an answer each."""

    def __init__(self, problems, failing=()):
        self.problems, self.failing, self.calls, self.cards = problems, list(failing), [], {}
        self.commands = {}

    def __call__(self, command, folder, card, cwd, tick=lambda: None, every=0.5):
        kind = "train" if "experiments.math.training" in command else "evaluate"
        self.calls.append((kind, folder.name))
        self.cards[folder.name] = card
        self.commands.setdefault(folder.name, command)
        if (kind, folder.name) in self.failing:
            self.failing.remove((kind, folder.name))
            raise queue.Failed("no memory")
        if kind == "train":
            write_lines(folder / "steps.jsonl", map(step, range(1, 15)))
            (folder / "model").mkdir()
            (folder / "model/trainer_state.json").write_text("{}")
        else:
            n = int(command[command.index("--n") + 1])
            samples = [
                sample(name, problem, number, correct=problem > 3 or problem + number % 2 == 4, level=3)
                for name, count in self.problems.items()
                for problem in range(count)
                for number in range(n)
            ]
            write_lines(folder / "eval/samples.jsonl", samples)
        tick()
        return 1.0


@pytest.fixture
def make_queue(tmp_path, monkeypatch):
    problems = dict.fromkeys(BENCHMARKS, 8)
    pool = [{"prompt": f"g{i}", "stratum": "gsm8k"} for i in range(9)]
    pool += [{"prompt": f"m{i}", "stratum": f"math{i % 3 + 3}", "level": i % 3 + 3} for i in range(9)]
    write_lines(tmp_path / "work/data/pool.jsonl", pool)
    found = strata((0.5, 0.05), (0.4, 0.1), (0.3, 0.2), (0.1, 0.3))
    record(tmp_path / "r.jsonl", {"method": "scan", "seed": 0, "strata": found})
    monkeypatch.setattr(queue, "benchmark_specs", lambda data: list(problems))
    monkeypatch.setattr(
        queue, "load_benchmark", lambda spec: SimpleNamespace(name=spec, problems=[None] * problems[spec])
    )

    def make(*options, failing=()):
        argv = ["--model", str(tmp_path), "--work", str(tmp_path / "work"), "--results", str(tmp_path / "r.jsonl")]
        made = queue.Queue(queue.read_command_line([*argv, "--commit", "abc", *options]))
        made.call = Machine(problems, failing)
        return made

    return make


def test_a_queue_trains_evaluates_and_records_every_run_once(make_queue, tmp_path):
    first = make_queue("--runs", "grpo-0", "coda-0", "start-0", "--steps", "70")
    assert first.work()
    rows = {row["method"]: row for row in read_results(tmp_path / "r.jsonl") if row["method"] != "scan"}
    assert set(rows) == {"grpo", "coda", "start"} and all(row["complete"] for row in rows.values())
    assert len((tmp_path / "work/data/train.jsonl").read_text().splitlines()) == 16, "as the recorded scan says"
    assert rows["coda"]["settings"]["length_shaping"] == "coda" and rows["coda"]["versions"]["commit"] == "abc"
    assert rows["coda"]["training"]["log"]["tokens"] == [200 + number for number in range(1, 15)]
    assert rows["start"]["sorting"]["gsm8k"]["samples"] == 8 and rows["start"]["evaluation"]["gsm8k"]["samples"] == 4

    again = make_queue("--runs", "grpo-0", "coda-0", "coda-1")
    assert again.work()
    assert again.call.calls == [("train", "coda-1"), ("evaluate", "coda-1")]


def test_a_queue_without_problems_says_how_to_get_them(tmp_path, capsys):
    """It copied the start, and failed at its first evaluation, for a file."""
    with pytest.raises(SystemExit):
        queue.read_command_line(["--model", "tiny", "--runs", "grpo-0", "--work", str(tmp_path)])
    assert f"python -m experiments.math.data --out {tmp_path / 'data'}" in capsys.readouterr().err


def test_a_run_that_fails_does_not_stop_the_others_and_resumes(make_queue, tmp_path):
    failing = 2 * [("train", "grpo-0"), ("evaluate", "coda-0")] + [("train", "vlp-0")]  # each is tried once more
    first = make_queue("--runs", "grpo-0", "coda-0", "vlp-0", failing=failing)
    assert not first.work()
    rows = {row["method"]: row for row in read_results(tmp_path / "r.jsonl")}
    assert rows["vlp"]["complete"] and "grpo" not in rows
    assert not rows["coda"]["complete"] and rows["coda"]["training"]["steps"] == 14, "the training is on record"

    again = make_queue("--runs", "grpo-0", "coda-0", "vlp-0")
    assert again.work()
    assert sorted(again.call.calls) == [("evaluate", "coda-0"), ("evaluate", "grpo-0"), ("train", "grpo-0")]


def test_runs_that_share_a_card_keep_to_their_share_of_its_memory(make_queue, tmp_path):
    pair = make_queue("--runs", "grpo-0", "coda-0", "--vllm_share", "0.12")
    assert pair.work()
    flags = " ".join(map(str, pair.call.commands["grpo-0"]))
    assert "--memory_share 0.48" in flags and "--vllm_gpu_memory_utilization 0.12" in flags
    (row, *_) = [row for row in read_results(tmp_path / "r.jsonl") if row["method"] == "grpo"]
    assert row["settings"]["vllm_gpu_memory_utilization"] == 0.12, "the record says so"
    assert row["settings"]["seed"] == row["seed"] and row["settings"]["max_steps"] == pair.args.steps


def test_runs_are_spread_over_the_cards_and_the_start_alone_takes_all(make_queue):
    pair = make_queue("--runs", "grpo-0", "coda-0", "--cards", "2")
    assert pair.work() and sorted(pair.call.cards.values()) == [0, 1]
    start = make_queue("--runs", "grpo-0", "coda-0", "start-0", "--cards", "2")
    assert start.work() and start.call.cards == {"start-0": None}


def test_runs_of_the_collapse_demonstration_are_only_trained_and_drawn(make_queue, tmp_path):
    demonstration = make_queue("--runs", "ungated_group-0", "coda_group-0")
    assert demonstration.work()
    assert sorted(demonstration.call.calls) == [("train", "coda_group-0"), ("train", "ungated_group-0")]
    rows = {row["method"]: row for row in read_results(tmp_path / "r.jsonl")}
    assert rows["ungated_group"]["complete"] and rows["coda_group"]["settings"]["length_shaping"] == "coda"
    assert rows["ungated_group"]["settings"]["scale_rewards"] == "group"
    rows["ungated_group"]["training"]["log"]["all_wrong_tokens"] = [300] * 14
    table = tables.build(list(rows.values()), tmp_path)["collapse"]
    assert "`ungated-0`, `ungated-1`, `ungated_group-1`.\n" in tables.state(list(rows.values()))["missing-math"]
    first, second = table.splitlines()[4:6]
    assert first.startswith("| CODA, scaled by group, seed 0 | ") and first.endswith(" | – |")
    assert second.startswith("| Ungated penalty, scaled by group, seed 0 | ") and "–" not in second
    assert (tmp_path / "collapse.png").stat().st_size > 0


def test_the_ungated_penalty_ranks_lengths_within_groups_whatever_the_answers_were():
    lengths = [10, 20, 30, 7, 7, 7]
    penalties = ungated_penalty([[{"content": "a"}]] * 3 + [[{"content": "b"}]] * 3, [[0] * n for n in lengths])
    z = 10 / (200 / 3) ** 0.5
    assert penalties == pytest.approx([-0.2 / (1 + math.exp(z)), -0.1, -0.2 / (1 + math.exp(-z)), -0.1, -0.1, -0.1])


def test_settings_outside_the_design_need_a_name_of_their_own(make_queue, capsys):
    with pytest.raises(SystemExit):
        make_queue("--runs", "grpo-0", "--override", "learning_rate=1e-6")
    assert "--variant" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        make_queue("--runs", "gpro-0")
    assert "no recipe for gpro-0" in capsys.readouterr().err


def test_tables_show_what_is_there_and_differences_of_pairs(make_queue, tmp_path, monkeypatch):
    assert make_queue("--runs", "grpo-0", "coda-0", "start-0", "grpo-1", "coda-1").work()
    rows = [row for row in read_results(tmp_path / "r.jsonl") if row["method"] != "scan"]
    parts = tables.build(rows, tmp_path)
    pictures = ("training.png", "by-difficulty.png", "against-grpo.png")
    assert all((tmp_path / name).stat().st_size > 0 for name in pictures)
    assert "| CODA, 2 pairs | 0.0" in parts["pairs"] and "| CODA, seed\xa01 |" in parts["pairs"]
    assert parts["state"] == "2 of 5 pairs of GRPO and CODA are complete: no verdict yet.\n"
    assert parts["missing-math"].startswith("Not run yet: `grpo-2`")
    assert "easy (24 problems) | medium (6 problems) | hard (18 problems)" in parts["bands"]
    trained = parts["trained-bands"]
    assert "| Tokens | 0.0% [0.0,\xa00.0] |" in trained and "| Problems | 24 | 6 | 18 |" in trained
    page = fill("<!-- begin pairs -->\nold\n<!-- end -->\n<!-- begin scan -->\n<!-- end -->\n", parts)
    assert "old" not in page and page.endswith("<!-- begin scan -->\n<!-- end -->\n")

    assert re.search(r"CODA, seed\s0 \| ≈\s0\.0 \[−\S+,\s\+\S+\] \|", parts["differences"])
    assert re.search(r"CODA, seed\s0 \| ≈\s0% \[0,\s0\] \|", parts["token-differences"])
    tests = parts["verdict"].splitlines()
    assert [line.split("|")[4].strip() for line in tests if "CODA writes less" in line] == ["**failed**"]
    assert "0.0 [0.0,\xa00.0] | **passed** |" in parts["verdict"], "as many tokens on hard problems"
    assert "| does not hold | Δ tokens (%), CommonsenseQA | 0.0 [0.0,\xa00.0] |" in parts["claims-math"]
    assert "| not run yet | Δ accuracy (points), VLP − GRPO, hard problems | – |" in parts["claims-math"]
    assert re.search(r"Of \d+ claims .*, 6 are not run yet\.", parts["verdicts-math"])
    assert "| 5.0 | 4.00 | 0.00 | 0.00 | 1.00 | 210 |" in parts["seconds"]

    only_trained = [row | {"evaluation": {}} for row in rows if row["method"] != "start"]
    shown = {"state", "missing-math", "trainings", "rewards", "seconds", "course"}
    assert set(tables.build(only_trained, tmp_path)) == shown
    assert "% [0.0,\xa00.0] | 0.0 [0.0,\xa00.0] | – |" in parts["course"], "both had the same rollouts"

    drawn = []
    monkeypatch.setattr(tables, "draw_bands", lambda runs, path: drawn.append({name for name, _ in runs}))
    monkeypatch.setattr(tables, "draw_differences", lambda found, path: drawn.append({*found}))
    monkeypatch.setattr(
        tables, "draw_steps", lambda runs, *_, **__: drawn.append([row.get("variant") for row in runs])
    )
    runs = [*rows, *(rows[0] | {"method": "vlp", "seed": seed} for seed in (0, 1)), rows[0] | {"method": "ungated"}]
    parts = tables.build([*runs, *(row | {"variant": "beta1"} for row in rows)], tmp_path)
    differences, bands = drawn.pop(2), drawn.pop(2)
    assert differences == {"CODA", "VLP"}
    assert bands == {"Start", "GRPO", "CODA"}, "means of other seeds than GRPO's do not compare"
    assert [{*variants} for variants in drawn] == [{None}, {None}], "a variant counts in no mean"
    assert parts["collapse"].count("| CODA, seed 0 |") == 1 and "CODA, seed\xa00 (beta1)" in parts["trainings"]
    assert "| VLP, 2 pairs | 0.0% | 0.0% | 0.0 | 0.0 | 0.0 |" in parts["overview"], "two pairs have no interval"


def test_a_method_of_fewer_seeds_meets_coda_with_the_same_seeds():
    def runs(method, points):
        return [({"method": method, "seed": i, "evaluation": {}}, [p] * 5, [Estimate(0.0)] * 3) for i, p in points]

    found = {"CODA": runs("coda", enumerate((0.0, 0.0, 0.0, -0.04, -0.06))), "VLP": runs("vlp", enumerate([0.01] * 3))}
    (overview, *_) = tables.pairs_tables(found, [{"evaluation": {"gsm8k": {"cut_off": 0.1}}}])
    assert [(name.text, average.text) for name, *_, average in overview.rows] == [
        ("CODA, 5 pairs", "−2.0"),
        ("CODA, seeds 0 to 2", "0.0"),
        ("VLP, 3 pairs", "+1.0"),
    ]


def test_means_can_be_read_before_the_runs_of_all_methods(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Figure, "savefig", lambda figure, *_, **__: drawn.append(figure))
    for methods in (["grpo", "coda"], list(tables.METHODS)[1:]):
        rows = [{"method": name, "training": {"log": {"reward": [0.2, 0.4]}}} for name in methods for _ in range(3)]
        draw_steps(rows, tables.METHODS, ["reward"], 2, tmp_path / "training.png", means=True)
    two, five = ([line.get_alpha() for line in figure.axes[0].lines] for figure in drawn)
    assert two == 2 * [0.3, 0.3, 0.3, None] and five == 5 * [0.12, 0.12, 0.12, None]


@pytest.mark.slow
def test_page_is_in_step_with_the_runs(tmp_path):
    """After new runs: `python -m experiments.math.tables`."""
    parts = tables.build(read_results(tables.RESULTS), tmp_path)
    for page in map(Path.read_text, tables.PAGES):
        assert fill(page, parts) == page
    assert (tables.HERE / "tables.md").read_text() == tables.further_tables(parts, tables.PAGES)


def test_log_ratios_are_paired_by_problem_and_means_have_students_interval():
    tokens = np.random.default_rng(0).lognormal(5, 1, 300)
    ratio = measures.log_ratio(0.8 * tokens, tokens)
    assert ratio.value == pytest.approx(math.log(0.8)) and ratio.high - ratio.low < 1e-9
    mean = over_seeds([-0.2, -0.3])
    assert (mean.value, mean.low) == (pytest.approx(-0.25), pytest.approx(-0.25 - 12.706 * 0.05, rel=0.01))
    assert over_seeds([-0.2]).low is None


def test_recipes_train_as_the_design_says():
    """They differ in the method alone: tests/test_recipes.py."""
    assert {path.stem for path in RECIPES.glob("*.yaml")} == {"grpo", "coda", "vlp", "asrr", "linear", "dry_run"}
    recipe = yaml.safe_load((RECIPES / "coda.yaml").read_text())
    prompts = recipe["per_device_train_batch_size"] * recipe["gradient_accumulation_steps"] // 16
    assert (prompts, recipe["num_generations"], recipe["max_completion_length"]) == (16, 16, 1024)
    assert (recipe["learning_rate"], recipe["warmup_steps"], recipe["beta"]) == (5e-6, 8, 0.0)
    assert (recipe["loss_type"], recipe["scale_rewards"], recipe["temperature"]) == ("dapo", "none", 1.0)
    assert not recipe["vllm_importance_sampling_correction"]


def test_weights_of_the_file_are_those_of_the_model():
    weights = pytest.importorskip("experiments.math.weights", reason="the package gguf is not installed")
    from transformers import AutoConfig, Qwen2ForCausalLM

    config = AutoConfig.from_pretrained(weights.CONFIG, hidden_size=48, intermediate_size=8, vocab_size=64)
    parts = [f"blk.{layer}.{part}.weight" for layer in range(28) for part in weights.LAYER]
    parts += [f"blk.{layer}.attn_{part}.bias" for layer in range(28) for part in "qkv"]
    names = {weights.name_of(name) for name in [*parts, "output.weight", "output_norm.weight"]}
    assert names | {"lm_head.weight"} == set(Qwen2ForCausalLM(config).state_dict())
    assert weights.name_of("token_embd.weight") is None
