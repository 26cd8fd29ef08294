"""Metrics of sampled answers, as pure functions.

[`~columns.collect`] sums samples up by problem. Each metric is then a ratio of two sums over problems, a [`Ratio`],
which is all that the bootstrap needs to give it an interval (problems are resampled, not samples: the samples of one
problem are not independent of each other).
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
        samples (`np.ndarray` of shape `(P,)`):
            Samples.
        graded (`np.ndarray` of shape `(P,)`):
            Samples that have a verdict. The others (gold answer unreadable) count for tokens, not for accuracy.
        correct (`np.ndarray` of shape `(P,)`):
            Correct samples.
        truncated (`np.ndarray` of shape `(P,)`):
            Samples that ended at the token limit.
        tokens (`np.ndarray` of shape `(P,)`):
            Tokens of all samples together.
        correct_tokens (`np.ndarray` of shape `(P,)`):
            Tokens of the correct samples together.
        wrong_tokens (`np.ndarray` of shape `(P,)`):
            Tokens of the wrong samples together.
        questions (`np.ndarray` of shape `(P, 2)`, *optional*):
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
    questions: np.ndarray | None = None

    def select(self, problems: Sequence[str]) -> "Outcomes":
        """The same sums for some of the problems, in the order given; a `KeyError` if one is not among them."""
        position = {problem: index for index, problem in enumerate(self.problems)}
        index = np.array([position[problem] for problem in problems], dtype=int)
        sums = {name: sums[index] for name, sums in vars(self).items() if isinstance(sums, np.ndarray)}
        return replace(self, problems=list(problems), **sums)

    def success_rate(self) -> np.ndarray:
        """Share of correct samples of every problem, in [0, 1]; NaN where no sample has a verdict. Shape `(P,)`."""
        return np.divide(self.correct, self.graded, out=np.full(len(self.problems), np.nan), where=self.graded > 0)


def outcomes_from_columns(
    problems: list[str],
    problem: np.ndarray,
    correct: np.ndarray,
    tokens: np.ndarray,
    truncated: np.ndarray,
    part: np.ndarray | None = None,
    parts: int = 1,
) -> Outcomes:
    """
    Sums `N` samples up by problem.

    Args:
        problems (`list[str]` of length `P`):
            Problem ids.
        problem (`np.ndarray` of shape `(N,)`):
            Index into `problems` of every sample.
        correct (`np.ndarray` of shape `(N,)`):
            1 for a correct sample, 0 for a wrong one, NaN for one without a verdict.
        tokens (`np.ndarray` of shape `(N,)`):
            Generated tokens.
        truncated (`np.ndarray` of shape `(N,)`):
            Whether the sample ended at the token limit.
        part (`np.ndarray` of shape `(N,)`, *optional*), parts (`int`, *optional*, defaults to `1`):
            Part of every sample, from 0, and their number: then each part is summed up by itself.

    Returns:
        `Outcomes`: The sums, of shape `(P,)`, or `(P, parts)` if samples have a part.
    """
    shape = (len(problems),) if part is None else (len(problems), parts)
    cell = problem if part is None else problem * parts + part

    def per_problem(values: np.ndarray) -> np.ndarray:
        return np.bincount(cell, weights=values, minlength=len(problems) * parts).reshape(shape)

    return Outcomes(
        problems=problems,
        samples=per_problem(np.ones(len(problem))),
        graded=per_problem(~np.isnan(correct)),
        correct=per_problem(correct == 1),
        truncated=per_problem(truncated),
        tokens=per_problem(tokens),
        correct_tokens=per_problem(np.where(correct == 1, tokens, 0)),
        wrong_tokens=per_problem(np.where(correct == 0, tokens, 0)),
    )


@dataclass(frozen=True)
class Ratio:
    """
    A metric as a ratio of two sums over `P` problems.

    Args:
        numerator (`np.ndarray` of shape `(P,)`):
            Contribution of every problem to the upper sum.
        denominator (`np.ndarray` of shape `(P,)`):
            Contribution of every problem to the lower sum.
    """

    numerator: np.ndarray
    denominator: np.ndarray

    @property
    def value(self) -> float:
        """The ratio; NaN if the lower sum is 0."""
        below = self.denominator.sum()
        return float(self.numerator.sum() / below) if below else float("nan")

    def within(self, chosen: np.ndarray) -> "Ratio":
        """
        The metric on chosen parts of problems, shape `(P, parts)`. Problems without any stay, as zeros: a resample of
        all problems may hold more or fewer that count, as other problems would.
        """
        return Ratio(*(np.where(chosen, sums, 0).sum(axis=1) for sums in (self.numerator, self.denominator)))


def _mean_of_problems(above: np.ndarray, below: np.ndarray) -> Ratio:
    # Every problem weighs the same, however many samples of it there are (an unfinished run has unequal numbers).
    seen = below > 0
    return Ratio(np.divide(above, below, out=np.zeros(above.shape), where=seen), seen.astype(float))


def accuracy(outcomes: Outcomes) -> Ratio:
    """mean@n: the mean over problems of the share of correct samples, in [0, 1]. Samples without a verdict are left
    out."""
    return _mean_of_problems(outcomes.correct, outcomes.graded)


def mean_tokens(outcomes: Outcomes) -> Ratio:
    """Mean over problems of the mean number of generated tokens."""
    return _mean_of_problems(outcomes.tokens, outcomes.samples)


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
            Number of tries, at least 1. Problems with fewer samples that have a verdict are left out.

    Returns:
        `Ratio`: Its value is the mean over problems, in [0, 1].

    Raises:
        ValueError: If `k` is below 1.

    Example:

    ```python
    >>> import numpy as np
    >>> from coda_trl.evaluation import outcomes_from_columns, pass_at_k
    >>> correct = np.array([1, 0, 0, 0])
    >>> outcomes = outcomes_from_columns(["a"], np.zeros(4, dtype=int), correct, np.ones(4), np.zeros(4))
    >>> pass_at_k(outcomes, k=2).value
    0.5

    ```
    """
    if k < 1:
        raise ValueError(f"k must be at least 1, got {k}")
    enough = outcomes.graded >= k
    estimates = np.zeros(len(outcomes.problems))
    for index in np.flatnonzero(enough):
        n, c = int(outcomes.graded[index]), int(outcomes.correct[index])
        estimates[index] = 1 - comb(n - c, k) / comb(n, k)
    return Ratio(estimates, enough.astype(float))
