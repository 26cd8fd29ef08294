"""Trains and evaluates runs of the matrix: what the ladder and the word problems share."""

import argparse
import fnmatch
import hashlib
import json
import shutil
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import yaml

from coda_trl.analysis.dynamics import find_trainer_state, read_log_history
from coda_trl.evaluation import read_samples

from ..files import Row, read_results, record
from ..runner import ROOT, Failed, Runner, versions, with_flags
from .matrix import RUNS, Run
from .summaries import thin_log

# glibc would hand freed tensors back to the system; on models this small, asking for them again takes longer than
# computing with them.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}


def add_runs(parser: argparse.ArgumentParser, seeds: int, jobs: int) -> None:
    """Adds what testbeds ask besides."""
    parser.add_argument("--seeds", type=int, default=seeds, help="Seeds of a method (default: %(default)s).")
    parser.add_argument("--first_seed", type=int, default=0, help="For a repetition with other seeds (default: 0).")
    parser.add_argument("--jobs", type=int, default=jobs, help="Runs at a time (default: %(default)s).")
    parser.add_argument("--only", nargs="+", default=["*"], metavar="NAME", help="Only these runs (* fits all).")
    parser.add_argument("--keep", action="store_true", help="Keep models and logs of finished runs.")


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
