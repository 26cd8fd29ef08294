"""How plots look: one colour, marker and line style for each run, told apart without colour too."""

from collections.abc import Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Okabe and Ito's palette, which colour-blind readers can tell apart; black is the reference's.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# The reference is drawn solid. One fewer than colours and markers, so that the eighth run is not drawn as the first.
_LINES = ((0, (6, 2)), (0, (3, 1, 1, 1)), (0, (1, 1)), (0, (8, 2, 1, 2, 1, 2)), (0, (4, 4)), (0, (2, 2)))

PLOT_SETTINGS = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#DDDDDD",
    "grid.linewidth": 0.6,
    "axes.axisbelow": True,
    "axes.titlesize": 9.5,
    "axes.titleweight": "bold",
    "legend.frameon": False,
    "svg.hashsalt": "coda-trl",  # the same file for the same data
}


def run_styles(names: Sequence[str], reference: str | None) -> dict[str, dict[str, Any]]:
    """
    Drawing style of every run, the same in all figures.

    Args:
        names (`Sequence[str]`):
            Runs. Those of one name with several budgets (`L1@512`, `L1@1024`) share a style.
        reference (`str`, *optional*):
            The run that is drawn in black.

    Returns:
        `dict[str, dict[str, Any]]`: `color`, `marker` and `linestyle` by run.
    """
    families = {name.partition("@")[0]: None for name in names if name != reference}
    styles = {
        family: {
            "color": _COLOURS[index % len(_COLOURS)],
            "marker": _MARKERS[index % len(_MARKERS)],
            "linestyle": _LINES[index % len(_LINES)],
        }
        for index, family in enumerate(families)
    }
    black = {"color": "black", "marker": "*", "linestyle": "-"}
    return {name: black if name == reference else styles[name.partition("@")[0]] for name in names}


def panels(rows: int, columns: int, width: float = 11.0, height: float = 2.9) -> tuple[Figure, list[Axes]]:
    """
    A figure of panels.

    Args:
        rows (`int`), columns (`int`):
            Layout.
        width (`float`, *optional*, defaults to `11.0`):
            Width of the whole in inches.
        height (`float`, *optional*, defaults to `2.9`):
            Height of one row in inches.

    Returns:
        `tuple[Figure, list[Axes]]`: The figure and its panels, row by row.
    """
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def legend(figure: Figure, axes: Sequence[Axes]) -> None:
    """One legend above all panels."""
    entries = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        figure.legend(
            entries.values(), entries.keys(), loc="outside upper center", ncols=min(len(entries), 6), frameon=False
        )
