"""Writes the problems of `data/`: train.jsonl.gz for recipes/word_problems, test.jsonl.gz for evaluation.

python benchmarks/word_problems/make_data.py
"""

import argparse
import gzip
import json
from collections.abc import Iterable
from pathlib import Path

from problems import Problem, evaluation_problems, training_problems

DATA = Path(__file__).resolve().parent / "data"
TRAIN, TEST = "train.jsonl.gz", "test.jsonl.gz"
TRAINING_PROBLEMS = 2_000
EVALUATION_PROBLEMS = 100  # of each rung


def as_lines(problems: Iterable[Problem]) -> str:
    """One JSON object a line: `prompt` (messages), `solution`, `rung`."""
    return "".join(json.dumps(problem.as_row()) + "\n" for problem in problems)


def make_files(training: int = TRAINING_PROBLEMS, evaluation: int = EVALUATION_PROBLEMS) -> dict[str, str]:
    """
    What the files hold, by name. No story of one is in the other.

    Args:
        training (`int`, *optional*, defaults to `2000`):
            Number of problems to train on.
        evaluation (`int`, *optional*, defaults to `100`):
            Number of problems of each rung to evaluate on.
    """
    test = evaluation_problems(evaluation)
    seen = {problem.text for problem in test}
    train = [problem for problem in training_problems(training) if problem.text not in seen]
    return {TRAIN: as_lines(train), TEST: as_lines(test)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=DATA, help="Folder to write to (default: %(default)s).")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, text in make_files().items():
        (args.out / name).write_bytes(gzip.compress(text.encode(), mtime=0))
    print(f"Written to {args.out}")


if __name__ == "__main__":
    main()
