"""The notebooks run from the top, offline, and are stored as they should be."""

import ast
import json
import re
import runpy
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
import yaml

ROOT = Path(__file__).parent.parent
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))

runner = SimpleNamespace(**runpy.run_path(str(ROOT / "notebooks" / "execute.py")))


@pytest.fixture(params=NOTEBOOKS, ids=lambda path: path.stem)
def path(request):
    return request.param


@pytest.fixture
def notebook(path):
    return nbformat.read(path, as_version=4)


def read(number):
    (path,) = (path for path in NOTEBOOKS if path.name.startswith(number))
    return nbformat.read(path, as_version=4)


def cell_of(notebook, cell_id):
    (cell,) = (cell for cell in notebook.cells if cell.id == cell_id)
    return cell


def outputs_of(notebook):
    return [output for cell in notebook.cells if cell.cell_type == "code" for output in cell.outputs]


# Cells whose numbers do not depend on trainings, which smoke mode cuts short.
DETERMINISTIC = {"01": ["rollouts", "steps", "steps-hard"], "04": ["two-lines", "data", "thresholds"]}


def texts_of(notebook, cell_id):
    shown = (output for output in cell_of(notebook, cell_id).outputs if output.get("name") != "stderr")
    return [output.get("text") or output["data"]["text/plain"] for output in shown]  # without progress bars


@pytest.mark.timeout(900)
@pytest.mark.slow
def test_runs_in_smoke_mode_with_the_numbers_that_are_stored(path, notebook):
    executed = runner.execute(path, smoke=True)  # raises where a cell fails
    for cell_id in DETERMINISTIC.get(path.name[:2], []):
        assert texts_of(executed, cell_id) == texts_of(notebook, cell_id) != [], cell_id
    shown = "".join(output.text for output in outputs_of(executed) if output.output_type == "stream")
    assert "smoke mode" in shown, "the notebook does not look at CODA_TRL_SMOKE"


def test_opens_in_colab(path, notebook):
    pattern = r"https://colab\.research\.google\.com/github/([\w-]+/[\w-]+)/blob/main/(\S+)\)"
    badge = re.search(pattern, cell_of(notebook, "title").source)
    assert badge, "no Colab badge in the first cell"
    repository, file = badge.groups()
    assert (ROOT / file) == path
    assert f"git+https://github.com/{repository}" in cell_of(notebook, "install").source


def test_links_lead_somewhere_from_colab(path, notebook):
    text = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "markdown")
    links = re.findall(r"\]\(([^)]+)\)", text)
    assert [link for link in links if not link.startswith("https://")] == []
    for file in re.findall(r"coda-trl/blob/main/([^)\s]+)", text):
        assert (ROOT / file).exists(), file
    for line in text.splitlines():  # commands need the package alone
        assert not re.match(r"(python|accelerate) .*(recipes|benchmarks)/\w+\.py", line), line


def test_tested_with_names_the_pinned_versions(notebook):
    comment = cell_of(notebook, "install").source.partition("\n")[0]
    assert comment.startswith("# Tested with ")
    versions = re.findall(r"(\w+) (\d+\.\d+\.\d+)", comment)
    assert {name for name, _ in versions} >= {"torch", "transformers", "trl"}
    pinned = (ROOT / "constraints.txt").read_text().splitlines()
    for name, version in versions:
        assert f"{name}=={version}" in pinned


def test_device_check_stops_where_it_has_to(notebook):
    check = cell_of(notebook, "check").source
    assert "device" in check.lower()
    assert "raise RuntimeError(" in check and "Runtime >" in check, "the check must say what to do in Colab"


def test_a_failed_installation_stops_with_a_message(notebook, monkeypatch):
    install = cell_of(notebook, "install").source.replace("%pip install", "_ = 'pip install' #")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="The installation failed"):
        exec(install, {})


def test_the_one_for_a_gpu_stops_without_one(monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    monkeypatch.setenv("CODA_TRL_SMOKE", "0")
    with pytest.raises(RuntimeError, match="T4 GPU"):
        exec(cell_of(read("02"), "check").source, {})


@pytest.mark.parametrize("major, dtype", [(7, "float16"), (8, "bfloat16")], ids=["T4", "L4"])
def test_cards_without_bfloat16_get_float16(monkeypatch, major, dtype):
    class Properties:
        name, total_memory = "card", 15 * 2**30

    Properties.major = major
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.get_device_properties", lambda device: Properties)
    monkeypatch.setenv("CODA_TRL_SMOKE", "0")
    names = {}
    exec(cell_of(read("02"), "check").source, names)
    assert names["DTYPE"] == dtype


def test_is_stored_stripped_and_small(path, notebook):
    assert path.stat().st_size < 300_000
    stored = path.read_text(encoding="utf-8")
    assert stored == nbformat.writes(runner.strip(notebook)) + "\n", f"python notebooks/execute.py {path}"
    assert [output for output in outputs_of(notebook) if output.output_type == "error"] == []


def test_holds_no_path_of_a_machine(path):
    stored = path.read_text(encoding="utf-8")
    assert not re.search(r"(?<![\w.])/(home|root|tmp|Users|work|usr|var|mnt)/|[A-Z]:\\\\", stored)


def test_outputs_are_stored_unless_a_gpu_is_needed(notebook):
    stored = outputs_of(notebook)
    assert stored or runner.needs_gpu(notebook)
    assert "smoke mode" not in json.dumps(stored), "outputs of a smoke run were stored"


def settings_in(code):
    """Literal settings that a notebook trains with: a dictionary `SETTINGS`, or the arguments of the configuration."""
    found = {}
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "SETTINGS":
            found |= ast.literal_eval(node.value)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "CodaGRPOConfig":
            found |= {word.arg: word.value.value for word in node.keywords if isinstance(word.value, ast.Constant)}
    return found


@pytest.mark.parametrize("number, cell", [("01", "train-settings"), ("03", "train")])
def test_trains_as_the_recipes_do(number, cell):
    settings = settings_in(cell_of(read(number), cell).source)
    settings.pop("save_strategy", None)
    assert len(settings) > 8
    for method in ("grpo", "coda"):
        recipe = yaml.safe_load((ROOT / "recipes" / "ladder" / f"{method}.yaml").read_text())
        assert {name: recipe[name] for name in settings} == settings
