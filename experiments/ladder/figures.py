"""The figures: Fig. 1 to 5 of the paper on rungs, and one of accuracy and tokens by rung."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coda_trl.analysis import bucket_names
from coda_trl.evaluation import Estimate
from coda_trl.ladder import RUNGS
from coda_trl.report.style import error_bars, legend, panels, run_styles

from .matrix import ALL_RUNGS, EASY_RUNGS, HARD_RUNGS, L1_BUDGETS, RUNS
from .results import SORTERS, Results, change, over_seeds_and_problems, value
from .tables import METHODS, SETTINGS, SHAPED, STYLES, token_ratio

BANDS = "Means over seeds; bands and bars: 95% over seeds and problems."
RANGES = "Means over seeds; bands: from the lowest seed to the highest."


def _line(axis: Axes, x: Sequence[float], results: Sequence[Estimate | None], name: str) -> None:
    """Means with their intervals as a band."""
    if None in results:
        return
    values, style = np.array([result.value for result in results]), STYLES[name]
    below, above = error_bars(results)
    axis.plot(x, values, label=RUNS[name].label, markersize=5, linewidth=1.4, **style)
    axis.fill_between(x, values - below, values + above, color=style["color"], alpha=0.15, linewidth=0)


def _two(titles: Sequence[str], x_label: str) -> tuple[Figure, list[Axes]]:
    figure, axes = panels(1, 2, width=6.8, height=3.1)
    for axis, title in zip(axes, titles, strict=True):
        axis.set_title(title)
        axis.set_xlabel(x_label)
    return figure, axes


def _or_nothing(figure: Figure, axes: Sequence[Axes]) -> Figure | None:
    """The figure with a legend, if anything was drawn."""
    legend(figure, axes)
    return figure if any(axis.lines or axis.collections for axis in axes) else None


def by_rung(results: Results) -> Figure | None:
    """Tokens and accuracy by rung."""
    figure, axes = _two(("Tokens of an answer", "Accuracy (%)"), "numbers to add (difficulty)")
    x = range(len(ALL_RUNGS))
    for axis, column, top in zip(axes, ("tokens", "correct"), (None, 103), strict=True):
        for name in ("start", "grpo", "coda"):
            _line(axis, x, [results.estimate(value(column, (rung,)), name) for rung in ALL_RUNGS], name)
        axis.set_xticks(x, [str(RUNGS[rung]) for rung in ALL_RUNGS])
        axis.set_ylim(0, top)
    return _or_nothing(figure, axes)


def buckets(results: Results) -> Figure | None:
    """Fig. 1a: tokens over GRPO's by difficulty, and the difference in accuracy."""
    if len(results.trainings(*SORTERS)) < 2:
        return None
    titles = ("Tokens / tokens of GRPO", "Accuracy − GRPO's (points)")
    figure, axes = _two(titles, "percentile of difficulty (hardest left)")
    x, points = range(len(bucket_names())), partial(change, "correct")
    for axis, make, level in zip(axes, (token_ratio, points), (1, 0), strict=True):
        for name in SHAPED:
            found = [results.in_bucket(index, make, name, "grpo") for index in x]
            _line(axis, x, [None if rows is None else over_seeds_and_problems(rows) for rows in found], name)
        axis.axhline(level, color="black", linewidth=1)
        axis.set_xticks(x, [name.rstrip("%") for name in bucket_names()], fontsize=8)
    axes[0].set_ylim(0, None)
    legend(figure, axes[:1])
    return figure


def budgets(results: Results) -> Figure | None:
    """Fig. 1b: accuracy against tokens, with L1's curve over its budgets."""
    figure, axes = _two(("Easy (rungs 1 to 3)", "Hard (rungs 5 and 6)"), "tokens of an answer")
    for axis, rungs in zip(axes, (EASY_RUNGS, HARD_RUNGS), strict=True):

        def point(name: str, rungs: tuple[int, ...] = rungs) -> list[Estimate | None]:
            return [results.estimate(value(column, rungs), name) for column in ("tokens", "correct")]

        curve = [point(f"l1@{budget}") for budget in L1_BUDGETS]
        if [None, None] not in curve:
            curve.sort(key=lambda point: point[0].value)
            _line(axis, [tokens.value for tokens, _ in curve], [share for _, share in curve], "l1")
        for name in METHODS:
            found = point(name)
            if None not in found:
                (x, y), (x_bars, y_bars) = [each.value for each in found], [error_bars([each]) for each in found]
                style = STYLES[name] | {"linestyle": "none", "markersize": 9 if name == "grpo" else 6}
                axis.errorbar(x, y, xerr=x_bars, yerr=y_bars, label=RUNS[name].label, elinewidth=1, **style)
    axes[0].set_ylabel("accuracy (%)")
    axes[0].set_ylim(min(90, axes[0].get_ylim()[0]), 100.5)
    return _or_nothing(figure, axes)


