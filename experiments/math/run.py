"""Trains and evaluates runs side by side on one card or several, and puts a line a run into a results file.

python -m experiments.math.run --model Qwen/Qwen2.5-Coder-1.5B-Instruct --runs grpo-0 coda-0 start-0

Where the results file has no scan of the start, that comes first; the training set follows from it. The queue can be
stopped and started again: it skips what the results file holds, does not repeat a training that ended, and resumes an
evaluation. `METHOD-SEED` names a recipe of `recipes/qwen2.5-coder-1.5b/`, a run of `collapse.py`, which is only
trained, or the start. The design is in README.md.
"""

import argparse
import os
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import torch
import yaml

from coda_trl.data.reading import read_file
from coda_trl.evaluation import read_samples
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.evaluation.models import ModelFiles, fingerprint

from ..files import Row, key_of, read_results, record
from ..runner import ROOT, TINY_TRAINING, Failed, Runner, parse, parser_of, versions, with_flags
from .collapse import COLLAPSE
from .collapse import STEPS as COLLAPSE_STEPS
from .data import benchmark_specs, make_training_set, read_scan
from .results import read_steps, summarise_samples, summarise_steps

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
RECIPES = ROOT / "recipes/qwen2.5-coder-1.5b"

STEPS = 70  # of every training, as the first pair fixed it by the design's rule
SEEDS = {"grpo": 5, "coda": 5, "vlp": 3, "asrr": 3, "linear": 3} | dict.fromkeys(COLLAPSE, 2)  # of the design
ENOUGH = 4  # pairs of GRPO and CODA for a verdict
SAMPLES, SORTING = 4, 8  # of a problem; the start has both, and is sorted by other samples than those measured
MAX_TOKENS = 1024
EVALUATION = {"n": SAMPLES, "temperature": 0.6, "top_p": 0.95, "max_tokens": MAX_TOKENS, "dtype": "bfloat16"}
SCAN = {"n": 8, "temperature": 1.0, "top_p": 1.0, "max_tokens": MAX_TOKENS, "dtype": "bfloat16"}
# A fixed size: vLLM would measure what is free, and give up if another process grows meanwhile.
CARD = {"gpu_memory_utilization": 0.2, "kv_cache_memory_bytes": 14 * 2**30}  # of a replica
# A rehearsal on the CPU, over everything else.
TINY_EVALUATION = {"engine": "transformers", "max_tokens": 8, "n": 3, "dtype": "float32"}
TINY_LIMIT = 5  # problems of a benchmark


def recipe_of(method: str) -> tuple[Row, dict[str, Any], Path]:
    """A method's recipe, what differs from it (for a run of `collapse.py`), and the recipe's file."""
    recipe, own = COLLAPSE.get(method, (method, {}))
    path = RECIPES / f"{recipe}.yaml"
    return yaml.safe_load(path.read_text()), own, path


def split(name: str) -> tuple[str, int]:
    """Method and seed of a run."""
    method, seed = name.rsplit("-", 1)
    return method, int(seed)


