"""The word problems (`experiments/word_problems`): right answers, styles that can be told apart, runs that start."""

import gzip
import hashlib
import itertools
import json
import random
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from coda_trl.analysis import is_reflective
from coda_trl.rewards import accuracy_reward
from experiments.files import read_results
from experiments.ladder.matrix import RUNS
from experiments.ladder.results import Results
from experiments.runner import Failed, Stopped
from experiments.word_problems import run, tables, warm_start
from experiments.word_problems.demonstrations import demonstrate, rechecks, style_of
from experiments.word_problems.problems import DATA, RUNGS, TEST, TRAIN, make_files, sample_problem

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "recipes/word_problems"


@pytest.mark.parametrize("style", ["direct", "totals", "check", "verbose"])
def test_demonstrations_are_right_and_their_style_can_be_told(style):
    rng = random.Random(0)
    problems = [sample_problem(rung, rng) for rung in RUNGS for _ in range(25)]
    texts = [demonstrate(problem, style, rng) for problem in problems]
    assert accuracy_reward(texts, [problem.answer for problem in problems]) == [1.0] * len(texts)
    assert {style_of(text) for text in texts} == {style}
    assert {rechecks(text) for text in texts} == {is_reflective(text) for text in texts} == {style == "check"}


def test_demonstrations_are_those_of_the_published_warm_starts():
    rows = json.dumps(warm_start.make_demonstrations(2000, seed=1).to_list())
    assert hashlib.sha256(rows.encode()).hexdigest().startswith("7abc312ad607eda7")


def test_the_files_are_what_the_generator_makes_and_share_no_story():
    stored = {name: gzip.decompress((DATA / name).read_bytes()).decode() for name in (TRAIN, TEST)}
    assert stored == make_files(), "after a change of problems: python -m experiments.word_problems.problems"
    stories = {
        name: {json.loads(line)["prompt"][0]["content"] for line in text.splitlines()} for name, text in stored.items()
    }
    assert not stories[TRAIN] & stories[TEST]
    rungs = [json.loads(line)["rung"] for line in stored[TEST].splitlines()]
    assert rungs == list(RUNGS) * 100


def test_fewer_methods_rather_than_fewer_seeds():
    assert {RUNS[name].recipe for name in run.METHODS} - {None} <= {path.stem for path in RECIPES.glob("*.yaml")}
    order = run.jobs(3)
    assert order[0] == ("start", 0) and len(order) == len(set(order)) == 13
    assert set(order[1:7]) == {(name, seed) for name in ("grpo", "coda") for seed in range(3)}
    assert order[7:10] == [("vlp", 0), ("vlp", 1), ("vlp", 2)]
    assert {seed for _, seed in run.jobs(3, first_seed=3)[1:]} == {3, 4, 5}


@pytest.fixture
def runner(tmp_path):
    argv = ["--tiny", "--results", str(tmp_path / "results.jsonl"), "--work", str(tmp_path / "work")]
    return run.word_problems(run.read_command_line([*argv, "--override", "learning_rate=1e-5"]))


def test_overrides_win_over_recipe_and_rehearsal(runner, tmp_path):
    words = runner.train_arguments(RUNS["vlp"], 2, tmp_path)
    assert "recipes/word_problems/vlp.yaml" in words
    assert words[-2:] == ["--learning_rate", "1e-5"] and words[words.index("--seed") + 1] == "2"


@pytest.mark.slow
def test_a_run_that_fails_is_tried_again_and_one_that_was_stopped_is_not(runner, tmp_path):
    once = f"import os, sys; path = {str(tmp_path / 'seen')!r}; seen = os.path.exists(path); open(path, 'w')"
    runner._try(["-c", f"{once}; sys.exit(0 if seen else 1)"], tmp_path)
    with pytest.raises(Failed, match="always"):
        runner._try(["-c", "raise SystemExit('always')"], tmp_path)
    runner.stop.set()
    with pytest.raises(Stopped):
        runner._try(["-c", ""], tmp_path)


