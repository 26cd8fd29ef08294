"""The word problems (`benchmarks/word_problems`): right answers, styles that can be told apart, runs that start."""

import gzip
import itertools
import json
import random
import subprocess
import sys
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import yaml
from transformers import AutoTokenizer

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "benchmarks/word_problems"
RECIPES = ROOT / "recipes/word_problems"
sys.path += [str(ROOT / "benchmarks/ladder"), str(FOLDER)]

import build_tables  # noqa: E402
import run_all  # noqa: E402
from demonstrations import (  # noqa: E402
    STYLE_SHARES,
    calculation_in_parts,
    demonstrate,
    draw_demonstration,
    rechecks,
    style_of,
)
from make_data import DATA, TEST, TRAIN, make_files  # noqa: E402
from matrix import RUNS  # noqa: E402
from problems import RUNGS, TRAINING_SHARES, Step, sample_problem  # noqa: E402
from repetitions import Repetitions  # noqa: E402
from reproduce import Runner, Stopped  # noqa: E402
from summaries import summary_path, write_summary  # noqa: E402

from coda_trl.analysis import is_reflective  # noqa: E402
from coda_trl.rewards import accuracy_reward  # noqa: E402


def draw(rung: int, count: int = 60) -> list:
    rng = random.Random(rung)
    return [sample_problem(rung, rng) for _ in range(count)]


@pytest.mark.parametrize("rung", RUNGS)
def test_problems_have_the_steps_of_their_rung_and_a_whole_positive_number_throughout(rung):
    for problem in draw(rung):
        assert sum(step.is_hard for step in problem.steps) == sum(kind != "e" for kind in RUNGS[rung])
        assert len(problem.steps) == len(RUNGS[rung])
        assert all(step.fits(total) for step, total in zip(problem.steps, problem.totals, strict=False))
        for step in problem.steps:  # the story holds every number, doubling and tripling in words
            told = {2: "doubles", 3: "triples"}.get(step.number) if step.kind == "times" else None
            assert (told or str(step.number)) in problem.text


def test_every_kind_of_step_occurs_on_hard_rungs():
    kinds = Counter(step.kind for problem in draw(6) for step in problem.steps)
    assert set(kinds) == {"add", "take", "times", "percent", "remainder"}


@pytest.mark.parametrize(
    ("step", "total", "result", "parts"),
    [
        (Step("add", 7), 12, 19, "12 + 7 = 19"),
        (Step("times", 36), 47, 1692, "47 * 30 = 1410, 47 * 6 = 282, 1410 + 282 = 1692"),
        (Step("times", 7), 48, 336, "48 * 7 = 336"),
        (Step("percent", 25), 44, 33, "44 * 20 = 880, 44 * 5 = 220, 880 + 220 = 1100, 1100 / 100 = 11, 44 - 11 = 33"),
        (Step("remainder", 23), 1692, 13, "23 * 70 = 1610, 1692 - 1610 = 82, 23 * 3 = 69, 82 - 69 = 13"),
    ],
)
def test_steps_in_parts(step, total, result, parts):
    assert step.apply(total) == result
    assert calculation_in_parts(step, total) == parts


@pytest.mark.parametrize("rung", RUNGS)
@pytest.mark.parametrize("style", ["direct", "totals", "check", "verbose"])
def test_demonstrations_are_right_and_their_style_can_be_told(rung, style):
    problems, rng = draw(rung, 25), random.Random(0)
    texts = [demonstrate(problem, style, rng) for problem in problems]
    assert accuracy_reward(texts, [problem.answer for problem in problems]) == [1.0] * len(texts)
    assert {style_of(text) for text in texts} == {style}
    assert {rechecks(text) for text in texts} == {is_reflective(text) for text in texts} == {style == "check"}


def test_every_equation_in_a_demonstration_holds_but_for_slips_that_are_found():
    rng = random.Random(1)
    slips = 0
    for problem in draw(5, 200):
        text = demonstrate(problem, "check", rng)
        first, _, second = text.partition("Wait")
        slipped = first.split()[-1] != f"{problem.answer}."
        slips += slipped
        assert slipped == ("It was not" in second) != ("It is the same" in second)
        left_and_right = [part.split(" = ") for line in second.split(". ") for part in line.split(", ")]
        for sides in left_and_right:
            if len(sides) == 2:
                assert eval(sides[0]) == int(sides[1].rstrip("."))  # numbers and + - * / alone
    assert 0.2 < slips / 200 < 0.4


