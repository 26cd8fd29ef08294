"""Runs of a testbed, side by side: trains them with `recipes/train.py`, evaluates them, puts a line each into a file.

It can be stopped at any time, and resumes when it is started again: a run that is evaluated is skipped, a training
resumes from its last checkpoint, an evaluation from its last answer.
"""

import argparse
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
from concurrent.futures import ThreadPoolExecutor, as_completed
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from coda_trl import __version__
from coda_trl.analysis.dynamics import find_trainer_state, read_log_history
from coda_trl.evaluation import read_samples

from .matrix import RUNS, Run
from .runs import Row, read_results, record, thin_log, write_atomically

ROOT = Path(__file__).resolve().parents[1]
# glibc would hand freed tensors back to the system; on models this small, asking for them again takes longer than
# computing with them.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}
GRACE = 20  # seconds that a process has to end after it was asked to
PACKAGES = ("torch", "transformers", "trl", "accelerate")


class Stopped(Exception):
    """Somebody pressed Ctrl-C, or ended this process."""


def parser_of(description: str, work: str, results: Path) -> argparse.ArgumentParser:
    """Arguments that the testbeds share."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--first_seed", type=int, default=0, help="For a repetition with other seeds (default: 0).")
    # Beside the committed runs, which would be skipped as done.
    parser.add_argument(
        "--results", type=Path, default=ROOT / work / "results.jsonl", help="File for the runs (default: %(default)s)."
    )
    parser.add_argument("--work", type=Path, default=ROOT / work / "work", help="Scratch (default: %(default)s).")
    parser.add_argument("--keep", action="store_true", help="Keep models and logs of finished runs.")
    parser.add_argument("--tiny", action="store_true", help="A rehearsal on the CPU. Numbers mean nothing.")
    parser.set_defaults(published=(results, ROOT / work / "results.jsonl"))
    return parser


def parse(parser: argparse.ArgumentParser, argv: list[str] | None) -> argparse.Namespace:
    """Reads the command line."""
    args = parser.parse_args(argv)
    args.results, args.work = args.results.resolve(), args.work.resolve()
    if args.tiny and args.results in args.published:
        parser.error("--tiny is a rehearsal: give it other --results, so that its numbers are not taken for results.")
    return args


def with_flags(settings: dict[str, Any]) -> list[str]:
    """Settings as a command line."""
    return [text for name, value in settings.items() for text in (f"--{name}", str(value))]


def train_arguments(run: Run, seed: int, output_dir: Path, use_cpu: bool, recipes: str) -> list[str]:
    """Arguments of `recipes/train.py` for one training, with the recipe from the folder `recipes`."""
    arguments = ["--config", f"{recipes}/{run.recipe}.yaml"]
    if run.overlays:
        arguments += ["--overlay", *(f"recipes/ablations/{overlay}.yaml" for overlay in run.overlays)]
    own = {"output_dir": output_dir, "seed": seed, "use_cpu": str(use_cpu).lower(), "save_total_limit": 1}
    return arguments + with_flags(run.overrides | own)


class Runner:
    """
    Trains, evaluates and records runs, in processes of their own, by the command line of [`parser_of`] with `jobs` and
    `use_cpu`. A testbed says how.
    """

    recipes: str  # folder
    log_every: int  # steps that a line of the kept log covers
    attempts = 1
    stagger = 0.0  # seconds between two starts

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.stop = threading.Event()
        self.turn, self.next_start = threading.Lock(), time.monotonic()
        self.environment = os.environ | KEEP_MEMORY | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        if args.use_cpu:
            self.environment["CUDA_VISIBLE_DEVICES"] = ""

    def training(self, run: Run, seed: int, output_dir: Path) -> list[str]:
        """Arguments of `recipes/train.py`."""
        raise NotImplementedError

    def evaluation(self) -> dict[str, Any]:
        """Settings of `recipes/evaluate.py`."""
        raise NotImplementedError

    def start_model(self) -> str:
        """Folder of the model that trainings start from."""
        raise NotImplementedError

    def summarise(self, samples: list[Row]) -> Row:
        """Sums an evaluation up, see [`~experiments.runs.summarise_samples`]."""
        raise NotImplementedError

    def about(self) -> Row:
        """What else a line says, and settings over the recipe's."""
        return {}

    def run(self, name: str, seed: int) -> None:
        """Trains and evaluates one run, as far as that is not done yet."""
        run, work = RUNS[name], self.args.work / f"{name}-seed{seed}"
        work.mkdir(parents=True, exist_ok=True)
        seconds = 0.0 if run.recipe is None else self._train(run, seed, work)
        checkpoint = (Path(self.start_model()) / "model.safetensors").read_bytes()
        shared: Row = {"checkpoint": hashlib.sha256(checkpoint).hexdigest()[:12]}
        log: Row = {}
        if run.recipe is not None:
            history = read_log_history(find_trainer_state(work / "model"))
            recipe = yaml.safe_load((ROOT / self.recipes / f"{run.recipe}.yaml").read_text())
            settings = recipe | self.about().get("overrides", {})
            shared |= {
                "steps": max(entry["step"] for entry in history),
                "learning_rate": float(settings["learning_rate"]),
                **{name: settings[name] for name in ("lr_scheduler_type", "max_completion_length")},
            }
            log = thin_log(history, self.log_every)
        row: Row = {
            "method": name,
            "seed": seed,
            "recipe": run.recipe,
            "overlays": run.overlays,
            "overrides": run.overrides,
            **self.about(),
            "shared": shared,
            "train_seconds": seconds,
            "device": "cpu" if self.args.use_cpu else torch.cuda.get_device_name(),
            "versions": {"coda_trl": __version__, "python": platform.python_version()}
            | {package: version(package) for package in PACKAGES},
            "evaluations": [],
            "log": log,
        }
        if run.recipe is not None:
            record(self.args.results, row)
        model = self.start_model() if run.recipe is None else str(work / "model")
        row["evaluations"] = [self._evaluate(model, seed, work, budget) for budget in run.budgets]
        record(self.args.results, row)
        if not self.args.keep:
            shutil.rmtree(work)

    def _train(self, run: Run, seed: int, work: Path) -> float:
        """Trains to the end. Returns the seconds of all sessions together."""
        path = work / "train.json"
        before = json.loads(path.read_text()) if path.exists() else {"seconds": 0.0, "finished": False}
        if before["finished"]:
            return before["seconds"]
        start, finished = time.monotonic(), False
        try:
            self._call([ROOT / "recipes/train.py", *self.training(run, seed, work / "model")], work / "log.txt")
            finished = True
        finally:
            seconds = round(before["seconds"] + time.monotonic() - start, 1)
            write_atomically(path, json.dumps({"seconds": seconds, "finished": finished}))
        return seconds

    def _evaluate(self, model: str, seed: int, work: Path, budget: int | None) -> Row:
        """Samples answers with one token budget (or none) and sums them up."""
        folder = work / ("eval" if budget is None else f"eval-{budget}")
        settings = {"model_name_or_path": model, "output_dir": folder, "seed": seed, **self.evaluation()}
        if budget is not None:
            settings["token_budget"] = budget
        self._call([ROOT / "recipes/evaluate.py", *with_flags(settings)], work / "log.txt")
        seconds = json.loads((folder / "summary.json").read_text())["wall_seconds"]
        samples = list(read_samples(folder / "samples.jsonl"))
        return {"budget": budget, "seconds": round(seconds, 1), **self.summarise(samples)}

    def _call(self, command: list, log: Path) -> None:
        """Runs a command to its end, again if it fails."""
        for attempt in range(1, self.attempts + 1):
            with self.turn:
                if self.stop.wait(max(0.0, self.next_start - time.monotonic())):
                    raise Stopped
                self.next_start = time.monotonic() + self.stagger
            try:
                return self._call_once(command, log)
            except RuntimeError as error:
                if attempt == self.attempts:
                    raise
                print(f"again: {str(error)[-500:]}", file=sys.stderr)

    def _call_once(self, command: list, log: Path) -> None:
        with socket.socket() as listener, open(log, "a") as file:
            listener.bind(("127.0.0.1", 0))
            # TRL picks its port from a short list, so that runs beside each other would take the same.
            environment = self.environment | {"MASTER_PORT": str(listener.getsockname()[1])}
            # In a session of its own: Ctrl-C reaches this script alone, which then ends its processes in its own way.
            process = subprocess.Popen(
                [sys.executable, *map(str, command)],
                cwd=ROOT,
                stdout=file,
                stderr=file,
                env=environment,
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
        if process.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{log.read_text()[-3000:]}")


def work_off(runner: Runner, wanted: list[tuple[str, int]], console: Console) -> bool:
    """Runs what is not done yet side by side, with a progress bar. Whether none failed."""
    todo = not_done(runner.args.results, wanted)
    done, failed = 0, 0
    # Before the first process is started: it would inherit that interrupts are ignored, as in a shell's background.
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if sent != signal.SIGHUP or signal.getsignal(sent) is not signal.SIG_IGN:  # `nohup`
            signal.signal(sent, lambda *_: runner.stop.set())
    console.print(f"{len(todo)} runs to do, {runner.args.jobs} at a time.")
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ThreadPoolExecutor(runner.args.jobs) as pool, Progress(*columns, console=console) as progress:
        bar = progress.add_task("Runs", total=len(todo))
        futures = {pool.submit(runner.run, *job): job for job in todo}
        for future in as_completed(futures):
            name, seed = futures[future]
            error = future.exception()
            if error is None:
                done += 1
                progress.update(bar, advance=1)
                progress.console.print(f"done: {name}, seed {seed}")
            elif not isinstance(error, Stopped):
                failed += 1
                progress.console.print(f"failed: {name}, seed {seed}\n{error}", markup=False)
    console.print(f"{done} of {len(todo)} done, {failed} failed. The same command does the rest.")
    return not failed


def not_done(results: Path, wanted: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Runs that are not evaluated yet."""
    done = {(row["method"], row["seed"]) for row in read_results(results) if row["evaluations"]}
    return [job for job in wanted if job not in done]
