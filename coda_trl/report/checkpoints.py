"""Accuracy and tokens over the checkpoints of a training, where these were evaluated."""

import numpy as np

from ..evaluation.bootstrap import Estimate
from .comparison import ComparedRuns
from .elements import Cell, Plot, Section, Table, number, text, tokens
from .main_results import all_benchmarks, average_estimate, average_name, benchmark_sets
from .runs import Run
from .style import end_at_100, legend, panels, run_styles

_METRICS = {"accuracy": "accuracy (%)", "tokens": "tokens per answer"}
_MOST_PANELS = 4  # beside each other; of more benchmarks the average is drawn


def checkpoints(comparison: ComparedRuns) -> Section:
    """
    Accuracy and tokens of the runs called `NAME@checkpoint-STEP`, and of `NAME` at the last step of its training log.

    Args:
        comparison (`ComparedRuns`):
            The runs.
    """
    section = Section(
        "checkpoints",
        "Accuracy and tokens over checkpoints",
        "Evaluations of what training saved on its way and at its end. Intervals (95%) come from resampling problems.",
    )
    courses = _courses(comparison)
    sets = _sets(comparison, [run for course in courses.values() for _, run in course])
    if not courses or not sets:
        section.missing = "This needs two evaluations of a training, named NAME@checkpoint-STEP, on one benchmark."
        return section
    section.items = [_plot(comparison, courses, sets), _table(courses, sets)]
    return section


def _courses(comparison: ComparedRuns) -> dict[str, list[tuple[int, Run]]]:
    """Steps and evaluations by name of the training, where there are two and more."""
    found: dict[str, list[tuple[int, Run]]] = {}
    for run in comparison.checkpoints:
        name, step = run.checkpoint
        found.setdefault(name, []).append((step, run))
    for run in comparison.runs:
        steps = [entry["step"] for entry in run.log_history]
        if run.name in found and steps and (run.samples or run.summaries):
            found[run.name].append((max(steps), run))
    names = sorted(found, key=[*(run.name for run in comparison.runs), *found].index)
    return {name: sorted(found[name], key=lambda point: point[0]) for name in names if len(found[name]) > 1}


def _sets(comparison: ComparedRuns, runs: list[Run]) -> dict[str, list[str]]:
    """Benchmarks and groups that all checkpoints have, and their average."""
    shared = [name for name in all_benchmarks(runs) if all(name in {**r.samples, **r.summaries} for r in runs)]
    sets = {name: of for name, of in benchmark_sets(comparison.groups, shared).items() if set(of) <= set(shared)}
    return sets if len(sets) < 2 else sets | {average_name(shared): shared}


def _plot(comparison: ComparedRuns, courses: dict[str, list[tuple[int, Run]]], sets: dict[str, list[str]]) -> Plot:
    drawn = sets if len(sets) <= _MOST_PANELS else dict([list(sets.items())[-1]])
    figure, axes = panels(2, len(drawn), height=2.5)
    styles = run_styles(
        [*dict.fromkeys([*(run.name for run in comparison.runs), *courses])],
        comparison.reference.name if comparison.reference else None,
    )
    data: dict[str, dict] = {}
    for row, (metric, label) in enumerate(_METRICS.items()):
        scale = 100 if metric == "accuracy" else 1
        for column, (title, benchmarks) in enumerate(drawn.items()):
            panel = axes[row * len(drawn) + column]
            for name, course in courses.items():
                steps = [step for step, _ in course]
                results = [average_estimate(run, benchmarks, metric) for _, run in course]
                values = scale * np.array([result.value for result in results])
                panel.errorbar(
                    steps, values, yerr=_bars(results, scale), label=name, capsize=2, markersize=5, **styles[name]
                )
                data.setdefault(title, {}).setdefault(name, {"steps": steps})[metric] = [vars(r) for r in results]
            if metric == "accuracy":
                end_at_100(panel)
            panel.set_title(title if row == 0 else "")
            panel.set_ylabel(label if column == 0 else "")
            panel.set_xlabel("step")
    legend(figure, axes)
    return Plot(
        key="checkpoints",
        title="Checkpoints",
        caption="Top: accuracy. Bottom: tokens per answer. Bars: 95% intervals.",
        canvas=figure,
        data=data,
    )


def _bars(results: list[Estimate], scale: float) -> np.ndarray:
    low, high = (
        np.array([result.value if end is None else end for result, end in ends], dtype=float)
        for ends in ([(r, r.low) for r in results], [(r, r.high) for r in results])
    )
    values = np.array([result.value for result in results])
    return scale * np.maximum(0, [values - low, high - values])


def _table(courses: dict[str, list[tuple[int, Run]]], sets: dict[str, list[str]]) -> Table:
    rows = []
    for name, course in courses.items():
        for step, run in course:
            row = [text(name), text(f"{step:,}")]
            for benchmarks in sets.values():
                row += _cells(run, benchmarks)
            rows.append(row)
    return Table(
        key="checkpoints",
        title="Accuracy (%) and tokens by checkpoint",
        caption="95% intervals in brackets, where there are samples.",
        header=["Run", "Step", *(f"{name}: {what}" for name in sets for what in ("accuracy", "tokens"))],
        rows=rows,
    )


def _cells(run: Run, benchmarks: list[str]) -> list[Cell]:
    return [
        number(average_estimate(run, benchmarks, "accuracy"), 100),
        tokens(average_estimate(run, benchmarks, "tokens")),
    ]
