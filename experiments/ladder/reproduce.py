"""Trains and evaluates every run of the matrix on the ladder.

python -m experiments.ladder.reproduce                             # everything, one run per core
python -m experiments.ladder.reproduce --runs main --seeds 2

Stop and restart it at will: finished runs are skipped, others resume.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from coda_trl.evaluation.ladder import MAX_COMPLETION_LENGTH, style_of
from coda_trl.ladder import CHECKPOINT

from ..runner import ROOT, parse, parser_of
from .matrix import SEEDS, jobs
from .summaries import summarise_samples
from .testbed import Testbed, add_runs

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
WORK = ROOT / "runs/reproduced"


def rechecks(completion: str) -> bool:
    """The ladder's own marker of reflection: a second count that was carried through to its comparison."""
    words = completion.split()
    return "verify" in words and ("same" in words or "wait" in words)


def ladder(args: argparse.Namespace) -> Testbed:
    """The ladder, on one CPU core per run."""
    evaluation = {"benchmarks": "ladder", "engine": "transformers", "max_tokens": MAX_COMPLETION_LENGTH}
    evaluation |= {"dtype": "float32", "batch_size": 400} | ({"n": 2, "limit": 30} if args.tiny else {})
    return Testbed(
        args,
        recipes="recipes/ladder",
        model=CHECKPOINT,
        training={"max_steps": 2, "logging_steps": 1} if args.tiny else {},
        evaluation=evaluation,
        summarise=partial(summarise_samples, style_of=style_of, rechecks=rechecks),
        log_every=10,
        about={"repetition": args.first_seed > 0},
        use_cpu=True,
    )


def read_command_line(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    # Not beside the committed runs, which would be skipped as done.
    parser = parser_of(__doc__, WORK / "results.jsonl", WORK / "work", committed=RESULTS)
    parser.add_argument(
        "--runs",
        type=lambda sets: sets.split(","),
        default="main,ablations",
        help="main, ablations, or both (default).",
    )
    add_runs(parser, SEEDS, os.cpu_count())
    args = parse(parser, argv)
    if not set(args.runs) <= {"main", "ablations"}:
        parser.error(f"--runs is {','.join(args.runs)!r}, but must be main, ablations or main,ablations.")
    return args


def main() -> int:
    args = read_command_line()
    return ladder(args).do(jobs(args.runs, args.seeds, args.first_seed))


if __name__ == "__main__":
    sys.exit(main())
