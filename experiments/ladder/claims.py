"""The paper's claims, each put to the runs as a number, and a fixed rule that makes a verdict of its interval.

`claims.csv` has a line per claim: where the paper makes it; what the number is, of which runs and rungs; the rule
(`above` or `below` the bound, or `same`: within it of 0; with a bound of 0 the claim is that there is a difference,
in one direction). A claim without a rule cannot be tested: `where` says why.
"""

import csv
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from coda_trl.evaluation import Estimate
from coda_trl.report.elements import MISSING, Cell, Table, number

from .results import RESOLUTION, Measured, Results, change, over_seeds_and_problems

Rungs = tuple[int, ...]

HOLDS, WEAKLY, NOT, UNTOLD = "**holds**", "holds weakly", "does not hold", "cannot be told"
NOT_TESTABLE, NOT_RUN = "cannot be tested here", "not run yet"
# Of the interval that "holds weakly" asks for; "holds" and "does not hold" ask for 95%.
WEAK_CONFIDENCE = 0.8
# Points of accuracy, and percent of tokens, within which two methods count as equal.
SAME_ACCURACY, SAME_TOKENS = 1.0, 5.0


@dataclass(frozen=True)
class Measure:
    """What a claim is about: name and unit, how to compute it for every seed (as [`Results.rows`], of the results,
    rungs and runs), up to which size differences count as none, digits, and `resolution` of [`new_run`]."""

    label: str
    rows: Callable[..., np.ndarray | None]
    same: float
    digits: int = 1
    resolution: float = RESOLUTION


def _by(make: Callable[[Rungs], Callable]) -> Callable[..., np.ndarray | None]:
    """Rows by a function of runs that depends on the rungs."""
    return lambda results, rungs, *runs: results.rows(make(rungs), *runs)


def _changed(column: str) -> Callable[..., np.ndarray | None]:
    return _by(lambda rungs: change(column, rungs))


def _right_reflection(rungs: Rungs) -> Callable:
    """Difference in the share of right ones among the reflective answers, in points."""
    return lambda run, reference: run.right_among("reflective", rungs) - reference.right_among("reflective", rungs)


def _lead_over_best(rungs: Rungs) -> Callable:
    """Accuracy of the first run minus that of the best of the others."""
    return lambda run, *others: min((change("correct", rungs)(run, other) for other in others), key=_first)


def _over_fewest(rungs: Rungs) -> Callable:
    """Tokens of the first run against those of the one of the others that needs the fewest, in percent."""
    return lambda run, *others: max((change("tokens", rungs)(run, other) for other in others), key=_first)


def _first(values: np.ndarray) -> float:
    return values[0]


def _lead_over_curve(rungs: Rungs) -> Callable:
    """Accuracy of the first run minus that of the others, read off their curve at the tokens that the first spends."""

    def lead(run: Measured, *curve: Measured) -> np.ndarray:
        tokens = {point: _first(point.mean("tokens", rungs)) for point in curve}
        points = sorted(curve, key=tokens.get)
        spent, x = _first(run.mean("tokens", rungs)), [tokens[point] for point in points]
        weights = [float(np.interp(spent, x, of_point)) for of_point in np.eye(len(points))]
        return run.lead("correct", dict(zip(points, weights, strict=True)), rungs)

    return lead


def _in_hardest_tenth(results: Results, rungs: Rungs, *runs: str) -> np.ndarray | None:
    return results.in_bucket(0, lambda chosen: change("tokens", chosen), *runs)


def _gate(side: str) -> Measure:
    key = f"coda/mean_w_{side}"
    return Measure(
        "mean gate, last 30 steps", lambda results, rungs, run: results.logged(run, key), 0.05, 2, resolution=0.05
    )


_POINTS, _PERCENT = "Δ accuracy (points)", "Δ tokens (%)"
MEASURES = {
    "accuracy": Measure(_POINTS, _changed("correct"), SAME_ACCURACY),
    "lead over the best": Measure(_POINTS, _by(_lead_over_best), SAME_ACCURACY),
    "lead over the curve": Measure(_POINTS, _by(_lead_over_curve), SAME_ACCURACY),
    "tokens": Measure(_PERCENT, _changed("tokens"), SAME_TOKENS),
    "tokens over the fewest": Measure(_PERCENT, _by(_over_fewest), SAME_TOKENS),
    "tokens of the hardest tenth": Measure(_PERCENT, _in_hardest_tenth, SAME_TOKENS),
    "rechecks": Measure("Δ second counts (points)", _changed("rechecks"), 5.0),
    "verbose": Measure("Δ restating answers (points)", _changed("verbose"), 5.0),
    "reflective": Measure("Δ reflection ratio (points)", _changed("reflective"), 5.0),
    "right among reflective": Measure("Δ correct ratio (points)", _by(_right_reflection), 2.0),
    "easy gate": _gate("easy"),
    "hard gate": _gate("hard"),
}


