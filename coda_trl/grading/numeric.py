r"""
Compare expressions by their values, which is thousands of times cheaper than computer algebra.

Every expression has two values at a point. In the *formal* one, an exact fraction, letters, `\pi`, `e`, `i` and every
root stand for random numbers: if two formal values agree, so do the expressions, whatever the symbols stand for (up to
a chance of about degree / 2**61, Schwartz-Zippel). In the *numeric* one, a complex number, constants and roots have
their true values: if two numeric values differ, so do the expressions. What neither decides, or is not understood
here, is left to computer algebra.
"""

import hashlib
import math
import re
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

from .structure import GREEK

MAX_POWER = 400
# These numbers are computed in the calling process, which nothing stops.
MAX_BITS = 20_000  # of one number
MAX_WORK = 500_000  # bits of all numbers on the way to a value
_TOLERANCE = 1e-6
_TOKEN = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+|\\[A-Za-z]+|.)", re.DOTALL)
_TIMES, _OVER = ("*", r"\cdot", r"\times"), ("/", r"\div")
_FACTOR = re.compile(r"[A-Za-z\d.({]|\\(?!(?:cdot|times|div)$)")
# Two numbers side by side (`2 7`, `3{4}`, `{3}{4}`, `2^{3}{4}`) are nothing, and no product.
NEIGHBOURS = re.compile(
    r"\d\s+[\d.]|(?<![\d._^])\d[\d.]*\s*\{\s*\d|(?:^|[-+*/=(,])\s*\{\s*-?\d[\d.]*\s*\}\s*\{\s*\d"
    r"|(?:(?<!\\[a-z]{3})(?<!\\ln)[_^]|\\sqrt(?:\[[^][]*\])?|\\(?:frac|binom)\{[^{}]*\})\s*\{[^{}]*\}\s*\{\s*\d"
)
_MIXED = re.compile(r"(?<![\d.\w}^_])(\d+)\s*\\frac\s*\{(\d+)\}\s*\{(\d+)\}")

Number = Fraction | complex


class _Unknown(Exception):
    """The text holds something that is not evaluated here."""


def equal_by_value(gold: str, answer: str) -> bool | None:
    """Compares two expressions without units at random points; `None` if the values do not decide."""
    keep_case = has_both_cases(gold) or has_both_cases(answer)
    points = [[(text, keep_case, point) for text in (gold, answer)] for point in range(2)]
    formal = [[_formal(*arguments) for arguments in pair] for pair in points]
    if any(None in pair for pair in formal):
        return None
    if all(left[0] == right[0] for left, right in formal):
        return True
    if all(is_rational for pair in formal for _, is_rational in pair):
        return False
    return False if any(_differ(*(_numeric(*arguments) for arguments in pair)) for pair in points) else None


def is_evaluable(text: str) -> bool:
    """Whether the text is an expression that [`equal_by_value`] understands."""
    return _formal(text, True, 0) is not None


def real_value(text: str) -> Fraction | float | None:
    """Value of a constant expression: exact if it is rational; `None` if it is not real, constant or understood."""
    one, other = _formal(text, True, 0), _formal(text, True, 1)
    number = _numeric(text, True, 0)
    if one is None or other is None or number != _numeric(text, True, 1):
        return None
    if one[1]:
        return one[0] if one == other and abs(one[0]) < 1e300 else None  # larger than a float
    return number.real if number is not None and number.imag == 0 else None


def has_both_cases(text: str) -> bool:
    """Whether some letter occurs as a capital and as a small one."""
    letters = set(re.sub(r"\\[A-Za-z]+", "", text))
    return any(letter.islower() and letter.upper() in letters for letter in letters)


def _differ(left: complex | None, right: complex | None) -> bool:
    with suppress(OverflowError):  # too large to tell apart here
        return None not in (left, right) and abs(left - right) > _TOLERANCE * (1 + abs(left) + abs(right))
    return False


@lru_cache(maxsize=8192)
def _formal(text: str, keep_case: bool, point: int) -> tuple[Fraction, bool] | None:
    """Formal value at one of the points, and whether letters and fractions alone make it up, so that it decides."""
    evaluator = _Evaluator(text, keep_case, point, formal=True)
    with suppress(_Unknown, ArithmeticError, RecursionError, ValueError):  # the last: too many digits to write down
        return evaluator.value(), evaluator.is_rational
    return None


