r"""
Compare sets of real numbers: intervals, unions, intersections, differences, inequalities.

The bounds of both sets cut the real line into points and the gaps between them, which are numbered from left to right.
A set is the numbers of those that belong to it, so that notations do not matter.
"""

import operator
import re
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import cmp_to_key, reduce
from typing import NamedTuple

from .numeric import real_value
from .structure import AND, LABEL, LETTERS, OR, RELATIONS, sequence, simplify_notation, split_top

MAX_BOUNDS = 64
_SET_SIGN = re.compile(r"\\(?:cup|cap|setminus|mathbb|emptyset)(?![A-Za-z])|^\[.*\)$|^\(.*\]$")
_SIZE = re.compile(rf"^\|\s*({LETTERS.pattern})\s*\|\s*(<|>|\\le|\\ge)(?![A-Za-z])\s*([^<>|]+)$")
_CLOSED_AT_INFINITY = re.compile(r"\[\s*-\\infty|\\infty\s*\]")
_CONNECTIVES = frozenset([",", AND, OR])
_OPERATIONS: dict[str, Callable] = {r"\cup": operator.or_, r"\cap": operator.and_, r"\setminus": operator.sub}
_HOLDS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, ">": operator.gt, "=": operator.eq,
    r"\le": operator.le, r"\ge": operator.ge, r"\neq": operator.ne,
}  # fmt: skip

Places = frozenset[int]


class _NoSet(Exception):
    """The text is no set of real numbers, or its bounds cannot be put in order."""


class Line(NamedTuple):
    """Places of the bounds (odd numbers, from 1) and of everything: points, gaps between, half-lines at the ends."""

    places: dict[str, int]
    everything: Places


def _is_set(text: str) -> bool:
    r"""Whether a text can only mean a set of numbers: it holds an inequality, `\cup`, a half-open interval, ..."""
    items, _ = split_top(text, _CONNECTIVES)
    return _SET_SIGN.search(text) is not None or any(set(split_top(item, RELATIONS)[1]) - {"="} for item in items)


def same_set(gold: str, answer: str, equal: Callable[[str, str], bool]) -> bool | None:
    r"""
    Whether two texts mean the same set of real numbers; `None` if one of them means none, or if its bounds cannot be
    put in order. `equal` tells bounds apart that have no known value here.

    Of several inequalities between commas, `x > 2, x < 3` means both, and `x < 2, x > 3`, which nothing fulfils,
    means one of them; `x \neq 3` takes a point out of the others. With "and" and "or" they mean what they say.
    """
    if not (_is_set(gold) or _is_set(answer)):
        return None
    with suppress(_NoSet):
        readers = _Reader(gold), _Reader(answer)
        unknowns = {unknown.casefold() for reader in readers for unknown in reader.unknowns}
        if len(unknowns) > 1 or (_CLOSED_AT_INFINITY.search(answer) and not _CLOSED_AT_INFINITY.search(gold)):
            return False
        line = _line(list(readers[0].places | readers[1].places), equal, all(reader.is_interval for reader in readers))
        return _Reader(gold, line).members == _Reader(answer, line).members
    return None


def bounds_of(text: str) -> list[str] | None:
    """Bounds of a set of real numbers, without the infinite ones; `None` if the text is none."""
    with suppress(_NoSet):
        return [bound for bound in _Reader(text).places if "\\infty" not in bound] if _is_set(text) else None
    return None


def _line(bounds: list[str], equal: Callable[[str, str], bool], in_order: bool) -> Line:
    """Puts bounds in order. Those without a known value are taken to stand in order, if `in_order`."""
    if len(bounds) > MAX_BOUNDS:
        raise _NoSet

    def compare(one: str, other: str) -> int:
        left, right = real_value(one), real_value(other)
        is_known = left is not None and right is not None
        gap = left - right if is_known else bounds.index(one) - bounds.index(other)
        if is_known and not (isinstance(gap, float) and abs(gap) <= 1e-6 * (1 + abs(float(left)))):
            return (gap > 0) - (gap < 0)
        if equal(one, other):
            return 0
        if is_known or not in_order:
            raise _NoSet
        return gap

    ordered = sorted((bound for bound in bounds if "\\infty" not in bound), key=cmp_to_key(compare))
    places = {"-\\infty": -1}
    last = -1
    for index, bound in enumerate(ordered):
        if index == 0 or compare(ordered[index - 1], bound) != 0:
            last += 2
        places[bound] = last
    return Line(places | {"\\infty": last + 2}, frozenset(range(max(last + 2, 1))))


