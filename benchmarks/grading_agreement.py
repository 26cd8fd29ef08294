r"""
Real answers: where do the verdicts of `coda_trl.grading` and math-verify differ?

    python benchmarks/grading_agreement.py runs/coda-eval/samples.jsonl [...]

Files are samples of an evaluation, or cases as `python -m coda_trl.grading` takes them. Both judge the content of the
last box; an answer without one is wrong. Prints what differs, to be judged by reading, and how often both agree.
"""

import argparse
import logging
from collections import Counter
from multiprocessing import Pool
from pathlib import Path

from math_verify import LatexExtractionConfig, parse, verify

from coda_trl.grading import GradingPool, final_answer
from coda_trl.grading.__main__ import read_cases


def math_verify(case: tuple[str, str]) -> bool:
    logging.disable(logging.CRITICAL)
    reading = [LatexExtractionConfig(boxed_match_priority=0)]
    answer, gold = (parse(text, reading, extraction_mode="first_match", parsing_timeout=3) for text in case)
    return verify(gold, answer, timeout_seconds=3)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+", help="samples.jsonl, or cases (.jsonl, .jsonl.gz)")
    cases = [case for file in parser.parse_args().files for case in read_cases(file)]
    found = [(final_answer(case["completion"]), case["gold"]) for case in cases]
    counts = Counter((rf"\boxed{{{answer}}}", rf"\boxed{{{gold}}}") for answer, gold in found if answer is not None)
    if not counts:
        parser.error("no answer has a box")
    with GradingPool() as pool:
        ours = [grade.verdict is True for grade in pool.grade(*zip(*counts, strict=True))]
    with Pool() as pool:
        theirs = pool.map(math_verify, counts, chunksize=100)
    verdicts: Counter[tuple[bool, bool]] = Counter()
    for case, our, their in zip(counts, ours, theirs, strict=True):
        verdicts[our, their] += counts[case]
        if our != their:
            print(f"{counts[case]} x right for {'us' if our else 'math-verify'} only: {case[0]} for {case[1]}")
    print(f"{len(cases)} answers, {counts.total()} with a box")
    print(f"both right {verdicts[True, True]}, both wrong {verdicts[False, False]}")
    print(f"right for us only {verdicts[True, False]}, for math-verify only {verdicts[False, True]}")


if __name__ == "__main__":
    main()
