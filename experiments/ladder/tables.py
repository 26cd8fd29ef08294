"""Tables of a testbed with rungs: the paper's Table 1 and 2, answers by difficulty and style, ablations, new seeds."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coda_trl.analysis import bucket_names
from coda_trl.evaluation import Estimate
from coda_trl.ladder import RUNGS
from coda_trl.report.elements import MISSING, Cell, Table, difference, number
from coda_trl.report.style import run_styles

from .matrix import ALL_RUNGS, EASY_RUNGS, HARD_RUNGS, L1_BUDGETS, MAIN, RUNS, SEEDS
from .results import SORTERS, Function, Results, change, new_run, over_seeds_and_problems, value

# Rows of the tables, CODA last; L1 is evaluated at budgets instead.
METHODS = sorted((name for name in MAIN if name != "l1"), key=lambda name: name.startswith("coda"))
# Methods that are shown by difficulty.
SHAPED = ("vlp", "asrr", "coda", "coda-correct")


def line_styles(names: Iterable[str]) -> dict[str, dict[str, Any]]:
    """Lines and markers of methods in figures."""
    return run_styles(list(dict.fromkeys(("coda", "linear", "vlp", "asrr", "coda-correct", "l1", *names))), None) | {
        "grpo": {"color": "black", "marker": "*", "linestyle": "-"},
        "start": {"color": "#7F7F7F", "marker": "o", "linestyle": ":"},
        "alp": {"color": "#882255", "marker": "<", "linestyle": (0, (6, 2))},
        "gr3": {"color": "#332288", "marker": ">", "linestyle": (0, (3, 1, 1, 1))},
    }


STYLES = line_styles(METHODS)
CAPTION = "Mean over seeds, 95% interval over seeds and problems in brackets."
NOISE = "≈ marks a difference whose interval holds 0."
SIDES = {"easy": EASY_RUNGS, "hard": HARD_RUNGS}
WHICH = "Easy: rungs 1 to 3; hard: rungs 5 to 6."

# Columns of a table by rung.
BY_RUNG: dict[str, tuple[int, ...]] = {f"{rung} (add {RUNGS[rung]})": (rung,) for rung in ALL_RUNGS} | {
    "Average": ALL_RUNGS
}
# The same with easy and hard rungs together.
BY_DIFFICULTY = {"Easy (rungs 1 to 3)": EASY_RUNGS, "Rung 4": (4,), "Hard (5 and 6)": HARD_RUNGS, "Average": ALL_RUNGS}
# Columns of a table that is about easy and hard problems.
BY_SIDE = {
    f"{title}, {side}": value(column, rungs)
    for title, column in (("Accuracy", "correct"), ("Tokens", "tokens"))
    for side, rungs in (SIDES | {"average": ALL_RUNGS}).items()
}


def span(found: Estimate, digits: int = 1) -> str:
    """An interval as text, without its middle."""
    return f"{found.low:.{digits}f} to {found.high:.{digits}f}".replace("-", "−")


def _cell(result: Estimate | None, digits: int = 1) -> Cell:
    """A number, or a dash where there is no run."""
    return Cell(MISSING) if result is None else number(result, digits=digits)


def _delta(result: Estimate | None, is_tokens: bool = False) -> Cell:
    """A difference in points, or of tokens in percent."""
    if result is None:
        return Cell(MISSING)
    return difference(result, 0, "%", higher_is_better=False) if is_tokens else difference(result)


def _grid(results: Results, names: Mapping[str, str], columns: Mapping[str, Function]) -> list[list[Cell]]:
    """A row for every run, by label, and a number in every column."""
    return [
        [Cell(label), *(_cell(results.estimate(function, name)) for function in columns.values())]
        for label, name in names.items()
    ]


def _labels(names: Iterable[str], **others: str) -> dict[str, str]:
    """Runs by label: another one, the token budget, or that of the matrix."""
    return {others.get(name) or name.partition("@")[2] or RUNS[name].label: name for name in names}


def by_rung(
    results: Results,
    metric: str,
    names: Sequence[str] = METHODS,
    columns: Mapping[str, tuple[int, ...]] = BY_RUNG,
    by: str = "rung",
) -> Table:
    """One half of the paper's Table 1: accuracy or tokens by rung (or as `by` says), with differences to GRPO."""
    is_tokens = metric == "tokens"
    column = "tokens" if is_tokens else "correct"
    rows = _grid(results, _labels(names), {title: value(column, rungs) for title, rungs in columns.items()})
    for name in names:
        if name not in ("start", "grpo"):
            changes = (results.estimate(change(column, rungs), name, "grpo") for rungs in columns.values())
            rows.append([Cell(f"Δ {RUNS[name].label}"), *(_delta(each, is_tokens) for each in changes)])
    unit = "in percent of its tokens" if is_tokens else "in percentage points"
    return Table(
        key=metric if by == "rung" else f"{metric}-by-{by}",
        title=f"Tokens of an answer by {by}" if is_tokens else f"Accuracy by {by} (%, mean@8)",
        caption=f"{CAPTION} Δ: difference to GRPO {unit}. {NOISE}",
        header=["", *columns],
        rows=rows,
        differences=frozenset(range(len(names), len(rows))),
    )


