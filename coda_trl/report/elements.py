"""Elements of a report: tables of numbers with intervals, figures with their data, sections."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import isnan
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

from ..evaluation.bootstrap import Estimate
from ..evaluation.rounding import format_number

MISSING = "–"
TONE_MARKS = {"noise": "≈ "}


@dataclass(frozen=True)
class Cell:
    """
    One entry of a table.

    Args:
        text (`str`):
            What is shown.
        interval (`str`, *optional*, defaults to `""`):
            Interval as shown beneath, without brackets.
        value (`float`, *optional*):
            Number behind the text, unrounded.
        low (`float`, *optional*):
            Lower end of its interval.
        high (`float`, *optional*):
            Upper end of its interval.
        tone (`str`, *optional*, defaults to `""`):
            `"better"` or `"worse"` for a difference beyond noise, `"noise"` for one within, else empty.
    """

    text: str
    interval: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    tone: str = ""


@dataclass(frozen=True)
class Table:
    """
    A table.

    Args:
        key (`str`):
            Name of its files and of its entry in `tables.json`.
        title (`str`):
            Heading.
        caption (`str`):
            What the numbers are and how to read them.
        header (`Sequence[str]`):
            Column names.
        rows (`Sequence[Sequence[Cell]]`):
            Rows, as long as the header.
        differences (`frozenset[int]`, *optional*):
            Rows that show a difference to the reference, set off from the others.
    """

    key: str
    title: str
    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    differences: frozenset[int] = frozenset()

    def is_words(self, column: int) -> bool:
        """Whether a column holds words, which align to the left."""
        return all(row[column].value is None and row[column].text not in ("", MISSING) for row in self.rows)

    @property
    def groups(self) -> dict[int, int]:
        """First row and size of what the first column groups: rows of a table whose second column holds words too."""
        if not self.rows or not self.is_words(1):
            return {}
        starts = [row for row in range(len(self.rows)) if not row or self._first(row) != self._first(row - 1)]
        return {start: end - start for start, end in pairwise([*starts, len(self.rows)])}

    def _first(self, row: int) -> str:
        return self.rows[row][0].text


@dataclass(frozen=True)
class Plot:
    """
    A figure with the numbers it shows.

    Args:
        key (`str`):
            Name of its files and of its entry in `tables.json`.
        title (`str`):
            Heading.
        caption (`str`):
            What it shows and how to read it.
        canvas (`matplotlib.figure.Figure`):
            The drawing.
        data (`dict[str, Any]`):
            Every number in it.
    """

    key: str
    title: str
    caption: str
    canvas: Canvas
    data: dict[str, Any]

    @property
    def description(self) -> str:
        """The picture in words, for those who do not see it: the runs, and what each panel shows against what."""
        panels = self._panels
        runs = dict.fromkeys(label for panel in panels for label in panel.get_legend_handles_labels()[1])
        shown = (f"{title}, by {panel.get_xlabel()}" for title, panel in zip(self.panel_titles, panels, strict=True))
        return f"{self.title}. Runs: {', '.join(runs)}. Panels: {'; '.join(shown)}."

    @property
    def _panels(self) -> list[Axes]:
        return [panel for panel in self.canvas.axes if panel.get_visible()]

    @property
    def panel_titles(self) -> list[str]:
        """What each panel shows, where it stands alone."""
        panels = self._panels
        # A row is labelled at its left end, and a column may have its title at the top alone.
        places = [(panel.get_subplotspec().rowspan.start, panel.get_subplotspec().colspan.start) for panel in panels]
        labels = {row: panel.get_ylabel() for (row, column), panel in zip(places, panels, strict=True) if column == 0}
        titles = {column: panel.get_title() for (row, column), panel in zip(places, panels, strict=True) if row == 0}
        return [
            ", ".join(filter(None, (panel.get_title() or titles[column], labels[row])))
            for (row, column), panel in zip(places, panels, strict=True)
        ]


@dataclass
class Section:
    """
    A part of the report.

    Args:
        key (`str`):
            Anchor in the page.
        title (`str`):
            Heading.
        text (`str`):
            Opening sentences.
        items (`list[Table | Plot]`, *optional*, defaults to `[]`):
            Tables and figures, in order.
        missing (`str`, *optional*, defaults to `""`):
            Why there is nothing to show, if so.
    """

    key: str
    title: str
    text: str
    items: list[Table | Plot] = field(default_factory=list)
    missing: str = ""


def number(result: Estimate | float, scale: float = 1, digits: int = 1, signed: bool = False, unit: str = "") -> Cell:
    """
    A cell for a number.

    Args:
        result (`Estimate` or `float`):
            The number, with or without an interval.
        scale (`float`, *optional*, defaults to `1`):
            Factor for display (100 turns a share into percent).
        digits (`int`, *optional*, defaults to `1`):
            Digits after the point.
        signed (`bool`, *optional*, defaults to `False`):
            Whether a plus sign is shown.
        unit (`str`, *optional*, defaults to `""`):
            Text behind the number.
    """
    if not isinstance(result, Estimate):
        result = Estimate(result)
    if isnan(result.value):
        return Cell(MISSING)

    value = scale * result.value
    shown = format_number(value, digits, signed, unit)
    if result.low is None:
        return Cell(shown, value=value)
    ends = scale * result.low, scale * result.high
    # An interval beside 0 is not printed as if it held it.
    finer = digits + (result.excludes_zero and signed and min(map(abs, ends)) < 0.5 * 10**-digits)
    span = ", ".join(format_number(end, finer, signed) for end in ends)
    return Cell(shown, span, value, *ends)


def tokens(result: Estimate | float) -> Cell:
    """A cell for a number of tokens: with a digit after the point if there are fewer than 100."""
    value = result.value if isinstance(result, Estimate) else result
    return number(result, digits=1 if abs(value) < 100 else 0)


def difference(result: Estimate, digits: int = 1, unit: str = "", higher_is_better: bool | None = True) -> Cell:
    """
    A cell for a difference to the reference, with its tone.

    Args:
        result (`Estimate`):
            The difference.
        digits (`int`, *optional*, defaults to `1`):
            Digits after the point.
        unit (`str`, *optional*, defaults to `""`):
            Text behind the number.
        higher_is_better (`bool`, *optional*, defaults to `True`):
            Which way is good; `None` if neither is by itself.
    """
    cell = number(result, digits=digits, signed=True, unit=unit)
    if result.low is None:
        tone = ""
    elif not result.excludes_zero:
        tone = "noise"
    elif higher_is_better is None:
        tone = ""
    else:
        tone = "better" if (result.value > 0) == higher_is_better else "worse"
    return Cell(cell.text, cell.interval, cell.value, cell.low, cell.high, tone)


def text(content: str) -> Cell:
    """A cell for words."""
    return Cell(content)
