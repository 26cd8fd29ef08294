r"""
Compare sets of real numbers: intervals, unions, intersections, differences, inequalities.

The bounds of both sets cut the real line into points and the gaps between them, which are numbered from left to right.
A set is the numbers of those that belong to it, so that notations do not matter.
"""

import operator
import re
from collections.abc import Callable
from functools import cmp_to_key, reduce
from typing import NamedTuple

from .numeric import real_value
from .structure import AND, LABEL, LETTERS, OR, RELATIONS, sequence, simplify_notation, split_top

MAX_BOUNDS = 64
_EVERYTHING = {"\\mathbb{R}", "\\mathbb R"}
_SET_SIGN = re.compile(r"\\(?:cup|cap|setminus|mathbb|emptyset)(?![A-Za-z])|^\[.*\)$|^\(.*\]$")
_CLOSED_AT_INFINITY = re.compile(r"\[\s*-\\infty|\\infty\s*\]")
_CONNECTIVES = frozenset([",", AND, OR])
_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt,
    ">": operator.gt,
    "\\le": operator.le,
    "\\ge": operator.ge,
    "=": operator.eq,
    "\\neq": operator.ne,
}


class NoSet(Exception):
    """The text is no set of real numbers, or its bounds cannot be put in order."""


class Line(NamedTuple):
    """Places of the bounds (odd numbers, from 1) and of everything: points, gaps between, half-lines at the ends."""

    places: dict[str, int]
    everything: frozenset[int]


Places = frozenset[int]
Set = Callable[[Line], Places]


def is_set(text: str) -> bool:
    r"""Whether a text can only mean a set of numbers: it holds an inequality, `\cup`, a half-open interval, ..."""
    items, _ = split_top(text, _CONNECTIVES)
    return _SET_SIGN.search(text) is not None or any(set(split_top(item, RELATIONS)[1]) - {"="} for item in items)


def same_set(gold: str, answer: str, equal: Callable[[str, str], bool]) -> bool:
    r"""
    Whether two texts mean the same set of real numbers.

    Of several inequalities between commas, `x > 2, x < 3` means both, and `x < 2, x > 3`, which nothing fulfils,
    means one of them; `x \neq 3` takes a point out of the others. With "and" and "or" they mean what they say.

    Args:
        gold (`str`), answer (`str`):
            Canonical LaTeX.
        equal (`Callable[[str, str], bool]`):
            Whether two bounds are the same number; asked where their values here do not tell.

    Returns:
        `bool`

    Raises:
        [`NoSet`]: if one of them is no set of real numbers, or its bounds cannot be put in order.

    Example:

    ```python
    >>> from coda_trl.grading.sets import same_set
    >>> from coda_trl.grading.structure import AND

    >>> same_set("(3, 4]", r"3 < x \le 4", str.__eq__), same_set(r"\emptyset", f"x < 1 {AND} x > 3", str.__eq__)
    (True, True)

    ```
    """
    readers = _Reader(), _Reader()
    sets = [reader.read(text) for reader, text in zip(readers, (gold, answer), strict=True)]
    unknowns = {unknown.casefold() for reader in readers for unknown in reader.unknowns}
    if len(unknowns) > 1 or (_CLOSED_AT_INFINITY.search(answer) and not _CLOSED_AT_INFINITY.search(gold)):
        return False
    in_order = all(len(reader.bounds) <= 2 and reader.simple for reader in readers)
    line = _line([bound for reader in readers for bound in reader.bounds], equal, in_order)
    left, right = (one(line) for one in sets)
    return left == right


def bounds_of(text: str) -> list[str] | None:
    """Bounds of a set of real numbers, without the infinite ones; `None` if the text is none."""
    reader = _Reader()
    try:
        reader.read(text)
    except NoSet:
        return None
    return [bound for bound in reader.bounds if "\\infty" not in bound]


def _line(bounds: list[str], equal: Callable[[str, str], bool], in_order: bool) -> Line:
    """Puts bounds in order. Those without a known value are taken to stand in order, if `in_order`."""
    bounds = list(dict.fromkeys(bounds))
    if len(bounds) > MAX_BOUNDS:
        raise NoSet

    def compare(one: str, other: str) -> int:
        left, right = real_value(one), real_value(other)
        if left is not None and right is not None:
            gap = left - right
            if isinstance(gap, float) and abs(gap) <= 1e-6 * (1 + abs(float(left))):
                if equal(one, other):
                    return 0
                raise NoSet
            return (gap > 0) - (gap < 0)
        if equal(one, other):
            return 0
        if not in_order:
            raise NoSet
        return bounds.index(one) - bounds.index(other)

    ordered = sorted((bound for bound in bounds if "\\infty" not in bound), key=cmp_to_key(compare))
    places: dict[str, int] = {}
    last = -1
    for index, bound in enumerate(ordered):
        if index == 0 or compare(ordered[index - 1], bound) != 0:
            last += 2
        places[bound] = last
    return Line(places | {"-\\infty": -1, "\\infty": last + 2}, frozenset(range(max(last + 2, 1))))


