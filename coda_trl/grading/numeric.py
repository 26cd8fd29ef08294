r"""
Compare expressions by their values, which is thousands of times cheaper than computer algebra.

Every expression has two values at a point. In the *formal* one, an exact fraction, letters, `\pi`, `e`, `i` and every
root stand for random numbers: if two formal values agree, so do the expressions, whatever the symbols stand for (up to
a chance of about degree / 2**61, Schwartz-Zippel). In the *numeric* one, a complex number, constants and roots have
their true values: if two numeric values differ, so do the expressions. What neither decides, or is not understood
here, is left to computer algebra.
"""

import cmath
import hashlib
import math
import operator
import re
from collections.abc import Callable
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from .plain import GREEK

MAX_POWER = 400
MAX_BITS = 20_000  # of a power: these numbers are computed in the calling process, which nothing stops
_TOLERANCE = 1e-6
_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+|\\[A-Za-z]+|.)", re.DOTALL)
_TIMES, _OVER = ("*", r"\cdot", r"\times"), ("/", r"\div")
_FACTOR = re.compile(r"[A-Za-z\d.({]|\\(?!(?:cdot|times|div)$)")
_MIXED = re.compile(r"(?<![\d.\w}^_])(\d+)\s*\\frac\s*\{(\d+)\}\s*\{(\d+)\}")


class Value(NamedTuple):
    """Values of an expression at one point. `rational`: made of letters and fractions, so that `formal` decides."""

    formal: Fraction
    numeric: complex | None
    rational: bool = True


class _Unknown(Exception):
    """The text holds something that is not evaluated here."""


def equal_by_value(gold: str, answer: str) -> bool | None:
    """Compares two expressions without units at random points; `None` if the values do not decide."""
    keep_case = has_both_cases(gold) or has_both_cases(answer)
    pairs = [(_value(gold, keep_case, point), _value(answer, keep_case, point)) for point in range(2)]
    if any(left is None or right is None for left, right in pairs):
        return None
    if all(left.formal == right.formal for left, right in pairs):
        return True
    if all(left.rational and right.rational for left, right in pairs):
        return False
    return False if any(_differ(left.numeric, right.numeric) for left, right in pairs) else None


def is_evaluable(text: str) -> bool:
    """Whether the text is an expression that [`equal_by_value`] understands."""
    return _value(text, True, 0) is not None


def real_value(text: str) -> Fraction | float | None:
    """Value of a constant expression: exact if it is rational; `None` if it is not real, constant or understood."""
    one, other = _value(text, True, 0), _value(text, True, 1)
    if one is None or other is None or one.numeric != other.numeric:
        return None
    if one.rational:
        return one.formal if one.formal == other.formal else None
    return one.numeric.real if one.numeric is not None and one.numeric.imag == 0 else None


def has_both_cases(text: str) -> bool:
    """Whether some letter occurs as a capital and as a small one."""
    letters = set(re.sub(r"\\[A-Za-z]+", "", text))
    return any(letter.islower() and letter.upper() in letters for letter in letters)


def _differ(left: complex | None, right: complex | None) -> bool:
    with suppress(OverflowError):  # too large to tell apart here
        return None not in (left, right) and abs(left - right) > _TOLERANCE * (1 + abs(left) + abs(right))
    return False


@lru_cache(maxsize=8192)
def _value(text: str, keep_case: bool, point: int) -> Value | None:
    """Values of an expression at one of the points, or `None` if it is not understood."""
    evaluator = _Evaluator(improper(text), keep_case, point)
    try:
        value = evaluator.sum()
        is_finite = value.numeric is not None and math.isfinite(abs(value.numeric))
    except (_Unknown, ArithmeticError, RecursionError, ValueError):  # the last: too many digits to write down
        return None
    if evaluator.tokens:
        return None
    return value if is_finite else value._replace(numeric=None)


def improper(text: str) -> str:
    """Writes mixed numbers as fractions."""

    def fraction(match: re.Match) -> str:
        whole, top, bottom = map(int, match.groups())
        return rf"(\frac{{{whole * bottom + top}}}{{{bottom}}})" if top < bottom else match.group()

    return _MIXED.sub(fraction, text)


def _numeric(operation: Callable[..., complex], *values: Value) -> complex | None:
    """Result with the numeric values; `None` if one of them has none, or if it is out of range."""
    numbers = [value.numeric for value in values]
    with suppress(_Unknown, ArithmeticError, ValueError):
        return None if None in numbers else operation(*numbers)
    return None


def _combine(operation: Callable, *values: Value) -> Value:
    formal = operation(*(value.formal for value in values))
    return Value(formal, _numeric(operation, *values), all(value.rational for value in values))


