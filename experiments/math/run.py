"""Trains and evaluates runs side by side on one card or several, and puts a line a run into a results file.

python -m experiments.math.run --model Qwen/Qwen2.5-Coder-1.5B-Instruct --runs grpo-0 coda-0 start-0

Where the results file has no scan of the start, that comes first; the training set follows from it. The queue can be
stopped and started again: it skips what the results file holds, does not repeat a training that ended, and resumes an
evaluation. `METHOD-SEED` names a recipe of `recipes/qwen2.5-coder-1.5b/`, a run of `collapse.py`, which is only
trained, or the start. The design is in README.md.
"""

import argparse
import os
import platform
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
import yaml

from coda_trl import __version__
from coda_trl.data.reading import read_file
from coda_trl.evaluation import read_samples
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.evaluation.models import ModelFiles, fingerprint

from ..runs import Row, read_results, record
from .collapse import COLLAPSE
from .collapse import STEPS as COLLAPSE_STEPS
from .data import Stratum, benchmark_specs, make_training_set, read_scan
from .results import key_of, read_steps, summarise_samples, summarise_steps

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
RECIPES = ROOT / "recipes/qwen2.5-coder-1.5b"

# The number of steps: as many fives as fit into this time for two runs, from 60 to 90, by steps 4 to 13 of the first
# runs. The first three are left out: they meet new shapes, and the second run starts beside the first.
TRAINING_SECONDS, FEWEST, MOST = 840, 60, 90
WARM, TIMED = 3, 10

SAMPLES, SORTING = 4, 8  # of a problem; the start has both, and is sorted by other samples than those measured
MAX_TOKENS = 1024
EVALUATION = {"n": SAMPLES, "temperature": 0.6, "top_p": 0.95, "max_tokens": MAX_TOKENS, "dtype": "bfloat16"}
SCAN = {"n": 8, "temperature": 1.0, "top_p": 1.0, "max_tokens": MAX_TOKENS, "dtype": "bfloat16"}
# A fixed size: vLLM would measure what is free, and give up if another process grows meanwhile.
CARD = {"gpu_memory_utilization": 0.2, "kv_cache_memory_bytes": 14 * 2**30}  # of a replica
# A rehearsal on the CPU, over everything else.
TINY_TRAINING = {
    "use_vllm": "false",
    "bf16": "false",
    "use_cpu": "true",
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "num_generations": 4,
    "max_completion_length": 16,
}
TINY_EVALUATION = {"engine": "transformers", "max_tokens": 8, "n": 3, "dtype": "float32"}
TINY_LIMIT = 5  # problems of a benchmark


def steps_that_fit(step_seconds: Sequence[Sequence[float]]) -> int | None:
    """
    How many steps every run makes, by those of the first runs; `None` until all have been timed.

    Args:
        step_seconds (`Sequence[Sequence[float]]`):
            Seconds of the steps so far, of two runs side by side, or of one that another will follow.
    """
    if any(len(seconds) < WARM + TIMED for seconds in step_seconds):
        return None
    slowest = max(sum(seconds[WARM : WARM + TIMED]) / TIMED for seconds in step_seconds)
    seconds = TRAINING_SECONDS * min(1, len(step_seconds) / 2)
    return min(MOST, max(FEWEST, 5 * int(seconds / slowest / 5)))


class Failed(Exception):
    """A process that ended with an error; holds the end of its log."""