def _courses(results: Results, titles: Mapping[str, str], runs: Mapping[str, str]) -> Figure | None:
    """Logged metrics over training: mean over seeds, and the range of the seeds as a band."""
    columns = 2 if len(titles) == 4 else len(titles)
    figure, axes = panels(-(-len(titles) // columns), columns, width=8.2 if columns == 3 else 6.8, height=2.5)
    # Methods are drawn as everywhere, settings of one method in their order.
    styles = (
        {label: STYLES[name] for label, name in runs.items()} if runs is METHOD_NAMES else run_styles([*runs], None)
    )
    for axis, (key, title) in zip(axes, titles.items(), strict=False):
        for label, name in runs.items():
            found = results.log(name, key)
            if found is None:
                continue
            steps, values = found
            seen = ~np.isnan(values).all(axis=0)
            steps, values, style = steps[seen], values[:, seen], styles[label]
            axis.plot(steps, np.nanmean(values, axis=0), label=label, linewidth=1.6, markersize=4, **style)
            low, high = np.nanmin(values, axis=0), np.nanmax(values, axis=0)
            axis.fill_between(steps, low, high, color=style["color"], alpha=0.15, linewidth=0)
        axis.set_title(title)
        axis.set_xlabel("step")
    return _or_nothing(figure, axes)


METHOD_NAMES = {RUNS[name].label: name for name in METHODS[1:]}
# Fig. 2, 4 and 5, and one of all methods, by file name: caption, title by metric, run by label.
COURSES = {
    "gates": (
        "Gates and success rate in training on easy, mixed and hard rungs.",
        {"coda/mean_w_easy": "easy gate", "coda/mean_w_hard": "hard gate", "coda/success_rate": "success rate"},
        {"easy": "coda-easy", "mixed": "coda", "hard": "coda-hard"},
    ),
    "alpha": (
        "Base reward, easy penalty and length by strength of the easy-side penalty.",
        {
            "coda/mean_score": "base reward",
            "coda/global_easy_penalty_mean": "easy penalty",
            "coda/mean_response_length": "tokens of an answer",
        },
        SETTINGS["alpha"][1],
    ),
    "incorrect-bonus": (
        "Length and share of hard prompts, and base reward, when wrong answers get the bonus too.",
        {
            "coda/hard/mean_length": "tokens, hard prompts",
            "coda/hard/share": "share of hard prompts",
            "coda/mean_score": "base reward",
        },
        {"bonus on right answers": "coda", "on wrong ones too": "coda-incorrect-bonus"},
    ),
    "methods": (
        "Reward, length of easy and hard prompts, and share of hard ones.",
        {
            "coda/mean_score": "base reward",
            "coda/easy/mean_length": "tokens, easy prompts",
            "coda/hard/mean_length": "tokens, hard prompts",
            "coda/hard/share": "share of hard prompts",
        },
        METHOD_NAMES,
    ),
}

# Caption and function of every figure by file name.
FIGURES: dict[str, tuple[str, Callable[[Results], Figure | None]]] = {
    "by-rung": (f"Tokens and accuracy by rung. {BANDS}", by_rung),
    "buckets": (f"Tokens over GRPO's, and difference in accuracy, from the hardest problems on. {BANDS}", buckets),
    "budgets": (f"Accuracy against tokens, with L1's curve over its budgets. {BANDS}", budgets),
} | {
    name: (f"{caption} {RANGES}", partial(_courses, titles=titles, runs=runs))
    for name, (caption, titles, runs) in COURSES.items()
}
