"""Difficulty by success rate, and what a run spends on each difficulty (Fig. 1a of the paper)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..evaluation.bootstrap import NUM_RESAMPLES, Estimate, num_counted, replicates, summarise
from ..evaluation.metrics import Outcomes, Ratio, accuracy, mean_tokens

PERCENTILES = (10, 30, 50, 70, 90)

Key = tuple[str, str]  # benchmark, problem id


def difficulty_buckets(success_rate: np.ndarray, percentiles: Sequence[float] = PERCENTILES) -> np.ndarray:
    """
    Sorts problems by success rate and cuts the row at percentiles: bucket 0 holds the hardest.

    With the default cuts the hardest and the easiest bucket hold 10% of the problems each, the four between them 20%
    each. Success rates from a few samples are full of ties; tied problems are put in a random (but fixed) order, so
    that a cut among them favours none.

    Args:
        success_rate (`np.ndarray` of shape `(P,)`):
            Share of correct samples of every problem, without NaN.
        percentiles (`Sequence[float]`, *optional*, defaults to `(10, 30, 50, 70, 90)`):
            Where to cut, in percent of the problems, ascending.

    Returns:
        `np.ndarray` of shape `(P,)`: Bucket of every problem, 0 (hardest) to `len(percentiles)` (easiest).

    Example:

    ```python
    >>> import numpy as np
    >>> from coda_trl.analysis import difficulty_buckets
    >>> difficulty_buckets(np.array([1.0, 0.0, 0.5, 0.25]), percentiles=(50,))
    array([1, 0, 1, 0])

    ```
    """
    count = len(success_rate)
    order = np.lexsort((np.random.default_rng(0).permutation(count), success_rate))
    buckets = np.empty(count, dtype=int)
    cuts = np.round(np.array(percentiles) / 100 * count).astype(int)
    buckets[order] = np.searchsorted(cuts, np.arange(count), side="right")
    return buckets


def bucket_names(percentiles: Sequence[float] = PERCENTILES) -> list[str]:
    """Names of the buckets, hardest first: `"0-10%"` to `"90-100%"`."""
    edges = [0, *percentiles, 100]
    return [f"{low:g}–{high:g}%" for low, high in zip(edges[:-1], edges[1:], strict=True)]


def pooled_success_rate(runs: Sequence[Mapping[str, Outcomes]]) -> dict[Key, float]:
    """
    Success rate of every problem over all samples of several runs.

    Difficulty by one run's own success rate flatters the others: what that run got right by luck counts as easy, and
    what it got wrong by bad luck as hard (regression to the mean). Pooled over the runs compared, no run is favoured.

    Args:
        runs (`Sequence[Mapping[str, Outcomes]]`):
            For every run, samples summed up by problem, by benchmark. One run is enough.

    Returns:
        `dict[tuple[str, str], float]`: Rate in [0, 1] by benchmark and problem id, for the problems that every run has
        answers with a verdict to.
    """
    totals: dict[Key, list[float]] = {}
    for run in runs:
        for benchmark, outcomes in run.items():
            for problem, correct, graded in zip(outcomes.problems, outcomes.correct, outcomes.graded, strict=True):
                if graded:
                    total = totals.setdefault((benchmark, problem), [0.0, 0.0, 0])
                    total[0] += correct
                    total[1] += graded
                    total[2] += 1
    return {key: correct / graded for key, (correct, graded, seen) in totals.items() if seen == len(runs)}


def pool_problems(run: Mapping[str, Outcomes], keys: Sequence[Key]) -> Outcomes:
    """
    Sums of problems of several benchmarks as one.

    Args:
        run (`Mapping[str, Outcomes]`):
            Samples summed up by problem, by benchmark.
        keys (`Sequence[tuple[str, str]]`):
            Problems to take, in the order wanted.

    Returns:
        `Outcomes`: Their sums; the problems are called `benchmark/problem_id`.
    """
    offsets, position = {}, 0
    for benchmark, outcomes in run.items():
        offsets[benchmark] = position
        position += len(outcomes.problems)
    index = {
        (benchmark, problem): offsets[benchmark] + row
        for benchmark, outcomes in run.items()
        for row, problem in enumerate(outcomes.problems)
    }
    rows = np.array([index[key] for key in keys], dtype=int)

    def column(name: str) -> np.ndarray:
        return np.concatenate([vars(outcomes)[name] for outcomes in run.values()])[rows]

    columns = ("samples", "graded", "correct", "truncated", "tokens", "correct_tokens", "wrong_tokens")
    return Outcomes([f"{benchmark}/{problem}" for benchmark, problem in keys], *map(column, columns))


@dataclass(frozen=True)
class BucketComparison:
    """
    A run against a reference in one difficulty bucket.

    Args:
        name (`str`):
            Percentiles of the bucket; the hardest begins at 0.
        num_problems (`int`):
            Problems in it.
        success_rate (`float`):
            Mean of the success rate that the buckets were cut by.
        token_ratio (`Estimate`):
            Mean tokens of the run over those of the reference: below 1 it spends less.
        accuracy_points (`Estimate`):
            Accuracy difference, run minus reference, in percentage points.
    """

    name: str
    num_problems: int
    success_rate: float
    token_ratio: Estimate
    accuracy_points: Estimate


def compare_buckets(
    run: Mapping[str, Outcomes],
    reference: Mapping[str, Outcomes],
    success_rate: Mapping[Key, float],
    percentiles: Sequence[float] = PERCENTILES,
    num_resamples: int = NUM_RESAMPLES,
) -> list[BucketComparison]:
    """
    Compares a run with a reference by difficulty, pairing them by problem.

    Args:
        run (`Mapping[str, Outcomes]`):
            Samples summed up by problem, by benchmark.
        reference (`Mapping[str, Outcomes]`):
            The same of the run compared with.
        success_rate (`Mapping[tuple[str, str], float]`):
            Success rate of the problems to use, by benchmark and id, all of which both runs have answered.
        percentiles (`Sequence[float]`, *optional*, defaults to `(10, 30, 50, 70, 90)`):
            Where to cut, see [`difficulty_buckets`].
        num_resamples (`int`, *optional*, defaults to `2000`):
            Number of bootstrap resamples.

    Returns:
        `list[BucketComparison]`: The buckets that hold a problem, hardest first.
    """
    keys, rates = list(success_rate), np.array(list(success_rate.values()))
    buckets = difficulty_buckets(rates, percentiles)
    rows = []
    for bucket, name in enumerate(bucket_names(percentiles)):
        chosen = np.flatnonzero(buckets == bucket)
        if not len(chosen):
            continue
        mine, theirs = (pool_problems(outcomes, [keys[row] for row in chosen]) for outcomes in (run, reference))
        rows.append(
            BucketComparison(
                name,
                len(chosen),
                float(rates[chosen].mean()),
                _combine(mean_tokens(mine), mean_tokens(theirs), np.divide, num_resamples),
                _combine(accuracy(mine), accuracy(theirs), lambda a, b: 100 * np.subtract(a, b), num_resamples),
            )
        )
    return rows


def _combine(mine: Ratio, theirs: Ratio, function, num_resamples: int) -> Estimate:
    # Both see the same draws of problems, since they have the same number of problems and the same seed.
    draws = [replicates(ratio, num_resamples=num_resamples) for ratio in (mine, theirs)]
    counted = min(num_counted(mine), num_counted(theirs))
    return summarise(float(function(mine.value, theirs.value)), function(*draws), counted)
