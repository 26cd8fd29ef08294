"""Bootstrap intervals that resample problems.

A benchmark is a sample of the problems that could have been asked, and the answers to one problem depend on each
other, so problems are drawn with replacement, each with all of its samples. Resamples depend only on the number of
problems and the seed: two runs on the same problems get the same draws, which pairs them problem by problem.

With few problems, percentiles of resamples make too narrow an interval. They are taken further out, by Student's t and
the bias of the standard deviation ("expanded percentile interval", Hesterberg 2015, What Teachers Should Know about
the Bootstrap, section 5). Fewer than [`MIN_PROBLEMS`] tell nothing: five differences all have the same sign by chance
in one of 16 cases.

If hardly any problem differs from the others (as when nearly all are right), resamples cannot show what other problems
would: even if none of P problems fails, the failure rate may be 3/P (the "rule of three"). So every resample of a
rate then gets a random number of problems at either extreme: 0.6 times a chi-squared number, below 3 in 97.5% of
cases. Rates that are averaged get as many together.

More than [`MOST_UNITS`] problems are bundled at random, and bundles resampled, for time and memory: sums over bundles
vary as much as sums over problems, and 4,096 of them give the width of an interval to about 1%.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
from scipy.special import stdtrit

from .metrics import Ratio

NUM_RESAMPLES = 2000
CONFIDENCE = 0.95
MIN_PROBLEMS = 6
FEW_DIFFER = 10
MOST_UNITS = 4096


@dataclass(frozen=True)
class Estimate:
    """
    A number with its bootstrap interval.

    Args:
        value (`float`):
            The number itself, computed on all problems. NaN if it is not defined.
        low, high (`float`, *optional*):
            Ends of the interval; `None` if there is none (fewer than [`MIN_PROBLEMS`] problems, or no samples).
    """

    value: float
    low: float | None = None
    high: float | None = None

    @property
    def excludes_zero(self) -> bool:
        """Whether there is an interval without 0: for a difference, that it is more than noise."""
        return self.low is not None and (self.low > 0 or self.high < 0)


@lru_cache(maxsize=16)
def _draw_counts(num_problems: int, num_resamples: int, seed: int) -> np.ndarray:
    rng = np.random.default_rng((seed, num_problems))
    counts = rng.multinomial(num_problems, np.full(num_problems, 1 / num_problems), size=num_resamples)
    return counts.astype(np.uint16)


@lru_cache(maxsize=16)
def _bundles(num_problems: int, seed: int) -> np.ndarray:
    """Bundle of every problem, of almost equal size."""
    return np.random.default_rng((seed, num_problems, MOST_UNITS)).permutation(num_problems) % MOST_UNITS


def _unseen(ratio: Ratio, seed: int, averaged: int) -> np.ndarray | float:
    """What unseen problems at the extremes of a rate add to each replicate."""
    counted = ratio.denominator > 0
    values = ratio.numerator[counted] / ratio.denominator[counted]
    differ = len(values) - np.unique(values, return_counts=True)[1].max(initial=0)
    if differ >= min(FEW_DIFFER, len(values) / 2):
        return 0.0
    counts = 0.6 * np.random.default_rng((seed, len(values), 0)).chisquare(1 / averaged, size=(NUM_RESAMPLES, 2))
    return counts @ (np.array(ratio.limits) - ratio.value) / (len(values) + counts.sum(axis=1))


def replicates(ratio: Ratio, seed: int = 0, averaged: int = 1) -> np.ndarray:
    """
    A metric on `NUM_RESAMPLES` resamples of its problems; NaN where its denominator is 0. The same seed and number of
    problems give the same draws for every metric and run. `averaged` is the number of independent ratios that this one
    is averaged with, itself included.
    """
    if not len(ratio.numerator):
        return np.full(NUM_RESAMPLES, np.nan)
    columns = [ratio.numerator, ratio.denominator]
    if len(ratio.numerator) > MOST_UNITS:
        columns = [np.bincount(_bundles(len(column), seed), weights=column) for column in columns]
    columns = np.stack(columns, axis=1)
    counts = _draw_counts(len(columns), NUM_RESAMPLES, seed)
    sums = np.empty((NUM_RESAMPLES, 2))
    for start in range(0, NUM_RESAMPLES, 32):  # slices that fit a cache in double precision
        sums[start : start + 32] = counts[start : start + 32].astype(np.float64) @ columns
    drawn = np.divide(sums[:, 0], sums[:, 1], out=np.full(NUM_RESAMPLES, np.nan), where=sums[:, 1] != 0)
    if ratio.limits is not None:
        drawn = np.clip(drawn + _unseen(ratio, seed, averaged), *ratio.limits)
    return drawn


@lru_cache(maxsize=1024)
def _tail(num_problems: int) -> float:
    """Share of replicates to leave out at each end, so that this many problems give 95% confidence."""
    degrees = num_problems - 1
    return NormalDist().cdf(-stdtrit(degrees, (1 + CONFIDENCE) / 2) * (num_problems / degrees) ** 0.5)


def interval(values: np.ndarray, num_problems: int) -> tuple[float, float]:
    """95% interval of the replicates that are not NaN. The fewer problems (at least 2), the further out its ends."""
    tail = 100 * _tail(num_problems)
    low, high = np.nanpercentile(values, [tail, 100 - tail])
    return float(low), float(high)


def estimate(ratio: Ratio, seed: int = 0) -> Estimate:
    """
    A metric with its 95% interval, unless fewer than [`MIN_PROBLEMS`] problems count. `seed` as in [`replicates`].

    Example:

    ```python
    >>> import numpy as np
    >>> from coda_trl.evaluation import Ratio, estimate
    >>> accuracy = Ratio(np.tile([1.0, 0.0, 1.0, 1.0], 25), np.ones(100))
    >>> result = estimate(accuracy)
    >>> result.value, result.low, result.high
    (0.75, 0.66, 0.83)

    ```
    """
    return summarise(ratio.value, replicates(ratio, seed), num_counted(ratio))


def num_counted(ratio: Ratio) -> int:
    """Number of problems that count: for an accuracy, those with a verdict."""
    return int(np.count_nonzero(ratio.denominator))


def summarise(value: float, values: np.ndarray, num_problems: int) -> Estimate:
    """Value and replicates as an estimate. For an average over benchmarks, `num_problems` is that of the smallest."""
    if num_problems < MIN_PROBLEMS or np.isnan(value) or np.isnan(values).all():
        return Estimate(value)
    low, high = interval(values, num_problems)
    return Estimate(value, min(low, value), max(high, value))  # unseen problems pull a rate of 1 to below


def over_seeds(values: Sequence[float], confidence: float = CONFIDENCE) -> Estimate:
    """
    Mean over trainings that differ in their seed, with its interval by Student's t; none of a single one. For a
    difference, give that of each pair of one seed.
    """
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean)
    error = float(stdtrit(len(values) - 1, (1 + confidence) / 2) * np.std(values, ddof=1) / len(values) ** 0.5)
    return Estimate(mean, mean - error, mean + error)