class _Reader:
    """Reads a text as the places of a line that belong to the set; without a line, finds the bounds that make one."""

    def __init__(self, text: str, line: Line | None = None) -> None:
        self.places, self.everything = line or Line(defaultdict(int), frozenset())
        self.unknowns: set[str] = set()
        self.is_interval = True
        try:
            self.members = self._read(text)
        except KeyError:  # a sum with infinity has no place
            raise _NoSet from None

    def _read(self, text: str) -> Places:
        text = simplify_notation(text)
        parts, connectives = split_top(text, _CONNECTIVES)
        if any(split_top(part, RELATIONS)[1] or simplify_notation(part) != part for part in parts):
            return self._conditions(parts, connectives)
        return self._operation(text)

    def _operation(self, text: str) -> Places:
        for sign, combine in _OPERATIONS.items():
            parts, found = split_top(text, frozenset([sign]))
            if found:
                self.is_interval = False
                return reduce(combine, map(self._operation, parts))
        if text in ("\\mathbb{R}", "\\mathbb R"):
            return self.everything
        if text == "\\emptyset":
            return frozenset()
        items = sequence(text)
        if items is None and text.startswith("(") and text.endswith(")"):
            return self._read(text[1:-1].strip())
        if items is None or not items.brackets or (items.brackets != "{}" and len(items.items) != 2):
            raise _NoSet
        places = [self.places[item] for item in items.items]
        if items.brackets == "{}":
            self.is_interval = False
            return frozenset(places)
        low, high = places
        if self.everything and (low > high or (low == high and items.brackets != "[]")):
            raise _NoSet
        inside = range(low + (items.brackets[0] == "("), high + (items.brackets[1] == "]"))
        return self.everything.intersection(inside)

    def _conditions(self, parts: list[str], connectives: list[str]) -> Places:
        kinds = set(connectives)
        if kinds == {",", AND, OR}:  # which belong together?
            raise _NoSet
        self.is_interval = len(parts) == 1
        conditions: list[Places] = []
        holes: list[Places] = []
        signs: list[str] = []
        for part in parts:
            is_hole = signs == ["\\neq"]
            signs = split_top(part, RELATIONS)[1]
            if not signs and is_hole:  # `x \neq 1, 2`
                part, signs = f"{next(iter(self.unknowns))} \\neq {part}", ["\\neq"]
            condition = self._chain(part) if signs else self._operation(simplify_notation(part))
            (holes if signs == ["\\neq"] and OR not in kinds else conditions).append(condition)
        starts = [index + 1 for index, connective in enumerate(connectives) if OR in kinds and connective != AND]
        groups = [conditions[one:other] for one, other in zip([0, *starts], [*starts, None], strict=True)]
        chosen = frozenset().union(*(self.everything.intersection(*group) for group in groups))
        if kinds == {","} and not chosen:
            chosen = frozenset().union(*conditions)
        return chosen.intersection(self.everything, *holes)

    def _chain(self, text: str) -> Places:
        if size := _SIZE.match(text):  # `|x| < 5`
            unknown, sign, bound = size.groups()
            if sign in ("<", r"\le"):
                return self._chain(f"-({bound}) {sign} {unknown} {sign} {bound}")
            below = sign.replace(">", "<").replace("ge", "le")
            return self._chain(f"{unknown} {below} -({bound})") | self._chain(f"{unknown} {sign} {bound}")
        sides, signs = split_top(text, RELATIONS)
        labels = [index for index, side in enumerate(sides) if LABEL.match(side)]
        is_between = len(sides) == 3 and 1 in labels and not {"=", "\\neq"} & set(signs)  # `a < x < b`
        if not is_between and not (len(sides) == 2 and len(labels) == 1):
            raise _NoSet
        at = 1 if len(sides) == 3 else labels[0]
        if sides.count(sides[at]) > 1:  # `x > x = 5`
            raise _NoSet
        self.unknowns.add(sides[at])
        if len(sides) == 2 and LETTERS.search(sides[1 - at]):
            raise _NoSet  # `x < y` is a relation between two unknowns
        ends = [None if index == at else self.places[side] for index, side in enumerate(sides)]

        def holds(number: int) -> bool:
            numbers = [number if end is None else end for end in ends]
            return all(_HOLDS[sign](*numbers[index : index + 2]) for index, sign in enumerate(signs))

        return frozenset(filter(holds, self.everything))