class Queue:
    """
    Works runs off, one after the other or side by side.

    Args:
        args (`argparse.Namespace`):
            Command line, see [`parse`].
    """

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.data, self.last_step = args.work / "data", args.work / "last_step.txt"
        # vLLM measures what is free on the card while it starts: one training at a time, until it has made a step.
        self.turns = [threading.Lock() for _ in range(args.cards)]
        self.recording = threading.Lock()
        self.places: SimpleQueue[int] = SimpleQueue()  # cards, each as often as runs share it
        for place in range(args.jobs):
            self.places.put(place % args.cards)
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        self.environment = os.environ | {"TOKENIZERS_PARALLELISM": "false", "PYTHONPATH": os.pathsep.join(paths)}
        if args.steps is not None:
            args.work.mkdir(parents=True, exist_ok=True)
            self.last_step.write_text(str(args.steps))

    def call(
        self,
        command: list,
        folder: Path,
        card: int | None,
        tick: Callable[[], None] = lambda: None,
        every: float = 0.5,
    ) -> float:
        """Runs a command on one card (`None`: all) in a folder to its end, calling `tick`. Returns its seconds."""
        start = time.time()
        own = {"MASTER_PORT": str(_free_port())}  # TRL would take the same as a run that starts beside
        if card is not None and self.args.cards > 1:
            own["CUDA_VISIBLE_DEVICES"] = str(card)
        with open(folder / "log.txt", "a") as log:
            process = subprocess.Popen(
                [sys.executable, *map(str, command)], cwd=folder, env=self.environment | own, stdout=log, stderr=log
            )
        while True:
            try:
                process.wait(every)
                break
            except subprocess.TimeoutExpired:
                tick()
        if process.returncode:
            tail = (folder / "log.txt").read_text(errors="replace")[-3000:]
            raise Failed(f"exit code {process.returncode}: {' '.join(map(str, command))}\n{tail}")
        return time.time() - start

    def scan(self) -> None:
        """Samples training problems with the start, and makes the training set."""
        folder = self.args.work / "scan"
        folder.mkdir(parents=True, exist_ok=True)
        seconds = self.evaluate(self.args.model, folder, None, [f"custom={self.data / 'scan.jsonl'}"], SCAN, seed=0)
        samples = read_samples(folder / "eval/samples.jsonl")
        strata = read_scan(read_file(self.data / "scan.jsonl"), samples, read_file(self.data / "pool.jsonl"))
        found = make_training_set(self.data, strata)
        self.write({"method": "scan", "seed": 0, **self.about({}), "scan_seconds": round(seconds, 1), **found})

    def evaluate(
        self,
        model: str,
        folder: Path,
        card: int | None,
        benchmarks: list[str],
        settings: dict[str, Any],
        seed: int,
        **tick: Any,
    ) -> float:
        """Samples answers with `recipes/evaluate.py`, on one card or on all."""
        settings = settings | (TINY_EVALUATION if self.args.tiny else CARD)
        if not self.args.tiny:
            settings["data_parallel_size"] = self.args.replicas * (self.args.cards if card is None else 1)
        if Path(model).is_dir():  # by the same relative path for all, so that vLLM finds its compiled code again
            if not (folder / "model").exists():
                (folder / "model").symlink_to(model)
            model = "model"
        command = [ROOT / "recipes/evaluate.py", "--model_name_or_path", model, "--output_dir", "eval", "--seed", seed]
        command += ["--benchmarks", *benchmarks]
        for name, value in settings.items():
            command += [f"--{name}", value]
        try:
            return self.call(command, folder, card, **tick)
        except Failed as error:  # it resumes
            print(f"again: {error}", flush=True)
            return self.call(command, folder, card, **tick)

    def train(self, method: str, seed: int, folder: Path, card: int) -> None:
        """Trains one run, unless its model is there."""
        steps_file = folder / "steps.jsonl"
        command = ["-m", "experiments.math.training", "--steps_file", steps_file, "--last_step", self.last_step]
        recipe, own = COLLAPSE.get(method, (method, {}))
        command += ["--config", RECIPES / f"{recipe}.yaml", "--dataset", f"custom={self.data / 'train.jsonl'}"]
        command += ["--model_name_or_path", self.args.model, "--output_dir", folder / "model", "--seed", seed]
        command += ["--max_steps", COLLAPSE_STEPS if own else MOST, "--save_strategy", "no"]
        if self.args.vllm_share is not None:
            command += ["--vllm_gpu_memory_utilization", self.args.vllm_share]
        if self.args.jobs > self.args.cards:  # leaves 4% to what PyTorch does not count
            command += ["--memory_share", 0.96 * self.args.cards / self.args.jobs]
        for name, value in (own | (TINY_TRAINING if self.args.tiny else {}) | self.args.override).items():
            command += [f"--{name}", *(value if isinstance(value, list) else [value])]
        mine, turn = threading.Event(), self.turns[card]
        turn.acquire()

        def tick() -> None:
            if not mine.is_set() and read_steps(steps_file):
                mine.set()
                turn.release()
            self.decide_steps()

        try:
            self.launch(command, folder, card, tick)
        except Failed as error:
            if mine.is_set():
                raise
            print(f"again: {error}", flush=True)  # while it started, most likely for want of memory
            self.launch(command, folder, card, tick)
        finally:
            if not mine.is_set():
                turn.release()

    def launch(self, command: list, folder: Path, card: int, tick: Callable[[], None]) -> None:
        """Calls a training from its beginning, with the time of its start on record."""
        (folder / "steps.jsonl").unlink(missing_ok=True)
        (folder / "launched.txt").write_text(str(time.time()))
        self.call(command, folder, card, tick)

    def decide_steps(self) -> None:
        """Fixes the number of steps, once the first trainings have been timed beside each other."""
        if not self.last_step.exists():
            first = [name for name in self.args.runs if not name.startswith("start-")][: self.args.jobs]
            seconds = [
                [step["seconds"] for step in read_steps(self.args.work / name / "steps.jsonl")] for name in first
            ]
            steps = steps_that_fit(seconds)
            if steps is not None:
                self.last_step.write_text(str(steps))
                print(f"steps: {steps}", flush=True)

    def about(self, settings: dict[str, Any]) -> Row:
        """What a run was made with."""
        packages = ("torch", "transformers", "trl", "accelerate", "vllm")
        return {
            "settings": settings,
            "versions": {"coda_trl": __version__, "commit": self.args.commit, "python": platform.python_version()}
            | {name: version(name) for name in packages if find_spec(name)},
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "runs_a_card": self.args.jobs / self.args.cards,
            "start": fingerprint(ModelFiles(self.args.model)),
        }

    def write(self, row: Row) -> None:
        """Puts a run into the results."""
        with self.recording:
            record(self.args.results, row | ({"variant": self.args.variant} if self.args.variant else {}))

    def run(self, name: str, alone: bool) -> None:
        """Trains and evaluates one run, as far as that is not done yet; the start takes all cards if it is alone."""
        if alone and name.startswith("start-"):
            return self.run_on(None, name)
        card = self.places.get()
        try:
            self.run_on(card, name)
        finally:
            self.places.put(card)

    def run_on(self, card: int | None, name: str) -> None:
        """The same on one card, or on all."""
        method, seed = name.rsplit("-", 1)
        folder = self.args.work / name
        folder.mkdir(parents=True, exist_ok=True)
        row = {"method": method, "seed": int(seed), "complete": False}
        if method == "start":
            row |= self.about({})
            model, settings = self.args.model, EVALUATION | {"n": SORTING + SAMPLES}
        else:
            if not (folder / "model/trainer_state.json").exists():
                self.train(method, int(seed), folder, card)
            recipe, own = COLLAPSE.get(method, (method, {}))
            recipe = yaml.safe_load((RECIPES / f"{recipe}.yaml").read_text())
            steps = read_steps(folder / "steps.jsonl")
            startup = steps[0]["time"] - steps[0]["seconds"] - float((folder / "launched.txt").read_text())
            own = own | {"dataset": ["custom=train.jsonl"], "steps": steps[-1]["step"]}
            if self.args.vllm_share is not None:
                own = own | {"vllm_gpu_memory_utilization": self.args.vllm_share}
            row |= self.about(recipe | own | self.args.override)
            row |= {"training": {"startup_seconds": round(startup, 1), **summarise_steps(steps)}}
            if method in COLLAPSE:
                return self.write(row | {"complete": True})
            model, settings = str(folder / "model"), EVALUATION
        self.write(row)
        benchmarks = benchmark_specs(self.data)
        limit = TINY_LIMIT if self.args.tiny else None
        loaded = [load_benchmark(spec, limit=limit) for spec in benchmarks]
        problems = {benchmark.name: len(benchmark.problems) for benchmark in loaded}
        samples = TINY_EVALUATION["n"] if self.args.tiny else settings["n"]
        sorting = samples * SORTING // (SORTING + SAMPLES) if method == "start" else 0
        parts = {"evaluation": range(sorting, samples)} | ({"sorting": range(sorting)} if sorting else {})

        begin, progress = time.time(), []

        def summarise() -> Row:
            found = list(read_samples(folder / "eval/samples.jsonl"))
            progress.append([round(time.time() - begin, 1), sum(sample["tokens"] for sample in found)])
            speed = {"evaluation_replicas": self.args.replicas, "evaluation_progress": progress}
            return speed | {part: summarise_samples(found, problems, numbers) for part, numbers in parts.items()}

        def tick() -> None:
            if (folder / "eval/samples.jsonl").exists():
                self.write(row | summarise())

        settings = settings | ({"limit": limit} if limit else {})
        seconds = self.evaluate(model, folder, card, benchmarks, settings, int(seed), tick=tick, every=20)
        self.write(row | summarise() | {"evaluation_seconds": round(seconds, 1), "complete": True})

    def work_off(self) -> bool:
        """Works everything off. Whether nothing failed."""
        recorded = read_results(self.args.results)
        scanned = [row["strata"] for row in recorded if row["method"] == "scan"]
        if scanned:  # by another machine, perhaps: the training set follows from it
            make_training_set(self.data, {name: Stratum(**found) for name, found in scanned[0].items()})
        else:
            self.scan()
        done = {key_of(row) for row in recorded if row.get("complete")}
        todo = [name for name in self.args.runs if (*_split(name), self.args.variant) not in done]
        print(f"{len(todo)} runs to do, {self.args.jobs} at a time", flush=True)
        failed = False
        with ThreadPoolExecutor(self.args.jobs) as pool:
            futures = {}
            for name in todo:
                futures[name] = pool.submit(self.run, name, len(todo) == 1)
                time.sleep(0.1)  # so that they start in this order
            for name, future in futures.items():
                error = future.exception()
                failed |= error is not None
                print(f"done: {name}" if error is None else f"failed: {name}: {error}", flush=True)
        return not failed


