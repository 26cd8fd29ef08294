"""A repetition with other seeds, compared with what is stated.

A 95% interval of a table says where the mean over seeds and problems lies, not where the next mean of a few seeds
falls: that is a prediction interval ([`new_run`]), and it is what a repetition is compared with here.
"""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd

from coda_trl.report.elements import Cell, Table, number

from ..files import Row
from .claims import TESTABLE, claim_cell
from .matrix import RUNS
from .results import RESOLUTION, Results, change, new_run, value
from .tables import BY_RUNG, METHODS, span

# Share of the numbers that must lie inside. 95% or more is expected, but the numbers of a run are correlated, as are
# runs with the same seed: by simulation, fewer than this lie inside in one fair repetition of twenty-five.
ENOUGH = 0.85

VERDICT_COLUMNS = ("Verdict: first", "new", "all")


def compared(group: str, label: str, stated: np.ndarray, new: np.ndarray, resolution: float = RESOLUTION) -> Row:
    """
    A number of the tables, by kind and label, with the first seeds and the new ones (see [`Results.rows`]): the `mean`
    over the new ones, where it is `expected`, whether it is `inside`; whether the seeds differ by so much that
    `resolution` does not make the interval wider (`varies`); and of every new seed by itself, whether it lies where a
    `single` one is expected.
    """
    values = new[:, 0]
    expected, single = (new_run(stated, runs, resolution) for runs in (len(new), 1))
    bare = new_run(stated, len(new), resolution=0.0)
    return {
        "group": group,
        "label": label,
        "stated": stated,
        "resolution": resolution,
        "expected": expected,
        "mean": float(values.mean()),
        "inside": expected.low <= values.mean() <= expected.high,
        "varies": bare.high - bare.low > 2 * resolution,
        "single": (single.low <= values) & (values <= single.high),
    }


def numbers(results: Results, repetition: Results, columns: Mapping[str, tuple[int, ...]] = BY_RUNG) -> pd.DataFrame:
    """The numbers of Table 1 and of the claims that both have, the first with at least two seeds: [`compared`]."""
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
    found = [compared(*each) for each in asked if each[2] is not None and each[3] is not None and len(each[2]) > 1]
    if not found:
        raise ValueError("The two have no run in common of which the first have at least two seeds.")
    return pd.DataFrame(found)


def _of(hits: Sequence[bool] | np.ndarray) -> Cell:
    return Cell(f"{sum(hits)} of {len(hits)}" + (f" ({np.mean(hits):.0%})" if len(hits) else ""))


def counts_table(found: pd.DataFrame) -> Table:
    """How many numbers lie inside, by kind."""
    rows = [
        [Cell(group), _of(of["inside"]), _of(of["inside"][of["varies"]]), _of(np.concatenate([*of["single"]]))]
        for group, of in [*found.groupby("group", sort=False), ("all", found)]
    ]
    return Table(
        key="repetition",
        title="New seeds inside their 95% prediction intervals",
        caption="Expected: 95%. Numbers that vary: those whose interval is wider than the least width, half a point "
        "or half a token either way; the others say little. Single seeds: by the interval for one run.",
        header=["Numbers", "Means over the new seeds", "… of numbers that vary", "Single new seeds"],
        rows=rows,
    )


def outside_table(found: pd.DataFrame) -> Table:
    """The numbers whose new mean lies outside."""
    rows = [
        [Cell(each.group), Cell(each.label), Cell(span(each.expected, 2)), number(each.mean, digits=2)]
        for each in found[~found["inside"].astype(bool)].itertuples()
    ]
    caption = "Numbers whose mean over the new seeds lies outside the expected interval." if rows else "None."
    return Table("outside", "Outside", caption, ["Kind", "Number", "Expected", "New seeds"], rows)


def repeated_claims_table(results: Results, repetition: Results) -> Table:
    """The claims that new seeds speak to: first seeds, new seeds, and all of them together."""
    both, rows = Results(results.lines + repetition.lines), []
    for claim in TESTABLE:
        found = [claim.rows(of) for of in (results, repetition, both)]
        stated, new, _ = found
        if stated is not None and new is not None and len(stated) > 1:
            expected = Cell(span(new_run(stated, len(new), claim.measure.resolution), claim.measure.digits))
            first, again, together = (claim_cell(claim, each) for each in found)
            verdicts = [Cell(claim.verdict(each)) for each in found]
            rows.append([Cell(claim.text), first, expected, again, together, *verdicts])
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
        f"{len(claims.rows)} claims keep their verdict."
    )
