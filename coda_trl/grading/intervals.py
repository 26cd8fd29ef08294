r"""Write inequalities as intervals, so that `3 < x \le 4` and `(3, 4]` can be compared."""

import re
from typing import NamedTuple

from .literals import literal_number
from .structure import LABEL, LETTERS, split_relation, split_top

_BOUNDS = {"<": (1, "("), "\\le": (1, "["), ">": (-1, "("), "\\ge": (-1, "[")}  # direction, bracket
_MIRRORED = str.maketrans("([", ")]")
_INFINITE = "\\infty"


class Interval(NamedTuple):
    """An interval with its bounds in canonical LaTeX."""

    opening: str
    left: str
    right: str
    closing: str

    def __str__(self) -> str:
        return f"{self.opening}{self.left}, {self.right}{self.closing}"


def as_intervals(text: str) -> str:
    r"""
    Writes inequalities for one unknown as intervals; any other text stays as it is.

    Of several inequalities, `x < 2, x > 3` means "or" and `x > 2, x < 3` means "and" (the other reading would be
    nothing, or every number);
    `x \neq 3` takes a point out of the others.

    Args:
        text (`str`):
            Canonical LaTeX.

    Returns:
        `str`: an interval, a union of intervals, or `text`.

    Example:

    ```python
    >>> from coda_trl.grading.intervals import as_intervals

    >>> as_intervals(r"3 < x \le 4"), as_intervals("x < 2, x > 3"), as_intervals("(3, 4]")
    ('(3, 4]', '(-\\infty, 2) \\cup (3, \\infty)', '(3, 4]')

    ```
    """
    items = split_top(text, ",")
    if "=" in text or not all(split_relation(item)[1] for item in items):
        return text
    holes = [hole for item in items if (hole := _excluded(item)) is not None]
    intervals = [_interval(item) for item in items if _excluded(item) is None]
    if None in intervals:
        return text
    if len(intervals) == 2:
        intervals = _joined(*intervals)
    for hole in holes:
        intervals = _without(hole, intervals or [Interval("(", "-\\infty", _INFINITE, ")")])
    return " \\cup ".join(map(str, intervals))


def _excluded(text: str) -> str | None:
    """The 3 of `x \\neq 3`."""
    sides, signs = split_relation(text)
    if signs != ["\\neq"] or not LABEL.match(sides[0]) or LETTERS.search(sides[1]):
        return None
    return sides[1]


def _interval(text: str) -> Interval | None:
    sides, signs = split_relation(text)
    unknown = [index for index, side in enumerate(sides) if LABEL.match(side)]
    if len(unknown) != 1 or any(LETTERS.search(side) for side in sides if not LABEL.match(side)):
        return None
    if any(sign not in _BOUNDS for sign in signs) or len({_BOUNDS[sign][0] for sign in signs}) > 1:
        return None
    if _BOUNDS[signs[0]][0] < 0:
        sides, signs = sides[::-1], signs[::-1]
    brackets = [_BOUNDS[sign][1] for sign in signs]
    if len(sides) == 2 and LABEL.match(sides[0]):
        return Interval("(", "-\\infty", sides[1], brackets[0].translate(_MIRRORED))
    if len(sides) == 2:
        return Interval(brackets[0], sides[0], _INFINITE, ")")
    if len(sides) == 3 and LABEL.match(sides[1]):
        return Interval(brackets[0], sides[0], sides[2], brackets[1].translate(_MIRRORED))
    return None


def _joined(first: Interval, second: Interval) -> list[Interval]:
    """Two half-lines that overlap stand for their intersection."""
    lower, upper = (second, first) if first.left == "-\\infty" else (first, second)
    if upper.left == "-\\infty" and lower.right == _INFINITE and _less(lower.left, upper.right):
        return [Interval(lower.opening, lower.left, upper.right, upper.closing)]
    return [first, second]


def _without(hole: str, intervals: list[Interval]) -> list[Interval]:
    pieces = []
    for opening, left, right, closing in intervals:
        if (left == "-\\infty" or _less(left, hole)) and (right == _INFINITE or _less(hole, right)):
            pieces += [Interval(opening, left, hole, ")"), Interval("(", hole, right, closing)]
        else:
            pieces.append(Interval(opening, left, right, closing))
    return pieces


def _less(left: str, right: str) -> bool:
    one, other = literal_number(re.sub(r"\s", "", left)), literal_number(re.sub(r"\s", "", right))
    return one is not None and other is not None and one < other
