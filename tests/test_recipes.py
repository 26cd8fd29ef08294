"""Every file under `recipes/`: TRL parses it, its batch adds up, and its header holds a launch line to paste."""

import dataclasses
import io
import itertools
import os
import re
import shlex
import subprocess
from functools import partial
from pathlib import Path

import pytest
import yaml
from rich.console import Console
from trl import ModelConfig

from coda_trl import train as TRAIN
from coda_trl.config import CodaGRPOConfig, LengthGroupedGRPOConfig
from coda_trl.data import DataArguments
from coda_trl.dry_run import DryRunArguments, dry_run, read_plan
from coda_trl.dry_run.launch import planned_config, read_launch

ROOT = Path(__file__).parent.parent
RECIPES = ROOT / "recipes"
ALL = sorted(RECIPES.rglob("*.yaml"))
LAUNCH_FILES = [path for path in ALL if path.parent.name == "accelerate"]
OVERLAYS = [path for path in ALL if path.parent.name in ("ablations", "slurm")]
PLANS = [path for path in ALL if path.name == "dry_run.yaml"]
COMPLETE = [path for path in ALL if path not in LAUNCH_FILES + OVERLAYS + PLANS]
PAPER = [path for path in COMPLETE if path.parent.name in ("qwen3-4b", "qwen3-8b", "qwen3-14b")]