class Queue(Runner):
    """Works runs off, one after the other or side by side, by the command line of [`read_command_line`]."""

    def __init__(self, args: argparse.Namespace):
        paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        super().__init__(args.jobs, args.cards, PYTHONPATH=os.pathsep.join(paths))
        self.args = args
        self.share = {} if args.vllm_share is None else {"vllm_gpu_memory_utilization": args.vllm_share}
        self.variant = {"variant": args.variant} if args.variant else {}
        self.data = args.work / "data"
        # vLLM measures what is free on the card while it starts: one training at a time, until it has made a step.
        self.turns = [threading.Lock() for _ in range(args.cards)]
        self.places: SimpleQueue[int] = SimpleQueue()  # cards, each as often as runs share it
        for place in range(args.jobs):
            self.places.put(place % args.cards)

    def work(self) -> bool:
        """Makes the training set by the scan, and the runs that are not done yet. Whether none failed."""
        recorded = read_results(self.args.results)
        scanned = [row["strata"] for row in recorded if row["method"] == "scan"]
        if scanned:  # by another machine, perhaps: the training set follows from it
            make_training_set(self.data, scanned[0])
        else:
            self.scan()
        done = {key_of(row) for row in recorded if row.get("complete")}
        named = {name: dict(zip(("method", "seed"), split(name), strict=True)) for name in self.args.runs}
        todo = [name for name, row in named.items() if key_of(row | self.variant) not in done]
        return self.work_off({name: partial(self.run, name, len(todo) == 1) for name in todo})

    def scan(self) -> None:
        """Samples training problems with the start, and makes the training set."""
        folder = self.args.work / "scan"
        folder.mkdir(parents=True, exist_ok=True)
        seconds = self.evaluate(self.args.model, folder, None, [f"custom={self.data / 'scan.jsonl'}"], SCAN, seed=0)
        samples = read_samples(folder / "eval/samples.jsonl")
        strata = read_scan(read_file(self.data / "scan.jsonl"), samples, read_file(self.data / "pool.jsonl"))
        found = make_training_set(self.data, strata)
        self.write({"method": "scan", "seed": 0, **self.about({}), "scan_seconds": round(seconds, 1), **found})

    def run(self, name: str, alone: bool) -> None:
        """Trains and evaluates one run, as far as that is not done yet; the start takes all cards if it is alone."""
        card = None if alone and name.startswith("start-") else self.places.get()
        try:
            self.run_on(card, name)
        finally:
            if card is not None:
                self.places.put(card)

    def run_on(self, card: int | None, name: str) -> None:
        """The same on one card, or on all."""
        method, seed = split(name)
        folder, model, settings = self.args.work / name, self.args.model, EVALUATION
        folder.mkdir(parents=True, exist_ok=True)
        row: Row = {"method": method, "seed": seed, "complete": False}
        if method == "start":
            row |= self.about({})
            settings = EVALUATION | {"n": SORTING + SAMPLES}
        else:
            if not (folder / "model/trainer_state.json").exists():
                self.train(method, seed, folder, card)
            recipe, own, _ = recipe_of(method)
            steps = read_steps(folder / "steps.jsonl")
            startup = steps[0]["time"] - steps[0]["seconds"] - float((folder / "launched.txt").read_text())
            seen = {"dataset": ["custom=train.jsonl"], "steps": steps[-1]["step"]} | self.of_run(method, seed)
            row |= self.about(recipe | own | seen | self.share | self.args.override)
            row |= {"training": {"startup_seconds": round(startup, 1), **summarise_steps(steps)}}
            model = str(folder / "model")
        if method in COLLAPSE:
            return self.write(row | {"complete": True})
        self.write(row)
        benchmarks = benchmark_specs(self.data)
        limit = {"limit": TINY_LIMIT} if self.args.tiny else {}
        loaded = [load_benchmark(spec, **limit) for spec in benchmarks]
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

        seconds = self.evaluate(model, folder, card, benchmarks, settings | limit, seed, tick=tick, every=20)
        self.write(row | summarise() | {"evaluation_seconds": round(seconds, 1), "complete": True})

    def of_run(self, method: str, seed: int) -> Row:
        """What a training has in place of its recipe's seed and steps."""
        return {"seed": seed, "max_steps": COLLAPSE_STEPS if method in COLLAPSE else self.args.steps}

    def train(self, method: str, seed: int, folder: Path, card: int) -> None:
        """Trains one run, once more if it fails before its first step, most likely for want of memory."""
        _, own, path = recipe_of(method)
        steps_file = folder / "steps.jsonl"
        settings = {
            "steps_file": steps_file,
            "config": path,
            "dataset": f"custom={self.data / 'train.jsonl'}",
            "model_name_or_path": self.args.model,
            "output_dir": folder / "model",
            **self.of_run(method, seed),
            "save_strategy": "no",
        }
        if self.jobs > self.cards:  # leaves 4% to what PyTorch does not count
            settings["memory_share"] = 0.96 * self.cards / self.jobs
        settings |= self.share | own | (TINY_TRAINING if self.args.tiny else {}) | self.args.override
        command, turn, has_turn = ["-m", "experiments.math.training", *with_flags(settings)], self.turns[card], True

        def tick() -> None:
            nonlocal has_turn
            if has_turn and read_steps(steps_file):
                turn.release()
                has_turn = False

        turn.acquire()
        try:
            for is_last in (False, True):
                steps_file.unlink(missing_ok=True)
                (folder / "launched.txt").write_text(str(time.time()))
                try:
                    self.call(command, folder, card, cwd=folder, tick=tick)
                    break
                except Failed as error:
                    if is_last or not has_turn:
                        raise
                    print(f"again: {error}", flush=True)
        finally:
            if has_turn:
                turn.release()

    def evaluate(
        self, model: str, folder: Path, card: int | None, benchmarks: list[str], settings: Row, seed: int, **tick: Any
    ) -> float:
        """Samples answers with `recipes/evaluate.py`, on one card or on all; once more if it fails, as it resumes."""
        if Path(model).is_dir():  # by the same relative path for all, so that vLLM finds its compiled code again
            if not (folder / "model").exists():
                (folder / "model").symlink_to(model)
            model = "model"
        settings = {
            "model_name_or_path": model,
            "output_dir": "eval",
            "seed": seed,
            "benchmarks": benchmarks,
        } | settings
        if self.args.tiny:
            settings |= TINY_EVALUATION
        else:
            settings |= CARD | {"data_parallel_size": self.args.replicas * (self.cards if card is None else 1)}
        command = [ROOT / "recipes/evaluate.py", *with_flags(settings)]
        try:
            return self.call(command, folder, card, cwd=folder, **tick)
        except Failed as error:
            print(f"again: {error}", flush=True)
            return self.call(command, folder, card, cwd=folder, **tick)

    def about(self, settings: Row) -> Row:
        """What a run was made with."""
        return {
            "settings": settings,
            "versions": versions(commit=self.args.commit),
            "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "cpu",
            "runs_a_card": self.jobs / self.cards,
            "start": fingerprint(ModelFiles(self.args.model)),
        }

    def write(self, row: Row) -> None:
        """Puts a run into the results."""
        record(self.args.results, row | self.variant)


