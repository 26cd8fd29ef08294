"""Elements of a report: tables of numbers with intervals, figures with their data, sections."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate, groupby
from math import isnan
from typing import Any

from matplotlib.figure import Figure as Canvas

from ..evaluation.bootstrap import Estimate
from ..evaluation.rounding import format_number

MISSING = "–"
NO_BREAK = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True)
class Cell:
    """
    An entry of a table: `text` is shown, with `interval` beneath; `value`, `low` and `high` are unrounded. `tone` is
    `"better"` or `"worse"` for a difference beyond noise, `"noise"` for one within, else empty.
    """

    text: str
    interval: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    tone: str = ""

    @property
    def mark(self) -> str:
        return "≈ " if self.tone == "noise" else ""


@dataclass(frozen=True)
class Table:
    """A table; `key` names its files, `differences` the rows that show a difference to the reference."""

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
        """First row and size of each group of equal first cells, if the second column holds words, too."""
        if not self.rows or not self.is_words(1):
            return {}
        sizes = [len(list(rows)) for _, rows in groupby(self.rows, lambda row: row[0].text)]
        return dict(zip(accumulate(sizes, initial=0), sizes, strict=False))


def table_of_rows(
    key: str, title: str, caption: str, rows: Sequence[Mapping[str, Cell | str]], differences: Iterable[int] = ()
) -> Table:
    """A table of rows with cells by column; a string is a cell of words, and an entry that a row lacks is empty."""
    header = list(dict.fromkeys(name for row in rows for name in row))
    entries = [[row.get(name, "") for name in header] for row in rows]
    cells = [[entry if isinstance(entry, Cell) else Cell(entry) for entry in row] for row in entries]
    return Table(key, title, caption, header, cells, frozenset(differences))


@dataclass(frozen=True)
class Plot:
    """A figure, and every number that it shows; `key` names its files."""

    key: str
    title: str
    caption: str
    data: dict[str, Any]
    canvas: Canvas


@dataclass
class Section:
    """A part of the report; `missing` says why there is nothing to show, if so."""

    key: str
    title: str
    text: str
    items: list[Table | Plot] = field(default_factory=list)
    missing: str = ""


def number(result: Estimate | float, scale: float = 1, digits: int = 1, signed: bool = False, unit: str = "") -> Cell:
    """A cell for a number times `scale`, with an interval if it has one; NaN is shown as missing."""
    result = result if isinstance(result, Estimate) else Estimate(result)
    if isnan(result.value):
        return Cell(MISSING)
    value = scale * result.value
    shown = format_number(value, digits, signed, unit)
    if result.low is None:
        return Cell(shown, value=value)
    ends = scale * result.low, scale * result.high
    # An interval close to 0 is not printed as if it contained 0.
    finer = digits + (result.excludes_zero and signed and min(map(abs, ends)) < 0.5 * 10**-digits)
    span = ", ".join(format_number(end, finer, signed) for end in ends)
    return Cell(shown, span, value, *ends)


count = partial(number, digits=0)


def percent(result: Estimate | float) -> Cell:
    """A cell for a share, in percent."""
    if isinstance(result, Estimate) and result.low is not None:  # Student's t knows no limits
        result = Estimate(result.value, max(0.0, result.low), min(1.0, result.high))
    return number(result, 100)


def tokens(result: Estimate | float) -> Cell:
    """A cell for a number of tokens: with a digit after the point if there are fewer than 100."""
    value = result.value if isinstance(result, Estimate) else result
    return number(result, digits=1 if abs(value) < 100 else 0)


def difference(result: Estimate, digits: int = 1, unit: str = "", higher_is_better: bool | None = True) -> Cell:
    """A cell for a difference to the reference, with its tone; `higher_is_better=None` if neither is by itself."""
    tone = "" if result.low is None else "noise"
    if result.excludes_zero:
        tone = "" if higher_is_better is None else "better" if (result.value > 0) == higher_is_better else "worse"
    return replace(number(result, digits=digits, signed=True, unit=unit), tone=tone)