def name(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.fixture(autouse=True)
def at_the_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def parse(*argv: str):
    """The arguments as `recipes/train.py` gets them, under the launch that the recipe is meant for."""
    plan = read_plan(argv)
    launch = read_launch(plan.accelerate_config, plan.num_processes)
    parsed = TRAIN.parse(argv, planned_config(launch))
    return dict(zip(TRAIN.ARGUMENTS, parsed, strict=True)) | {"launch": launch}


def arguments(words: list[str], script: str = "recipes/train.py") -> list[str]:
    """Arguments of the script in a command, with those of its launcher as the dry run takes them."""
    start = words.index(script)
    launcher, argv = words[:start], words[start + 1 :]
    for option, setting in {"--config_file": "--accelerate_config", "--num_processes": "--num_processes"}.items():
        if option in launcher:
            argv += [setting, launcher[launcher.index(option) + 1]]
    return argv


def launch_lines(path: Path) -> list[str]:
    """Commands in the comments at the top of a file."""
    header = itertools.takewhile(lambda line: line.startswith("#"), path.read_text().splitlines())
    commands = (line[1:].strip() for line in header)
    return [line for line in commands if re.match(r"(\w+=\S+ )*(accelerate launch|python) .*recipes/train.py", line)]


def test_there_is_a_recipe_for_every_model_and_method():
    assert {name(path) for path in PAPER} == {
        f"recipes/qwen3-{size}/{method}.yaml"
        for size in ("4b", "8b", "14b")
        for method in ("grpo", "coda", "vlp", "asrr", "l1")
    }
    assert {path.stem for path in COMPLETE if path.parent.name == "qwen3-0.6b"} == {"coda", "grpo"}


@pytest.mark.parametrize("path", COMPLETE + OVERLAYS, ids=name)
def test_recipes_hold_nothing_that_training_ignores(path):
    ignored = {field.name for field in dataclasses.fields(DryRunArguments)}
    assert ignored & yaml.safe_load(path.read_text()).keys() == set()
    assert all(yaml.safe_load(plan.read_text()).keys() <= ignored for plan in PLANS)


@pytest.mark.parametrize("path", COMPLETE + OVERLAYS + LAUNCH_FILES, ids=name)
def test_header_says_what_it_is_and_how_to_launch_it(path):
    lines = path.read_text().splitlines()
    assert re.match(r"# \w", lines[0]), "the first line says what the file is"
    assert any(re.search(r"\b[Nn]eeds\b", line) for line in lines), "the header says what the file needs"
    commands = launch_lines(path)
    assert any(name(path) in command for command in commands), "a launch line names the file itself"
    for command in commands:
        files = [word for word in shlex.split(command) if word.endswith((".yaml", ".py"))]
        assert [file for file in files if not Path(file).is_file()] == []


@pytest.mark.parametrize("path", COMPLETE + OVERLAYS + LAUNCH_FILES, ids=name)
@pytest.mark.slow
def test_launch_line_is_a_run_that_can_work(path):
    """Each line is given to the dry run as it stands, with the launch file it names."""
    for command in launch_lines(path):
        output = io.StringIO()
        argv = arguments(shlex.split(command))
        status = dry_run(read_plan(argv), partial(TRAIN.parse, argv), Console(file=output, width=200))
        assert status == 0, f"{command}\n{output.getvalue()}"
        contradictions = re.findall(r"^warning (?!dataset|model_name_or_path|gpu_memory)(.*)", output.getvalue(), re.M)
        assert contradictions == [], command


@pytest.mark.parametrize("path", PAPER, ids=name)
def test_values_of_the_papers_run(path):
    parsed = parse("--config", name(path))
    args, data = parsed[CodaGRPOConfig], parsed[DataArguments]
    assert parsed["launch"].num_processes == 8
    # 2,048 completions, 128 prompts x 16, one optimizer step, whole groups on every process; 314 steps an epoch
    assert args.generation_batch_size == 2048 == args.per_device_train_batch_size * args.steps_per_generation * 8
    assert args.steps_per_generation == args.gradient_accumulation_steps
    assert (args.generation_batch_size // 8) % args.num_generations == 0
    assert args.num_generations == 16
    assert 40_315 // (args.generation_batch_size // args.num_generations) == 314
    assert (args.num_train_epochs, args.max_steps) == (1, -1)
    assert (data.max_prompt_length, args.max_completion_length) == (1024, 16_384)
    assert args.vllm_max_model_length == 17_408 == data.max_prompt_length + args.max_completion_length
    assert args.learning_rate == (3e-6 if path.parent.name == "qwen3-4b" else 1e-6)
    assert (args.lr_scheduler_type, args.weight_decay, args.max_grad_norm) == ("constant", 0.01, 1.0)
    assert (args.beta, args.use_bias_correction_kl, args.epsilon) == (0.001, False, 0.2)
    assert (args.scale_rewards, args.loss_type, args.temperature) == ("none", "dapo", 1.0)
    assert args.use_vllm and not args.vllm_importance_sampling_correction
    assert data.dataset == ["mixed"] and data.prompt_format == "chat"
    assert parsed[ModelConfig].dtype == "float32"  # a float32 copy of the weights exists, whatever the launch
    assert (
        parsed[ModelConfig].model_name_or_path == f"Qwen/Qwen3-{path.parent.name.removeprefix('qwen3-').upper()}-Base"
    )


METHODS = {
    "grpo": {"length_shaping": "none"},
    "coda": {"length_shaping": "coda", "length_stats": "group", "bonus_on_incorrect": False, "coda_alpha": 0.2}
    | {"coda_beta": 0.2, "coda_tau_easy": 0.75, "coda_tau_hard": 0.25},
    "vlp": {"length_shaping": "vlp", "vlp_gamma": 0.1},
    "asrr": {"length_shaping": "asrr", "asrr_tau": 0.75, "asrr_zeta": 0.5, "asrr_window": 2048},
    "l1": {"length_shaping": "l1_exact", "l1_eta": 3e-4},
}


@pytest.mark.parametrize("path", PAPER, ids=name)
def test_method_parameters_of_the_paper(path):
    parsed = parse("--config", name(path))
    method = METHODS[path.stem]
    assert {field: vars(parsed[CodaGRPOConfig])[field] for field in method} == method
    assert parsed[DataArguments].length_budget == ([128, 10_000] if path.stem == "l1" else None)


def test_recipes_of_a_model_differ_in_the_method_alone_and_those_of_a_method_in_the_model_alone():
    """The files are complete, so nothing but this keeps them from drifting apart."""
    method, others = (
        {field.name for field in dataclasses.fields(config)} for config in (CodaGRPOConfig, LengthGroupedGRPOConfig)
    )
    method = method - others | {"length_budget", "output_dir"}
    model = {"model_name_or_path", "learning_rate", "vllm_tensor_parallel_size", "vllm_gpu_memory_utilization"}
    values = {path: yaml.safe_load(path.read_text()) for path in COMPLETE}
    shared = {path: {key: of[key] for key in of if key not in method} for path, of in values.items()}
    for one, other in itertools.combinations(COMPLETE, 2):
        if one.parent == other.parent:
            assert shared[one] == shared[other], f"{name(one)} and {name(other)}"
        elif one.stem == other.stem and {one, other} <= {*PAPER}:
            found = [{key: value for key, value in shared[path].items() if key not in model} for path in (one, other)]
            assert found[0] == found[1], f"{name(one)} and {name(other)}"


@pytest.mark.parametrize("path", COMPLETE, ids=name)
def test_output_folders_are_the_files_own(path):
    values = yaml.safe_load(path.read_text())
    assert values["output_dir"] == f"runs/{path.parent.name}-{path.stem}"


@pytest.mark.parametrize("path", OVERLAYS, ids=name)
def test_overlay_changes_what_it_says_and_nothing_else(path):
    base = parse("--config", "recipes/qwen3-8b/coda.yaml")
    changed = parse("--config", "recipes/qwen3-8b/coda.yaml", "--overlay", name(path))
    before, after = ({} for _ in range(2))
    for kind in TRAIN.ARGUMENTS:
        before |= vars(base[kind])
        after |= vars(changed[kind])
    overlay = yaml.safe_load(path.read_text())
    derived = {"steps_per_generation", "distributed_state"}  # what TRL works out, and an object without equality
    differing = {key for key in after if after[key] != before[key]} - derived
    assert differing <= overlay.keys(), "something else changed"
    assert {key: after[key] for key in overlay} == overlay
    assert differing, "the overlay repeats the recipe"


@pytest.mark.parametrize("path", sorted((RECIPES / "slurm").glob("*.slurm")), ids=name)
def test_slurm_scripts_name_files_that_are_there(path):
    text = path.read_text()
    assert f"sbatch {name(path)} recipes/" in text or re.search(rf"sbatch --nodes=\d+ {name(path)} recipes/", text)
    for file in re.findall(r"recipes/[\w./-]+\.(?:yaml|py|slurm)", text):
        assert (ROOT / file).is_file(), file
    assert "--dry_run" in text and "set -euo pipefail" in text
    assert ("\nsrun " in text) <= ("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK" in text)
    done = subprocess.run(
        ["bash", path], env=os.environ | {"SLURM_CPUS_PER_TASK": "1"}, capture_output=True, text=True
    )
    assert "name a recipe, such as recipes/" in done.stderr
