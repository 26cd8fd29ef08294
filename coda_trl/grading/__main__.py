"""Regrade a file of completions: `python -m coda_trl.grading CASES.jsonl --out VERDICTS.jsonl`."""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import IO

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from .pool import DEFAULT_TIMEOUT, Grade, GradingPool

BATCH = 1024  # cases held in memory at a time


def read_cases(path: Path) -> Iterator[dict]:
    """
    Yields the cases of a JSON lines file (gzip if its name ends in `.gz`).

    Raises:
        `ValueError`: with the line number, for a line that is no JSON object with `id`, `completion` and `gold`.
    """
    with _open(path, "r") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                case = json.loads(line)
            except json.JSONDecodeError as error:
                raise ValueError(f"{path}, line {number}: not JSON ({error}).") from None
            missing = [key for key in ("id", "completion", "gold") if not isinstance(case, dict) or key not in case]
            if missing:
                raise ValueError(
                    f"{path}, line {number}: needs the fields `id`, `completion`, `gold`; without {missing}."
                )
            if not isinstance(case["completion"], str) or not isinstance(case["gold"], str | None):
                raise ValueError(
                    f"{path}, line {number}: `completion` must be a string and `gold` a string or null, not "
                    f"{type(case['completion']).__name__} and {type(case['gold']).__name__}."
                )
            yield case


def _open(path: Path, mode: str) -> IO[str]:
    """Text that survives lone surrogates, which JSON can hold and UTF-8 cannot."""
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, mode + "t", encoding="utf-8", errors="surrogatepass")


def _batches(cases: Iterator[dict]) -> Iterator[list[dict]]:
    while batch := list(islice(cases, BATCH)):
        yield batch


def main(arguments: list[str] | None = None) -> int:
    """Command line. Returns the exit status: 0, or 2 for a file that cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m coda_trl.grading", description=__doc__)
    parser.add_argument("cases", type=Path, help="JSON lines (.jsonl or .jsonl.gz) with id, completion, gold")
    parser.add_argument("--out", type=Path, required=True, help="where id, verdict, seconds go, in the same order")
    parser.add_argument("--jobs", type=int, default=None, help="worker processes (default: CPU cores)")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, help="seconds a case (default: %(default)s)")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    try:
        total = sum(1 for _ in read_cases(options.cases))  # a bad line shows before anything is graded
        pool = GradingPool(workers=options.jobs, timeout=options.timeout)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    counts = {"right": 0, "wrong": 0, "unscorable": 0, "timed out": 0}
    columns = (TextColumn("grading"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with pool, _open(options.out, "w") as out, Progress(*columns) as bar:
        task = bar.add_task("grading", total=total)
        for batch in _batches(read_cases(options.cases)):
            grades = pool.grade(
                [case["completion"] for case in batch],
                [case["gold"] for case in batch],
                progress=lambda done: bar.advance(task, done),
            )
            for case, grade in zip(batch, grades, strict=True):
                counts[_outcome(grade)] += 1
                verdict = {"id": case["id"], "verdict": grade.verdict, "seconds": round(grade.seconds, 6)}
                out.write(json.dumps(verdict) + "\n")
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    print(f"{total} cases: {summary} (counted as wrong); {time.perf_counter() - start:.1f} seconds")
    return 0


def _outcome(grade: Grade) -> str:
    if grade.stopped:
        return "timed out"
    return {True: "right", False: "wrong", None: "unscorable"}[grade.verdict]


if __name__ == "__main__":
    sys.exit(main())
