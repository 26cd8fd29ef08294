"""The documentation: its code runs, its links lead somewhere, its commands, options and metrics exist."""

import ast
import dataclasses
import functools
import gzip
import inspect
import io
import re
import runpy
import shlex
import sys
import tomllib
from contextlib import redirect_stdout
from pathlib import Path
from typing import get_args

import pandas
import pytest
import torch
import trl.trainer.grpo_config
import trl.trainer.grpo_trainer
from markdown_it import MarkdownIt
from markdown_it.token import Token
from test_recipes import arguments, name, parse

from coda_trl import CodaGRPOConfig, shape_rewards
from coda_trl.data import SOURCES
from coda_trl.ladder import CHECKPOINT, make_dataset
from coda_trl.metrics import regime_metrics
from coda_trl.shaping_checks import Method

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "fixtures" / "data"
DOCS = ROOT / "docs"
FOLDERS = ("benchmarks", "coda_trl", "docs", "experiments", "notebooks", "recipes", "tests")
MARKDOWN = sorted([*ROOT.glob("*.md"), *(path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md"))])
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("*.md"))]  # the reference is docstrings, which run as doctests

METHODS = get_args(Method)
SCRIPTS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["scripts"]


@functools.cache
def tokens(path: Path) -> list[Token]:
    """Blocks and, flattened, what is inside lines."""
    blocks = MarkdownIt("commonmark").enable("table").parse(path.read_text())
    return [token for block in blocks for token in (block, *(block.children or []))]


def fences(path: Path, language: str) -> list[Token]:
    return [token for token in tokens(path) if token.type == "fence" and token.info.split()[:1] == [language]]


def inline_code(path: Path) -> list[str]:
    return [token.content for token in tokens(path) if token.type == "code_inline"]


# Code


# What a page leaves to its reader or to the hub: names, and replacements in its code.
STAND_INS = {
    "README.md": (
        {"dataset": make_dataset(16)},
        {
            "Qwen/Qwen3-0.6B": CHECKPOINT,
            'load_training_set("mixed")': "dataset",
            "max_completion_length=3072": "max_completion_length=8",
            'output_dir="qwen3-0.6b-coda"': 'output_dir="runs/readme", use_cpu=True, bf16=False, max_steps=1, '
            'report_to="none"',
        },
    ),
    "docs/grading.md": ({"completions": [r"\boxed{1}"], "golds": ["1"]}, {}),
    "docs/evaluation.md": (
        {"my_grader": lambda completions, problems: [False] * len(completions)},
        {'"1 + 1 ="': '"1 +1 ="', 'engine="transformers"': 'engine="transformers", max_tokens=4, n=1'},
    ),
}


@pytest.fixture
def reader(tmp_path, monkeypatch):
    """A working directory with a trained model and copies of data sets, and no hub."""
    monkeypatch.chdir(tmp_path)
    Path("runs").mkdir()
    Path("runs/coda").symlink_to(CHECKPOINT)
    Path("copies").mkdir()
    for copy, original in {"gsm8k": "gsm8k_train", "svamp": "svamp"}.items():
        Path(f"copies/{copy}.jsonl.gz").write_bytes(gzip.compress((DATA / f"{original}.jsonl").read_bytes()))
    pandas.read_json(DATA / "math_level.jsonl", lines=True).to_parquet("copies/math.parquet")
    deepscaler = dataclasses.replace(SOURCES["deepscaler"], hub=str(DATA / "deepscaler.jsonl"))
    monkeypatch.setitem(SOURCES, "deepscaler", deepscaler)


@pytest.mark.parametrize("path", [path for path in PAGES if fences(path, "python")], ids=name)
def test_python_blocks_run_one_after_the_other(path, reader):
    names, replacements = STAND_INS.get(name(path), ({}, {}))
    namespace = dict(names)
    for block in fences(path, "python"):
        code = block.content
        for old, new in replacements.items():
            code = code.replace(old, new)
        first_line = "\n" * (block.map[0] + 1)  # so that a traceback shows the line of the page
        exec(compile(first_line + code, str(path), "exec"), namespace)


# Links


def slug(heading: str) -> str:
    """GitHub's anchor of a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


@functools.cache
def anchors(path: Path) -> set[str]:
    slugs: list[str] = []
    blocks = tokens(path)
    for opening, inside in zip(blocks, blocks[1:], strict=False):
        if opening.type == "heading_open":
            text = "".join(child.content for child in inside.children if child.type in ("text", "code_inline"))
            slugs.append(slug(text))
    return {
        each + (f"-{slugs[:index].count(each)}" if each in slugs[:index] else "") for index, each in enumerate(slugs)
    }


@pytest.mark.parametrize("path", MARKDOWN, ids=name)
def test_links_lead_somewhere(path):
    targets = [token.attrs.get("href") or token.attrs.get("src") for token in tokens(path)]
    broken = []
    for target in filter(None, targets):
        if re.match(r"\w+:", target):
            continue
        file, _, anchor = target.partition("#")
        page = (path.parent / file).resolve() if file else path
        if not page.exists() or (anchor and anchor not in anchors(page)):
            broken.append(target)
    assert broken == []


def test_every_page_is_in_the_index():
    linked = {token.attrs["href"] for token in tokens(DOCS / "README.md") if token.type == "link_open"}
    assert {path.name for path in DOCS.glob("*.md")} - {"README.md"} <= {href.partition("#")[0] for href in linked}


# Commands


def commands(path: Path) -> list[str]:
    """Lines of shell blocks, and commands in running text."""
    lines = [line for block in fences(path, "bash") for line in block.content.replace("\\\n", " ").splitlines()]
    command = re.compile(rf"(\w+=\S+ )*((python|accelerate|make|sbatch) |({'|'.join(SCRIPTS)})( |$))")
    return [line for line in lines + inline_code(path) if command.match(line)]


@functools.cache
def help_text(script: str) -> str:
    """What a script or module of the project prints for --help."""
    output, argv, path = io.StringIO(), sys.argv, list(sys.path)
    sys.argv = [script, "--help"]
    try:
        with redirect_stdout(output), pytest.raises(SystemExit):
            if script.endswith(".py"):
                sys.path.insert(0, str((ROOT / script).parent))
                runpy.run_path(str(ROOT / script), run_name="__main__")
            else:
                runpy.run_module(script, run_name="__main__", alter_sys=True)
    finally:
        sys.argv, sys.path[:] = argv, path
    return output.getvalue()


def check_command(line: str) -> None:
    words = shlex.split(re.sub(r"[\[\]]", "", line), comments=True)
    files = [word for word in words if re.match(r"(recipes|benchmarks|experiments|docs|tests)/\S+\.\w+$", word)]
    assert [file for file in files if not (ROOT / file).is_file()] == []
    if words[0] == "make":
        makefile = (ROOT / "Makefile").read_text()
        assert {word for word in words[1:] if "=" not in word} <= set(re.findall(r"^([\w-]+):", makefile, re.M))
        assert {word.partition("=")[0] for word in words if "=" in word} <= set(
            re.findall(r"^(\w+) \?=", makefile, re.M)
        )
        return
    script = next((word for word in words if word in ("recipes/train.py", "coda-train")), None)
    if script is not None and "--config" in words:
        argv = arguments(words, script)
        if argv[argv.index("--config") + 1] in files:  # not a placeholder
            parse(*argv)
        return
    if words[0] in SCRIPTS:
        return
    script = words[2] if words[1] == "-m" else words[1]
    options = {word for word in words if word.startswith("--")}
    if options and (script in files or re.match(r"coda_trl|experiments|benchmarks", script)):
        assert options <= {*re.findall(r"--\w+", help_text(script)), "--help"}


@pytest.mark.parametrize("path", [path for path in [*PAGES, ROOT / "CONTRIBUTING.md"] if commands(path)], ids=name)
def test_commands_name_files_targets_and_options_that_exist(path, monkeypatch):
    monkeypatch.chdir(ROOT)
    for line in commands(path):
        try:
            check_command(line)
        except (AssertionError, ValueError, SystemExit) as problem:
            raise AssertionError(f"{line}\n{problem}") from problem


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_files_in_running_text_exist(path):
    files = [code for code in inline_code(path) if re.fullmatch(rf"({'|'.join(FOLDERS)})/[\w./-]+", code)]
    assert [file for file in files if not (ROOT / file).exists()] == []


# Settings and metrics


@pytest.mark.parametrize(("names", "page"), [(METHODS, "concepts.md"), (SOURCES, "data.md")])
def test_every_method_and_data_set_is_on_its_page(names, page):
    named = {code.partition("=")[0] for code in inline_code(DOCS / page)}
    assert {*names} - named == set(), f"add it to a table of docs/{page}"


@functools.cache
def known_metrics() -> set[str]:
    """All that training logs under `coda/`, and the columns of the completions table."""
    rewards = torch.tensor([1.0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0])  # an easy, a middling and a hard group
    lengths = torch.arange(1, 13)
    shaped = shape_rewards(rewards, lengths, 4)
    metrics = regime_metrics(rewards, lengths, lengths > 10, shaped, 0.75, 0.25)
    sources = "".join(path.read_text() for path in (ROOT / "coda_trl").rglob("*.py"))
    gates = {f"coda/{column}" for column in ("success_rate", "w_easy", "w_hard")}
    return {*metrics, *gates, *re.findall(r'"(coda/[a-z_]+)"', sources)}


def named_metrics(path: Path) -> set[str]:
    codes = [code for code in inline_code(path) if re.fullmatch(r"coda/[\w/<>]+", code)]
    return {code.replace("<regime>", regime) for code in codes for regime in ("easy", "medium", "hard")}


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_metrics_exist(path):
    assert named_metrics(path) <= known_metrics()


def test_every_metric_is_explained():
    assert known_metrics() - named_metrics(DOCS / "diagnose.md") == set(), "explain it in docs/diagnose.md"


@functools.cache
def words_of_the_sources() -> frozenset[str]:
    sources = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    sources += [*(ROOT / "recipes").rglob("*.yaml"), *(ROOT / "recipes").rglob("*.slurm")]
    sources += [Path(trl.trainer.grpo_config.__file__), Path(trl.trainer.grpo_trainer.__file__)]
    return frozenset(word for path in sources for word in re.findall(r"\w+", path.read_text()))


@pytest.mark.parametrize("path", PAGES, ids=name)
def test_settings_exist(path):
    """`coda_...` and its like are fields of the configuration; other settings occur there, or in some source."""
    fields = {each.name for each in dataclasses.fields(CodaGRPOConfig)}
    codes = inline_code(path)
    own = {code for code in codes if re.fullmatch(rf"({'|'.join(METHODS)})_\w+", code)} - {"coda_trl"}
    assert own - fields == set()
    settings = [re.match(r"(?:--)?([a-z]\w*)(?:: |=|$)", code) for code in codes]
    named = {found[1] for found in settings if found and "_" in found[1]}
    assert named - fields - words_of_the_sources() == set()


# What scripts write


def test_reference_is_in_step_with_the_docstrings():
    pages = runpy.run_path(str(DOCS / "make_reference.py"))["render"]()
    written = {path.name: path.read_text() for path in (DOCS / "reference").glob("*.md")}
    stale = {page for page in pages.keys() | written.keys() if pages.get(page) != written.get(page)}
    assert stale == set(), "run `python docs/make_reference.py`"


def test_defaults_in_docstrings_are_those_of_the_code():
    reference = runpy.run_path(str(DOCS / "make_reference.py"))
    modules = [module for _, modules in reference["PAGES"].values() for module in modules]
    for thing in (thing for module in modules for thing in reference["public_objects"](module).values()):
        for field, said in re.findall(r"^ +(\w+) \(.*defaults to `([^[]+?)`\):", thing.__doc__, re.MULTILINE):
            argument = inspect.signature(thing).parameters[field]
            assert argument.default == ast.literal_eval(said), f"{thing.__name__}: {argument}"


def test_tables_are_in_step_with_the_code(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    for page, mark, table in runpy.run_path(str(DOCS / "tables.py"))["tables"]():
        written = (DOCS / page).read_text()
        assert f"<!-- begin {mark} -->\n{table}\n<!-- end -->" in written, "run `python docs/tables.py`"


def test_the_command_for_one_gpu_is_that_of_the_table(monkeypatch):
    monkeypatch.syspath_prepend(DOCS)
    flags = runpy.run_path(str(DOCS / "tables.py"))["ONE_GPU_LORA"].split()
    (command,) = [line for line in commands(DOCS / "scaling.md") if "--use_peft" in line]
    assert [word for word in flags if word not in command.split()] == []
