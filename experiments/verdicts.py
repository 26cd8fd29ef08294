"""From a claim to a verdict: a number over the runs, and a fixed rule that reads its intervals."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from coda_trl.evaluation import Estimate

from .results import RESOLUTION, Results, over_seeds

Rule = Literal["above", "below", "same"]

HOLDS, WEAKLY, NOT, UNTOLD = "**holds**", "holds weakly", "does not hold", "cannot be told"
NOT_TESTABLE, NOT_RUN = "cannot be tested here", "not run yet"

# Of the interval that "holds weakly" asks for; "holds" and "does not hold" ask for 95%.
WEAK_CONFIDENCE = 0.8


@dataclass(frozen=True)
class Quantity:
    """Name and unit; up to which size differences count as none; digits; and `resolution` of [`new_run`]."""

    label: str
    same: float
    digits: int = 1
    resolution: float = RESOLUTION


@dataclass(frozen=True)
class Claim:
    """
    A claim as a number: where the paper makes it and what it says; what the number is, of which runs and rungs, for
    every seed as [`Results.rows`] gives it; the rule (`"above"` or `"below"` the bound, or `"same"`: within it of 0;
    with a bound of 0 the claim is that there is a difference, in one direction); and the table that shows it.
    """

    source: str
    text: str
    quantity: Quantity
    where: str
    rows: Callable[[Results], np.ndarray | None]
    rule: Rule
    bound: float = 0.0
    file: str = "accuracy"

    @property
    def measure(self) -> str:
        """What the number is, and what the claim says about it."""
        bound = f"{abs(self.bound):g}"
        signed = f"{'−' if self.bound < 0 else '+'}{bound}" if "Δ" in self.quantity.label else bound
        said = {"above": f"above {signed}", "below": f"below {signed}", "same": f"within ±{bound}"}[self.rule]
        return f"{self.quantity.label}, {self.where}, {said}" if self.bound else f"{self.quantity.label}, {self.where}"

    def verdict(self, rows: np.ndarray | None) -> str:
        """The verdict on the claim, given its number for every seed: see [`judge`]."""
        if rows is None or np.isnan(rows[:, 0]).any():
            return NOT_RUN
        return self.judge(over_seeds(rows), over_seeds(rows, confidence=WEAK_CONFIDENCE))

    def judge(self, sure: Estimate, likely: Estimate) -> str:
        """
        The rule, given the number's 95% and 80% intervals: `holds` if the whole 95% interval agrees with the claim.
        `does not hold` if the whole 95% interval contradicts it, or, where the claim is that there is a difference,
        lies within what counts as none. `holds weakly` if the whole 80% interval agrees. Else `cannot be told`, as
        always with a single seed, which has no interval.
        """
        if sure.low is None:
            return UNTOLD
        if self._agrees(sure):
            return HOLDS
        if self._contradicts(sure):
            return NOT
        return WEAKLY if self._agrees(likely) else UNTOLD

    def _agrees(self, found: Estimate) -> bool:
        if self.rule == "above":
            return found.low > self.bound
        if self.rule == "below":
            return found.high < self.bound
        return -self.bound <= found.low and found.high <= self.bound

    def _contradicts(self, found: Estimate) -> bool:
        if self.rule == "same":
            return found.low > self.bound or found.high < -self.bound
        if self.bound == 0 and -self.quantity.same <= found.low and found.high <= self.quantity.same:
            return True
        return found.high <= self.bound if self.rule == "above" else found.low >= self.bound
