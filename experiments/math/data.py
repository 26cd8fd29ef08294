"""Problems of the experiment: evaluation sets, a pool of training problems without them, the scan and the mix.

python -m experiments.math.data --out runs/math/data

All comes from the hub. Without it, `--source COPIES`: a folder with gsm8k_train, the benchmarks (columns as on the
hub), math_train and math_test (`problem`, `level` from 1 to 5, and `answer`, the content of the solution's last box)
as `NAME.jsonl.gz`. Problems are drawn with fixed seeds by their place in these files; MATH is in alphabetical order of
its subjects and its original files' names. The last line says whether they are those of the published runs.
"""

import argparse
import gzip
import hashlib
import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from datasets import Dataset

from coda_trl.data import SOURCES, find_overlap, load_source, math_prompt
from coda_trl.data.answers import gsm8k_answer
from coda_trl.data.reading import read_file, read_rows
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.grading import default_pool, final_answer

from .results import holds_code

Row = dict[str, Any]

# By importance: where time runs out, the last are missing. `math1200` is drawn from MATH's test set without MATH500.
BENCHMARKS = ("gsm8k", "math1200", "math500", "svamp", "commonsenseqa", "amc23")
LEVELS = (3, 4, 5)
TEST_PROBLEMS = 1200
SCANNED = {"gsm8k": 200, "math3": 100, "math4": 100, "math5": 100}
# What the mix must hold, by the success rates of the start: CODA calls a prompt easy above this rate.
EASY, MIN_EASY, MAX_ALL_WRONG = 0.75, 0.35, 0.20
SHARES = [share / 100 for share in range(55, 85, 5)]  # of GSM8K
LEVEL_SETS = ((3, 4, 5), (3, 4), (3,))
# Of the published runs' files: number of problems, checksum of them in their order, and in alphabetical order.
PUBLISHED = {
    "gsm8k": (1319, "ebb7ec9849f2", "889b3562a6b5"),
    "math1200": (1200, "4a43d7ef3779", "6e90f3128678"),
    "math500": (500, "f322e815ce67", "998b125ce562"),
    "svamp": (300, "200a88f7eb76", "c0f9eda4f940"),
    "commonsenseqa": (1221, "e400ca35a06a", "8831396f9cd6"),
    "amc23": (40, "5cb53740046e", "d8085bc6d75f"),
    "pool": (12988, "63cfb3e44069", "9f62e94ef086"),
    "scan": (500, "c51f305cb145", "46f461cba809"),
}


def choose_mix(strata: Mapping[str, Row]) -> Row:
    """
    The first make-up of the training set that has at least 35% easy and at most 20% all-wrong prompts, in the order of
    the design: 55% GSM8K and MATH levels 3 to 5, then more of GSM8K in steps of 5% up to 80%, then the same without
    level 5, then without level 4. If none fits, the last one tried.

    Args:
        strata (`dict[str, dict]`):
            As from [`read_scan`].

    Returns:
        `dict`: Share of `gsm8k` (the rest is MATH), `levels` of MATH, in the proportion that the pool has them, shares
        of `easy` and `all_wrong` prompts, by the scan, and whether it `fits`.
    """
    for levels in LEVEL_SETS:
        rows = {name: strata[name]["rows"] for name in (f"math{level}" for level in levels)}
        of_math = sum(rows.values())
        for share in SHARES:
            weights = {"gsm8k": share} | {name: (1 - share) * count / of_math for name, count in rows.items()}
            easy, all_wrong = (
                sum(weight * strata[name][of] for name, weight in weights.items()) for of in ("easy", "all_wrong")
            )
            fits = easy >= MIN_EASY and all_wrong <= MAX_ALL_WRONG
            mix = {"gsm8k": share, "levels": levels, "easy": easy, "all_wrong": all_wrong, "fits": fits}
            if fits:
                return mix
    return mix


