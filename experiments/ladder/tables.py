"""Tables of the ladder alone: the paper's ablations, those it lacks, L1 by its budgets, and where new seeds land."""

from collections.abc import Mapping

import numpy as np

from coda_trl.report.elements import MISSING, Cell, Table, text

from ..matrix import ALL_RUNGS, EASY_RUNGS, HARD_RUNGS, L1_BUDGETS, RUNS, SEEDS
from ..results import Results, new_run
from ..tables import (
    BY_RUNG,
    CAPTION,
    METHODS,
    accuracy_on,
    buckets,
    by_rung,
    cell,
    reflection,
    span,
    span_of,
    styles,
    tokens_on,
)

# Columns of a table that is about easy and hard problems.
BY_SIDE = {"easy": EASY_RUNGS, "hard": HARD_RUNGS, "average": ALL_RUNGS}


def new_runs(results: Results) -> Table:
    """Where one more run, and the mean of as many as there are, will land: what a repetition is held against."""
    rows = []
    for name in METHODS[1:]:
        for metric, function in (("accuracy", accuracy_on), ("tokens", tokens_on)):
            found = [results.rows(function(rungs), name) for rungs in BY_RUNG.values()]
            label = (text(RUNS[name].label), text(metric))
            rows.append([*label, text("1"), *(_range(row, 1) for row in found)])
            rows.append([*label, text(f"{SEEDS}"), *(_range(row, SEEDS) for row in found)])
    return Table(
        key="new_runs",
        title="Where new seeds land",
        caption="95% prediction intervals for a single run with another seed, and for the mean over five, on the same "
        "evaluation problems; never narrower than half a point or half a token either way. One number in twenty is "
        "expected outside.",
        header=["", "", "Seeds", *BY_RUNG],
        rows=rows,
    )


def _range(rows: np.ndarray | None, runs: int) -> Cell:
    if rows is None:
        return Cell(MISSING)
    found = new_run(rows, runs)
    if found.low is None:
        return Cell(MISSING, value=found.value)
    return Cell(span(found), value=found.value, low=found.low, high=found.high)


def l1_budgets(results: Results) -> Table:
    """What L1 does with the budget it is told: tokens and accuracy by side."""
    rows = [_sides(results, f"{budget}", f"l1@{budget}") for budget in L1_BUDGETS]
    rows += [_sides(results, RUNS[name].label, name) for name in ("grpo", "coda")]
    return Table(
        key="l1_budgets",
        title="L1 by the budget it is told, and two methods that are told none",
        caption=f"{CAPTION} Easy: rungs {span_of(EASY_RUNGS)}; hard: rungs {span_of(HARD_RUNGS)}.",
        header=["Budget", *_side_header()],
        rows=rows,
    )


def _side_header() -> list[str]:
    return [*(f"Accuracy, {side}" for side in BY_SIDE), *(f"Tokens, {side}" for side in BY_SIDE)]


def _sides(results: Results, label: str, name: str) -> list[Cell]:
    functions = [function(rungs) for function in (accuracy_on, tokens_on) for rungs in BY_SIDE.values()]
    return [text(label), *(cell(results.estimate(function, name)) for function in functions)]


def settings(results: Results, key: str, title: str, rows: Mapping[str, str], caption: str = "") -> Table:
    """An ablation: one row a setting, by label. The caption goes in front of the general one."""
    return Table(
        key=key,
        title=title,
        caption=f"{caption} {CAPTION} Easy: rungs {span_of(EASY_RUNGS)}; hard: rungs {span_of(HARD_RUNGS)}.".strip(),
        header=["", *_side_header()],
        rows=[_sides(results, label, name) for label, name in rows.items()],
    )


def _strengths(letter: str, word: str) -> dict[str, str]:
    return {
        f"{letter} = {value}": "coda" if value == 0.2 else f"coda-{word}-{value}"
        for value in (0.0, 0.1, 0.2, 0.3, 0.4)
    }


def ablations(results: Results) -> list[Table]:
    """The paper's ablations (its appendix), and those it lacks."""
    thresholds = {
        "(0.6, 0.25)": "coda-tau-easy-0.6",
        "(0.75, 0.25)": "coda",
        "(0.9, 0.25)": "coda-tau-easy-0.9",
        "(0.75, 0.1)": "coda-tau-hard-0.1",
        "(0.75, 0.4)": "coda-tau-hard-0.4",
    }
    shifts = {
        f"{RUNS[method].label}, {side}": method if side == "mixed" else f"{method}-{side}"
        for side in ("easy", "mixed", "hard")
        for method in ("grpo", "coda")
    }
    others = {
        "CODA": "coda",
        "length statistics over correct answers": "coda-correct",
        "rewards scaled by the group's deviation": "coda-scaled",
        "G = 8": "coda-group-8",
        "G = 4": "coda-group-4",
    }
    bonus = {"GRPO": "grpo", "bonus on right answers (CODA)": "coda", "on wrong ones too": "coda-incorrect-bonus"}
    return [
        settings(results, "alpha", "Easy-side penalty α", _strengths("α", "alpha")),
        settings(results, "beta", "Hard-side bonus β", _strengths("β", "beta")),
        settings(results, "thresholds", "Thresholds (τ easy, τ hard)", thresholds),
        settings(results, "incorrect_bonus", "Who gets the hard-side bonus", bonus),
        settings(results, "shifts", "Training sets: easy rungs alone, all, the hardest alone", shifts),
        settings(
            results,
            "variants",
            "Variants that the paper does not test",
            others,
            "A smaller group comes with more prompts, so that a step has 160 answers throughout.",
        ),
    ]


def all_tables(results: Results) -> list[Table]:
    """Every table, in the order of the page."""
    return [
        by_rung(results, "accuracy"),
        by_rung(results, "tokens"),
        buckets(results),
        l1_budgets(results),
        reflection(results),
        styles(results),
        *ablations(results),
        new_runs(results),
    ]
