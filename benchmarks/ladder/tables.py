"""The tables: the paper's Table 1 and 2 on rungs, its appendix's ablations, and those it lacks."""

from collections.abc import Callable, Mapping, Sequence

import numpy as np
from matrix import EASY_RUNGS, HARD_RUNGS, L1_BUDGETS, RUNS, SEEDS
from results import ALL_RUNGS, SORTERS, Measured, Results, new_run, over_seeds

from coda_trl.analysis import bucket_names
from coda_trl.evaluation import Estimate
from coda_trl.ladder import RUNGS
from coda_trl.report.elements import MISSING, Cell, Table, difference, number, text

METHODS = ("start", "grpo", "vlp", "asrr", "linear", "alp", "gr3", "coda", "coda-correct")
CAPTION = "Mean over seeds, 95% interval over seeds and problems in brackets."
NOISE = "≈ marks a difference whose interval holds 0."

Function = Callable[..., np.ndarray]

# Columns of a table by rung.
BY_RUNG: dict[str, tuple[int, ...]] = {f"{rung} (add {RUNGS[rung]})": (rung,) for rung in ALL_RUNGS} | {
    "Average": ALL_RUNGS
}
# Columns of a table that is about easy and hard problems.
BY_SIDE = {"easy": EASY_RUNGS, "hard": HARD_RUNGS, "average": ALL_RUNGS}


def cell(result: Estimate | None, digits: int = 1) -> Cell:
    """A number, or a dash where there is no run."""
    return Cell(MISSING) if result is None else number(result, digits=digits)


def delta(result: Estimate | None, digits: int = 1, unit: str = "", higher_is_better: bool | None = True) -> Cell:
    """A difference, or a dash where there is no run."""
    return Cell(MISSING) if result is None else difference(result, digits, unit, higher_is_better)


def accuracy_on(rungs: Sequence[int]) -> Function:
    """Accuracy in percent on some rungs."""
    return lambda run: run.accuracy(rungs)


def tokens_on(rungs: Sequence[int]) -> Function:
    """Tokens of an answer on some rungs."""
    return lambda run: run.tokens(rungs)


def accuracy_change(rungs: Sequence[int]) -> Function:
    """Difference of two accuracies in percentage points."""
    return lambda run, reference: run.accuracy(rungs) - reference.accuracy(rungs)


def token_change(rungs: Sequence[int]) -> Function:
    """Relative change of tokens in percent."""
    return lambda run, reference: 100 * (run.tokens(rungs) / reference.tokens(rungs) - 1)


def by_rung(
    results: Results,
    metric: str,
    names: Sequence[str] = METHODS,
    reference: str = "grpo",
    columns: Mapping[str, Sequence[int]] = BY_RUNG,
) -> Table:
    """One half of the paper's Table 1: accuracy or tokens by rung, with difference rows."""
    is_accuracy = metric == "accuracy"
    value, change = (accuracy_on, accuracy_change) if is_accuracy else (tokens_on, token_change)
    rows = [
        [text(RUNS[name].label), *(cell(results.estimate(value(rungs), name)) for rungs in columns.values())]
        for name in names
    ]
    others = [name for name in names if name not in ("start", reference)]
    for name in others:
        cells = (results.estimate(change(rungs), name, reference) for rungs in columns.values())
        if is_accuracy:
            shown = [delta(result) for result in cells]
        else:
            shown = [delta(result, 0, "%", higher_is_better=False) for result in cells]
        rows.append([text(f"Δ {RUNS[name].label}"), *shown])
    unit = "in percentage points" if is_accuracy else "in percent of its tokens"
    return Table(
        key=metric,
        title="Accuracy by rung (%, mean@8)" if is_accuracy else "Tokens of an answer by rung",
        caption=f"{CAPTION} Δ: difference to {RUNS[reference].label} {unit}. {NOISE}",
        header=["", *columns],
        rows=rows,
        differences=frozenset(range(len(names), len(rows))),
    )


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


def span(found: Estimate, digits: int = 1) -> str:
    """An interval as text, without its middle."""
    return f"{found.low:.{digits}f} to {found.high:.{digits}f}".replace("-", "−")


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
        caption=f"{CAPTION} Easy: rungs {_span(EASY_RUNGS)}; hard: rungs {_span(HARD_RUNGS)}.",
        header=["Budget", *_side_header()],
        rows=rows,
    )


def _span(rungs: Sequence[int]) -> str:
    return f"{rungs[0]} to {rungs[-1]}"


def _side_header() -> list[str]:
    return [*(f"Accuracy, {side}" for side in BY_SIDE), *(f"Tokens, {side}" for side in BY_SIDE)]


def _sides(results: Results, label: str, name: str) -> list[Cell]:
    functions = [function(rungs) for function in (accuracy_on, tokens_on) for rungs in BY_SIDE.values()]
    return [text(label), *(cell(results.estimate(function, name)) for function in functions)]


