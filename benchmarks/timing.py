"""What the benchmarks share: times of sides in turns, and results that name the machine."""

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import packages_distributions, version
from pathlib import Path

import torch
from transformers import TrainerCallback

MODULES = ("coda_trl", "trl", "torch", "transformers", "accelerate", "peft", "deepspeed", "vllm", "math_verify")


def parser_of(description: str) -> argparse.ArgumentParser:
    """A command line with a folder for the results."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), help="Folder for the results.")
    return parser


def hardware() -> str:
    """The card, or CPU."""
    return torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"


def machine() -> dict:
    """Card, processor, and versions of what is installed."""
    packages = packages_distributions()  # vLLM's build for CPUs has another name
    versions = {module: version(packages[module][0]) for module in MODULES if module in packages}
    about = {"hardware": hardware(), "processor": platform.processor() or platform.machine()}
    return about | {"cuda": torch.version.cuda, "python": platform.python_version()} | versions


def in_turns(
    sides: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float] = time.perf_counter, **calls: int
) -> dict[str, list[float]]:
    """Seconds of every side, in rounds of one call (or `calls` by name), so that other work hits all of them alike."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, side in sides.items():
            for _ in range(calls.get(name, 1)):
                start = clock()
                side()
                seconds[name].append(clock() - start)
    return seconds


def write(folder: Path, name: str, content: dict) -> Path:
    """Writes results as `NAME.json` and returns the file."""
    path = folder / f"{name.lower().replace(' ', '-')}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    return path


def trainer_options() -> dict:
    """Options of a trainer that only steps, on the card or the CPU."""
    cuda = torch.cuda.is_available()
    silent = {"logging_strategy": "no", "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
    return silent | {"bf16": cuda, "use_cpu": not cuda}


def wait_for_card() -> None:
    """Waits until what was asked of the card is done."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()


class Turns(TrainerCallback):
    """
    Measures optimizer steps of two sides in turns: `"trl"` without and `"grouped"` with length grouping.

    Args:
        plan (`list[dict]`):
            Steps to come, each with its `side`; the sides of a round, alike in all else, are next to each other.
        deadline (`float`):
            No round is begun that would not be done by then, on the clock of `time.perf_counter`.
        report (`Callable[[dict], None]`):
            Takes a step: its entry of the plan, `seconds`, and what [`measured`] says.
    """

    def __init__(self, plan: list[dict], deadline: float, report: Callable[[dict], None]):
        self.plan, self.deadline, self.report = plan, deadline, report
        self.slowest = 0.0

    def start(self) -> None:
        """Starts the clock, at the latest when the step begins."""
        wait_for_card()
        if torch.cuda.is_available():
            torch.cuda.reset_peak_memory_stats()
        self.started = time.perf_counter()

    def measured(self, step: dict, state) -> dict:
        """The step with what else there is to say about it."""
        return step

    def on_step_begin(self, args, state, control, **kwargs):
        args.length_grouping = self.plan[0]["side"] == "grouped"
        self.start()

    def on_step_end(self, args, state, control, **kwargs):
        wait_for_card()
        step = self.measured({"seconds": time.perf_counter() - self.started}, state)
        self.slowest = max(self.slowest, step["seconds"])
        entry = self.plan.pop(0)
        self.report(entry | step)
        is_between = not self.plan or self.plan[0] | {"side": ""} != entry | {"side": ""}
        if not self.plan or (is_between and time.perf_counter() + 2 * self.slowest > self.deadline):
            self.plan.clear()
            control.should_training_stop = True