def compose(pool: Sequence[Row], mix: Row) -> list[Row]:
    """As many problems of the pool as a make-up permits, none twice."""
    of_gsm8k = [row for row in pool if row["stratum"] == "gsm8k"]
    of_math = [row for row in pool if row.get("level") in mix["levels"]]
    draw = random.Random(0)
    for rows in (of_gsm8k, of_math):
        draw.shuffle(rows)
    total = min(len(of_gsm8k) / mix["gsm8k"], len(of_math) / (1 - mix["gsm8k"]))
    chosen = of_gsm8k[: int(total * mix["gsm8k"])] + of_math[: int(total * (1 - mix["gsm8k"]))]
    draw.shuffle(chosen)
    return chosen


def _as_row(question: str, gold: str, stratum: str, level: int | None = None) -> Row:
    row = {"prompt": math_prompt(question)[0]["content"], "solution": gold, "stratum": stratum}
    return row if level is None else row | {"level": level}


def _math(path: Path) -> list[Row]:
    rows = [row for row in read_file(path) if row["level"] in LEVELS and row["answer"]]
    return [_as_row(row["problem"], row["answer"], f"math{row['level']}", row["level"]) for row in rows]


def test_problems(source: Path) -> list[Row]:
    """The 1,200 problems of MATH's test set, levels 3 to 5, none of them in MATH500."""
    taken = {row["prompt"][0]["content"] for row in load_source(f"math500={source / 'math500.jsonl.gz'}")}
    rows = [row for row in _math(source / "math_test.jsonl.gz") if row["prompt"] not in taken]
    return random.Random(0).sample(_with_readable_gold(rows), TEST_PROBLEMS)


def _with_readable_gold(rows: Sequence[Row]) -> list[Row]:
    """Rows whose own gold the grader accepts."""
    golds = [row["solution"] for row in rows]
    grades = default_pool().grade([rf"\boxed{{{gold}}}" for gold in golds], golds)
    return [row for row, grade in zip(rows, grades, strict=True) if grade.verdict]


def training_pool(source: Path, evaluated: Mapping[str, Dataset]) -> list[Row]:
    """GSM8K and MATH levels 3 to 5, without problems that are, or share half of their 13-grams with, one evaluated."""
    gsm8k = read_file(source / "gsm8k_train.jsonl.gz")
    rows = [_as_row(row["question"], gsm8k_answer(row["answer"]), "gsm8k") for row in gsm8k]
    rows = _with_readable_gold(rows + _math(source / "math_train.jsonl.gz"))
    dataset = Dataset.from_list([{"prompt": row["prompt"]} for row in rows])
    found = {row for overlap in find_overlap(dataset, evaluated).values() for row in overlap.training_rows}
    return [row for number, row in enumerate(rows) if number not in found]


def write_rows(path: Path, rows: Iterable[Row]) -> None:
    """Writes JSON lines, compressed where the name ends in .gz."""
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text, mtime=0) if path.suffix == ".gz" else text)


def fetch(source: Path) -> None:
    """Puts copies of the hub's data sets into a folder, as [`prepare`] takes them."""
    source.mkdir(parents=True, exist_ok=True)
    for name in ("gsm8k_train", *BENCHMARKS):
        if name != "math1200":
            found = SOURCES[name]
            write_rows(source / f"{name}.jsonl.gz", read_rows(found.hub, found.configs, found.splits))
    math = SOURCES["math_level1"]  # which chooses from all of MATH
    for split in ("train", "test"):
        rows = [
            {"problem": row["problem"], "level": level, "answer": final_answer(row["solution"])}
            for row in read_rows(math.hub, math.configs, (split,))
            for level in LEVELS
            if row["level"] == f"Level {level}"
        ]
        write_rows(source / f"math_{split}.jsonl.gz", rows)


