"""How plots look: one colour, marker and line style per run, distinct without colour too."""

from collections.abc import Sequence
from textwrap import fill
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator

from ..evaluation.bootstrap import Estimate

# Okabe and Ito's palette, which colour-blind readers can tell apart; black is the reference's.
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F")
_MARKERS = ("o", "s", "^", "D", "v", "P", "X")
# The reference is solid. One fewer than colours and markers, so that the eighth run differs from the first.
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
    """Style of every run in all figures. Budgets of a run (`L1@512`, `L1@1024`) share one; the reference is black."""
    families = dict.fromkeys(name.partition("@")[0] for name in names if name != reference)
    styles = {
        family: {"color": _COLOURS[i % 7], "marker": _MARKERS[i % 7], "linestyle": _LINES[i % 6]}
        for i, family in enumerate(families)
    }
    black = {"color": "black", "marker": "*", "linestyle": "-"}
    return {name: black if name == reference else styles[name.partition("@")[0]] for name in names}


def panels(rows: int, columns: int, width: float = 11.0, height: float = 2.9) -> tuple[Figure, list[Axes]]:
    """A figure and its panels, row by row; total width and height per row in inches."""
    figure = Figure(figsize=(width, height * rows), layout="constrained")
    return figure, list(figure.subplots(rows, columns, squeeze=False).flat)


def end_at_100(panel: Axes) -> None:
    """Ends an axis of percentages at 100, with room for a point there."""
    low, high = panel.get_ylim()
    panel.set_ylim(low, min(103.0, high))
    panel.set_yticks([tick for tick in panel.get_yticks() if low <= tick <= 100])


def error_bars(results: Sequence[Estimate], scale: float = 1) -> np.ndarray:
    """Distances of values to the ends of their intervals, shape `(2, len(results))`; 0 without an interval."""
    ends = [(r.value - r.low, r.high - r.value) if r.low is not None else (0, 0) for r in results]
    return scale * np.maximum(0, np.array(ends).T)


def draw_estimates(panel: Axes, x: Any, results: Sequence[Estimate], scale: float = 1, **style: Any) -> None:
    """Draws values times `scale` with their intervals."""
    values, bars = [scale * result.value for result in results], error_bars(results, scale)
    panel.errorbar(x, values, yerr=bars, capsize=2, markersize=5, **style)


def number_axes(figure: Figure) -> None:
    """Numbers every axis: plain numbers on logarithmic axes, however narrow, and commas between thousands."""
    for panel in figure.axes:
        for axis, (low, high) in ((panel.xaxis, panel.get_xlim()), (panel.yaxis, panel.get_ylim())):
            if axis.get_scale() == "log":
                if high / low < 8:  # between two powers of ten there may be none of 1, 2 and 5
                    axis.set_major_locator(MaxNLocator(5, steps=[1, 2, 5, 10]))
                else:
                    subs = (1, 2, 5) if high / low < 150 else (1, 3) if high / low < 2000 else (1,)
                    axis.set_major_locator(LogLocator(subs=subs))
                axis.set_minor_locator(NullLocator())
                axis.set_major_formatter(_show_tick)
            elif max(abs(low), abs(high)) >= 1000:
                axis.set_major_formatter(_show_tick)
                if axis is panel.xaxis:  # numbers that wide would run into each other
                    axis.set_major_locator(MaxNLocator(4))


def _show_tick(value: float, _: int) -> str:
    return f"{value:,.0f}" if abs(value) >= 10 else f"{value:g}"


def stack(figure: Figure) -> None:
    """
    Puts the panels of a figure that are not hidden one below the other, for a narrow screen. As rows were labelled at
    the left, and columns at the top, titles say both.
    """
    specs = [(panel, panel.get_subplotspec()) for panel in figure.axes if panel.get_visible()]
    places = {(spec.rowspan.start, spec.colspan.start): panel for panel, spec in specs}
    titles = [
        ", ".join(filter(None, (panel.get_title() or places[0, column].get_title(), places[row, 0].get_ylabel())))
        for (row, column), panel in places.items()
    ]
    figure.set_size_inches(4.1, 2.4 * len(places) + 0.3)
    grid = figure.add_gridspec(len(places), 1)
    for row, (panel, title) in enumerate(zip(places.values(), titles, strict=True)):
        panel.set_subplotspec(grid[row, 0])
        panel.set_title(fill(title, 44))
        panel.set_ylabel("")
    legend(figure, list(places.values()), columns=2)
    figure.set_layout_engine("constrained", h_pad=0.08)


def legend(figure: Figure, axes: Sequence[Axes], columns: int = 6) -> None:
    """One legend above all panels, replacing an earlier one."""
    for earlier in figure.legends:
        earlier.remove()
    entries = {}
    for panel in axes:
        for handle, label in zip(*panel.get_legend_handles_labels(), strict=True):
            entries.setdefault(label, handle)
    if entries:
        columns = min(len(entries), columns)
        figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=columns, frameon=False)
