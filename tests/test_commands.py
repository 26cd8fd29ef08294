"""
Commands of README, docs, recipe heads and docstrings run as they stand, in one folder, only small.

Left out by rule are those that need a GPU or the hub, set up an environment, measure, or rewrite committed files.
"""

import functools
import re
import runpy
import shlex
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml
from test_docs import PAGES, ROOT, SCRIPTS, commands, name

from coda_trl.evaluation import EvaluationConfig

pytestmark = pytest.mark.slow
SOURCES = [*(ROOT / "recipes").rglob("*.yaml"), *(ROOT / "recipes").glob("*.py"), *(ROOT / "coda_trl").rglob("*.py")]
# What makes a run small. Later arguments win.
SMALLER = {
    "train": "--dataset ladder=32 --generation_batch_size 16 --per_device_train_batch_size 16 "
    "--gradient_accumulation_steps 1 --max_steps 1 --save_strategy no",
    "evaluate": "--limit 2 --n 2",
}


def head(path: Path) -> list[str]:
    """Commands that stand on lines of their own in comments and docstrings."""
    lines = re.sub(r"\\+\n", " ", path.read_text()).splitlines()
    return [line for line in (line.strip("# ") for line in lines) if re.match(r"(python|accelerate|coda-\w+) ", line)]


def normalise(line: str) -> list[str]:
    """A command as script or module and its arguments, without launcher, shell comments and brackets."""
    words = shlex.split(
        re.sub(r"[\[\]]", "", line.replace("[--jobs N]", "").replace("[--timeout S]", "")), comments=True
    )
    if words[0] in SCRIPTS:
        return [SCRIPTS[words[0]].partition(":")[0], *words[1:]]
    if words[:2] == ["python", "-m"]:
        return words[2:]
    scripts = [index for index, word in enumerate(words) if word.endswith(".py")]
    return words[scripts[0] :] if scripts else words


def kind(words: list[str]) -> str:
    return {"__main__": "report"}.get(stem := re.split(r"[./]", words[0].removesuffix(".py"))[-1], stem)


def left_out(words: list[str]) -> bool:
    """Whether a command sets up an environment, measures, rewrites committed files, or needs a GPU or the hub."""
    if words[0] in ("make", "git", "pip", "sbatch", "accelerate") or words[0].startswith(
        ("benchmarks/", "docs/", "notebooks/", "experiments.")
    ):
        return True
    if len(words) == 1:  # a name in running text, unless it is complete
        return kind(words) != "copy_recipes"
    if any(
        re.fullmatch(r"MODEL|RECIPE|FILE|DIR|FOLDER|.*[$%<].*|\.\.\.", word) for word in words
    ):  # a placeholder of the reader's
        return True
    if kind(words) == "train" and not {"--dry_run", "--help"} & set(words):
        return not yaml.safe_load((ROOT / words[words.index("--config") + 1]).read_text()).get("use_cpu", False)
    if kind(words) == "evaluate" and "--benchmarks" in words:
        return words[words.index("--benchmarks") + 1] != "ladder"
    # Minutes or an hour: tests/test_ladder.py.
    return words[0].startswith(("coda_trl.ladder", "coda_trl.evaluation.ladder", "recipes/quickstart"))


def to_run() -> dict[str, list[str]]:
    """One command of each kind: those that differ in the values of their options alone are one."""
    found = {}
    lines = [(name(path), line) for path in [*PAGES, ROOT / "CONTRIBUTING.md"] for line in commands(path)]
    lines += [(name(path), line) for path in sorted(SOURCES) for line in head(path)]
    for place, line in lines:
        words = normalise(line)
        if not left_out(words):
            options = tuple(sorted(word for word in words if word.startswith("--")))
            found.setdefault((kind(words), options), (place, words))
    return {f"{place}: {' '.join(words)}": words for place, words in found.values()}


COMMANDS = to_run()
# Those that make `runs/ladder-coda` and `runs/ladder-coda-eval`.
TRAINING, EVALUATION = (
    next(words for words in COMMANDS.values() if kind(words) == each and "--help" not in words)
    for each in ("train", "evaluate")
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A clone, with cases to grade and a model's sizes."""
    folder = tmp_path_factory.mktemp("clone")
    for part in ("recipes", "coda_trl"):
        (folder / part).symlink_to(ROOT / part)
    (folder / "CASES.jsonl").write_text('{"id": 1, "completion": "\\\\boxed{2}", "gold": "2"}\n')
    (folder / "path" / "to").mkdir(parents=True)
    shutil.copy(ROOT / "recipes/qwen3-8b/config.json", folder / "path" / "to")
    return folder


@pytest.fixture(scope="module")
def run(folder) -> Callable[..., None]:
    """Runs a command once, however often it is asked for, and before it those that make what it reads."""

    @functools.cache
    def run(*words: str) -> None:
        for path in re.findall(r"(?<!--output_dir )runs/[\w-]+", " ".join(words)):
            made = "runs/ladder-coda-eval" if path.endswith("-eval") else "runs/ladder-coda"
            run(*(EVALUATION if path.endswith("-eval") else TRAINING))
            if path != made:  # another run of the reader's, for which the ladder's stands
                shutil.copytree(folder / made, folder / path, dirs_exist_ok=True)
        smaller = "" if {"--dry_run", "--help"} & set(words) else SMALLER.get(kind(words), "")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder / "path" if kind(words) == "copy_recipes" else folder)
            patch.setattr(sys, "argv", [*words, *smaller.split()])
            try:
                if words[0].endswith(".py"):
                    runpy.run_path(words[0], run_name="__main__")
                else:
                    runpy.run_module(words[0], run_name="__main__", alter_sys=True)
            except SystemExit as end:
                assert not end.code, end.code

    return run


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_a_command_of_the_documentation_runs(words, run):
    run(*words)


def test_every_kind_of_command_is_among_them():
    assert {kind(words) for words in COMMANDS.values()} == {"copy_recipes", "train", "evaluate", "report", "grading"}
    assert "--max_tokens" in str(list(COMMANDS)) and EvaluationConfig.max_tokens > 48  # a ladder's answer is short