def _commit() -> str:
    done = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return done.stdout.strip()


def read_command_line(argv: Sequence[str] | None = None) -> argparse.Namespace:
    """Reads the command line; `--work` holds `data`, see data.py."""
    parser = parser_of(__doc__, RESULTS, ROOT / "runs/math", committed=RESULTS)
    parser.add_argument("--model", required=True, help="The start: hub id, or folder of `weights.py`.")
    parser.add_argument(
        "--runs", nargs="+", required=True, metavar="METHOD-SEED", help="Such as grpo-0 coda-0 start-0."
    )
    parser.add_argument("--jobs", type=int, default=2, help="Runs at a time (default: %(default)s).")
    parser.add_argument("--cards", type=int, default=1, help="GPUs that they share (default: %(default)s).")
    parser.add_argument("--steps", type=int, default=STEPS, help="Steps of a training (default: %(default)s).")
    parser.add_argument(
        "--replicas", type=int, default=1, help="Of vLLM on a card, in evaluation (default: %(default)s)."
    )
    parser.add_argument("--vllm_share", type=float, help="Of the card's memory, in training. Default: the recipe's.")
    parser.add_argument("--variant", default="", help="Name of what is not as in the design, such as `calibration`.")
    parser.add_argument("--commit", default=_commit(), help="Of this code, for the record.")
    args = parse(parser, argv)
    if args.override and not args.variant:
        parser.error("--override leaves the design: give the runs a --variant")
    known = {"start", *COLLAPSE, *(path.stem for path in RECIPES.glob("*.yaml"))} - {"dry_run"}
    unknown = [name for name in args.runs if split(name)[0] not in known]
    if unknown:
        parser.error(f"no recipe for {', '.join(unknown)} in {RECIPES}")
    if not (data := args.work / "data").is_dir():
        parser.error(f"there are no problems in {data}: python -m experiments.math.data --out {data}")
    if args.jobs % args.cards:
        parser.error(f"--jobs {args.jobs} must be a multiple of --cards {args.cards}")
    if Path(args.model).is_dir():
        args.model = str(Path(args.model).resolve())
    return args


def main() -> int:
    return 0 if Queue(read_command_line()).work() else 1


if __name__ == "__main__":
    sys.exit(main())
