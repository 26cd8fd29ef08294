"""What runs are compared by: means by problem and by difficulty, pairs of one seed, intervals over pairs."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from coda_trl.evaluation.bootstrap import Estimate, replicates, summarise
from coda_trl.evaluation.metrics import Outcomes, Ratio

from ..files import Row

TITLES = {
    "gsm8k": "GSM8K",
    "math1200": "MATH",
    "math500": "MATH500",
    "svamp": "SVAMP",
    "commonsenseqa": "CSQA",
    "amc23": "AMC23",
}
BANDS = ("easy", "medium", "hard")
# Benchmarks of which the limit cuts off few answers, at most 9% of a run's; of the others, up to two thirds.
UNCUT = ("gsm8k", "svamp", "commonsenseqa")


def by_problem(row: Row, benchmark: str, part: str = "evaluation") -> pd.DataFrame:
    """Counts by problem of one benchmark: `correct`, `tokens`, `cut_off`, and `level` if there is one."""
    counts = row[part][benchmark]["counts"]
    return pd.DataFrame({name: np.array(values.split(), dtype=float) for name, values in counts.items()})


def of_bands(row: Row, start: Row) -> dict[str, pd.DataFrame]:
    """
    Means by problem over all benchmarks that both have, by difficulty: the start's success rate in its sorting
    samples (`rate`), at least 75% and at most 25%.
    """
    return _split(row, {name: _rate(start, name, "sorting") for name in start.get("sorting", {})})


def of_bands_when_trained(row: Row, trained: Sequence[Row]) -> dict[str, pd.DataFrame]:
    """As [`of_bands`], by the success rates of trained models in place of the start's."""
    names = set.intersection(*(set(each["evaluation"]) for each in trained))
    return _split(
        row, {name: np.mean([_rate(each, name, "evaluation") for each in trained], axis=0) for name in names}
    )


def _rate(row: Row, benchmark: str, part: str) -> np.ndarray:
    return by_problem(row, benchmark, part)["correct"].to_numpy() / row[part][benchmark]["samples"]


def _split(row: Row, rates: Mapping[str, np.ndarray]) -> dict[str, pd.DataFrame]:
    parts = []
    for name in TITLES:
        if name in row["evaluation"] and name in rates:
            band = np.select([rates[name] >= 0.75, rates[name] <= 0.25], ["easy", "hard"], "medium")
            means = by_problem(row, name) / row["evaluation"][name]["samples"]
            parts.append(means.assign(band=band, rate=rates[name]))
    frame = pd.concat(parts)
    return {band: frame[frame["band"] == band] for band in BANDS}


def outcomes_of(row: Row, benchmark: str) -> Outcomes:
    """Sums by problem as the evaluation's comparison takes them; tokens of right and of wrong answers are not kept."""
    counts = by_problem(row, benchmark)
    samples = np.full(len(counts), float(row["evaluation"][benchmark]["samples"]))
    return Outcomes(
        problems=[str(problem) for problem in range(len(counts))],
        samples=samples,
        graded=samples,
        correct=counts["correct"].to_numpy(),
        truncated=counts["cut_off"].to_numpy(),
        tokens=counts["tokens"].to_numpy(),
        correct_tokens=np.full(len(counts), np.nan),
        wrong_tokens=np.full(len(counts), np.nan),
        questions=np.zeros((len(counts), 2)),
    )


def log_ratio(mine: np.ndarray, theirs: np.ndarray, seed: int = 0) -> Estimate:
    """Log of the ratio of mean tokens, with a 95% interval over problems."""
    draws = [np.log(replicates(Ratio(values, np.ones(len(values))), seed)) for values in (mine, theirs)]
    return summarise(float(np.log(mine.mean() / theirs.mean())), draws[0] - draws[1], len(mine))


def in_percent(logs: Estimate) -> Estimate:
    """The change in percent that a log ratio is."""
    ends = (None if end is None else 100 * float(np.expm1(end)) for end in (logs.low, logs.high))
    return Estimate(100 * float(np.expm1(logs.value)), *ends)


def average_accuracy(row: Row, benchmarks: Sequence[str] = tuple(TITLES)) -> float:
    """Accuracy, benchmarks weighing equally; NaN if one is missing."""
    return float(np.mean([row["evaluation"].get(name, {}).get("accuracy", np.nan) for name in benchmarks]))


def pairs(rows: Sequence[Row], method: str, reference: str = "grpo") -> list[tuple[Row, Row]]:
    """
    Runs of a method and of the reference with the same seed (the start has one run for all), both fully evaluated;
    only those as in the design.
    """
    found = {(row["method"], row["seed"]): row for row in rows if row["complete"] and not row.get("variant")}
    return [
        (run, found[other])
        for (name, seed), run in found.items()
        if name == method and (other := (reference, 0 if reference == "start" else seed)) in found
    ]
