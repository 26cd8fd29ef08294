"""A repetition with other seeds, held against what is stated.

A 95% interval of a table says where the mean over seeds and problems lies, not where the next mean of a few seeds
falls: that is a prediction interval ([`new_run`]), and it is what a repetition is held against here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from coda_trl.evaluation import Estimate
from coda_trl.report.elements import Cell, Table, number, text

from .claims import CLAIMS, against
from .matrix import RUNS
from .results import RESOLUTION, Results, new_run, over_seeds
from .tables import BY_RUNG, METHODS, accuracy_change, accuracy_on, span, token_change, tokens_on

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


def numbers(results: Results, repetition: Results, columns: Mapping[str, Sequence[int]] = BY_RUNG) -> list[Number]:
    """The numbers of Table 1 and of the claims that both have, the first with at least two seeds."""
    kinds = (
        ("accuracy by rung", accuracy_on, METHODS[1:], ()),
        ("tokens by rung", tokens_on, METHODS[1:], ()),
        ("difference to GRPO: accuracy", accuracy_change, METHODS[2:], ("grpo",)),
        ("difference to GRPO: tokens", token_change, METHODS[2:], ("grpo",)),
    )
    asked = [
        (group, f"{RUNS[name].label}, {column}", RESOLUTION, against(function(rungs), name, *reference))
        for group, function, names, reference in kinds
        for name in names
        for column, rungs in columns.items()
    ]
    asked += [("claims", f"{claim.text} ({claim.where})", claim.quantity.resolution, claim.rows) for claim in CLAIMS]
    found = []
    for group, label, resolution, rows in asked:
        stated, new = rows(results), rows(repetition)
        if stated is not None and new is not None and len(stated) > 1:
            found.append(Number(group, label, stated, new, resolution))
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
    for group, members in (groups | {"all": list(found)}).items():
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
    return Table(
        key="outside",
        title="Outside",
        caption="Numbers with their mean over the new seeds, where it lies elsewhere than expected."
        if rows
        else "None.",
        header=["Kind", "Number", "Expected", "New seeds"],
        rows=rows,
    )


def repeated_claims_table(results: Results, repetition: Results, both: Results) -> Table:
    """The claims that new seeds speak to: first seeds, new seeds, and all of them together."""
    rows = []
    for claim in CLAIMS:
        found = [claim.rows(of) for of in (results, repetition, both)]
        stated, new, _ = found
        if stated is None or new is None or len(stated) < 2:
            continue
        digits = claim.quantity.digits
        numbers = [number(over_seeds(rows), digits=digits, signed=True) for rows in found]
        expected = text(span(new_run(stated, len(new), claim.quantity.resolution), digits))
        verdicts = [text(claim.verdict(rows)) for rows in found]
        rows.append([text(claim.text), numbers[0], expected, numbers[1], numbers[2], *verdicts])
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