@lru_cache(maxsize=8192)
def _numeric(text: str, keep_case: bool, point: int) -> complex | None:
    with suppress(_Unknown, ArithmeticError, RecursionError, ValueError):
        value = _Evaluator(text, keep_case, point, formal=False).value()
        return value if math.isfinite(abs(value)) else None
    return None


def improper(text: str) -> str:
    """Writes mixed numbers as fractions."""

    def fraction(match: re.Match) -> str:
        whole, top, bottom = map(int, match.groups())
        return rf"(\frac{{{whole * bottom + top}}}{{{bottom}}})" if top < bottom else match.group()

    return _MIXED.sub(fraction, text)


class _Evaluator:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, keep_case: bool, point: int, formal: bool):
        self.text = text
        self.tokens = _TOKEN.findall(improper(text).strip())[::-1]
        self.keep_case = keep_case
        self.point = point
        self.formal = formal
        self.is_rational = True
        self.work = 0

    def bounded(self, value: Number) -> Number:
        if self.formal:
            bits = max(abs(value.numerator), value.denominator).bit_length()
            self.work += bits
            if bits > MAX_BITS or self.work > MAX_WORK:
                raise _Unknown
        return value

    def value(self) -> Number:
        if NEIGHBOURS.search(self.text):
            raise _Unknown
        value = self.sum()
        if self.tokens:
            raise _Unknown
        return value

    def symbol(self, name: str) -> Number:
        """A positive number that depends on name and point only, and is no root of any polynomial that occurs."""
        digest = hashlib.blake2b(f"{name}/{self.point}".encode(), digest_size=8).digest()
        value = Fraction(int.from_bytes(digest, "big") >> 3, 2**60) + Fraction(1, 7)
        return value if self.formal else complex(value)

    def constant(self, name: str, value: complex) -> Number:
        self.is_rational = False
        return self.symbol(name) if self.formal else complex(value)

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

    def sum(self) -> Number:
        value = self.product()
        while self.peek() in ("+", "-"):
            value = self.bounded(value + self.product() if self.tokens.pop() == "+" else value - self.product())
        return value

    def product(self) -> Number:
        value, divided = self.signed(), False
        while True:
            if self.take(*_TIMES):
                value, divided = self.bounded(value * self.signed()), False
            elif self.take(*_OVER):
                value, divided = self.bounded(value / self.signed()), True
            elif not _FACTOR.match(self.peek()):
                return value
            elif divided or self.peek()[0] in ".0123456789":  # `1/2x` may mean either, and `2 3` nothing
                raise _Unknown
            else:
                value = self.bounded(value * self.power())

    def signed(self) -> Number:
        if self.take("-"):
            return -self.signed()
        self.take("+")
        return self.power()

    def power(self) -> Number:
        base = self.atom()
        if not self.take("^"):
            return base
        exponent = self.atom()
        if self.peek() == "^":
            raise _Unknown
        return self.raised(base, exponent)

    def group(self, opening: str = "{", closing: str = "}") -> Number:
        self.expect(opening)
        value = self.sum()
        self.expect(closing)
        return value

    def atom(self) -> Number:
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
        return Fraction(token) if self.formal else complex(float(token))

    def letter(self, letter: str) -> Number:
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
            return self.constant(letter, math.e if letter == "e" else 1j)
        return self.symbol(name)

    def command(self, name: str) -> Number:
        if name == "frac":
            return self.bounded(self.group() / self.group())
        if name == "sqrt":
            index = self.group("[", "]") if self.peek() == "[" else Fraction(2)
            return self.raised(self.group(), 1 / index)
        if name == "pi":
            return self.constant(name, math.pi)
        if name in GREEK and self.peek() != "_":
            return self.symbol(name)
        raise _Unknown

    def raised(self, base: Number, exponent: Number) -> Number:
        if not self.formal:
            return _power(base, complex(exponent))
        if exponent.denominator != 1:  # the same power of the same base is the same number, whatever it is
            return self.constant(f"{base}^{exponent}", 0)
        bits = max(abs(base.numerator), base.denominator).bit_length()
        if abs(exponent) > MAX_POWER or bits * max(1, abs(int(exponent))) > MAX_BITS:
            raise _Unknown
        return self.bounded(base ** int(exponent))


def _power(base: complex, exponent: complex) -> complex:
    if exponent == int(exponent.real):
        if abs(exponent) > MAX_POWER:
            raise _Unknown
        return base ** int(exponent.real)
    if base.imag or base.real <= 0:  # which of the roots is meant is not for us to say
        raise _Unknown
    return base**exponent