def test_styles_are_shared_out_on_every_rung():
    assert all(sum(shares.values()) == pytest.approx(1) for shares in [*STYLE_SHARES.values(), TRAINING_SHARES])
    rng = random.Random(0)
    rows = [draw_demonstration(problem, rng) for problem in draw(1, 400)]
    styles = Counter(style_of(row["completion"][0]["content"]) for row in rows)
    assert {style: count / 400 for style, count in styles.items()} == pytest.approx(STYLE_SHARES[1], abs=0.07)


def test_the_files_are_what_the_generator_makes_and_share_no_story():
    stored = {name: gzip.decompress((DATA / name).read_bytes()).decode() for name in (TRAIN, TEST)}
    assert stored == make_files(), "after a change of problems: python benchmarks/word_problems/make_data.py"
    stories = {
        name: {json.loads(line)["prompt"][0]["content"] for line in text.splitlines()} for name, text in stored.items()
    }
    assert not stories[TRAIN] & stories[TEST]
    rungs = [json.loads(line)["rung"] for line in stored[TEST].splitlines()]
    assert rungs == list(RUNGS) * 100


def test_recipes_differ_in_the_method_alone():
    recipes = {path.stem: yaml.safe_load(path.read_text()) for path in RECIPES.glob("*.yaml")}
    assert set(recipes) == {RUNS[name].recipe for name in run_all.METHODS} - {None}
    for recipe in recipes.values():
        for key in [key for key in recipe if key.startswith(("coda_", "vlp_", "asrr_", "length_s", "output"))]:
            del recipe[key]
    assert all(recipe == recipes["grpo"] for recipe in recipes.values())


def test_fewer_methods_rather_than_fewer_seeds():
    order = run_all.jobs(3)
    assert order[0] == ("start", 0) and len(order) == len(set(order)) == 13
    assert set(order[1:7]) == {(name, seed) for name in ("grpo", "coda") for seed in range(3)}
    assert order[7:10] == [("vlp", 0), ("vlp", 1), ("vlp", 2)]
    assert {seed for _, seed in run_all.jobs(3, first_seed=3)[1:]} == {3, 4, 5}


@pytest.fixture
def runner(tmp_path):
    argv = ["--tiny", "--out", str(tmp_path / "out"), "--work", str(tmp_path / "work")]
    return run_all.WordProblemsRunner(run_all.parse([*argv, "--override", "learning_rate=1e-5"]))


def test_overrides_win_over_recipe_and_rehearsal(runner, tmp_path):
    words = list(map(str, runner.training_command(RUNS["vlp"], 2, tmp_path)))
    assert "recipes/word_problems/vlp.yaml" in words
    assert words[-2:] == ["--learning_rate", "1e-5"] and words[words.index("--seed") + 1] == "2"


@pytest.mark.parametrize("argv", [[], ["--out", "benchmarks/word_problems/results"]])
def test_a_rehearsal_does_not_write_among_the_results(argv):
    with pytest.raises(SystemExit):
        run_all.parse(["--tiny", *argv])


def test_a_run_that_fails_is_tried_again_and_one_that_was_stopped_is_not(runner, tmp_path):
    log = tmp_path / "log.txt"
    once = f"import os, sys; path = {str(tmp_path / 'seen')!r}; seen = os.path.exists(path); open(path, 'w')"
    runner._call(["-c", f"{once}; sys.exit(0 if seen else 1)"], log)
    with pytest.raises(RuntimeError, match="always"):
        runner._call(["-c", "raise SystemExit('always')"], log)
    runner.stop.set()
    with pytest.raises(Stopped):
        runner.run("coda", 0)


def test_no_two_starts_fall_together_not_even_those_of_failed_runs(runner, tmp_path, monkeypatch):
    """On a real card six evaluations that started together failed together, four times over."""
    starts, log = [], tmp_path / "log.txt"

    def fail_once(self, command, log, **environment):
        starts.append((time.monotonic(), command))
        if [earlier for _, earlier in starts].count(command) == 1:
            raise RuntimeError("memory changed")

    monkeypatch.setattr(Runner, "_call", fail_once)
    runner.args.stagger = 0.1
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: runner._call([name], log), "abc"))
    times = [moment for moment, _ in starts]
    assert len(times) == 6 and min(b - a for a, b in itertools.pairwise(times)) > 0.09


