"""Runs side by side, in processes of their own that share cores or cards, with a line each in a results file.

A queue can be stopped at any time and resumes when it is started again: a run that is evaluated is skipped, a training
resumes from its last checkpoint or is not repeated, an evaluation resumes from its last answer.
"""

import argparse
import os
import platform
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from coda_trl import __version__

ROOT = Path(__file__).resolve().parents[1]
# A training of a rehearsal: what the recipes ask for that a CPU does not have, and sizes that take seconds.
TINY_TRAINING = {"use_vllm": "false", "bf16": "false", "use_cpu": "true", "num_generations": 4}
TINY_TRAINING |= {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 2, "max_completion_length": 24}
GRACE = 20  # seconds that a process has to end after it was asked to


class Stopped(Exception):
    """Somebody pressed Ctrl-C, or ended this process."""


class Failed(Exception):
    """A process ended with an error; holds the end of its log."""


def parser_of(description: str, results: Path, work: Path, committed: Path) -> argparse.ArgumentParser:
    """Arguments that the experiments share; `committed` are the results that a rehearsal must not write to."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=results, help="File for the runs (default: %(default)s).")
    parser.add_argument("--work", type=Path, default=work, help="Scratch (default: %(default)s).")
    parser.add_argument("--tiny", action="store_true", help="A rehearsal on the CPU. Numbers mean nothing.")
    parser.add_argument(
        "--override", nargs="+", type=_override, default=[], metavar="NAME=VALUE", help="Over every recipe."
    )
    parser.set_defaults(published=(results, committed))
    return parser


def _override(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise argparse.ArgumentTypeError(f"{text!r} is not like learning_rate=1e-5")
    return name, value


def parse(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    args = parser.parse_args(argv)
    args.results, args.work, args.override = args.results.resolve(), args.work.resolve(), dict(args.override)
    if args.tiny and args.results in args.published:
        parser.error("--tiny is a rehearsal: give it other --results, so that its numbers are not taken for results.")
    return args


def with_flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as a command line; lists as several values."""
    flags = []
    for name, value in settings.items():
        flags += [f"--{name}", *map(str, value if isinstance(value, list) else [value])]
    return flags


def versions(**more: str) -> dict[str, str]:
    """Of the packages that matter, as far as they are installed."""
    packages = ("torch", "transformers", "trl", "accelerate", "vllm")
    found = {name: version(name) for name in packages if find_spec(name)}
    return {"coda_trl": __version__, **more, "python": platform.python_version()} | found


class Runner:
    """
    Calls commands until they end or somebody stops this process. So many `jobs` at a time share the `cards`;
    `environment` are variables of the commands, over this process's own.
    """

    def __init__(self, jobs: int, cards: int = 1, **environment: str):
        self.jobs, self.cards = jobs, cards
        self.environment = os.environ | {"TOKENIZERS_PARALLELISM": "false"} | environment
        self.stop = threading.Event()

    def call(
        self,
        command: list,
        folder: Path,
        card: int | None = None,
        cwd: Path = ROOT,
        tick: Callable[[], None] = lambda: None,
        every: float = 0.5,
    ) -> float:
        """
        Runs a Python command to its end, on one card (`None`: all), its output appended to `log.txt` of a folder.
        Calls `tick` after every so many seconds. Returns its seconds.
        """
        if self.stop.is_set():
            raise Stopped
        start = ticked = time.monotonic()
        log = folder / "log.txt"
        with socket.socket() as listener, log.open("a") as output:
            listener.bind(("127.0.0.1", 0))
            # TRL picks its port from a short list, so that runs beside each other would take the same.
            own = {"MASTER_PORT": str(listener.getsockname()[1])}
            if card is not None and self.cards > 1:
                own["CUDA_VISIBLE_DEVICES"] = str(card)
            # In a session of its own: Ctrl-C reaches this script alone, which then ends its processes in its own way.
            process = subprocess.Popen(
                [sys.executable, *map(str, command)],
                cwd=cwd,
                stdout=output,
                stderr=output,
                env=self.environment | own,
                start_new_session=True,
            )
        while process.poll() is None:
            if self.stop.wait(0.2):
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)  # with its own processes
                    process.wait()
                raise Stopped
            if time.monotonic() - ticked >= every:
                tick()
                ticked = time.monotonic()
        if process.returncode:
            tail = log.read_text(errors="replace")[-3000:]
            raise Failed(f"exit code {process.returncode}: {' '.join(map(str, command))}\n{tail}")
        return time.monotonic() - start

    def work_off(self, todo: Mapping[str, Callable[[], None]]) -> bool:
        """Does what is to be done, by name, side by side and in this order. Whether nothing failed."""
        # Before the first process starts: it would inherit that interrupts are ignored, as in a shell's background.
        for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if sent != signal.SIGHUP or signal.getsignal(sent) is not signal.SIG_IGN:  # `nohup`
                signal.signal(sent, lambda *_: self.stop.set())
        print(f"{len(todo)} runs to do, {self.jobs} at a time.", flush=True)
        done = failed = 0
        with ThreadPoolExecutor(self.jobs) as pool:
            futures = {pool.submit(run): name for name, run in todo.items()}
            for future in as_completed(futures):
                error = future.exception()
                if error is None:
                    done += 1
                    print(f"done: {futures[future]} ({done} of {len(todo)})", flush=True)
                elif not isinstance(error, Stopped):
                    failed += 1
                    print(f"failed: {futures[future]}\n{type(error).__name__}: {error}", flush=True)
        print(f"{done} of {len(todo)} done, {failed} failed. The same command does the rest.", flush=True)
        return not failed