def settings(results: Results, key: str, title: str, rows: Mapping[str, str], caption: str = "") -> Table:
    """
    An ablation: one row a setting.

    Args:
        results (`Results`):
            All runs.
        key (`str`), title (`str`):
            Of the table.
        rows (`Mapping[str, str]`):
            Run by label.
        caption (`str`, *optional*, defaults to `""`):
            Sentence in front of the general caption.
    """
    return Table(
        key=key,
        title=title,
        caption=f"{caption} {CAPTION} Easy: rungs {_span(EASY_RUNGS)}; hard: rungs {_span(HARD_RUNGS)}.".strip(),
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


def bucket_accuracy(chosen: np.ndarray, run: Measured) -> np.ndarray:
    """Accuracy in percent on the chosen problems."""
    return run.bucket_accuracy(chosen)


def bucket_ratio(chosen: np.ndarray, run: Measured, reference: Measured) -> np.ndarray:
    """Tokens over the reference's on the chosen problems."""
    return run.bucket_tokens(chosen) / reference.bucket_tokens(chosen)


def bucket_points(chosen: np.ndarray, run: Measured, reference: Measured) -> np.ndarray:
    """Accuracy minus the reference's on the chosen problems, in points."""
    return run.bucket_accuracy(chosen) - reference.bucket_accuracy(chosen)


def buckets(results: Results, names: Sequence[str] = ("vlp", "asrr", "coda", "coda-correct")) -> Table:
    """Fig. 1a: tokens over GRPO's, and the difference in accuracy, by difficulty."""

    def show(index: int, function: Function, *runs: str) -> Estimate | None:
        found = results.in_bucket(index, function, *runs)
        return None if found is None else over_seeds(found)

    rows = []
    for index, label in enumerate(bucket_names() if len(results.seeds(*SORTERS)) > 1 else ()):
        problems = (results.buckets(results.seeds(*SORTERS)[0]) == index).sum()
        row = [text(label), number(int(problems), digits=0), cell(show(index, bucket_accuracy, "grpo"))]
        for name in names:
            row += [cell(show(index, bucket_ratio, name, "grpo"), 2), delta(show(index, bucket_points, name, "grpo"))]
        rows.append(row)
    return Table(
        key="buckets",
        title="By difficulty: tokens over those of GRPO, and difference in accuracy",
        caption="For every seed, problems are sorted by their success rate over all other seeds of GRPO and CODA, so "
        f"that no run is judged on what sorted it; the hardest first. {CAPTION} {NOISE}",
        header=[
            "Percentile",
            "Problems",
            "GRPO's accuracy",
            *(column for name in names for column in (f"{RUNS[name].label}: ratio", f"{RUNS[name].label}: Δ points")),
        ],
        rows=rows,
    )


def reflection(results: Results, names: Sequence[str] = METHODS) -> Table:
    """The paper's Table 2 on the hard rungs, with its terms and with the ladder's own marker."""
    markers = {"paper's terms": "reflective", "second count": "rechecks"}

    def share(marker: str) -> Function:
        return lambda run: run.share(marker, HARD_RUNGS)

    def correct(marker: str) -> Function:
        return lambda run: run.correct_share(marker, HARD_RUNGS)

    rows = [
        [
            text(RUNS[name].label),
            *(
                cell(results.estimate(function(marker), name))
                for marker in markers.values()
                for function in (share, correct)
            ),
        ]
        for name in names
    ]
    return Table(
        key="reflection",
        title=f"Reflection on rungs {_span(HARD_RUNGS)}",
        caption="Ratio: percent of answers with the marker. Correct: percent of these that are right. The paper's "
        "terms are its 17 reflective words, of which the ladder has `verify` and `wait`; the second count is the "
        f"ladder's own marker, a check carried through to its comparison. {CAPTION}",
        header=["", *(f"{title}: {column}" for title in markers for column in ("ratio", "correct"))],
        rows=rows,
    )


def styles(results: Results, names: Sequence[str] = METHODS) -> Table:
    """How answers are written, by side: what is trimmed, and what is kept."""
    kinds = ("direct", "totals", "check", "verbose")
    rows = []
    for name in names:
        summaries = results.summaries.get(name, {}).values()
        rungs = [summary.content["evaluations"][0]["rungs"] for summary in summaries]
        shares = [
            100 * np.mean([found[str(rung)]["styles"].get(kind, 0.0) for found in rungs for rung in side])
            if rungs
            else float("nan")
            for side in (EASY_RUNGS, HARD_RUNGS)
            for kind in kinds
        ]
        rows.append([text(RUNS[name].label), *(number(share, digits=0) for share in shares)])
    return Table(
        key="styles",
        title="How answers are written (% of answers)",
        caption=f"Mean over seeds. Easy: rungs {_span(EASY_RUNGS)}; hard: rungs {_span(HARD_RUNGS)}. `verbose` "
        "restates the problem, `check` counts twice.",
        header=["", *(f"{side}: {kind}" for side in ("easy", "hard") for kind in kinds)],
        rows=rows,
    )


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
