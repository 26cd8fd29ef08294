"""The figures: Fig. 1 to 5 of the paper on rungs, and one of accuracy and tokens by rung."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coda_trl.analysis import bucket_names
from coda_trl.evaluation import Estimate
from coda_trl.ladder import RUNGS
from coda_trl.report.style import legend, panels, run_styles

from ..matrix import ALL_RUNGS, EASY_RUNGS, HARD_RUNGS, L1_BUDGETS, RUNS
from ..results import SORTERS, Results, over_seeds
from ..tables import METHODS, STYLES, accuracy_on, bucket_points, bucket_ratio, tokens_on


def _line(axis: Axes, x: Sequence[float], results: Sequence[Estimate | None], label: str, style: Mapping) -> None:
    """Means with their intervals as a band."""
    if any(result is None for result in results):
        return
    values = [result.value for result in results]
    low = [result.value if result.low is None else result.low for result in results]
    high = [result.value if result.high is None else result.high for result in results]
    axis.plot(x, values, label=label, markersize=5, linewidth=1.4, **style)
    axis.fill_between(x, low, high, color=style["color"], alpha=0.15, linewidth=0)


def _empty(axes: Sequence[Axes]) -> bool:
    return not any(axis.lines or axis.collections for axis in axes)


def by_rung(results: Results, names: Sequence[str] = ("start", "grpo", "coda")) -> Figure | None:
    """Tokens and accuracy by rung."""
    figure, axes = panels(1, 2, width=9.0, height=3.4)
    x = list(range(len(ALL_RUNGS)))
    for name in names:
        for axis, function in zip(axes, (tokens_on, accuracy_on), strict=True):
            line = [results.estimate(function((rung,)), name) for rung in ALL_RUNGS]
            _line(axis, x, line, RUNS[name].label, STYLES[name])
    for axis, title in zip(axes, ("Tokens of an answer", "Accuracy (%)"), strict=True):
        axis.set_title(title)
        axis.set_xlabel("numbers to add (difficulty)")
        axis.set_xticks(x, [str(RUNGS[rung]) for rung in ALL_RUNGS])
    axes[0].set_ylim(0, None)
    axes[1].set_ylim(0, 103)
    legend(figure, axes)
    return None if _empty(axes) else figure


def buckets(results: Results, names: Sequence[str] = ("vlp", "asrr", "coda", "coda-correct")) -> Figure | None:
    """Fig. 1a: tokens over GRPO's by difficulty, and the difference in accuracy."""
    if len(results.trainings(*SORTERS)) < 2:
        return None
    figure, axes = panels(1, 2, width=9.0, height=3.4)
    labels = bucket_names()
    for name in names:
        for axis, function in zip(axes, (bucket_ratio, bucket_points), strict=True):
            found = [results.in_bucket(index, function, name, "grpo") for index in range(len(labels))]
            line = [None if rows is None else over_seeds(rows) for rows in found]
            _line(axis, range(len(labels)), line, RUNS[name].label, STYLES[name])
    for axis, title, level in zip(
        axes, ("Tokens / tokens of GRPO", "Accuracy − GRPO's (points)"), (1, 0), strict=True
    ):
        axis.axhline(level, color="black", linewidth=1)
        axis.set_title(title)
        axis.set_xticks(range(len(labels)), labels)
        axis.set_xlabel("percentile of difficulty (hardest left)")
    axes[0].set_ylim(0, None)
    legend(figure, axes[:1])
    return figure


def budgets(results: Results) -> Figure | None:
    """Fig. 1b: accuracy against tokens, with L1's curve over its budgets."""
    figure, axes = panels(1, 2, width=9.0, height=3.4)
    for axis, title, rungs in zip(
        axes, ("Easy (rungs 1 to 3)", "Hard (rungs 5 and 6)"), (EASY_RUNGS, HARD_RUNGS), strict=True
    ):
        curve = [
            (results.estimate(tokens_on(rungs), f"l1@{budget}"), results.estimate(accuracy_on(rungs), f"l1@{budget}"))
            for budget in L1_BUDGETS
        ]
        if all(tokens is not None for tokens, _ in curve):
            curve.sort(key=lambda point: point[0].value)
            _line(axis, [tokens.value for tokens, _ in curve], [share for _, share in curve], "L1", STYLES["l1"])
        for name in METHODS:
            point = results.estimate(tokens_on(rungs), name), results.estimate(accuracy_on(rungs), name)
            if None in point:
                continue
            style = {key: value for key, value in STYLES[name].items() if key != "linestyle"}
            axis.errorbar(
                point[0].value, point[1].value, xerr=_bars(point[0]), yerr=_bars(point[1]),
                linestyle="none", label=RUNS[name].label, markersize=9 if name == "grpo" else 6, elinewidth=1, **style,
            )  # fmt: skip
        axis.set_title(title)
        axis.set_xlabel("tokens of an answer")
    axes[0].set_ylabel("accuracy (%)")
    axes[0].set_ylim(min(90, axes[0].get_ylim()[0]), 100.5)
    legend(figure, axes)
    return None if _empty(axes) else figure


