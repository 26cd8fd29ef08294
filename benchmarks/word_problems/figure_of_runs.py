"""The picture of the page: how long and how right answers are, by rung and step, a line for every seed."""

import sys
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coda_trl.report.style import legend, panels

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "ladder"))

from figures import STYLES  # noqa: E402
from matrix import RUNS  # noqa: E402
from results import ALL_RUNGS, Results  # noqa: E402
from run_all import METHODS  # noqa: E402
from tables import accuracy_on, tokens_on  # noqa: E402

# Logged values are means of a step's few prompts, so that the course shows only in means of several.
WINDOW = 5


def _draw(axis: Axes, x: list, rows: np.ndarray, name: str) -> None:
    for index, row in enumerate(rows):
        axis.plot(
            x, row, label=RUNS[name].label if index == 0 else None, markersize=4, linewidth=1.1, alpha=0.8,
            markevery=max(1, len(x) // 8), **STYLES[name],
        )  # fmt: skip


def by_rung_and_step(evaluated: Results, trained: Results) -> Figure:
    """
    Tokens and accuracy by rung after the training, and tokens of easy and hard prompts during it.

    Args:
        evaluated (`Results`):
            Runs with evaluations.
        trained (`Results`):
            The same, and those of which there are only logs.
    """
    figure, axes = panels(2, 2, width=9.0, height=3.0)
    for name in METHODS:
        for axis, function in zip(axes[:2], (tokens_on, accuracy_on), strict=True):
            columns = [evaluated.rows(function((rung,)), name) for rung in ALL_RUNGS]
            if columns[0] is not None:
                _draw(axis, list(ALL_RUNGS), np.stack([column[:, 0] for column in columns], axis=1), name)
        for axis, key in zip(axes[2:], ("coda/easy/mean_length", "coda/hard/mean_length"), strict=True):
            found = trained.log(name, key)
            if found is not None:
                steps, values = found
                smooth = pd.DataFrame(values.T).rolling(WINDOW, min_periods=1).mean()
                _draw(axis, list(steps), smooth.to_numpy().T, name)
    titles = ("Tokens of an answer", "Accuracy (%)", "Tokens, easy prompts", "Tokens, hard prompts")
    for axis, title, label in zip(axes, titles, ("rung", "rung", "step", "step"), strict=True):
        axis.set_title(title)
        axis.set_xlabel(label)
        axis.set_ylim(0, 103 if "%" in title else None)
    legend(figure, axes)
    return figure
