"""Regrade a file of completions: `python -m coda_trl.grading CASES.jsonl --out VERDICTS.jsonl`."""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO

from rich.progress import track

from .pool import DEFAULT_TIMEOUT, GradingPool

BATCH = 1024  # cases held in memory at a time
OUTCOMES = {True: "right", False: "wrong", None: "unscorable"}


def read_cases(path: Path) -> Iterator[dict]:
    """Yields the cases of a JSON lines file (gzip if its name ends in `.gz`); a line that is none is an error."""
    with _open(path, "r") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            with suppress(ValueError, TypeError, KeyError):
                case = json.loads(line)
                if isinstance(case["completion"], str) and isinstance(case["gold"], str | None) and "id" in case:
                    yield case
                    continue
            raise ValueError(
                f"{path}, line {number}: {line.strip()[:80]!r} is no case; it must be a JSON object with `id`, "
                "`completion` (a string) and `gold` (a string or null)."
            )


def _open(path: Path, mode: str) -> IO[str]:
    """Text that survives lone surrogates, which JSON can hold and UTF-8 cannot."""
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, mode + "t", encoding="utf-8", errors="surrogatepass")


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

    counts = dict.fromkeys([*OUTCOMES.values(), "timed out"], 0)
    cases = read_cases(options.cases)
    with pool, _open(options.out, "w") as out:
        for _ in track(range(0, total, BATCH), description="grading"):
            batch = list(islice(cases, BATCH))
            grades = pool.grade([case["completion"] for case in batch], [case["gold"] for case in batch])
            for case, grade in zip(batch, grades, strict=True):
                counts["timed out" if grade.stopped else OUTCOMES[grade.verdict]] += 1
                verdict = {"id": case["id"], "verdict": grade.verdict, "seconds": round(grade.seconds, 6)}
                out.write(json.dumps(verdict) + "\n")
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    print(f"{total} cases: {summary} (counted as wrong); {time.perf_counter() - start:.1f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
