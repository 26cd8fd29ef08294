"""A case's training: how it is described, started and waited for, and what must be true of it afterwards."""

import importlib.util
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from processes import Command, launch
from records import CheckError, check_learning, check_shaping, read_processes, read_rollouts

from coda_trl.ladder import CHECKPOINT

HERE = Path(__file__).parent
LAUNCH = HERE.parents[1] / "recipes" / "accelerate"
GROUP_SIZE, ROLLOUTS = 16, 80  # five groups a step: with two processes, the third is half on each
# Seen with vLLM on a CPU, in bfloat16, at the ladder's rate: up to 0.004 with weights that are sent before every step,
# 0.06 to 0.38 with those of the first step.
LOGP_BOUND = 0.05


@dataclass(frozen=True)
class Model:
    """
    What is trained.

    Args:
        path (`str`):
            Folder.
        longest (`int`):
            Longest completion in tokens.
        reward (`str`):
            Key of `worker.REWARDS`.
        learning_rate (`float`):
            One that moves the policy visibly within a few steps.
    """

    path: str = CHECKPOINT
    longest: int = 48
    reward: str = "ladder_reward"
    learning_rate: float = 3e-4


@dataclass(frozen=True)
class Case:
    """
    One thing that is proved.

    Args:
        title (`str`):
            What, for the table.
        run (`Callable[[Case, Place], dict]`):
            Does it. Returns facts, or raises.
        cards (`int`, *optional*, defaults to `1`):
            GPUs it needs.
        launch (`str`, *optional*, defaults to `"one_gpu.yaml"`):
            File of `recipes/accelerate`.
        processes (`int`, *optional*, defaults to `1`):
            Training processes.
        needs (`tuple[str, ...]`, *optional*):
            Packages without which the case is skipped.
        on_cpu (`bool`, *optional*, defaults to `True`):
            Whether it can be rehearsed without a GPU.
        lora (`bool`, *optional*, defaults to `False`):
            Whether adapters are trained.
        sharded (`bool`, *optional*, defaults to `False`):
            Whether every process must hold a part of the parameters only.
        steps (`int`, *optional*, defaults to `5`):
            Optimizer steps.
        config (`dict`, *optional*):
            Fields of [`CodaGRPOConfig`].
    """

    title: str
    run: Callable[["Case", "Place"], dict]
    cards: int = 1
    launch: str = "one_gpu.yaml"
    processes: int = 1
    needs: tuple[str, ...] = ()
    on_cpu: bool = True
    lora: bool = False
    sharded: bool = False
    steps: int = 5
    config: dict[str, Any] = field(default_factory=dict)

    def missing(self) -> list[str]:
        """Packages that it needs and that are not installed."""
        return [name for name in self.needs if importlib.util.find_spec(name) is None]


@dataclass(frozen=True)
class Place:
    """
    Where a case runs.

    Args:
        folder (`Path`):
            Folder for its files.
        cards (`tuple[int, ...]`):
            Its GPUs; none on a CPU.
        model (`Model`):
            What it trains.
        deadline (`float`):
            Time on the monotonic clock at which it must be done.
    """

    folder: Path
    cards: tuple[int, ...]
    model: Model
    deadline: float

    @property
    def on_cpu(self) -> bool:
        return not self.cards


def write_spec(case: Case, place: Place) -> Path:
    """Writes the specification of `worker.py` and returns its path."""
    micro_batch = 20
    vllm = {
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_max_model_length": 32 + place.model.longest,
        "learning_rate": 10 * place.model.learning_rate,  # so that weights that vLLM did not get would be noticed
    }
    config = {
        "per_device_train_batch_size": micro_batch,
        "gradient_accumulation_steps": ROLLOUTS // (micro_batch * case.processes),
        "num_generations": GROUP_SIZE,
        "max_completion_length": place.model.longest,
        "max_steps": case.steps,
        "learning_rate": place.model.learning_rate,
        "model_init_kwargs": {"dtype": "float32"},
        "bf16": not place.on_cpu,
        "use_cpu": place.on_cpu,
        "log_completions": True,
        "num_completions_to_print": 0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        **(vllm if case.config.get("use_vllm") else {}),
        **case.config,
    }
    place.folder.mkdir(parents=True, exist_ok=True)
    spec = {
        "folder": str(place.folder),
        "model": place.model.path,
        "reward": place.model.reward,
        "problems": ROLLOUTS // GROUP_SIZE * case.steps,
        "lora": case.lora,
        "config": config,
    }
    path = place.folder / "spec.json"
    path.write_text(json.dumps(spec, indent=1))
    return path


def start(case: Case, place: Place, cards: tuple[int, ...] | None = None) -> Command:
    """Starts the training of a case, by `accelerate launch` or, on a CPU, what that would set."""
    spec = write_spec(case, place)
    environment = {"VLLM_CACHE_ROOT": str(place.folder / "vllm")}
    if not place.on_cpu:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, place.cards if cards is None else cards))
    launch_file = None if place.on_cpu else LAUNCH / case.launch
    script = [str(HERE / "worker.py"), str(spec)]
    return launch(script, place.folder / "train.log", case.processes, launch_file, environment)


def wait(command: Command, place: Place, watch: Callable[[], str | None] = lambda: None) -> None:
    """Waits for a training that must succeed."""
    try:
        code = command.wait(place.deadline, watch)
        if code != 0:
            raise CheckError(f"exit code {code}: {last_error(command.log)}")
    finally:
        command.stop()


def last_error(log: Path) -> str:
    """The last line of a log that names an exception, or else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return (errors or lines or ["no output"])[-1][:300]


def collect(case: Case, place: Place) -> dict:
    """Facts of a training that has ended, checked."""
    shaping = check_shaping(place.folder, case.processes, GROUP_SIZE, case.steps)
    metrics = check_learning(place.folder, LOGP_BOUND if case.config.get("use_vllm") else None)
    rollouts = read_rollouts(place.folder, case.processes)
    tokens = [sum(seen["lengths"]) for seen in rollouts.values()]
    facts = read_processes(place.folder, case.processes, tokens)
    held = facts["parameters_held"]
    if case.sharded and not max(held) < 0.75 * facts["parameters"]:
        raise CheckError(f"not sharded: the processes hold {held} of {facts['parameters']} parameters")
    return {"steps": case.steps, "tokens": tokens, **facts, "shaping": shaping, "metrics": metrics}


def run_training(case: Case, place: Place) -> dict:
    """One training."""
    wait(start(case, place), place)
    return collect(case, place)
