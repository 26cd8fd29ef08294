"""Difficulty by success rate, and what a run spends on each difficulty (Fig. 1a of the paper).

Judged on the samples that sorted it, a run regresses to the mean: what it solved by luck counts as easy, what it
missed by bad luck as hard. So success rates are cross-fitted (sample splitting in turns, as in Chernozhukov et al.,
2018, Double/debiased machine learning): the samples of a problem are divided into parts, and each part is measured on
the problems as the other parts sort them. What holds for samples holds for policies: problems that one training came
to find hard are, on average, less hard for any other. So two runs that are compared sort with equal weight.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..evaluation.bootstrap import NUM_RESAMPLES, Estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.comparison import compare_within
from ..evaluation.metrics import accuracy

PERCENTILES = (10, 30, 50, 70, 90)

PAPER_THRESHOLDS = (0.75, 0.25)  # success rates from which a problem is easy, and up to which hard
BANDS = ("easy", "medium", "hard")

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


@dataclass(frozen=True)
class Sorting:
    """
    Problems sorted by success rate, in turns: a part of the samples is measured as the other parts sort.

    Args:
        keys (`list[tuple[str, str]]` of length `P`):
            Benchmark and id of the problems that all sorting runs have.
        success_rate (`np.ndarray` of shape `(P, parts)`):
            For every part of the samples the success rate of the other parts, mean over the sorting runs, in [0, 1].
            NaN where one of them has no other sample with a verdict.
    """

    keys: list[Key]
    success_rate: np.ndarray

    @property
    def sorted(self) -> np.ndarray:
        """Whether a part of a problem can be sorted. Shape `(P, parts)`."""
        return ~np.isnan(self.success_rate)

    def bands(self, easy: float = 0.75, hard: float = 0.25) -> dict[str, np.ndarray]:
        """Whether a part of a problem is easy (rate of at least `easy`), medium or hard (at most `hard`), by band.
        Shape `(P, parts)` each."""
        is_easy, is_hard = self.success_rate >= easy - 1e-9, self.success_rate <= hard + 1e-9  # means are not exact
        return {"easy": is_easy, "medium": self.sorted & ~is_easy & ~is_hard, "hard": is_hard}

    def buckets(self, percentiles: Sequence[float] = PERCENTILES) -> dict[str, np.ndarray]:
        """Whether a part of a problem is in a bucket, see [`difficulty_buckets`], hardest first, by
        [`bucket_names`]. Shape `(P, parts)` each."""
        bucket = np.full(self.success_rate.shape, -1)
        for part, known in enumerate(self.sorted.T):
            bucket[known, part] = difficulty_buckets(self.success_rate[known, part], percentiles)
        return {name: bucket == index for index, name in enumerate(bucket_names(percentiles))}


def sort_problems(runs: Sequence[Mapping[str, SampleColumns]]) -> Sorting:
    """
    Sorts the problems that some runs have in common by their success rate, for cross-fitting.

    Args:
        runs (`Sequence[Mapping[str, SampleColumns]]`):
            The runs that decide, each with the same weight, by benchmark. To compare two runs, give both: a third one
            then changes nothing.

    Returns:
        `Sorting`: A success rate for every problem and part of its samples.

    Example:

    ```python
    >>> from coda_trl.analysis import sort_problems
    >>> from coda_trl.evaluation.columns import tabulate
    >>> samples = [
    ...     {"benchmark": "b", "problem_id": 0, "tokens": 9, "finish_reason": "stop", "correct": correct}
    ...     for correct in (True, False, True, True)
    ... ]
    >>> sort_problems([tabulate(samples)]).success_rate.round(2)  # of the other three
    array([[0.67, 1.  , 0.67, 0.67]])

    ```
    """
    first, *others = ({(name, problem) for name in run for problem in run[name].problems} for run in runs)
    shared = first.intersection(*others)
    keys = [(name, problem) for name in runs[0] for problem in runs[0][name].problems if (name, problem) in shared]
    rates = []
    for run in runs:
        parts = pool_problems(run, keys).in_parts
        correct, graded = (sums.sum(axis=1, keepdims=True) - sums for sums in (parts.correct, parts.graded))
        rates.append(np.divide(correct, graded, out=np.full(graded.shape, np.nan), where=graded > 0))
    return Sorting(keys, np.mean(rates, axis=0))


def pool_problems(run: Mapping[str, SampleColumns], keys: Sequence[Key]) -> SampleColumns:
    """Samples of problems of several benchmarks as one benchmark, in the order of `keys`, with ids
    `benchmark/problem_id`. Problems that the run lacks have no samples."""
    index = {key: row for row, key in enumerate(keys)}
    chosen, problem, questions = {}, [], np.zeros((len(keys), 2), dtype=np.int64)
    for name, columns in run.items():
        rows = np.array([index.get((name, problem), -1) for problem in columns.problems], dtype=int)
        questions[rows[rows >= 0]] = columns.questions[rows >= 0]
        chosen[name] = rows[columns.problem] >= 0
        problem.append(rows[columns.problem][chosen[name]])

    def join(get: Callable[[SampleColumns], np.ndarray]) -> np.ndarray:
        return np.concatenate([get(run[name])[kept] for name, kept in chosen.items()])

    return SampleColumns(
        [f"{name}/{problem}" for name, problem in keys],
        questions,
        np.concatenate(problem),
        join(lambda columns: columns.sample),
        join(lambda columns: columns.correct),
        join(lambda columns: columns.tokens),
        join(lambda columns: columns.truncated),
        {count: join(lambda columns, count=count: columns.counts[count]) for count in next(iter(run.values())).counts},
    )


@dataclass(frozen=True)
class BucketComparison:
    """
    A run against a reference in one difficulty bucket.

    Args:
        name (`str`):
            Percentiles of the bucket; the hardest begins at 0.
        num_problems (`int`):
            Problems in it that both runs have. One near a cut may be in two buckets, each time with other samples.
        success_rate (`float`):
            Success rate of the sorting runs on the samples that did not sort.
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
    run: Mapping[str, SampleColumns],
    reference: Mapping[str, SampleColumns],
    percentiles: Sequence[float] = PERCENTILES,
    sorted_by: Sequence[Mapping[str, SampleColumns]] | None = None,
    num_resamples: int = NUM_RESAMPLES,
) -> list[BucketComparison]:
    """
    Compares a run with a reference by difficulty, pairing them by problem and cross-fitting the difficulty: see
    [`sort_problems`].

    Args:
        run (`Mapping[str, SampleColumns]`):
            Samples by benchmark.
        reference (`Mapping[str, SampleColumns]`):
            The same of the run compared with.
        percentiles (`Sequence[float]`, *optional*, defaults to `(10, 30, 50, 70, 90)`):
            Where to cut, see [`difficulty_buckets`].
        sorted_by (`Sequence[Mapping[str, SampleColumns]]`, *optional*):
            The runs whose success rate sorts the problems. Defaults to the two.
        num_resamples (`int`, *optional*, defaults to `2000`):
            Number of bootstrap resamples.

    Returns:
        `list[BucketComparison]`: The buckets that hold a problem of both, hardest first.
    """
    sorters = [reference, run] if sorted_by is None else sorted_by
    sorting = sort_problems(sorters)
    mine, theirs, *others = (pool_problems(samples, sorting.keys).in_parts for samples in (run, reference, *sorters))
    rows = []
    for name, chosen in sorting.buckets(percentiles).items():
        result = compare_within(mine, theirs, chosen, name, num_resamples)
        if result.num_problems:
            success_rate = float(np.mean([accuracy(parts).within(chosen).value for parts in others]))
            ratio = _as_ratio(result.token_change)
            rows.append(BucketComparison(name, result.num_problems, success_rate, ratio, result.accuracy_points))
    return rows


def _as_ratio(change: Estimate) -> Estimate:
    """Tokens over those of the reference, from their relative change in percent."""
    return Estimate(*(None if end is None else 1 + end / 100 for end in (change.value, change.low, change.high)))
