"""Metrics of sampled answers, as pure functions.

[`~columns.collect`] sums samples up by problem. Each metric is then a ratio of two sums over problems, a [`Ratio`],
from which the bootstrap computes an interval by resampling problems.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import comb

import numpy as np


@dataclass(frozen=True)
class Outcomes:
    """
    Samples of one benchmark summed up by problem, for `P` problems. Where samples are divided into parts
    ([`~columns.SampleColumns.in_parts`]), the sums have shape `(P, parts)`.

    Args:
        problems (`list[str]` of length `P`):
            Problem ids, in order of first appearance.
        samples, graded, correct, truncated (`np.ndarray` of shape `(P,)`):
            Number of samples; of those with a verdict (the others count for tokens, not for accuracy); of correct
            ones; of those that ended at the token limit.
        tokens, correct_tokens, wrong_tokens (`np.ndarray` of shape `(P,)`):
            Tokens of all samples together, of the correct and of the wrong ones.
        questions (`np.ndarray` of shape `(P, 2)`):
            What was asked, see [`~columns.SampleColumns`].
    """

    problems: list[str]
    samples: np.ndarray
    graded: np.ndarray
    correct: np.ndarray
    truncated: np.ndarray
    tokens: np.ndarray
    correct_tokens: np.ndarray
    wrong_tokens: np.ndarray
    questions: np.ndarray

    def select(self, problems: Sequence[str]) -> "Outcomes":
        """The same sums for some of the problems, in the order given; a `KeyError` if one is not among them."""
        position = {problem: index for index, problem in enumerate(self.problems)}
        index = np.array([position[problem] for problem in problems], dtype=int)
        sums = {name: sums[index] for name, sums in vars(self).items() if isinstance(sums, np.ndarray)}
        return replace(self, problems=list(problems), **sums)

    def success_rate(self) -> np.ndarray:
        """Share of correct samples of every problem, in [0, 1]; NaN where no sample has a verdict. Shape `(P,)`."""
        return np.divide(self.correct, self.graded, out=np.full(len(self.problems), np.nan), where=self.graded > 0)


@dataclass(frozen=True)
class Ratio:
    """
    A metric as a ratio of two sums over `P` problems.

    Args:
        numerator, denominator (`np.ndarray` of shape `(P,)`):
            Contribution of every problem to either sum.
        limits (`tuple[float, float]`, *optional*):
            Least and largest value that a problem can have: (0, 1) for a share, (-1, 1) for a difference of two.
    """

    numerator: np.ndarray
    denominator: np.ndarray
    limits: tuple[float, float] | None = None

    @property
    def value(self) -> float:
        """The ratio; NaN if the denominator is 0."""
        below = self.denominator.sum()
        return float(self.numerator.sum() / below) if below else float("nan")

    def within(self, chosen: np.ndarray) -> "Ratio":
        """The metric on chosen parts of problems, shape `(P, parts)`. Problems without any stay, as zeros."""
        sums = (np.where(chosen, sums, 0).sum(axis=1) for sums in (self.numerator, self.denominator))
        return Ratio(*sums, self.limits)


SHARE = (0.0, 1.0)


def _mean_of_problems(above: np.ndarray, below: np.ndarray, limits: tuple[float, float] | None = SHARE) -> Ratio:
    # Every problem weighs the same, however many samples it has (in an unfinished run, numbers differ).
    seen = below > 0
    return Ratio(np.divide(above, below, out=np.zeros(above.shape), where=seen), seen.astype(float), limits)


def accuracy(outcomes: Outcomes) -> Ratio:
    """mean@n: the mean over problems of the share, in [0, 1], of correct samples among those with a verdict."""
    return _mean_of_problems(outcomes.correct, outcomes.graded)


def mean_tokens(outcomes: Outcomes) -> Ratio:
    """Mean over problems of the mean number of generated tokens."""
    return _mean_of_problems(outcomes.tokens, outcomes.samples, limits=None)


def correct_tokens(outcomes: Outcomes) -> Ratio:
    """Mean number of tokens over all correct samples."""
    return Ratio(outcomes.correct_tokens, outcomes.correct)


def wrong_tokens(outcomes: Outcomes) -> Ratio:
    """Mean number of tokens over all wrong samples."""
    return Ratio(outcomes.wrong_tokens, outcomes.graded - outcomes.correct)


def truncated_share(outcomes: Outcomes) -> Ratio:
    """Mean over problems of the share of samples that ended at the token limit, in [0, 1]."""
    return _mean_of_problems(outcomes.truncated, outcomes.samples)


def unscorable_share(outcomes: Outcomes) -> Ratio:
    """Mean over problems of the share of samples without a verdict, in [0, 1]."""
    return _mean_of_problems(outcomes.samples - outcomes.graded, outcomes.samples)


def pass_at_k(outcomes: Outcomes, k: int) -> Ratio:
    """
    Probability that at least one of `k` samples is correct, estimated without bias from `n >= k` samples as
    `1 - C(n - c, k) / C(n, k)` for a problem with `c` correct ones (https://huggingface.co/papers/2107.03374).

    Args:
        outcomes (`Outcomes`):
            Samples summed up by problem.
        k (`int`):
            Number of tries, at least 1. Problems with fewer verdicts are left out.
    """
    enough = outcomes.graded >= k
    estimates = np.zeros(len(outcomes.problems))
    for index in np.flatnonzero(enough):
        n, c = int(outcomes.graded[index]), int(outcomes.correct[index])
        estimates[index] = 1 - comb(n - c, k) / comb(n, k)
    return Ratio(estimates, enough.astype(float), SHARE)
