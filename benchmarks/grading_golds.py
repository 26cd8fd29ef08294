r"""
Are the golds of data sets right against themselves, and wrong once their numbers are moved?

    python benchmarks/grading_golds.py FOLDER_OF_JSON_LINES [...]

Golds are the fields `answer`, `Answer` or `answerKey`, or the last box of `solution`. Every gold is graded against
itself, against itself with every integer moved by one, and with one of its first four integers moved.
"""

import argparse
import gzip
import json
import re
from pathlib import Path

from coda_trl.data.answers import gsm8k_answer, last_boxed
from coda_trl.grading import GradingPool

FIELDS = ("answer", "Answer", "answerKey", "solution")
NUMBER = re.compile(r"\d+")


def read_golds(folders: list[Path]) -> list[str]:
    """Different golds of all files, in order."""
    golds: dict[str, None] = {}
    for path in sorted(path for folder in folders for path in folder.rglob("*.jsonl*")):
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            for row in map(json.loads, lines):
                gold = str(next(row[field] for field in FIELDS if field in row))
                if "####" in gold:
                    gold = gsm8k_answer(gold)
                golds[last_boxed(gold) if "boxed" in gold else gold] = None
    return list(golds)


def moved(number: re.Match) -> str:
    return str(int(number.group()) + 1).zfill(len(number.group()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="Folders with .jsonl or .jsonl.gz files.")
    golds = read_golds(parser.parse_args().folders)
    pairs = {
        "itself": [(gold, gold) for gold in golds],
        "every integer moved": [(gold, NUMBER.sub(moved, gold)) for gold in golds if NUMBER.search(gold)],
        "one integer moved": [
            (gold, gold[: number.start()] + moved(number) + gold[number.end() :])
            for gold in golds
            for number in list(NUMBER.finditer(gold))[:4]
        ],
    }
    with GradingPool(timeout=5.0) as pool:
        for name, cases in pairs.items():
            grades = pool.grade([rf"\boxed{{{answer}}}" for _, answer in cases], [gold for gold, _ in cases])
            expected = name == "itself"
            odd = [case for case, grade in zip(cases, grades, strict=True) if (grade.verdict is True) != expected]
            print(f"{name}: {len(cases)} cases, {len(odd)} {'not right' if expected else 'accepted'}")
            for gold, answer in odd:
                print(f"  gold {gold!r}, answer {answer!r}")


if __name__ == "__main__":
    main()
