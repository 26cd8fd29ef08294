"""Difficulty by success rate, and what a run spends on each difficulty (Fig. 1a of the paper).

Judged on the samples that sorted it, a run regresses to the mean: what it solved by luck counts as easy, what it
missed by bad luck as hard. So success rates are cross-fitted (sample splitting in turns, as in Chernozhukov et al.,
2018, Double/debiased machine learning): the samples of a problem are divided into parts, and each part is measured on
the problems as the other parts sort them. The same holds for policies: problems that became hard for one training are,
on average, less hard for any other. So two runs that are compared sort with equal weight.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..evaluation.bootstrap import Estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.comparison import compare_within
from ..evaluation.metrics import accuracy

PERCENTILES = (10, 30, 50, 70, 90)

PAPER_THRESHOLDS = (0.75, 0.25)  # success rates from which a problem is easy, and up to which hard
BANDS = ("easy", "medium", "hard")

Key = tuple[str, str]  # benchmark, problem id


def difficulty_buckets(success_rate: np.ndarray, percentiles: Sequence[float] = PERCENTILES) -> np.ndarray:
    """
    Sorts problems by success rate, ties in a random but fixed order, and cuts them at percentiles.

    Args:
        success_rate (`np.ndarray` of shape `(P,)`):
            Share of correct samples of every problem, without NaN.
        percentiles (`Sequence[float]`, *optional*, defaults to `(10, 30, 50, 70, 90)`):
            Where to cut, in percent of the problems, ascending.

    Returns:
        `np.ndarray` of shape `(P,)`: Bucket of every problem, 0 (hardest) to `len(percentiles)` (easiest).
    """
    count = len(success_rate)
    order = np.lexsort((np.random.default_rng(0).permutation(count), success_rate))
    buckets = np.empty(count, dtype=int)
    cuts = np.round(np.array(percentiles) / 100 * count)
    buckets[order] = np.searchsorted(cuts, np.arange(count), side="right")
    return buckets


def bucket_names(percentiles: Sequence[float] = PERCENTILES) -> list[str]:
    """Names of the buckets, hardest first."""
    edges = [0, *percentiles, 100]
    return [f"{low:g}–{high:g}%" for low, high in zip(edges[:-1], edges[1:], strict=True)]


@dataclass(frozen=True)
class Sorting:
    """
    Problems sorted by success rate, in turns: each part of the samples is measured as the other parts sort.

    Args:
        keys (`list[tuple[str, str]]` of length `P`):
            Benchmark and id of the problems that all sorting runs have.
        success_rate (`np.ndarray` of shape `(P, parts)`):
            For every part the success rate of the other parts, averaged over the sorting runs; NaN if one of them has
            no other sample with a verdict.
    """

    keys: list[Key]
    success_rate: np.ndarray

    @property
    def sorted(self) -> np.ndarray:
        """Whether a part of a problem can be sorted. Shape `(P, parts)`."""
        return ~np.isnan(self.success_rate)

    def bands(self, easy: float = 0.75, hard: float = 0.25) -> dict[str, np.ndarray]:
        """Masks of the parts of problems in each band: easy at rates from `easy`, hard up to `hard`."""
        is_easy, is_hard = self.success_rate >= easy - 1e-9, self.success_rate <= hard + 1e-9  # means are not exact
        return {"easy": is_easy, "medium": self.sorted & ~is_easy & ~is_hard, "hard": is_hard}

    def buckets(self, percentiles: Sequence[float] = PERCENTILES) -> dict[str, np.ndarray]:
        """Masks of the parts of problems in each bucket, see [`difficulty_buckets`], by name."""
        bucket = np.full(self.success_rate.shape, -1)
        for part, known in enumerate(self.sorted.T):
            bucket[known, part] = difficulty_buckets(self.success_rate[known, part], percentiles)
        return {name: bucket == index for index, name in enumerate(bucket_names(percentiles))}


def sort_problems(runs: Sequence[Mapping[str, SampleColumns]]) -> Sorting:
    """
    Sorts the problems that some runs have in common by success rate, for cross-fitting.

    Args:
        runs (`Sequence[Mapping[str, SampleColumns]]`):
            Samples, by benchmark, of the runs that decide, with equal weight: to compare two runs, both.
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
    """Samples of several benchmarks as one, for the problems `keys`, with ids `benchmark/problem_id`."""
    index = {key: row for row, key in enumerate(keys)}
    pieces = []
    for name, columns in run.items():
        rows = np.array([index.get((name, problem), -1) for problem in columns.problems], dtype=int)
        chosen = rows[columns.problem] >= 0
        pieces.append({"problem": rows[columns.problem][chosen]} | columns.values(chosen))
    joined = {name: np.concatenate([piece[name] for piece in pieces]) for name in pieces[0]}
    problems, unknown = [f"{name}/{id}" for name, id in keys], np.zeros((len(keys), 2))
    return SampleColumns.of(problems, unknown, joined.pop("problem"), joined)


@dataclass(frozen=True)
class BucketComparison:
    """
    A run against a reference in one difficulty bucket.

    Args:
        name (`str`):
            Percentiles of the bucket; the hardest begins at 0.
        num_problems (`int`):
            Problems in it that both runs have; near a cut they may be in two buckets, with different samples.
        success_rate (`float`):
            Success rate of the sorting runs on the samples that did not sort.
        token_ratio, accuracy_points (`Estimate`):
            Mean tokens of the run over those of the reference; difference of accuracies, run minus reference.
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
) -> list[BucketComparison]:
    """
    Compares a run with a reference by difficulty, paired by problem, with cross-fitted difficulty ([`sort_problems`]).

    Args:
        run, reference (`Mapping[str, SampleColumns]`):
            Samples by benchmark.
        percentiles (`Sequence[float]`, *optional*, defaults to `(10, 30, 50, 70, 90)`):
            Where to cut, see [`difficulty_buckets`].
        sorted_by (`Sequence[Mapping[str, SampleColumns]]`, *optional*):
            The runs whose success rate sorts the problems. Defaults to the two.

    Returns:
        `list[BucketComparison]`: The buckets that hold a problem of both, hardest first.
    """
    sorters = [reference, run] if sorted_by is None else sorted_by
    sorting = sort_problems(sorters)
    mine, theirs, *others = (pool_problems(samples, sorting.keys).in_parts for samples in (run, reference, *sorters))
    rows = []
    for name, chosen in sorting.buckets(percentiles).items():
        result = compare_within(mine, theirs, chosen, name)
        if result.num_problems:
            success_rate = float(np.mean([accuracy(parts).within(chosen).value for parts in others]))
            change = vars(result.token_change).values()
            ratio = Estimate(*(None if end is None else 1 + end / 100 for end in change))
            rows.append(BucketComparison(name, result.num_problems, success_rate, ratio, result.accuracy_points))
    return rows
