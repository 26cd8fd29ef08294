r"""Values that an answer says to be nearly the same: `2\sqrt{7} \approx 5.29`."""

import re

from .numeric import real_value
from .structure import APPROXIMATELY, NAME, RELATIONS, split_top
from .units import Quantity, split_unit

_DECIMAL = re.compile(r"-?\d*\.\d+")  # a whole number may well be exact


def approximated(text: str) -> list[str]:
    r"""The values: first `\sqrt{2}` of `\sqrt{2} \approx 1.41`, and 1.41 of `AB \approx 1.41`."""
    pieces, found = split_top(text, APPROXIMATELY)
    values = [piece for piece in pieces if piece and not NAME.match(piece)] if found else [text]
    return values or pieces[-1:]


def is_close(values: list[str]) -> bool:
    r"""`\frac{2}{3} \approx 0.6`, and not `3 \approx 4`: off by less than one in the last digit, or three percent."""
    exact, *others = map(_quantity, values)
    value = real_value(exact.value)
    for other in others:
        rounded = real_value(other.value)
        if None in (value, rounded) or other[1:] != exact[1:]:  # of unknown value, or in another unit
            continue
        if abs(value - rounded) >= max(10.0 ** -_places(other.value), abs(rounded) * 0.03):
            return False
    return True


def is_rounded(values: list[str]) -> bool:
    r"""Whether the last value is the first, rounded: 5.29 is asked for, and `2\sqrt{7} \approx 5.29` says it."""
    exact, rounded = _quantity(values[0]).value, _quantity(values[-1]).value
    value = real_value(exact)
    if value is None or not _DECIMAL.fullmatch(rounded) or set(split_top(values[0], RELATIONS)[1]) - {"="}:
        return False
    return abs(value - float(rounded)) <= 0.5 * 10.0 ** -_places(rounded)


def _quantity(value: str) -> Quantity:
    return split_unit(split_top(value, RELATIONS)[0][-1])


def _places(decimal: str) -> int:
    return len(decimal.partition(".")[2])
