"""The pictures of this experiment's page."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context

from coda_trl.evaluation.bootstrap import Estimate
from coda_trl.report.style import PLOT_SETTINGS, end_at_100, legend, panels, run_styles

from ..files import Row
from .measures import BANDS

# By name of a method: runs, their differences to the reference in accuracy, and logs of ratios of tokens, by band.
Pairs = dict[str, list[tuple[Row, list[float], list[Estimate]]]]

SMOOTH = 10  # steps of a moving average, and between markers
TITLES = {
    "reward": "right (%)",
    "tokens": "tokens",
    "easy_tokens": "tokens, easy prompts",
    "hard_tokens": "tokens, hard prompts",
    "all_wrong_tokens": "tokens, all-wrong prompts",
}


def draw_steps(
    rows: Sequence[Row], labels: Mapping[str, str], shown: Sequence[str], steps: int, path: Path, means: bool
) -> None:
    """
    Metrics of the training log over its first steps, a panel each and a line for each run; with `means`, these are
    pale, and a line for each method is their mean; the legend says of how many.
    """
    with rc_context(PLOT_SETTINGS):
        figure, axes = panels(1, len(shown), width=8.0, height=2.6)  # letters that can be read on a phone
        methods = dict.fromkeys(row["method"] for row in rows)
        styles = run_styles([labels[method] for method in methods], "GRPO")
        for panel, name in zip(axes, shown, strict=True):
            for method in methods:
                logs = [row["training"]["log"].get(name, [None])[:steps] for row in rows if row["method"] == method]
                runs = [pd.Series(log, dtype=float).rolling(SMOOTH, min_periods=1, center=True).mean() for log in logs]
                lines = (100 if name == "reward" else 1) * pd.concat(runs, axis=1)
                style, label = styles[labels[method]] | {"markevery": SMOOTH, "markersize": 4}, labels[method]
                if means:
                    label += f" ({len(runs)})"
                    panel.plot(lines.index + 1, lines, color=style["color"], linewidth=0.8, alpha=0.6 / len(methods))
                    lines = lines.mean(axis=1)
                panel.plot(lines.index + 1, lines, label=label, **style)
            panel.set_title(TITLES[name])
            panel.set_xlabel("step")
        legend(figure, axes)
        figure.savefig(path, dpi=150, metadata={"Software": None})


def draw_bands(runs: Sequence[tuple[str, Mapping[str, pd.DataFrame]]], path: Path) -> None:
    """
    Tokens and accuracy by difficulty: means over the runs of a method as a line, and each run as a point; the legend
    says how many. `runs` holds names of methods with means by problem, by band.
    """
    with rc_context(PLOT_SETTINGS):
        figure, axes = panels(1, 2, width=7.0, height=3.0)
        trained = [name for name in dict.fromkeys(name for name, _ in runs) if name != "Start"]
        grey = {"color": "#7F7F7F", "marker": "o", "linestyle": ":"}
        styles = {"Start": grey} | run_styles(trained, "GRPO")
        for panel, column, scale in zip(axes, ("tokens", "correct"), (1, 100), strict=True):
            for method, style in styles.items():
                values = np.array(
                    [
                        [scale * part[column].mean() for part in bands.values()]
                        for name, bands in runs
                        if name == method
                    ]
                )
                places = np.arange(values.shape[1])
                label = method if method == "Start" else f"{method} ({len(values)})"
                panel.plot(places, values.mean(axis=0), label=label, **style)
                if len(values) > 1:
                    points = {"color": style["color"], "marker": style["marker"], "alpha": 0.35}
                    panel.scatter(np.tile(places, len(values)), values.flatten(), s=18, **points)
            panel.set_xticks(places, list(runs[0][1]))
            panel.set_xlim(-0.2, len(places) - 0.8)
            panel.set_ylim(bottom=0)
        axes[0].set_title("Tokens of an answer")
        axes[1].set_title("Accuracy (%)")
        end_at_100(axes[1])
        figure.supxlabel("problems, by the start's own success rate", fontsize="medium")
        legend(figure, axes)
        figure.savefig(path, dpi=200, metadata={"Software": None})


def draw_differences(runs: Pairs, path: Path) -> None:
    """
    Differences to GRPO by difficulty, in percent of tokens and in points: a pale point for each run, side by side by
    method, and their means as a line.
    """
    with rc_context(PLOT_SETTINGS):
        figure, axes = panels(1, 2, width=7.0, height=3.0)
        places = np.arange(len(BANDS))
        for index, (method, style) in enumerate(run_styles(list(runs), None).items()):
            logs = np.array([[log.value for log in logs] for *_, logs in runs[method]])
            points = np.array([points[: len(BANDS)] for _, points, _ in runs[method]])
            beside = places + 0.19 * (index - (len(runs) - 1) / 2)
            for panel, values, mean in (
                (axes[0], 100 * np.expm1(logs), 100 * np.expm1(logs.mean(axis=0))),
                (axes[1], 100 * points, 100 * points.mean(axis=0)),
            ):
                panel.plot(beside, mean, label=f"{method} ({len(values)})", linewidth=1, **style)
                pale = {"color": style["color"], "marker": style["marker"], "alpha": 0.35}
                panel.scatter(np.tile(beside + 0.07, len(values)), values.flatten(), s=18, **pale)
        for panel, title in zip(axes, ("Tokens against GRPO's (%)", "Accuracy against GRPO's (points)"), strict=True):
            panel.axhline(0, color="black", linewidth=1)
            panel.set_xticks(places, BANDS)
            panel.set_title(title)
        axes[0].set_ylim(top=4)
        figure.supxlabel("problems, by the start's own success rate", fontsize="medium")
        legend(figure, axes)
        figure.savefig(path, dpi=200, metadata={"Software": None})
