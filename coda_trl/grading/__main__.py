"""Grade a file of completions, or the samples of an evaluation again.

python -m coda_trl.grading CASES.jsonl --out VERDICTS.jsonl    # id, completion, gold in; id, verdict, seconds out
python -m coda_trl.grading runs/coda-eval/samples.jsonl        # prints the verdicts that differ
"""

import argparse
import gzip
import json
import sys
import time
from collections.abc import Iterator
from contextlib import nullcontext, suppress
from itertools import islice
from pathlib import Path
from typing import IO

from rich.console import Console
from rich.progress import track

from ..commands import command
from .extract import REASONING_START
from .pool import DEFAULT_TIMEOUT, GradingPool

BATCH = 1024  # cases held in memory at a time
OUTCOMES = {True: "right", False: "wrong", None: "unscorable"}


def read_cases(path: Path) -> Iterator[dict]:
    """
    Yields the cases of a JSON lines file (gzip if its name ends in `.gz`), those of samples with the verdict `before`;
    a line that is neither is an error.
    """
    with _open(path, "r") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            with suppress(ValueError, TypeError, KeyError):
                case = json.loads(line)
                case = case if "gold" in case else _from_sample(case)
                if isinstance(case["completion"], str) and isinstance(case["gold"], str | None) and "id" in case:
                    yield case
                    continue
            raise ValueError(
                f"{path}, line {number}: {line.strip()[:80]!r} is no case; it must be a JSON object with `id`, "
                "`completion` (a string) and `gold` (a string or null), or a sample of an evaluation."
            )


def _from_sample(sample: dict) -> dict:
    gold, opening = sample["solution"], REASONING_START if sample.get("opens_thinking") else ""
    return {
        "id": "{benchmark}, problem {problem_id}, sample {sample}".format_map(sample),
        "completion": opening + sample["completion"],
        "gold": None if gold is None else str(gold),
        "options": sample.get("options"),
        "before": sample["correct"],
    }


def _open(path: Path, mode: str) -> IO[str]:
    """Text that survives lone surrogates, which JSON can hold and UTF-8 cannot."""
    opener = gzip.open if path.suffix == ".gz" else open
    return opener(path, mode + "t", encoding="utf-8", errors="surrogatepass")


@command
def main(arguments: list[str] | None = None) -> int:
    """Command line. Returns the exit status: 0, or 2 for a file that cannot be read or written."""
    formatter = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m coda_trl.grading", description=__doc__, formatter_class=formatter)
    parser.add_argument("cases", type=Path, help="JSON lines (.jsonl or .jsonl.gz)")
    parser.add_argument("--out", type=Path, help="where id, verdict, seconds go, in the same order")
    parser.add_argument("--jobs", type=int, default=None, help="worker processes (default: CPU cores)")
    parser.add_argument("--timeout", type=float, default=DEFAULT_TIMEOUT, help="seconds a case (default: %(default)s)")
    options = parser.parse_args(arguments)
    start = time.perf_counter()
    try:
        total = sum(1 for _ in read_cases(options.cases))  # a bad line shows before anything is graded
        if options.out and options.out.exists() and options.out.samefile(options.cases):
            raise ValueError(f"--out {options.out} would overwrite the cases: name another file")
        out = _open(options.out, "w") if options.out else nullcontext()
        pool = GradingPool(workers=options.jobs, timeout=options.timeout)
    except (OSError, ValueError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 2

    counts = dict.fromkeys([*OUTCOMES.values(), "timed out"], 0)
    differ = 0
    cases = read_cases(options.cases)
    with pool, out:
        for _ in track(range(0, total, BATCH), description="grading", console=Console(stderr=True)):
            batch = list(islice(cases, BATCH))
            columns = ([case.get(name) for case in batch] for name in ("completion", "gold", "options"))
            grades = pool.grade(*columns, again=True)
            for case, grade in zip(batch, grades, strict=True):
                counts["timed out" if grade.stopped else OUTCOMES[grade.verdict]] += 1
                if case.get("before", grade.verdict) != grade.verdict:
                    differ += 1
                    was, now = OUTCOMES[case["before"]], OUTCOMES[grade.verdict]
                    print(f"{case['id']}: {was}, now {now}: {grade.answer!r} for {case['gold']!r}")
                if options.out:
                    verdict = {"id": case["id"], "verdict": grade.verdict, "seconds": round(grade.seconds, 6)}
                    out.write(json.dumps(verdict) + "\n")
    summary = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
    seconds = time.perf_counter() - start
    print(f"{total} cases: {summary} (counted as wrong), {differ} other than before; {seconds:.1f} seconds")
    return 0


if __name__ == "__main__":
    sys.exit(main())
