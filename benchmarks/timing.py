"""What the benchmarks share: times in turns, and results that name the machine."""

import argparse
import json
import platform
import time
from collections.abc import Callable
from importlib.metadata import packages_distributions, version
from pathlib import Path

import torch

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
