"""Runs side by side, in processes of their own that share cores or cards, with a line each in a results file.

A queue can be stopped at any time and resumes when it is started again: a run that is evaluated is skipped, a training
resumes from its last checkpoint or is not repeated, an evaluation resumes from its last answer.
"""

import argparse
import fnmatch
import hashlib
import json
import os
import platform
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import yaml

from coda_trl import __version__
from coda_trl.analysis.dynamics import find_trainer_state, read_log_history
from coda_trl.evaluation import read_samples

from .matrix import RUNS, Run
from .runs import Row, read_results, record, thin_log

ROOT = Path(__file__).resolve().parents[1]
# glibc would hand freed tensors back to the system; on models this small, asking for them again takes longer than
# computing with them.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}
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


def add_runs(parser: argparse.ArgumentParser, seeds: int, jobs: int) -> None:
    """Adds what testbeds ask besides."""
    parser.add_argument("--seeds", type=int, default=seeds, help="Seeds of a method (default: %(default)s).")
    parser.add_argument("--first_seed", type=int, default=0, help="For a repetition with other seeds (default: 0).")
    parser.add_argument("--jobs", type=int, default=jobs, help="Runs at a time (default: %(default)s).")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="Only these runs (* fits all).")
    parser.add_argument("--keep", action="store_true", help="Keep models and logs of finished runs.")


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


@dataclass(eq=False)
class Testbed(Runner):
    """Trains, evaluates and records runs of the matrix, by the command line of [`parser_of`] and [`add_runs`]."""

    args: argparse.Namespace
    recipes: str  # folder
    model: str  # folder of the model that trainings start from
    training: Row  # settings of `recipes/train.py`, over those of recipe and matrix
    evaluation: Row  # settings of `recipes/evaluate.py`
    summarise: Callable[[list[Row]], Row]  # the samples of an evaluation
    log_every: int  # steps that a line of the kept log covers
    about: Row  # what else a line of the results says
    use_cpu: bool
    attempts: int = 1  # of every command
    gap: float = 0.0  # seconds between two starts

    def __post_init__(self):
        no_card = {"CUDA_VISIBLE_DEVICES": ""} if self.use_cpu else {}
        super().__init__(self.args.jobs, **KEEP_MEMORY, OMP_NUM_THREADS="1", **no_card)
        self.turn, self.next_start = threading.Lock(), time.monotonic()

    def train_arguments(self, run: Run, seed: int, output_dir: Path) -> list[str]:
        """Arguments of `recipes/train.py` for one training."""
        overlays = [f"recipes/ablations/{overlay}.yaml" for overlay in run.overlays]
        files = {"config": f"{self.recipes}/{run.recipe}.yaml"} | ({"overlay": overlays} if overlays else {})
        own = {"output_dir": output_dir, "seed": seed, "use_cpu": str(self.use_cpu).lower(), "save_total_limit": 1}
        return with_flags(files | run.overrides | own | self.training | self.args.override)

    def todo(self, wanted: list[tuple[str, int]]) -> list[tuple[str, int]]:
        """Runs and seeds that are asked for and not evaluated yet."""
        done = {(row["method"], row["seed"]) for row in read_results(self.args.results) if row["evaluations"]}
        asked = [job for job in wanted if any(fnmatch.fnmatch(job[0], pattern) for pattern in self.args.only)]
        return [job for job in asked if job not in done]

    def do(self, wanted: list[tuple[str, int]]) -> int:
        """Does the runs that are left. Returns the exit code."""
        todo = {f"{run}, seed {seed}": partial(self.run, run, seed) for run, seed in self.todo(wanted)}
        return 0 if self.work_off(todo) else 1

    def run(self, name: str, seed: int) -> None:
        """Trains and evaluates one run, as far as that is not done yet."""
        run, work, model = RUNS[name], self.args.work / f"{name}-seed{seed}", self.model
        work.mkdir(parents=True, exist_ok=True)
        checkpoint = hashlib.sha256((Path(model) / "model.safetensors").read_bytes()).hexdigest()[:12]
        row: Row = {"method": name, "seed": seed, "recipe": run.recipe, "overlays": run.overlays}
        row |= {"overrides": run.overrides | self.args.override, **self.about, "shared": {"checkpoint": checkpoint}}
        row |= {
            "train_seconds": 0.0,
            "device": "cpu" if self.use_cpu else torch.cuda.get_device_name(),
            "versions": versions(),
            "evaluations": [],
            "log": {},
        }
        if run.recipe is not None:
            model = str(work / "model")
            row["train_seconds"] = self._train(self.train_arguments(run, seed, work / "model"), work)
            history = read_log_history(find_trainer_state(model))
            settings = yaml.safe_load((ROOT / self.recipes / f"{run.recipe}.yaml").read_text()) | self.args.override
            row["shared"] |= {
                "steps": max(entry["step"] for entry in history),
                "learning_rate": float(settings["learning_rate"]),
                **{setting: settings[setting] for setting in ("lr_scheduler_type", "max_completion_length")},
            }
            row["log"] = thin_log(history, self.log_every)
            record(self.args.results, row)
        row["evaluations"] = [self._evaluate(model, seed, work, budget) for budget in run.budgets]
        record(self.args.results, row)
        if not self.args.keep:
            shutil.rmtree(work)

    def _train(self, arguments: list[str], work: Path) -> float:
        """Trains to the end. Returns the seconds of all sessions together."""
        sessions = work / "train_seconds.txt"
        if not (work / "model/trainer_state.json").exists():
            start = time.monotonic()
            try:
                self._try([ROOT / "recipes/train.py", *arguments], work)
            finally:
                with sessions.open("a") as file:
                    file.write(f"{time.monotonic() - start:.1f}\n")
        return round(sum(map(float, sessions.read_text().split())), 1)

    def _evaluate(self, model: str, seed: int, work: Path, budget: int | None) -> Row:
        """Samples answers with one token budget (or none) and sums them up."""
        folder = work / ("eval" if budget is None else f"eval-{budget}")
        settings = {"model_name_or_path": model, "output_dir": folder, "seed": seed, **self.evaluation}
        if budget is not None:
            settings["token_budget"] = budget
        self._try([ROOT / "recipes/evaluate.py", *with_flags(settings)], work)
        seconds = json.loads((folder / "summary.json").read_text())["wall_seconds"]
        samples = list(read_samples(folder / "samples.jsonl"))
        return {"budget": budget, "seconds": round(seconds, 1), **self.summarise(samples)}

    def _try(self, command: list, work: Path) -> None:
        """Calls a command, again if it fails."""
        for attempt in range(1, self.attempts + 1):
            with self.turn:
                self.stop.wait(max(0.0, self.next_start - time.monotonic()))
                self.next_start = time.monotonic() + self.gap
            try:
                self.call(command, work)
                return
            except Failed as error:
                if attempt == self.attempts:
                    raise
                print(f"again: {str(error)[-500:]}", flush=True)