def _bars(result: Estimate) -> np.ndarray | None:
    if result.low is None:
        return None
    return np.maximum(0, np.array([[result.value - result.low], [result.high - result.value]]))


def _courses(
    results: Results, titles: Mapping[str, str], runs: Mapping[str, str], styles: Mapping[str, Mapping] | None
) -> Figure | None:
    """Logged metrics over training: mean over seeds, and the range of the seeds as a band."""
    columns = 2 if len(titles) == 4 else len(titles)
    figure, axes = panels(-(-len(titles) // columns), columns, width=3.2 * columns + 0.6, height=2.7)
    styles = styles or run_styles(list(runs), None)
    for axis, (key, title) in zip(axes, titles.items(), strict=False):
        for label, name in runs.items():
            found = results.log(name, key)
            if found is None:
                continue
            steps, values = found
            seen = ~np.isnan(values).all(axis=0)
            style = styles[label]
            axis.plot(
                steps[seen], np.nanmean(values[:, seen], axis=0), label=label, linewidth=1.6, markersize=4, **style
            )
            axis.fill_between(
                steps[seen], np.nanmin(values[:, seen], axis=0), np.nanmax(values[:, seen], axis=0),
                color=style["color"], alpha=0.15, linewidth=0,
            )  # fmt: skip
        axis.set_title(title)
        axis.set_xlabel("step")
    legend(figure, axes)
    return None if _empty(axes) else figure


# Fig. 2, 4 and 5, and one of all methods, by file name: caption, title by metric, run by label, columns.
COURSES = {
    "gates": (
        "Fig. 2: gates under easy, mixed and hard training.",
        {"coda/mean_w_easy": "easy gate", "coda/mean_w_hard": "hard gate", "coda/success_rate": "success rate"},
        {"easy": "coda-easy", "mixed": "coda", "hard": "coda-hard"},
    ),
    "alpha": (
        "Fig. 4: base reward, easy penalty and length under strengths of the easy-side penalty.",
        {
            "coda/mean_score": "base reward",
            "coda/global_easy_penalty_mean": "easy penalty",
            "coda/mean_response_length": "tokens of an answer",
        },
        {f"α = {value}": "coda" if value == 0.2 else f"coda-alpha-{value}" for value in (0.0, 0.1, 0.2, 0.3, 0.4)},
    ),
    "incorrect-bonus": (
        "Fig. 5: length and success on hard prompts when wrong answers get the bonus too.",
        {
            "coda/hard/mean_length": "tokens, hard prompts",
            "coda/hard/share": "share of hard prompts",
            "coda/mean_score": "base reward",
        },
        {"bonus on right answers": "coda", "on wrong ones too": "coda-incorrect-bonus"},
    ),
    "methods": (
        "Training of all methods: reward, and length by the success rate of the prompt.",
        {
            "coda/mean_score": "base reward",
            "coda/easy/mean_length": "tokens, easy prompts",
            "coda/hard/mean_length": "tokens, hard prompts",
            "coda/hard/share": "share of hard prompts",
        },
        {RUNS[name].label: name for name in METHODS[1:]},
    ),
}
_METHOD_STYLES = {RUNS[name].label: STYLES[name] for name in METHODS[1:]}

# Caption and function of every figure by file name.
FIGURES: dict[str, tuple[str, Callable[[Results], Figure | None]]] = {
    "by-rung": ("Tokens and accuracy by rung.", by_rung),
    "buckets": ("Fig. 1a: tokens over GRPO's by difficulty, and the difference in accuracy.", buckets),
    "budgets": ("Fig. 1b: accuracy against tokens, with L1's curve over its budgets.", budgets),
} | {
    name: (caption, partial(_courses, titles=titles, runs=runs, styles=_METHOD_STYLES if name == "methods" else None))
    for name, (caption, titles, runs) in COURSES.items()
}
