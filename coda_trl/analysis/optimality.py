"""The optimality view of adaptive compute (Section 2 of the paper).

The probability of success within a budget of `n` tokens is read off one long run by truncation: a sample counts if it
is correct and ended after at most `n` tokens. With utility `U(n) = Pr(correct | n) - lambda n`, the best budget for a
price `lambda` is a corner of the curve's upper concave envelope, and moves to the next corner where the price passes
the slope between them.
"""

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class BudgetCurve:
    """
    Probability of success within a token budget: a staircase.

    Args:
        budgets, success (`np.ndarray` of shape `(M,)`):
            Budgets in tokens at which it rises, from 0, ascending; probability from each of them on, in [0, 1].
    """

    budgets: np.ndarray
    success: np.ndarray

    def at(self, budget: float | np.ndarray) -> np.ndarray:
        """Pr(correct | n) at one or more budgets."""
        return self.success[np.searchsorted(self.budgets, budget, side="right") - 1]

    def marginal_gain(self, budgets: np.ndarray) -> np.ndarray:
        """Rise per token between `K` ascending budgets, shape `(K - 1,)`: the paper's g(n) as a finite difference."""
        return np.diff(self.at(budgets)) / np.diff(budgets)


def budget_curve(problem: np.ndarray, correct: np.ndarray, tokens: np.ndarray) -> BudgetCurve:
    """
    Probability of success within a token budget, by truncation of one run; every problem weighs the same.

    Args:
        problem, correct, tokens (`np.ndarray` of shape `(N,)`):
            Index of the problem of every sample; 1, 0, or NaN without a verdict, which is left out; generated tokens.

    Raises:
        ValueError: If no sample has a verdict.

    Example:

    ```python
    >>> import numpy as np
    >>> from coda_trl.analysis import best_budgets, budget_curve
    >>> curve = budget_curve(np.zeros(4, dtype=int), np.array([1, 1, 1, 0]), np.array([10, 20, 80, 5]))
    >>> curve.budgets, curve.success
    (array([ 0, 10, 20, 80]), array([0.  , 0.25, 0.5 , 0.75]))
    >>> best_budgets(curve)  # (price below which the budget is best, budget)
    [(0.025, 20), (0.004166666666666667, 80)]

    ```
    """
    graded = ~np.isnan(correct)
    if not graded.any():
        raise ValueError("no sample has a verdict: a budget curve needs correct and wrong samples")
    _, problem = np.unique(problem[graded], return_inverse=True)
    correct, tokens = correct[graded], tokens[graded].astype(int)
    weight = 1 / np.bincount(problem)[problem] / (problem.max() + 1)
    solved = correct == 1
    budgets = np.unique(np.append(tokens[solved], 0))
    gains = np.bincount(np.searchsorted(budgets, tokens[solved]), weight[solved], minlength=len(budgets))
    return BudgetCurve(budgets, np.cumsum(gains, dtype=float))  # bincount of nothing is of integers


def best_budgets(curve: BudgetCurve) -> list[tuple[float, int]]:
    """
    Best budgets for all prices, the corners of the curve's upper concave envelope: pairs of a price (probability per
    token) and a budget (tokens), prices falling. From a price down to the next one, its budget maximises
    `Pr(correct | n) - price * n`; above the first price the best budget is 0.
    """
    corners = [0]
    for point in range(1, len(curve.budgets)):
        while len(corners) > 1 and _slope(curve, corners[-1], point) >= _slope(curve, corners[-2], corners[-1]):
            corners.pop()
        corners.append(point)
    return [
        (_slope(curve, before, corner), int(curve.budgets[corner]))
        for before, corner in zip(corners[:-1], corners[1:], strict=True)
    ]


def _slope(curve: BudgetCurve, start: int, end: int) -> float:
    return float((curve.success[end] - curve.success[start]) / (curve.budgets[end] - curve.budgets[start]))


def best_budget(curve: BudgetCurve, price: float) -> int:
    """
    The budget n* in tokens that maximises `Pr(correct | n) - price * n`, the smaller of two equals: 0 if no answer is
    worth its price. `price` is in probability per token, at least 0.
    """
    return max((budget for threshold, budget in best_budgets(curve) if price < threshold), default=0)
