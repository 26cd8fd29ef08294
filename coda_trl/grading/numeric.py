r"""
Compare expressions by their values, which is thousands of times cheaper than computer algebra.

At random points, letters are fractions. What arithmetic makes of fractions is a fraction: if two of them agree, so do
the expressions (up to a chance of about degree / 2**61, Schwartz-Zippel). With `\pi`, `e`, `i` or a root a value is a
rounded complex number: if two of them differ, so do the expressions. Rounded values that agree, and what is not
understood here, are left to computer algebra.
"""

import hashlib
import math
import re
from contextlib import suppress
from fractions import Fraction
from functools import lru_cache

from .structure import GREEK, LETTERS

MAX_POWER = 400
# These numbers are computed in the calling process, which nothing stops.
MAX_BITS = 20_000  # of one number
MAX_WORK = 500_000  # bits of all numbers on the way to a value
_TOLERANCE = 1e-6
_CONSTANTS = {"e": complex(math.e), "i": 1j}
_SUBSCRIPT = r"(?:[A-Za-z]|\d+|\{(?:[A-Za-z]|\d+)\})"
_TOKEN = re.compile(rf"\s*(\d+(?:\.\d+)?|\.\d+|\\[A-Za-z]+|[A-Za-z]_{_SUBSCRIPT}|.)", re.DOTALL)
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
    pairs = [[_value(text, keep_case, point) for text in (gold, answer)] for point in range(2)]
    if any(None in pair for pair in pairs):
        return None
    if any(_differ(*pair) for pair in pairs):
        return False
    return True if all(isinstance(value, Fraction) for pair in pairs for value in pair) else None


def is_evaluable(text: str) -> bool:
    """Whether the text is an expression that [`equal_by_value`] understands."""
    return _value(text, True, 0) is not None


def rational_value(text: str) -> Fraction | None:
    """Exact value of what arithmetic makes of numbers, such as a decimal or a mixed number."""
    value = None if LETTERS.search(text) else _value(text, True, 0)
    return value if isinstance(value, Fraction) else None


def real_value(text: str) -> Fraction | float | None:
    """Value of a constant expression: exact if it is rational; `None` if it is not real, constant or understood."""
    value = _value(text, True, 0)
    if value is None or value != _value(text, True, 1) or value.imag:
        return None
    if isinstance(value, Fraction):
        return value if abs(value) < 1e300 else None  # larger than a float
    return value.real


def has_both_cases(text: str) -> bool:
    """Whether some letter occurs as a capital and as a small one."""
    letters = set(re.sub(r"\\[A-Za-z]+(?:\{\w*matrix\})?", "", text))
    return any(letter.islower() and letter.upper() in letters for letter in letters)


def _differ(left: Number, right: Number) -> bool:
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        return left != right
    with suppress(OverflowError):  # too large to tell apart here
        return abs(left - right) > _TOLERANCE * (1 + abs(left) + abs(right))
    return False


@lru_cache(maxsize=8192)
def _value(text: str, keep_case: bool, point: int) -> Number | None:
    with suppress(_Unknown, ArithmeticError, RecursionError, ValueError):
        value = _Evaluator(text, keep_case, point).value()
        return value if isinstance(value, Fraction) or math.isfinite(abs(value)) else None
    return None


def improper(text: str) -> str:
    """Writes mixed numbers as fractions."""
    return _MIXED.sub(r"(\1+\\frac{\2}{\3})", text)


class _Evaluator:
    """Recursive descent over the tokens of one expression."""

    def __init__(self, text: str, keep_case: bool, point: int):
        self.text = text
        self.tokens = _TOKEN.findall(improper(text).strip())[::-1]
        self.keep_case = keep_case
        self.point = point
        self.work = 0

    def bounded(self, value: Number) -> Number:
        if isinstance(value, Fraction):
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

    def symbol(self, name: str) -> Fraction:
        """A positive number that depends on name and point only, and is no root of any polynomial that occurs."""
        digest = hashlib.blake2b(f"{name}/{self.point}".encode(), digest_size=8).digest()
        return Fraction(int.from_bytes(digest, "big") >> 3, 2**60) + Fraction(1, 7)

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
        if token[0].isalpha():
            return self.letter(token)
        return Fraction(token)

    def letter(self, letter: str) -> Number:
        name = letter if self.keep_case else letter[0].lower() + letter[1:]
        if "_" in letter:
            return self.symbol(re.sub("[{}]", "", name))
        if self.peek() == "'":
            raise _Unknown
        if letter in ("f", "g") and self.peek() == "(":  # a function, and no factor: `f(-x)` is not `-f(x)`
            argument = self.group("(", ")")
            if not isinstance(argument, Fraction):
                raise _Unknown
            name += f"({argument})"
        return _CONSTANTS[letter] if letter in _CONSTANTS else self.symbol(name)

    def command(self, name: str) -> Number:
        if name == "frac":
            return self.bounded(self.group() / self.group())
        if name == "sqrt":
            index = self.group("[", "]") if self.peek() == "[" else Fraction(2)
            return self.raised(self.group(), 1 / index)
        if name == "pi":
            return complex(math.pi)
        if name in GREEK and self.peek() != "_":
            return self.symbol(name)
        raise _Unknown

    def raised(self, base: Number, exponent: Number) -> Number:
        if exponent == int(exponent.real):
            power = int(exponent.real)
            bits = max(abs(base.numerator), base.denominator).bit_length() if isinstance(base, Fraction) else 1
            if abs(power) > MAX_POWER or bits * max(1, abs(power)) > MAX_BITS:
                raise _Unknown
            return self.bounded(base**power)
        if base.imag or base.real <= 0:  # which of the roots is meant is not for us to say
            raise _Unknown
        return complex(base) ** complex(exponent)