def test_no_two_starts_fall_together_not_even_those_of_failed_runs(runner, tmp_path, monkeypatch):
    """On a real card six evaluations that started together failed together, four times over."""
    starts, failed = [], set()

    def wait(seconds):
        time.sleep(seconds)
        starts.append(time.monotonic())

    def fail_once(command, folder):
        if command[0] not in failed:
            failed.add(command[0])
            raise Failed("memory changed")

    monkeypatch.setattr(runner, "stop", SimpleNamespace(wait=wait))
    monkeypatch.setattr(runner, "call", fail_once)
    runner.gap = 0.1
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: runner._try([name], tmp_path), "abc"))
    assert len(starts) == 6 and min(b - a for a, b in itertools.pairwise(starts)) >= 0.1


@pytest.mark.slow
def test_rehearsal_from_a_random_model_to_tables(tmp_path, tiny_model, monkeypatch, capsys):
    start = tmp_path / "start"
    warm_start.warm_start(tiny_model, str(start), 2, 4, 2, learning_rate=1e-3, seed=0, use_cpu=True)
    results = tmp_path / "results.jsonl"
    argv = ["run", "--tiny", "--model", str(start), "--keep", "--seeds", "1", "--only", "start", "coda"]
    monkeypatch.setattr(sys, "argv", [*argv, "--results", str(results), "--work", str(tmp_path / "work")])
    assert run.main() == 0, capsys.readouterr().out
    (row,) = [row for row in read_results(results) if row["method"] == "coda"]
    assert row["shared"]["steps"] == 2 and row["shared"]["checkpoint"] and row["warm_start"] == 1
    assert row["evaluations"][0]["problems"]["rung"] == "1 2 3 4 5 6"
    assert row["log"]["coda/mean_score"] == [0.0]
    found = tables.all_tables(read_results(results)).values()
    assert all(len(line) == len(table.header) for table in found for line in table.rows)

    (tmp_path / "README.md").write_text((tables.HERE / "README.md").read_text())
    monkeypatch.setattr(sys, "argv", ["tables", "--folder", str(tmp_path)])
    tables.main()
    assert "1 trainings of 2 steps, warm starts: 1, on cpu" in (tmp_path / "README.md").read_text()
    assert "| Start |" in (tmp_path / "tables.md").read_text() and (tmp_path / "results.png").is_file()
    results.write_text("")
    with pytest.raises(SystemExit):
        tables.main()
    assert "the start is not in" in capsys.readouterr().err


def line(name, warm_start, seed, correct, steps=160):
    """A run on two problems a rung, eight answers each, `correct` of which are right."""
    problems = {column: " ".join(["0"] * 12) for column in ("rechecks", "verbose", "reflective")}
    problems |= {f"{column}_correct": problems["rechecks"] for column in ("rechecks", "reflective")}
    problems |= {"rung": "1 2 3 4 5 6 " * 2, "correct": f"{correct} " * 12, "tokens": "80 " * 12}
    evaluation = {"budget": None, "samples_per_problem": 8, "problems": problems}
    shared = {"checkpoint": str(warm_start)} | ({} if name == "start" else {"steps": steps})
    named = {"method": name, "warm_start": warm_start, "seed": seed}
    return named | {"shared": shared, "evaluations": [evaluation], "log": {}}


def test_runs_are_paired_with_the_same_seed_of_their_warm_start():
    """The second lacks the start's evaluation, and its methods share one seed only."""
    first = [("start", 0, 1), ("grpo", 0, 4), ("coda", 0, 6), ("grpo", 1, 5), ("coda", 1, 7), ("coda", 2, 8)]
    second = [("grpo", 0, 1), ("grpo", 1, 2), ("coda", 1, 3), ("coda", 2, 4)]
    results = Results(
        line(name, start, seed, correct) for start, runs in ((1, first), (2, second)) for name, seed, correct in runs
    )

    def rows(*names):  # right answers of each run as one digit
        digits = results.rows(
            lambda *runs: sum(10**i * 8 / 100 * run.mean("correct") for i, run in enumerate(runs)), *names
        )
        return digits[:, 0].round(9).tolist()

    assert rows("coda") == [6, 7, 8, 3, 4]
    assert rows("grpo", "coda") == [64, 75, 32]
    assert rows("start", "grpo") == [41, 51]
    assert rows("start") == [1]


@pytest.mark.slow
def test_pages_are_in_step_with_the_runs():
    """After new runs: `python -m experiments.word_problems.tables`."""
    stored = {name: (tables.HERE / name).read_text(encoding="utf-8") for name in ("README.md", "tables.md")}
    assert tables.pages(read_results(run.RESULTS), stored["README.md"]) == stored