def _split(name: str) -> tuple[str, int]:
    method, seed = name.rsplit("-", 1)
    return method, int(seed)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _override(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise argparse.ArgumentTypeError(f"{text!r} is not like learning_rate=1e-5")
    return name, value


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def parse(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="The start: hub id, or folder of `weights.py`.")
    parser.add_argument(
        "--runs", nargs="+", required=True, metavar="METHOD-SEED", help="Such as grpo-0 coda-0 start-0."
    )
    parser.add_argument("--jobs", type=int, default=2, help="Runs at a time (default: %(default)s).")
    parser.add_argument("--cards", type=int, default=1, help="GPUs that they share (default: %(default)s).")
    parser.add_argument("--steps", type=int, help="Steps of every training. Default: as the design's rule says.")
    parser.add_argument(
        "--replicas", type=int, default=1, help="Of vLLM on a card, in evaluation (default: %(default)s)."
    )
    parser.add_argument("--vllm_share", type=float, help="Of the card's memory, in training. Default: the recipe's.")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/math", help="Scratch, with `data` (see data.py).")
    parser.add_argument("--results", type=Path, default=HERE / "results.jsonl")
    parser.add_argument("--variant", default="", help="Name of what is not as in the design, such as `calibration`.")
    parser.add_argument("--override", nargs="+", type=_override, default=[], metavar="NAME=VALUE")
    parser.add_argument("--commit", default=_commit(), help="Of this code, for the record.")
    parser.add_argument("--tiny", action="store_true", help="A rehearsal on the CPU. Numbers mean nothing.")
    args = parser.parse_args(argv)
    if args.tiny and args.results == HERE / "results.jsonl":
        parser.error("--tiny is a rehearsal: give it other --results")
    if args.override and not args.variant:
        parser.error("--override leaves the design: give the runs a --variant")
    known = {"start", *COLLAPSE, *(path.stem for path in RECIPES.glob("*.yaml"))}
    unknown = [name for name in args.runs if _split(name)[0] not in known]
    if unknown:
        parser.error(f"no recipe for {', '.join(unknown)} in {RECIPES}")
    if args.jobs % args.cards:
        parser.error(f"--jobs {args.jobs} must be a multiple of --cards {args.cards}")
    args.override = dict(args.override)
    args.work, args.results = args.work.resolve(), args.results.resolve()
    if Path(args.model).is_dir():
        args.model = str(Path(args.model).resolve())
    return args


def main() -> int:
    return 0 if Queue(parse()).work_off() else 1


if __name__ == "__main__":
    sys.exit(main())
