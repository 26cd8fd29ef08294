"""Trains and evaluates every run of the matrix on the ladder.

python -m experiments.ladder.reproduce                             # everything, one run per core
python -m experiments.ladder.reproduce --runs main --seeds 2

Stop and restart it at will: finished runs are skipped, others resume.
"""

import argparse
import fnmatch
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from coda_trl.evaluation.ladder import MAX_COMPLETION_LENGTH, style_of
from coda_trl.ladder import CHECKPOINT

from ..matrix import SEEDS, Run, jobs
from ..runner import Runner, parse, parser_of, train_arguments, with_flags, work_off
from ..runs import Row, summarise_samples

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"


def rechecks(completion: str) -> bool:
    """The ladder's own marker of reflection: a second count that was carried through to its comparison."""
    words = completion.split()
    return "verify" in words and ("same" in words or "wait" in words)


class LadderRunner(Runner):
    """The ladder, on one CPU core per run."""

    recipes, log_every = "recipes/ladder", 10

    def training(self, run: Run, seed: int, output_dir: Path) -> list[str]:
        arguments = train_arguments(run, seed, output_dir, self.args.use_cpu, self.recipes)
        return arguments + (with_flags({"max_steps": 2, "logging_steps": 1}) if self.args.tiny else [])

    def evaluation(self) -> dict[str, Any]:
        settings = {"benchmarks": "ladder", "engine": "transformers", "max_tokens": MAX_COMPLETION_LENGTH}
        return settings | {"dtype": "float32", "batch_size": 400} | ({"n": 2, "limit": 30} if self.args.tiny else {})

    def start_model(self) -> str:
        return CHECKPOINT

    def summarise(self, samples: list[Row]) -> Row:
        return summarise_samples(samples, style_of, rechecks)

    def about(self) -> Row:
        return {"repetition": self.args.first_seed > 0}


def read_command_line(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = parser_of(__doc__, "runs/reproduced", RESULTS)
    parser.add_argument("--runs", default="main,ablations", help="main, ablations, or both (default: %(default)s).")
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="NAME", help="Only runs of these names (* fits all)."
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="Seeds of the main runs (default: %(default)s).")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="Runs at a time (default: all cores).")
    parser.add_argument("--use_cpu", type=lambda text: text.lower() != "false", default=True, metavar="true|false")
    args = parse(parser, argv)
    if not set(args.runs.split(",")) <= {"main", "ablations"}:
        parser.error(f"--runs is {args.runs!r}, but must be main, ablations or main,ablations.")
    return args


def wanted(args: argparse.Namespace) -> list[tuple[str, int]]:
    """The runs that the command line asks for."""
    found = jobs(args.runs.split(","), args.seeds, args.first_seed)
    return [job for job in found if any(fnmatch.fnmatch(job[0], pattern) for pattern in args.only)]


def main() -> int:
    args = read_command_line()
    return 0 if work_off(LadderRunner(args), wanted(args), Console()) else 1


if __name__ == "__main__":
    sys.exit(main())