def prepare(source: Path, out: Path) -> None:
    """Writes the pool, the scan's problems, MATH's 1,200, and copies of the other benchmarks."""
    out.mkdir(parents=True, exist_ok=True)
    write_rows(out / "math1200.jsonl", test_problems(source))
    for name in BENCHMARKS:
        if name != "math1200":
            (out / f"{name}.jsonl.gz").write_bytes((source / f"{name}.jsonl.gz").read_bytes())
    evaluated = {spec.partition("=")[0]: load_benchmark(spec).problems for spec in benchmark_specs(out)}
    pool = training_pool(source, evaluated)
    write_rows(out / "pool.jsonl", pool)
    draw = random.Random(1)
    strata = {name: [row for row in pool if row["stratum"] == name] for name in SCANNED}
    write_rows(
        out / "scan.jsonl", [row for name, count in SCANNED.items() for row in draw.sample(strata[name], count)]
    )
    print(json.dumps({name: len(rows) for name, rows in strata.items()}))
    print(compare(out))


def signatures(data: Path) -> dict[str, tuple[int, str, str]]:
    """What `PUBLISHED` holds, of the files in a folder."""
    specs = [*benchmark_specs(data), f"custom={data / 'pool.jsonl'}", f"custom={data / 'scan.jsonl'}"]
    found = {}
    for name, spec in zip(PUBLISHED, specs, strict=True):
        problems = [f"{row['prompt'][0]['content']}\n{row['solution']}" for row in load_source(spec)]
        sums = (hashlib.sha256("\n".join(some).encode()).hexdigest()[:12] for some in (problems, sorted(problems)))
        found[name] = (len(problems), *sums)
    return found


def compare(data: Path) -> str:
    """Says whether these are the problems of the published runs, and if not, what differs."""
    differing = []
    for name, found in signatures(data).items():
        published = PUBLISHED[name]
        if found[2] != published[2]:
            differing.append(f"{name} has other problems or golds ({found[0]:,}, published {published[0]:,})")
        elif found != published:
            differing.append(f"{name} has another order")
    if not differing:
        return "These are the problems of the published runs."
    return f"Not the problems of the published runs: {'; '.join(differing)}."


def benchmark_specs(data: Path) -> list[str]:
    """The benchmarks as `load_benchmark` takes them."""
    return [
        f"custom={data / name}.jsonl" if name == "math1200" else f"{name}={data / name}.jsonl.gz"
        for name in BENCHMARKS
    ]


def read_scan(problems: Sequence[Row], samples: Iterable[Mapping[str, Any]], pool: Sequence[Row]) -> dict[str, Row]:
    """
    Sums the samples of the scan up by kind of problem: shares of problems that are `easy` (success rate above 0.75)
    and `all_wrong`, mean success rate (`accuracy`), `tokens` of an answer, shares of answers that are `cut_off` and
    that hold `code`, and `rows` of this kind in the training pool.
    """
    frame = pd.DataFrame(
        {
            "problem": int(sample["problem_id"]),
            "correct": float(bool(sample["correct"])),
            "tokens": sample["tokens"],
            "cut_off": sample["finish_reason"] == "length",
            "code": holds_code(sample["completion"]),
        }
        for sample in samples
    )
    frame["stratum"] = [problems[problem]["stratum"] for problem in frame["problem"]]
    strata = {}
    for name in SCANNED:
        answers = frame[frame["stratum"] == name]
        rates, means = answers.groupby("problem")["correct"].mean(), answers.mean(numeric_only=True)
        strata[name] = {
            "easy": float((rates > EASY).mean()),
            "all_wrong": float((rates == 0).mean()),
            "accuracy": float(rates.mean()),
            **{column: float(means[column]) for column in ("tokens", "cut_off", "code")},
            "rows": sum(row["stratum"] == name for row in pool),
        }
    return strata


def make_training_set(data: Path, strata: Mapping[str, Row]) -> Row:
    """Writes `train.jsonl` by what the scan found, and returns that with what was chosen."""
    mix = choose_mix(strata)
    rows = compose(read_file(data / "pool.jsonl"), mix)
    write_rows(data / "train.jsonl", rows)
    return {"strata": strata, "mix": mix, "rows": len(rows)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--source", type=Path, help="Folder of copies, where there is no hub.")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    if args.source is None:
        fetch(args.out / "hub")
    prepare(args.source or args.out / "hub", args.out)


if __name__ == "__main__":
    main()
