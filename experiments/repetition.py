"""A repetition with other seeds, held against what is stated.

A 95% interval of a table says where the mean over seeds and problems lies, not where the next mean of a few seeds
falls: that is a prediction interval ([`new_run`]), and it is what a repetition is held against here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coda_trl.evaluation import Estimate
from coda_trl.report.elements import Cell, Table, number, text

from .claims import TESTABLE, claim_cell
from .matrix import RUNS
from .results import RESOLUTION, Results, change, new_run, value
from .tables import BY_RUNG, METHODS, span

# Share of the numbers that must lie inside. 95% or more is expected, but the numbers of a run go together, and so do
# runs with the same seed: by simulation, fewer than this lie inside in one fair repetition of twenty-five.
ENOUGH = 0.85

VERDICT_COLUMNS = ("Verdict: first", "new", "all")


@dataclass(frozen=True)
class Number:
    """A number of the tables, by kind and label, with the first seeds and the new ones: see [`Results.rows`]."""

    group: str
    label: str
    stated: np.ndarray
    new: np.ndarray
    resolution: float = RESOLUTION

    @property
    def mean(self) -> float:
        """Mean over the new seeds."""
        return float(self.new[:, 0].mean())

    @property
    def expected(self) -> Estimate:
        """Where the mean over so many new seeds is expected."""
        return new_run(self.stated, len(self.new), self.resolution)

    @property
    def is_inside(self) -> bool:
        """Whether it is there."""
        return self.expected.low <= self.mean <= self.expected.high

    @property
    def varies(self) -> bool:
        """Whether the seeds differ by so much that `resolution` does not make the interval wider."""
        bare = new_run(self.stated, len(self.new), resolution=0.0)
        return bare.high - bare.low > 2 * self.resolution

    def single_inside(self) -> np.ndarray:
        """Of every new seed by itself, whether it lies where a single one is expected. Shape `(K,)`."""
        single = new_run(self.stated, 1, self.resolution)
        return (single.low <= self.new[:, 0]) & (self.new[:, 0] <= single.high)


def numbers(results: Results, repetition: Results, columns: Mapping[str, tuple[int, ...]] = BY_RUNG) -> list[Number]:
    """The numbers of Table 1 and of the claims that both have, the first with at least two seeds."""
    both, asked = (results, repetition), []
    for group, make, column, names, reference in (
        ("accuracy by rung", value, "correct", METHODS[1:], ()),
        ("tokens by rung", value, "tokens", METHODS[1:], ()),
        ("difference to GRPO: accuracy", change, "correct", METHODS[2:], ("grpo",)),
        ("difference to GRPO: tokens", change, "tokens", METHODS[2:], ("grpo",)),
    ):
        for name in names:
            for title, rungs in columns.items():
                rows = [of.rows(make(column, rungs), name, *reference) for of in both]
                asked.append((group, f"{RUNS[name].label}, {title}", *rows, RESOLUTION))
    for claim in TESTABLE:
        rows = [claim.rows(of) for of in both]
        asked.append(("claims", f"{claim.text} ({claim.where})", *rows, claim.measure.resolution))
    found = [Number(*each) for each in asked if each[2] is not None and each[3] is not None and len(each[2]) > 1]
    if not found:
        raise ValueError("The two have no run in common of which the first have at least two seeds.")
    return found


def share_inside(found: Sequence[Number]) -> float:
    """Share of the numbers whose new mean lies where it is expected."""
    return float(np.mean([each.is_inside for each in found]))


def _of(hits: Sequence[bool] | np.ndarray) -> Cell:
    return text(f"{sum(hits)} of {len(hits)}" + (f" ({np.mean(hits):.0%})" if len(hits) else ""))


def counts_table(found: Sequence[Number]) -> Table:
    """How many numbers lie inside, by kind."""
    groups = {each.group: [other for other in found if other.group == each.group] for each in found}
    rows = []
    for group, members in (groups | {"all": found}).items():
        varying = [each.is_inside for each in members if each.varies]
        single = np.concatenate([each.single_inside() for each in members])
        rows.append([text(group), _of([each.is_inside for each in members]), _of(varying), _of(single)])
    return Table(
        key="repetition",
        title="New seeds inside their 95% prediction intervals",
        caption="Expected: 95%. Numbers that vary: those whose interval is wider than the least width, half a point "
        "or half a token either way; the others say little. Single seeds are held against the interval for one run.",
        header=["Numbers", "Means over the new seeds", "… of numbers that vary", "Single new seeds"],
        rows=rows,
    )


def outside_table(found: Sequence[Number]) -> Table:
    """The numbers whose new mean lies elsewhere."""
    rows = [
        [text(each.group), text(each.label), text(span(each.expected, 2)), number(each.mean, digits=2)]
        for each in found
        if not each.is_inside
    ]
    caption = "Numbers with their mean over the new seeds, where it lies elsewhere than expected." if rows else "None."
    return Table("outside", "Outside", caption, ["Kind", "Number", "Expected", "New seeds"], rows)


def repeated_claims_table(results: Results, repetition: Results) -> Table:
    """The claims that new seeds speak to: first seeds, new seeds, and all of them together."""
    both, rows = Results(results.lines + repetition.lines), []
    for claim in TESTABLE:
        found = [claim.rows(of) for of in (results, repetition, both)]
        stated, new, _ = found
        if stated is not None and new is not None and len(stated) > 1:
            expected = text(span(new_run(stated, len(new), claim.measure.resolution), claim.measure.digits))
            first, again, together = (claim_cell(claim, each) for each in found)
            verdicts = [text(claim.verdict(each)) for each in found]
            rows.append([text(claim.text), first, expected, again, together, *verdicts])
    return Table(
        key="repeated_claims",
        title="The claims with other seeds",
        caption="Numbers as in *Claim by claim*, 95% intervals in brackets. Expected: 95% prediction interval for the "
        "mean over the new seeds.",
        header=["Claim", "First seeds", "Expected", "New seeds", "All seeds", *VERDICT_COLUMNS],
        rows=rows,
    )


def outcome(counts: Table, claims: Table) -> str:
    """One sentence from [`counts_table`] and [`repeated_claims_table`]."""
    same = sum(row[-3].text == row[-2].text for row in claims.rows)
    return (
        f"With new seeds, {counts.rows[-1][1].text} means lie inside their 95% prediction intervals, and {same} of "
        f"{len(claims.rows)} claims get the verdict that they had."
    )