class _Reader:
    """Reads a text as a function from the line to the places that belong to the set."""

    def __init__(self) -> None:
        self.bounds: list[str] = []
        self.unknowns: set[str] = set()
        self.simple = True  # one interval

    def read(self, text: str) -> Set:
        text = simplify_notation(text)
        parts, connectives = split_top(text, _CONNECTIVES)
        if any(split_top(part, RELATIONS)[1] or simplify_notation(part) != part for part in parts):
            return self._conditions(parts, connectives)
        return self._operation(text)

    def _operation(self, text: str) -> Set:
        for sign, combine in (
            ("\\cup", operator.or_),
            ("\\cap", operator.and_),
            ("\\setminus", operator.sub),
        ):
            parts, found = split_top(text, frozenset([sign]))
            if found:
                self.simple = False
                members = [self._operation(part) for part in parts]
                return lambda line, combine=combine: reduce(combine, (member(line) for member in members))
        return self._atom(text)

    def _atom(self, text: str) -> Set:
        if text in _EVERYTHING:
            return lambda line: line.everything
        if text == "\\emptyset":
            return lambda line: frozenset()
        items = sequence(text)
        if items is None and text.startswith("(") and text.endswith(")"):
            return self.read(text[1:-1].strip())
        if items is None or (items.brackets != "{}" and len(items.items) != 2):
            raise NoSet
        bounds = [self._bound(item) for item in items.items]
        if items.brackets == "{}":
            self.simple = False
            return lambda line: frozenset(line.places[bound] for bound in bounds)
        low, high = bounds
        return lambda line: _interval(line, items.brackets, line.places[low], line.places[high])

    def _bound(self, text: str) -> str:
        self.bounds.append(text)
        return text

    def _conditions(self, parts: list[str], connectives: list[str]) -> Set:
        kinds = set(connectives)
        if kinds == {",", AND, OR}:  # which belong together?
            raise NoSet
        self.simple = len(parts) == 1
        conditions: list[Set] = []
        holes: list[Set] = []
        for part in parts:
            signs = split_top(part, RELATIONS)[1]
            if not signs and holes and conditions == []:  # `x \neq 1, 2`
                part, signs = f"{next(iter(self.unknowns))} \\neq {part}", ["\\neq"]
            condition = self._chain(part) if signs else self._operation(simplify_notation(part))
            (holes if signs == ["\\neq"] and OR not in kinds else conditions).append(condition)
        if kinds == {AND, OR}:
            starts = [index + 1 for index, connective in enumerate(connectives) if connective == OR]
            groups = [conditions[one:other] for one, other in zip([0, *starts], [*starts, None], strict=True)]
            return lambda line: frozenset().union(*(_all(line, group) for group in groups))

        def combined(line: Line) -> Places:
            both, one = _all(line, conditions), frozenset().union(*(member(line) for member in conditions))
            chosen = one if OR in kinds or (AND not in kinds and conditions and not both) else both
            return chosen & _all(line, holes)

        return combined

    def _chain(self, text: str) -> Set:
        sides, signs = split_top(text, RELATIONS)
        unknowns = [index for index, side in enumerate(sides) if LABEL.match(side)]
        if len(sides) == 3 and 1 in unknowns:  # `a < x < b`
            unknowns = [1]
        if len(unknowns) != 1 or len(sides) != 2 + (unknowns == [1] and len(sides) == 3):
            raise NoSet
        at = unknowns[0]
        self.unknowns.add(sides[at])
        ends = [side if index == at else self._bound(side) for index, side in enumerate(sides)]
        if any(LETTERS.search(end) for index, end in enumerate(ends) if index != at) and len(sides) == 2:
            raise NoSet  # `x < y` is a relation between two unknowns

        def members(line: Line) -> Places:
            place = {index: line.places[end] for index, end in enumerate(ends) if index != at}
            return frozenset(
                number
                for number in line.everything
                if all(
                    _HOLDS[sign](place.get(index, number), place.get(index + 1, number))
                    for index, sign in enumerate(signs)
                )
            )

        return members


def _all(line: Line, members: list[Set]) -> Places:
    return reduce(operator.and_, (member(line) for member in members), line.everything)


def _interval(line: Line, brackets: str, low: int, high: int) -> Places:
    if low > high or (low == high and brackets != "[]"):
        raise NoSet
    left, right = low + (brackets[0] == "("), high - (brackets[1] == ")")
    return frozenset(number for number in line.everything if left <= number <= right)
