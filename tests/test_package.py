"""What a user of the package alone has: its commands, recipes that can be copied out, and all of its modules."""

import ast
import importlib
import os
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import coda_trl
from coda_trl import train
from coda_trl.commands import command
from coda_trl.copy_recipes import main as copy_recipes
from coda_trl.ladder import CHECKPOINT

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def test_every_package_that_is_imported_is_a_dependency():
    """What others happen to bring along can change with them: huggingface_hub 2 no longer brings httpx."""
    imported = set()
    for path in (ROOT / "coda_trl").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    extras = [each for extra in PYPROJECT["project"]["optional-dependencies"].values() for each in extra]
    required = {Requirement(each) for each in [*PYPROJECT["project"]["dependencies"], *extras]}
    declared = {each.name for each in required}
    assert len(declared) == len(required), "two extras want different versions of one package"
    declared = {{"pyyaml": "yaml"}.get(name, name).replace("-", "_") for name in declared}
    assert imported - set(sys.stdlib_module_names) - {"coda_trl"} - declared == set()


def test_the_environment_with_vllm_has_every_dependency():
    """It is installed without looking at dependencies."""
    lines = (ROOT / "tests/with_vllm/requirements.txt").read_text().splitlines()
    pinned = {canonicalize_name(Requirement(line).name) for line in lines if not line.startswith("#")} | {"torch"}
    assert {canonicalize_name(Requirement(each).name) for each in PYPROJECT["project"]["dependencies"]} <= pinned


@pytest.mark.parametrize("target", [*PYPROJECT["project"]["scripts"].values(), "coda_trl.grading.__main__:main"])
def test_commands_exist_and_end_without_a_traceback(target, monkeypatch):
    module, _, function = target.partition(":")
    main = vars(importlib.import_module(module))[function]
    monkeypatch.setattr(sys, "argv", ["command", "--help"])
    read, write = os.pipe()
    os.close(read)  # `| head` that has seen enough
    with open(write, "w") as closed, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", closed)
        with pytest.raises(SystemExit, match="^[01]$"):  # 0 if the help is long: argparse takes it for printed
            main()

    def interrupted(*args):  # no signal, which jobs in the background of a script ignore
        raise KeyboardInterrupt

    monkeypatch.setattr("argparse.ArgumentParser.print_help", interrupted)
    with pytest.raises(SystemExit, match="^130$"):
        main()


def test_a_pipe_to_another_process_that_breaks_is_no_reader_who_left(capfd):
    @command
    def main(argv):
        raise BrokenPipeError(*argv)

    with pytest.raises(BrokenPipeError, match="to a tracker"):
        main(argv=[32, "to a tracker"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory) -> zipfile.ZipFile:
    """A wheel of this tree."""
    source, out = tmp_path_factory.mktemp("source"), tmp_path_factory.mktemp("wheel")
    # Also files that are not added yet, and in a clone that belongs to somebody else.
    command = "git -c safe.directory=* ls-files -z --cached --others --exclude-standard".split()
    files = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for file in filter(None, files.split("\0")):
        if (ROOT / file).is_file():
            (source / file).parent.mkdir(parents=True, exist_ok=True)
            (source / file).write_bytes((ROOT / file).read_bytes())
    code = f"from setuptools.build_meta import build_wheel; print(build_wheel({str(out)!r}))"
    subprocess.run([sys.executable, "-c", code], cwd=source, capture_output=True, text=True, check=True)
    (path,) = out.glob("*.whl")
    return zipfile.ZipFile(path)


def test_an_index_page_finds_the_pictures_and_pages_of_the_readme(wheel):
    (name,) = (name for name in wheel.namelist() if name.endswith("METADATA"))
    text = wheel.read(name).decode()
    targets = re.findall(r"\]\(([^)]+)\)", text[text.index("# coda-trl") :])
    assert any(target.endswith("raw/main/experiments/math/by-difficulty.png") for target in targets)
    assert all(target.startswith(("https://", "#")) for target in targets)


def test_a_wheel_holds_every_module_and_all_that_modules_read(wheel):
    package = ROOT / "coda_trl"
    expected = {f"coda_trl/{path.relative_to(package)}" for path in package.rglob("*.py")}
    expected |= {"coda_trl/py.typed", "coda_trl/ladder/checkpoint/model.safetensors"}
    expected |= {f"coda_trl/report/templates/{path.name}" for path in (package / "report" / "templates").iterdir()}
    recipes = [path for path in (ROOT / "recipes").rglob("*") if path.is_file() and path.suffix != ".pyc"]
    expected |= {f"coda_trl/recipes/{path.relative_to(ROOT / 'recipes')}" for path in recipes}
    names = wheel.namelist()
    assert expected - set(names) == set()
    assert [name for name in names if name.startswith(("tests/", "benchmarks/", "experiments/", "docs/"))] == []


def test_copied_recipes_train_in_an_empty_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["coda-recipes"])
    copy_recipes()
    assert "coda-train --config recipes/ladder/coda.yaml" in capsys.readouterr().out
    assert yaml.safe_load(Path("recipes/ladder/coda.yaml").read_text())["model_name_or_path"] == CHECKPOINT
    small = "--generation_batch_size 16 --per_device_train_batch_size 16 --gradient_accumulation_steps 1 --max_steps 1"
    assert train.main(["--config", "recipes/ladder/coda.yaml", *small.split()]) == 0
    assert Path("runs/ladder-coda/model.safetensors").is_file()
    with pytest.raises(SystemExit, match="error: recipes exists"):
        copy_recipes()
    monkeypatch.setattr(sys, "argv", ["coda-recipes", "two words"])
    copy_recipes()
    assert "coda-train --config 'two words/ladder/coda.yaml'" in capsys.readouterr().out
    monkeypatch.setattr(sys, "argv", ["coda-recipes", "recipes/train.py/recipes"])
    with pytest.raises(SystemExit, match="Not a directory: .* name a folder that you may write"):
        copy_recipes()


def test_without_arguments_it_says_what_to_give(caplog):
    assert train.main([]) == 2
    assert "give --config RECIPE, such as recipes/ladder/coda.yaml" in caplog.text


@pytest.mark.slow
def test_a_layer_loads_no_more_than_it_needs():
    """What a layer leaves alone, those before it in this process did too."""
    layers = {
        ("coda_trl", "coda_trl.grading", "coda_trl.report"): ("torch", "transformers", "trl", "latex2sympy2_extended"),
        ("coda_trl.data", "coda_trl.evaluation.runner"): ("trl", "latex2sympy2_extended"),
    }
    lines = ["import sys"]
    for modules, absent in layers.items():
        lines += [f"import {', '.join(modules)}", f"print([name for name in {absent} if name in sys.modules])"]
    code = "\n".join(lines)
    found = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout == "[]\n[]\n"


def test_names_of_the_package_are_loaded_on_first_use():
    assert all(getattr(coda_trl, name).__name__ == name for name in coda_trl.__all__)
    with pytest.raises(AttributeError, match="has no attribute 'CodaTrainer'"):
        _ = coda_trl.CodaTrainer