def test_rehearsal_from_a_random_model_to_tables(tmp_path):
    script = [sys.executable, str(FOLDER / "run_all.py"), "--tiny", "--keep", "--seeds", "1"]
    out, work = tmp_path / "out", tmp_path / "work"
    command = [*script, "--only", "start", "coda", "--out", str(out), "--work", str(work)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert "2 of 2 done" in done.stdout, done.stdout + done.stderr
    summary = json.loads(summary_path(out, "coda", 0).read_text())
    assert summary["shared"]["steps"] == 2 and summary["shared"]["checkpoint"]
    assert summary["evaluations"][0]["problems"]["rung"] == "1 2 3 4 5 6"
    assert summary["log"]["coda/mean_score"] == [0.0]
    of_training = summary_path(out / build_tables.UNEVALUATED, "coda", 0)
    assert not of_training.exists()
    lost = [str(FOLDER / "evaluate_model.py"), "--name", "coda", "--seed", "0", "--model", str(tmp_path / "lost")]
    lost += ["--start", str(work / "random"), "--work", str(work / "coda-seed0"), "--out", str(tmp_path / "of_lost")]
    assert subprocess.run([sys.executable, *lost, "--tiny"], cwd=ROOT, capture_output=True).returncode
    kept = json.loads(summary_path(tmp_path / "of_lost" / build_tables.UNEVALUATED, "coda", 0).read_text())
    assert kept == summary | {"evaluations": []}
    tables = build_tables.all_tables(Repetitions([out]))
    assert all(len(row) == len(table.header) for table in tables for row in table.rows)
    page = tmp_path / "page.md"
    page.write_text(build_tables.README.read_text())
    nothing = [sys.executable, str(FOLDER / "build_tables.py"), "--results", str(tmp_path), "--page", str(page)]
    done = subprocess.run(nothing, cwd=ROOT, capture_output=True, text=True)
    assert "there is no summary of the start" in done.stderr and not (tmp_path / build_tables.PICTURE).exists()
    build = [sys.executable, str(FOLDER / "build_tables.py"), "--results", str(out), "--page", str(page)]
    done = subprocess.run(build, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert page.read_text().startswith(f"**Tables and picture are of {out}")
    assert "| Start |" in page.read_text()
    assert "1 trainings of 2 steps on cpu" in page.read_text() and "Not evaluated" not in page.read_text()
    assert "There is no warm start before it" in page.read_text()
    assert (tmp_path / build_tables.PICTURE).is_file()

    tokenizer = AutoTokenizer.from_pretrained(work / "random")
    text = demonstrate(draw(6, 1)[0], "check", random.Random(0))
    assert tokenizer.decode(tokenizer(text).input_ids) == text
    warm = [
        sys.executable,
        str(FOLDER / "warm_start.py"),
        "--model",
        str(work / "random"),
        "--out",
        str(out / "start"),
    ]
    warm += ["--steps", "2", "--batch_size", "4", "--micro_batch_size", "2", "--use_cpu"]
    done = subprocess.run(warm, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    config = json.loads((out / "start/config.json").read_text())
    assert config["dtype"] == "bfloat16" and (out / "start/tokenizer.json").is_file()


def write_run(folder, name, seed, correct, checkpoint, steps=160):
    """A summary of two problems a rung, eight answers each, `correct` of which are right."""
    problems = {column: " ".join(["0"] * 12) for column in ("rechecks", "verbose", "reflective")}
    problems |= {f"{column}_correct": problems["rechecks"] for column in ("rechecks", "reflective")}
    problems |= {"rung": "1 2 3 4 5 6 " * 2, "correct": f"{correct} " * 12, "tokens": "80 " * 12}
    evaluation = {"budget": None, "samples_per_problem": 8, "problems": problems}
    shared = {"checkpoint": checkpoint} | ({} if name == "start" else {"steps": steps})
    content = {"name": name, "seed": seed, "shared": shared, "evaluations": [evaluation], "log": {}}
    write_summary(summary_path(folder, name, seed), content)


def test_runs_are_paired_with_the_same_seed_of_their_warm_start(tmp_path):
    """The second lacks the start's evaluation, and its methods share one seed only."""
    first, second = tmp_path / "first", tmp_path / "second"
    write_run(first, "start", 0, 1, "a")
    for seed, grpo, coda in ((0, 4, 6), (1, 5, 7), (2, None, 8)):
        write_run(first, "coda", seed, coda, "a")
        if grpo is not None:
            write_run(first, "grpo", seed, grpo, "a")
    for name, seed, correct in (("grpo", 0, 1), ("grpo", 1, 2), ("coda", 1, 3), ("coda", 2, 4)):
        write_run(second, name, seed, correct, "b")
    results = Repetitions([first], [second])

    def rows(*names):
        return (results.rows(lambda *runs: np.array([run.accuracy()[0] for run in runs]), *names) * 8 / 100).tolist()

    assert rows("coda") == [[6], [7], [8], [3], [4]]
    assert rows("coda", "grpo") == [[6, 4], [7, 5], [3, 2]]
    assert rows("grpo", "start") == [[4, 1], [5, 1]]
    assert rows("start") == [[1]]


def test_runs_of_other_lengths_are_not_pooled(tmp_path):
    write_run(tmp_path / "first", "grpo", 0, 4, "a")
    write_run(tmp_path / "second", "grpo", 0, 4, "b", steps=60)
    with pytest.raises(ValueError, match="second differs in steps"):
        Repetitions([tmp_path / "first"], [tmp_path / "second"])


def test_seeds_of_two_warm_starts_cannot_meet(tmp_path):
    write_run(tmp_path, "grpo", 100, 4, "a")
    with pytest.raises(ValueError, match="seed 100 .* must be below 100"):
        Repetitions([tmp_path])


def test_differences_to_grpo_are_between_the_same_seeds(tmp_path):
    for name, seed, length in (("grpo", 0, 90), ("grpo", 1, 100), ("coda", 1, 60), ("vlp", 2, 5)):
        folder = tmp_path / build_tables.UNEVALUATED if name == "grpo" else tmp_path
        log = {"step": [4, 8], "coda/mean_score": [0.5, 0.7], "coda/easy/mean_length": [length, length]}
        content = {"name": name, "seed": seed, "recipe": name, "evaluations": [{}] * (name != "grpo"), "log": log}
        write_summary(summary_path(folder, name, seed), content)
    (row,) = build_tables.rollout_pairs([tmp_path]).rows
    assert [cell.text for cell in row] == ["CODA", "1", "0.0", "−40", "–"]


def test_an_interval_over_pairs_is_that_of_students_t(tmp_path):
    for seed, difference in enumerate((-1, -2, -3)):
        for name, length in (("grpo", 100), ("coda", 100 + difference)):
            log = {"step": [4, 8], "coda/easy/mean_length": [length, length]}
            content = {"name": name, "seed": seed, "recipe": name, "evaluations": [{}], "log": log}
            write_summary(summary_path(tmp_path, name, seed), content)
    (row,) = build_tables.rollout_pairs([tmp_path]).rows
    half = 4.303 / 3**0.5  # t of two degrees of freedom, times the standard error
    assert (row[3].value, row[3].low, row[3].high) == pytest.approx((-2, -2 - half, -2 + half), abs=0.1)


def test_pairs_are_of_the_same_warm_start_and_seed(tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for number, name, seed, accuracy, tokens in (
        (0, "grpo", 0, 0.5, 100),
        (0, "coda", 0, 0.75, 40),
        (0, "coda", 1, 0.5, 30),
        (1, "grpo", 1, 0.5, 100),
    ):
        rungs = {str(rung): {"accuracy": accuracy, "tokens": tokens} for rung in range(1, 7)}
        content = {"name": name, "seed": seed, "recipe": name, "evaluations": [{"rungs": rungs}]}
        write_summary(summary_path(folders[number], name, seed), content)
    assert [[cell.text for cell in row] for row in build_tables.by_pair(folders).rows] == [
        ["1", "0", *["+25.0 / −60%"] * 7]
    ]


def test_page_is_in_step_with_the_summaries():
    """After new runs: `python benchmarks/word_problems/build_tables.py`."""
    page = build_tables.README.read_text(encoding="utf-8")
    assert build_tables.fill(page, build_tables.blocks(build_tables.RESULTS)) == page
