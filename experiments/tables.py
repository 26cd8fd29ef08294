"""Tables that testbeds with rungs share: the paper's Table 1 and 2 on rungs, answers by difficulty, and styles."""

import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from coda_trl.analysis import bucket_names
from coda_trl.evaluation import Estimate
from coda_trl.ladder import RUNGS
from coda_trl.report.elements import MISSING, Cell, Table, difference, number, text
from coda_trl.report.style import run_styles

from .matrix import ALL_RUNGS, EASY_RUNGS, HARD_RUNGS, RUNS
from .results import SORTERS, Measured, Results, over_seeds

METHODS = ("start", "grpo", "vlp", "asrr", "linear", "alp", "gr3", "coda", "coda-correct")
# Lines and markers of methods in figures.
STYLES = run_styles(("coda", "start", "vlp", "asrr", "coda-correct", "l1", "linear"), None) | {
    "grpo": {"color": "black", "marker": "*", "linestyle": "-"},
    "start": {"color": "#7F7F7F", "marker": "o", "linestyle": ":"},
    "alp": {"color": "#882255", "marker": "<", "linestyle": (0, (6, 2))},
    "gr3": {"color": "#332288", "marker": ">", "linestyle": (0, (3, 1, 1, 1))},
}
CAPTION = "Mean over seeds, 95% interval over seeds and problems in brackets."
NOISE = "≈ marks a difference whose interval holds 0."

Function = Callable[..., np.ndarray]

# Columns of a table by rung.
BY_RUNG: dict[str, tuple[int, ...]] = {f"{rung} (add {RUNGS[rung]})": (rung,) for rung in ALL_RUNGS} | {
    "Average": ALL_RUNGS
}

_BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: str, blocks: Mapping[str, str]) -> str:
    """Puts text by key between `<!-- begin KEY -->` and `<!-- end -->` of a page."""
    return _BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}{match[3]}", page)


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


def span(found: Estimate, digits: int = 1) -> str:
    """An interval as text, without its middle."""
    return f"{found.low:.{digits}f} to {found.high:.{digits}f}".replace("-", "−")


def span_of(rungs: Sequence[int]) -> str:
    """Rungs in words."""
    return f"{rungs[0]} to {rungs[-1]}"


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
    for index, label in enumerate(bucket_names() if len(results.trainings(*SORTERS)) > 1 else ()):
        problems = (results.buckets(results.trainings(*SORTERS)[0]) == index).sum()
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
        title=f"Reflection on rungs {span_of(HARD_RUNGS)}",
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
        rungs = [line["evaluations"][0]["rungs"] for line in results.runs.get(name, {}).values()]
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
        caption=f"Mean over seeds. Easy: rungs {span_of(EASY_RUNGS)}; hard: rungs {span_of(HARD_RUNGS)}. `verbose` "
        "restates the problem, `check` counts twice.",
        header=["", *(f"{side}: {kind}" for side in ("easy", "hard") for kind in kinds)],
        rows=rows,
    )