class _Evaluator:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, keep_case: bool, point: int):
        self.tokens = _TOKEN.findall(text.strip())[::-1]
        self.keep_case = keep_case
        self.point = point

    def symbol(self, name: str) -> Value:
        """A positive number that depends on name and point only, and is no root of any polynomial that occurs."""
        digest = hashlib.blake2b(f"{name}/{self.point}".encode(), digest_size=8).digest()
        value = Fraction(int.from_bytes(digest, "big") >> 3, 2**60) + Fraction(1, 7)
        return Value(value, complex(value))

    def constant(self, name: str, value: complex | None) -> Value:
        return Value(self.symbol(name).formal, value, rational=False)

    def peek(self) -> str:
        return self.tokens[-1] if self.tokens else ""

    def take(self, *tokens: str) -> bool:
        if self.peek() not in tokens:
            return False
        self.tokens.pop()
        return True

    def expect(self, token: str) -> None:
        if not self.take(token):
            raise _Unknown

    def sum(self) -> Value:
        value = self.product()
        while self.peek() in ("+", "-"):
            operation = operator.add if self.tokens.pop() == "+" else operator.sub
            value = _combine(operation, value, self.product())
        return value

    def product(self) -> Value:
        value, divided = self.signed(), False
        while True:
            if self.take(*_TIMES):
                value, divided = _combine(operator.mul, value, self.signed()), False
            elif self.take(*_OVER):
                value, divided = _combine(operator.truediv, value, self.signed()), True
            elif not _FACTOR.match(self.peek()):
                return value
            elif divided or self.peek()[0] in ".0123456789":  # `1/2x` may mean either, and `2 3` nothing
                raise _Unknown
            else:
                value = _combine(operator.mul, value, self.power())

    def signed(self) -> Value:
        if self.take("-"):
            return _combine(operator.neg, self.signed())
        self.take("+")
        return self.power()

    def power(self) -> Value:
        base = self.atom()
        if not self.take("^"):
            return base
        exponent = self.atom()
        if self.peek() == "^":
            raise _Unknown
        return self.raised(base, exponent)

    def group(self, opening: str = "{", closing: str = "}") -> Value:
        self.expect(opening)
        value = self.sum()
        self.expect(closing)
        return value

    def atom(self) -> Value:
        token = self.peek()
        if token == "{":
            return self.group()
        if token == "(":
            return self.group("(", ")")
        if not _FACTOR.match(token):
            raise _Unknown
        self.tokens.pop()
        if token.startswith("\\"):
            return self.command(token[1:])
        if token.isalpha():
            return self.letter(token)
        return Value(Fraction(token), complex(float(token)))

    def letter(self, letter: str) -> Value:
        name = letter if self.keep_case else letter.lower()
        if self.take("_"):
            is_braced = self.take("{")
            subscript = self.tokens.pop() if self.tokens else ""
            if is_braced:
                self.expect("}")
            if not re.fullmatch(r"[A-Za-z]|\.?\d.*", subscript):
                raise _Unknown
            return self.symbol(f"{name}_{subscript}")
        if self.peek() == "'":
            raise _Unknown
        if letter in ("e", "i"):
            return self.constant(letter, complex(math.e) if letter == "e" else 1j)
        return self.symbol(name)

    def command(self, name: str) -> Value:
        if name == "frac":
            return _combine(operator.truediv, self.group(), self.group())
        if name == "sqrt":
            index = self.group("[", "]") if self.peek() == "[" else Value(Fraction(2), complex(2))
            return self.raised(self.group(), _combine(lambda value: 1 / value, index))
        if name == "ln":
            return self.logarithm(self.constant("e", complex(math.e)))
        if name == "log" and self.take("_"):
            return self.logarithm(self.group())
        if name == "pi":
            return self.constant(name, complex(math.pi))
        if name in GREEK and self.peek() != "_":
            return self.symbol(name)
        raise _Unknown

    def logarithm(self, base: Value) -> Value:
        argument = self.atom()
        if self.peek() == "^" or _FACTOR.match(self.peek()):  # does `\ln 2x` end before the `x`?
            raise _Unknown
        numeric = _numeric(lambda value, base: cmath.log(value) / cmath.log(base), argument, base)
        return self.constant(f"log({argument.formal})/{base.formal}", numeric)

    def raised(self, base: Value, exponent: Value) -> Value:
        numeric = _numeric(_power, base, exponent)
        whole = exponent.formal
        if whole.denominator != 1:  # the same power of the same base is the same number, whatever it is
            return self.constant(f"{base.formal}^{whole}", numeric)
        bits = max(abs(base.formal.numerator), base.formal.denominator).bit_length()
        if abs(whole) > MAX_POWER or bits * max(1, abs(int(whole))) > MAX_BITS:
            raise _Unknown
        return Value(base.formal ** int(whole), numeric, base.rational and exponent.rational)


def _power(base: complex, exponent: complex) -> complex:
    if exponent == int(exponent.real):
        if abs(exponent) > MAX_POWER:
            raise _Unknown
        return base ** int(exponent.real)
    if base.imag or base.real <= 0:  # which of the roots is meant is not for us to say
        raise _Unknown
    return base**exponent