@dataclass(frozen=True)
class Claim:
    """A line of `claims.csv`; `measure` is `None` if the claim cannot be tested."""

    source: str
    text: str
    measure: Measure | None
    where: str
    runs: Sequence[str]
    rungs: Rungs
    rule: str
    bound: float

    @property
    def number(self) -> str:
        """What the number is, and what the claim says about it."""
        bound = f"{abs(self.bound):g}"
        signed = f"{'−' if self.bound < 0 else '+'}{bound}" if "Δ" in self.measure.label else bound
        said = {"above": f"above {signed}", "below": f"below {signed}", "same": f"within ±{bound}"}[self.rule]
        return ", ".join([self.measure.label, self.where, *([said] if self.bound else [])])

    def rows(self, results: Results) -> np.ndarray | None:
        """The number for every seed, as [`Results.rows`]."""
        return self.measure.rows(results, self.rungs, *self.runs)

    def verdict(self, rows: np.ndarray | None) -> str:
        """The verdict on the claim, given its number for every seed: see [`judge`]."""
        if rows is None or np.isnan(rows[:, 0]).any():
            return NOT_RUN
        return self.judge(over_seeds_and_problems(rows), over_seeds_and_problems(rows, confidence=WEAK_CONFIDENCE))

    def judge(self, sure: Estimate, likely: Estimate) -> str:
        """
        The rule, given the number's 95% and 80% intervals: `holds` if the whole 95% interval agrees with the claim.
        `does not hold` if the whole 95% interval contradicts it, or, where the claim is that there is a difference,
        lies within what counts as none. `holds weakly` if the whole 80% interval agrees. Else `cannot be told`, as
        always with a single seed, which has no interval.
        """
        low, high = {
            "above": (self.bound, np.inf),
            "below": (-np.inf, self.bound),
            "same": (-self.bound, self.bound),
        }[self.rule]

        def agrees(found: Estimate) -> bool:
            return low < found.low and found.high < high

        if sure.low is None:
            return UNTOLD
        if agrees(sure):
            return HOLDS
        no_difference = self.bound == 0 and -self.measure.same <= sure.low and sure.high <= self.measure.same
        if no_difference or sure.high <= low or high <= sure.low:
            return NOT
        return WEAKLY if agrees(likely) else UNTOLD


def _read(line: dict[str, str]) -> Claim:
    runs, rungs = line["runs"].split(), tuple(map(int, line["rungs"].split()))
    measure, bound = MEASURES.get(line["measure"]), float(line["bound"] or 0)
    return Claim(line["source"], line["claim"], measure, line["where"], runs, rungs, line["rule"], bound)


with open(Path(__file__).with_name("claims.csv"), encoding="utf-8") as _file:
    CLAIMS = [_read(line) for line in csv.DictReader(_file)]
TESTABLE = [claim for claim in CLAIMS if claim.rule]

# What the verdicts mean, for whatever shows them; the page says the same in more words.
VERDICTS = (
    "Holds: all of the 95% interval agrees with the claim, in the form given under Number. Holds weakly: only the 80% "
    "interval does. Does not hold: all of the 95% interval contradicts the claim or, where it claims a difference, "
    f"lies within what counts as none ({SAME_ACCURACY:g} point of accuracy, {SAME_TOKENS:g}% of tokens, 5 points of a "
    "share of answers). Cannot be told: none of these."
)


def claims_table(results: Results, claims: Sequence[Claim] = CLAIMS, where: str = "On the ladder") -> Table:
    """Every claim with its number, 95% interval and verdict."""
    rows = []
    for claim in claims:
        if claim.measure is None:
            words, shown = (NOT_TESTABLE, claim.where), Cell(MISSING)
        else:
            found = claim.rows(results)
            words = (claim.verdict(found), claim.number)
            shown = Cell(MISSING) if found is None else claim_cell(claim, found)
        rows.append([*map(Cell, (claim.source, claim.text, *words)), shown])
    return Table(
        key="claims",
        title="Verdicts",
        caption=VERDICTS,
        header=["Paper", "Claim", where, "Number", "Value"],
        rows=rows,
    )


def claim_cell(claim: Claim, rows: np.ndarray) -> Cell:
    """The number of a claim with its interval."""
    return number(over_seeds_and_problems(rows), digits=claim.measure.digits, signed="Δ" in claim.measure.label)


def counted(table: Table) -> str:
    """One sentence with the number of claims for every verdict, from the claims' table."""
    found = Counter(row[2].text for row in table.rows)
    words = {
        HOLDS: "hold",
        WEAKLY: "hold weakly",
        NOT: "do not hold",
        UNTOLD: "cannot be told",
        NOT_TESTABLE: "cannot be tested here",
        NOT_RUN: "are not run yet",
    }
    parts = [f"{found[verdict]} {said}" for verdict, said in words.items() if found[verdict]]
    return f"Of {len(table.rows)} claims {', '.join(parts)}.\n"
