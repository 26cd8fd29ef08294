"""Compare lists, tuples and sets of values item by item."""

import re
from collections.abc import Callable, Iterable

from .structure import Sequence, sequence, split_top

MAX_ITEMS = 64
_UNKNOWN = re.compile(r"^[A-Za-z](?:_\{?\w+\}?|')?$")
_EQUALS = frozenset("=")
_POINT = re.compile(r"^[A-Z](?=\([^()=]*, [^()=]*\)$)")
_COLUMN = re.compile(r"^\\begin\{[bp]matrix\}([^&]*)\\end\{[bp]matrix\}$")
_ORDERED = {"xy", "xyz", "ab", "abc", "abcd"}  # letters that are known to be asked for in this order

Equal = Callable[[str, str], bool]


def by_label(text: str) -> str:
    """`x = 1, y = 2` of `(x, y) = (1, 2)`."""
    sides, signs = split_top(text, _EQUALS)
    labels, values = map(sequence, sides) if len(signs) == 1 else (None, None)
    if not labels or not values or not labels.brackets == values.brackets == "()":
        return text
    is_one_each = len(labels.items) == len(values.items) and all(map(_UNKNOWN.match, labels.items))
    return ", ".join(map("{} = {}".format, labels.items, values.items)) if is_one_each else text


def as_tuple(text: str) -> str:
    r"""`(1, 2)` of the vector `\begin{pmatrix} 1 \\ 2 \end{pmatrix}` and the point `P(1, 2)`."""
    if column := _COLUMN.match(text):
        rows = map(str.strip, column[1].split(r"\\"))
        return f"({', '.join(filter(None, rows))})"
    return _POINT.sub("", text)


def same_items(gold: str, answer: str, equal: Equal) -> bool:
    """Whether two texts, one of which is a [`~structure.sequence`], hold equal values, in order where it counts."""
    golds, answers = (sequence(text) or Sequence("", (text,)) for text in (gold, answer))
    left, right = golds.items, answers.items
    if len(left) != len(right) or len(left) > MAX_ITEMS:
        return False
    if len(left) == 1:
        return equal(left[0], right[0])
    brackets = {golds.brackets, answers.brackets}
    is_interval = brackets & {"[)", "(]"} or (len(left) == 2 and ("[]" in brackets or "\\infty" in left[0] + left[1]))
    if brackets == {"()", "{}"} or (len(brackets) > 1 and is_interval):
        return False
    left_labels, right_labels = _labels(left), _labels(right)
    in_order = "()" in brackets or golds.brackets not in ("", "{}")
    if len(set(right_labels) - {""}) == len(right) and not any(left_labels):
        letters = {label[0] for label in right_labels}
        # `y = 2, x = 1` answers (1, 2), asked for (x, y)
        if len(letters) == 1 or "".join(sorted(right_labels)) in _ORDERED:
            right = [item for _, item in sorted(zip(right_labels, right, strict=True))]
        if len(letters) > 1:  # different unknowns are no set
            return golds.brackets != "{}" and all(map(equal, left, right))
    elif len(set(left_labels) - {""}) == len(left) and not any(right_labels):  # (4, 3) is not `x = 3, y = 4`
        in_order = True
    return all(map(equal, left, right)) if in_order else same_elements(left, right, equal)


def _labels(items: Iterable[str]) -> list[str]:
    """What stands in front of the `=` of each item; nothing where there is none."""
    return [split_top(item, _EQUALS)[0][0] if "=" in item else "" for item in items]


def same_elements(left: Iterable[str], right: Iterable[str], equal: Equal) -> bool:
    """Whether the items match one to one in some order; equality being transitive, the first match will do."""
    rest = list(right)
    for item in sorted(left, key=lambda item: item not in rest):
        matches = item if item in rest else next((other for other in rest if equal(item, other)), None)
        if matches is None:
            return False
        rest.remove(matches)
    return not rest
