"""Accuracy and tokens over the evaluated checkpoints of a training."""

from collections.abc import Mapping

from .comparison import ComparedRuns, count_problems
from .elements import Plot, Section, percent, table_of_rows, tokens
from .main_results import all_benchmarks, average_name, benchmark_sets
from .seeds import Run
from .style import draw_estimates, end_at_100, legend, panels

_METRICS = {"accuracy": ("accuracy (%)", 100), "tokens": ("tokens per answer", 1)}
_MOST_PANELS = 4  # beside each other; of more benchmarks the average is drawn

Courses = dict[str, dict[int, Run]]  # evaluations by step, by name of the training


def checkpoints(comparison: ComparedRuns) -> Section:
    """Runs called `NAME@checkpoint-STEP`, and `NAME` at the last step of its training log."""
    section = Section(
        "checkpoints",
        "Accuracy and tokens over checkpoints",
        "Evaluations of a training's checkpoints and final model.",
    )
    courses = _courses(comparison)
    runs = [run for course in courses.values() for run in course.values()]
    shared = [name for name in all_benchmarks(runs) if all(name in run.benchmarks for run in runs)]
    sets = {name: of for name, of in benchmark_sets(comparison.groups, shared).items() if set(of) <= set(shared)}
    if not courses or not sets:
        section.missing = "This needs two evaluations of a training, named NAME@checkpoint-STEP, on one benchmark."
        return section
    if len(sets) > 1:
        sets[average_name(shared)] = shared
    rows = []
    for name, course in courses.items():
        for step, run in course.items():
            row = {"Run": name, "Step": f"{step:,}"}
            for title, of in sets.items():
                row[f"{title}: accuracy"] = percent(run.estimate("accuracy", of))
                row[f"{title}: tokens"] = tokens(run.estimate("tokens", of))
            rows.append(row)
    caption = f"95% intervals in brackets, where there are samples. {count_problems(runs)}".rstrip()
    table = table_of_rows("checkpoints", "Accuracy (%) and tokens by checkpoint", caption, rows)
    section.items = [_plot(comparison, courses, sets), table]
    return section


def _courses(comparison: ComparedRuns) -> Courses:
    found: Courses = {}
    for run in comparison.checkpoints:
        name, step = run.checkpoint
        found.setdefault(name, {})[step] = run
    for run in comparison.runs:
        if run.name in found and run.is_logged and run.benchmarks:
            log_history = next(iter(run.seeds.values())).log_history
            found[run.name][max(entry["step"] for entry in log_history)] = run
    return {name: dict(sorted(found[name].items())) for name in comparison.styles if len(found.get(name, ())) > 1}


def _plot(comparison: ComparedRuns, courses: Courses, sets: Mapping[str, list[str]]) -> Plot:
    drawn = list(sets.items())
    drawn = drawn if len(drawn) <= _MOST_PANELS else drawn[-1:]
    figure, axes = panels(2, len(drawn), height=2.5)
    data: dict[str, dict] = {title: {name: {"steps": list(courses[name])} for name in courses} for title, _ in drawn}
    panel_of = iter(axes)
    for metric, (label, scale) in _METRICS.items():
        for column, (title, benchmarks) in enumerate(drawn):
            panel = next(panel_of)
            for name, course in courses.items():
                results = [run.estimate(metric, benchmarks) for run in course.values()]
                draw_estimates(panel, list(course), results, scale, label=name, **comparison.styles[name])
                data[title][name][metric] = results
            if metric == "accuracy":
                end_at_100(panel)
                panel.set_title(title)
            panel.set(ylabel="" if column else label, xlabel="step")
    legend(figure, axes)
    caption = "Top: accuracy. Bottom: tokens per answer. Bars: 95% intervals."
    return Plot("checkpoints", "Checkpoints", caption, data, figure)