def token_ratio(chosen: np.ndarray) -> Function:
    """Tokens over the reference's on chosen problems."""
    return lambda run, reference: run.mean("tokens", chosen) / reference.mean("tokens", chosen)


def buckets(results: Results, names: Sequence[str] = SHAPED) -> list[Table]:
    """Fig. 1a: tokens over GRPO's, and the difference in accuracy, by difficulty."""

    def show(index: int, make, *runs: str) -> Estimate | None:
        found = results.in_bucket(index, make, *runs)
        return None if found is None else over_seeds_and_problems(found)

    sorters, ratios, points = results.trainings(*SORTERS), [], []
    for index, label in enumerate(bucket_names() if len(sorters) > 1 else ()):
        problems = (results.buckets(sorters[0]) == index).sum()
        row = [Cell(label), number(int(problems), digits=0)]
        ratios.append([*row, *(_cell(show(index, token_ratio, name, "grpo"), 2) for name in names)])
        right = (show(index, lambda chosen: change("correct", chosen), name, "grpo") for name in names)
        points.append([*row, _cell(show(index, lambda chosen: value("correct", chosen), "grpo")), *map(_delta, right)])
    labels = [RUNS[name].label for name in names]
    sorting = "For every seed, problems are sorted by their success rate over all other seeds of GRPO and CODA, the "
    caption, header = f"{sorting}hardest first. {CAPTION}", ["Percentile", "Problems"]
    return [
        Table("buckets", "By difficulty: tokens over those of GRPO", caption, [*header, *labels], ratios),
        Table(
            "bucket-points",
            "By difficulty: difference in accuracy to GRPO (points)",
            f"{caption} {NOISE}",
            [*header, "GRPO (%)", *labels],
            points,
        ),
    ]


def reflection(
    results: Results,
    names: Sequence[str] = METHODS,
    words: str = "the ladder has `verify` and `wait`; the second count is the ladder's own marker, a check",
) -> Table:
    """The paper's Table 2 on the hard rungs, with its terms (`words`: which there are) and with the second count."""
    columns = {}
    for title, marker in (("paper's terms", "reflective"), ("second count", "rechecks")):
        columns[f"{title}: ratio"] = value(marker, HARD_RUNGS)
        columns[f"{title}: correct"] = lambda run, marker=marker: run.right_among(marker, HARD_RUNGS)
    return Table(
        key="reflection",
        title="Reflection on rungs 5 to 6",
        caption="Ratio: percent of answers with the marker. Correct: percent of these that are right. The paper's "
        f"terms are its 17 reflective words, of which {words} carried through to its comparison. {CAPTION}",
        header=["", *columns],
        rows=_grid(results, _labels(names), columns),
    )


def styles(results: Results, names: Sequence[str] = METHODS) -> Table:
    """How answers are written, by side: what is trimmed, and what is kept."""
    kinds = ("direct", "totals", "check", "verbose")
    rows = []
    for name in names:
        rungs = [line["evaluations"][0]["rungs"] for line in results.runs.get(name, {}).values()]
        shares = [
            100 * np.mean([found[str(rung)]["styles"].get(kind, 0.0) for found in rungs for rung in side])
            if rungs
            else float("nan")
            for side in SIDES.values()
            for kind in kinds
        ]
        rows.append([Cell(RUNS[name].label), *(number(share, digits=0) for share in shares)])
    return Table(
        key="styles",
        title="How answers are written (% of answers)",
        caption=f"Mean over seeds. {WHICH} `verbose` restates the problem, `check` counts twice.",
        header=["", *(f"{side}: {kind}" for side in SIDES for kind in kinds)],
        rows=rows,
    )


