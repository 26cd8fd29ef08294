"""Accuracy and tokens over the checkpoints of a training, where these were evaluated."""

from collections.abc import Mapping

from .comparison import ComparedRuns
from .elements import Plot, Section, Table, percent, text, tokens
from .main_results import all_benchmarks, average_estimate, average_name, benchmark_sets
from .runs import Run
from .style import end_at_100, error_bars, legend, panels

_METRICS = {"accuracy": ("accuracy (%)", 100), "tokens": ("tokens per answer", 1)}
_MOST_PANELS = 4  # beside each other; of more benchmarks the average is drawn

Courses = dict[str, dict[int, Run]]  # evaluations by step, by name of the training


def checkpoints(comparison: ComparedRuns) -> Section:
    """The runs called `NAME@checkpoint-STEP`, and `NAME` at the last step of its training log."""
    section = Section(
        "checkpoints",
        "Accuracy and tokens over checkpoints",
        "Evaluations of what training saved on its way and at its end. Intervals (95%) come from resampling problems.",
    )
    courses = _courses(comparison)
    runs = [run for course in courses.values() for run in course.values()]
    shared = [name for name in all_benchmarks(runs) if all(name in {**r.samples, **r.summaries} for r in runs)]
    sets = {name: of for name, of in benchmark_sets(comparison.groups, shared).items() if set(of) <= set(shared)}
    if not courses or not sets:
        section.missing = "This needs two evaluations of a training, named NAME@checkpoint-STEP, on one benchmark."
        return section
    if len(sets) > 1:
        sets[average_name(shared)] = shared
    section.items = [_plot(comparison, courses, sets), _table(courses, sets)]
    return section


def _courses(comparison: ComparedRuns) -> Courses:
    found: dict[str, list[tuple[int, Run]]] = {}
    for run in comparison.checkpoints:
        name, step = run.checkpoint
        found.setdefault(name, []).append((step, run))
    for run in comparison.runs:
        if run.name in found and run.log_history and (run.samples or run.summaries):
            found[run.name].append((max(entry["step"] for entry in run.log_history), run))
    ordered = {name: found[name] for name in comparison.styles if name in found}
    return {name: dict(sorted(course, key=lambda at: at[0])) for name, course in ordered.items() if len(course) > 1}


def _plot(comparison: ComparedRuns, courses: Courses, sets: Mapping[str, list[str]]) -> Plot:
    drawn = list(sets.items())
    drawn = drawn if len(drawn) <= _MOST_PANELS else drawn[-1:]
    figure, axes = panels(2, len(drawn), height=2.5)
    data: dict[str, dict] = {}
    panel_of = iter(axes)
    for metric, (label, scale) in _METRICS.items():
        for title, benchmarks in drawn:
            panel, first = next(panel_of), title == drawn[0][0]
            for name, course in courses.items():
                results = [average_estimate(run, benchmarks, metric) for run in course.values()]
                values, bars = [scale * result.value for result in results], error_bars(results, scale)
                panel.errorbar(
                    list(course), values, yerr=bars, label=name, capsize=2, markersize=5, **comparison.styles[name]
                )
                entry = data.setdefault(title, {}).setdefault(name, {"steps": list(course)})
                entry[metric] = [vars(result) for result in results]
            if metric == "accuracy":
                end_at_100(panel)
                panel.set_title(title)
            panel.set_ylabel(label if first else "")
            panel.set_xlabel("step")
    legend(figure, axes)
    caption = "Top: accuracy. Bottom: tokens per answer. Bars: 95% intervals."
    return Plot("checkpoints", "Checkpoints", caption, figure, data)


def _table(courses: Courses, sets: Mapping[str, list[str]]) -> Table:
    rows = []
    for name, course in courses.items():
        for step, run in course.items():
            cells = (
                cell
                for of in sets.values()
                for cell in (
                    percent(average_estimate(run, of, "accuracy")),
                    tokens(average_estimate(run, of, "tokens")),
                )
            )
            rows.append([text(name), text(f"{step:,}"), *cells])
    return Table(
        key="checkpoints",
        title="Accuracy (%) and tokens by checkpoint",
        caption="95% intervals in brackets, where there are samples.",
        header=["Run", "Step", *(f"{name}: {what}" for name in sets for what in ("accuracy", "tokens"))],
        rows=rows,
    )