def _strengths(letter: str, word: str) -> dict[str, str]:
    names = ("coda" if strength == 0.2 else f"coda-{word}-{strength}" for strength in (0.0, 0.1, 0.2, 0.3, 0.4))
    return _labels(names, coda=f"{letter} = 0.2")


_THRESHOLDS = ("coda-tau-easy-0.6", "coda", "coda-tau-easy-0.9", "coda-tau-hard-0.1", "coda-tau-hard-0.4")
_SHIFTS = ("grpo-easy", "coda-easy", "grpo", "coda", "grpo-hard", "coda-hard")
_BONUS = ("grpo", "coda", "coda-incorrect-bonus")
_VARIANTS = ("coda", "coda-correct", "coda-scaled", "coda-group-8", "coda-group-4")
# The paper's ablations (its appendix), those it lacks, and L1: title and runs by label, by the table's key.
SETTINGS = {
    "l1_budgets": (
        "L1 by its token budget, and two methods without one",
        _labels([*(f"l1@{budget}" for budget in L1_BUDGETS), "grpo", "coda"]),
    ),
    "alpha": ("Easy-side penalty α", _strengths("α", "alpha")),
    "beta": ("Hard-side bonus β", _strengths("β", "beta")),
    "thresholds": ("Thresholds (τ easy, τ hard)", _labels(_THRESHOLDS, coda="(0.75, 0.25)")),
    "incorrect_bonus": ("Who gets the hard-side bonus", _labels(_BONUS, coda="bonus on right answers (CODA)")),
    "shifts": (
        "Training sets: easy rungs alone, all, the hardest alone",
        _labels(_SHIFTS, grpo="GRPO, mixed", coda="CODA, mixed"),
    ),
    "variants": (
        "Variants that the paper does not test",
        _labels(_VARIANTS, **{"coda-correct": "length statistics over correct answers"}),
    ),
}


def settings(results: Results, key: str) -> Table:
    """A table of `SETTINGS`."""
    title, names = SETTINGS[key]
    caption = "A smaller group comes with more prompts, so that a step has 160 answers throughout. "
    caption = (caption if key == "variants" else "") + f"{CAPTION} {WHICH}"
    header = ["Budget" if key == "l1_budgets" else "", *BY_SIDE]
    return Table(key, title, caption, header, _grid(results, names, BY_SIDE))


def new_runs(results: Results) -> Table:
    """Where one more run, and the mean of as many as there are, will land: what a repetition is compared with."""

    def landing(rows: np.ndarray | None, runs: int) -> Cell:
        if rows is None:
            return Cell(MISSING)
        found = new_run(rows, runs)
        shown = MISSING if found.low is None else span(found)
        return Cell(shown, value=found.value, low=found.low, high=found.high)

    rows = []
    for label, name in _labels(METHODS[1:]).items():
        for metric, column in (("accuracy", "correct"), ("tokens", "tokens")):
            found = [results.rows(value(column, rungs), name) for rungs in BY_RUNG.values()]
            for runs in (1, SEEDS):
                cells = (landing(of_rungs, runs) for of_rungs in found)
                rows.append([Cell(label), Cell(metric), Cell(f"{runs}"), *cells])
    return Table(
        key="new_runs",
        title="Where new seeds land",
        caption="95% prediction intervals for a single run with another seed, and for the mean over five, on the same "
        "evaluation problems; never narrower than half a point or half a token either way. One number in twenty is "
        "expected outside.",
        header=["", "", "Seeds", *BY_RUNG],
        rows=rows,
    )


def all_tables(results: Results) -> list[Table]:
    """Every table of the ladder's runs, in the order of the page."""
    l1, *ablations = (settings(results, key) for key in SETTINGS)
    tables = [by_rung(results, metric) for metric in ("accuracy", "tokens")]
    tables += [by_rung(results, metric, METHODS, BY_DIFFICULTY, "difficulty") for metric in ("accuracy", "tokens")]
    return [*tables, *buckets(results), l1, reflection(results), styles(results), *ablations, new_runs(results)]
