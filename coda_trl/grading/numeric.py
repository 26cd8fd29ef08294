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
import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

MAX_POWER = 400
MAX_BITS = 20_000  # of a power: these numbers are computed in the calling process, which nothing stops
_TOLERANCE = 1e-6
_GREEK = set(
    (
        "alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi rho sigma tau phi varphi chi "
        "psi omega"
    ).split()
)
_TOKEN = re.compile(r"\s*(?:(\d+(?:\.\d+)?|\.\d+)|\\([A-Za-z]+)|([A-Za-z])|(.))", re.DOTALL)
_MIXED = re.compile(r"(?<![\d.\w}^_)])(\d+)\s*\\frac\s*\{(\d+)\}\s*\{(\d+)\}(?!\s*[\w\\(])")
# `1\frac{1}{2}\pi`: as a sum or as a product, computer algebra decides.
_MIXED_FACTOR = re.compile(
    r"(?<![\d.\w}^_)])\d+\s*\\frac\s*\{\d+\}\s*\{\d+\}\s*(?:[A-Za-z(]|\\(?!cdot|times|le|ge|cup|%))"
)
_LETTER = re.compile(r"[A-Za-df-z]")
_COMMAND = re.compile(r"\\(?:frac|sqrt|pi|cdot|times|ln|log|div)(?![A-Za-z])")

Number = Fraction | complex


class Value(NamedTuple):
    """Values of an expression at one point. `rational`: made of letters and fractions, so that `formal` decides."""

    formal: Fraction
    numeric: complex | None
    rational: bool


class _Unknown(Exception):
    """The text holds something that is not evaluated here."""


def equal_by_value(gold: str, answer: str) -> bool | None:
    r"""
    Compares two expressions at random points.

    Args:
        gold (`str`), answer (`str`):
            Canonical LaTeX without units, of numbers, letters, `+ - \cdot / ^`, fractions, roots,
            parentheses, `\pi`, `e` and `i`.

    Returns:
        `bool` or `None`: `None` if the values do not decide.

    Example:

    ```python
    >>> from coda_trl.grading.numeric import equal_by_value

    >>> equal_by_value("(x+1)^2", "x^2 + 2x + 1"), equal_by_value(r"\sqrt{8}", "3")
    (True, False)
    >>> equal_by_value(r"\sqrt{8}", r"2\sqrt{2}")  # for computer algebra to decide

    ```
    """
    keep_case = _has_both_cases(gold) or _has_both_cases(answer)
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
    """Value of an expression without letters: exact if it is rational; `None` if it is not real or not understood."""
    value = _value(text, True, 0)
    if value is None or _LETTER.search(_COMMAND.sub("", text)):
        return None
    if value.rational:
        return value.formal
    return value.numeric.real if value.numeric is not None and value.numeric.imag == 0 else None


def _differ(left: complex | None, right: complex | None) -> bool:
    if left is None or right is None:
        return False
    try:
        return abs(left - right) > _TOLERANCE * (1 + abs(left) + abs(right))
    except OverflowError:  # too large to tell apart here
        return False


def _has_both_cases(text: str) -> bool:
    letters = set(re.sub(r"\\[A-Za-z]+", "", text))
    return any(letter.islower() and letter.upper() in letters for letter in letters)


@lru_cache(maxsize=8192)
def _value(text: str, keep_case: bool, point: int) -> Value | None:
    """Values of an expression at one of the points, or `None` if it is not understood."""
    if _MIXED_FACTOR.search(text):
        return None
    text = _MIXED.sub(_improper, text)
    try:
        formal = _Evaluator(text, keep_case, point, exact=True)
        value = formal.whole()
    except (_Unknown, ArithmeticError, RecursionError, ValueError):  # the last: too many digits to write down
        return None
    try:
        numeric = complex(_Evaluator(text, keep_case, point, exact=False).whole())
    except (_Unknown, ArithmeticError, ValueError):
        numeric = None
    if numeric is not None and not math.isfinite(abs(numeric)):
        numeric = None
    return Value(value, numeric, formal.rational)


def _improper(match: re.Match) -> str:
    whole, top, bottom = (int(group) for group in match.groups())
    return rf"(\frac{{{whole * bottom + top}}}{{{bottom}}})" if top < bottom else match.group()


def _random_value(name: str, point: int) -> Fraction:
    """A positive number that depends on the name and the point only, and is no root of any polynomial that occurs."""
    digest = hashlib.blake2b(f"{name}/{point}".encode(), digest_size=8).digest()
    return Fraction(int.from_bytes(digest, "big") >> 3, 2**60) + Fraction(1, 7)


class _Evaluator:
    """Recursive descent over the tokens of one expression, in fractions or in complex numbers."""

    def __init__(self, text: str, keep_case: bool, point: int, exact: bool):
        self.tokens = [(match.lastindex, match.group(match.lastindex)) for match in _TOKEN.finditer(text.strip())]
        self.position = 0
        self.keep_case = keep_case
        self.point = point
        self.exact = exact
        self.rational = True

    def symbol(self, name: str) -> Number:
        value = _random_value(name, self.point)
        return value if self.exact else complex(value)

    def constant(self, name: str, value: complex) -> Number:
        self.rational = False
        return _random_value(name, self.point) if self.exact else value

    def whole(self) -> Number:
        value = self.sum()
        if self.position < len(self.tokens):
            raise _Unknown
        return value

    def peek(self) -> tuple[int, str]:
        return self.tokens[self.position] if self.position < len(self.tokens) else (0, "")

    def take(self, symbol: str) -> bool:
        if self.peek() == (4, symbol):
            self.position += 1
            return True
        return False

    def take_command(self, *names: str) -> bool:
        kind, text = self.peek()
        if kind == 2 and text in names:
            self.position += 1
            return True
        return False

    def expect(self, symbol: str) -> None:
        if not self.take(symbol):
            raise _Unknown

    def sum(self) -> Number:
        value = self.product()
        while True:
            if self.take("+"):
                value += self.product()
            elif self.take("-"):
                value -= self.product()
            else:
                return value

    def product(self) -> Number:
        value = self.signed()
        divided = False
        while True:
            if self.take("*") or self.take_command("cdot", "times"):
                value, divided = value * self.signed(), False
            elif self.take("/") or self.take_command("div"):
                value, divided = value / self.signed(), True
            elif self.starts_factor():
                # `1/2x` may mean either, and `2 3` nothing
                if divided or self.peek()[0] == 1:
                    raise _Unknown
                value *= self.power()
            else:
                return value

    def starts_factor(self) -> bool:
        kind, text = self.peek()
        return kind in (1, 3) or (kind == 2 and text not in ("cdot", "times", "div")) or (kind == 4 and text in "({")

    def signed(self) -> Number:
        if self.take("-"):
            return -self.signed()
        self.take("+")
        return self.power()

    def power(self) -> Number:
        base = self.atom()
        if not self.take("^"):
            return base
        exponent = self.group() if self.peek() == (4, "{") else self.atom()
        if self.peek() == (4, "^"):
            raise _Unknown
        return self.raised(base, exponent)

    def group(self) -> Number:
        self.expect("{")
        value = self.sum()
        self.expect("}")
        return value

    def atom(self) -> Number:
        kind, text = self.peek()
        self.position += 1
        if kind == 1:
            return Fraction(text) if self.exact else complex(float(text))
        if kind == 2:
            return self.command(text)
        if kind == 3:
            return self.letter(text)
        if (kind, text) == (4, "{"):
            self.position -= 1
            return self.group()
        if (kind, text) == (4, "("):
            value = self.sum()
            self.expect(")")
            return value
        raise _Unknown

    def letter(self, text: str) -> Number:
        name = text if self.keep_case else text.lower()
        if self.take("_"):
            kind, subscript = self.peek()
            self.position += 1
            if kind == 4 and subscript == "{":
                kind, subscript = self.peek()
                self.position += 1
                self.expect("}")
            if kind not in (1, 3):
                raise _Unknown
            return self.symbol(f"{name}_{subscript}")
        if self.peek() == (4, "'"):
            raise _Unknown
        if text in ("e", "i"):
            return self.constant(text, complex(math.e) if text == "e" else 1j)
        return self.symbol(name)

    def command(self, name: str) -> Number:
        if name == "frac":
            return self.group() / self.group()
        if name == "sqrt":
            index = Fraction(2) if self.exact else complex(2)
            if self.take("["):
                index = self.sum()
                self.expect("]")
            return self.raised(self.group(), 1 / index)
        if name == "ln" or (name == "log" and self.take("_")):
            return self.logarithm(self.group() if name == "log" else None)
        if name == "pi":
            return self.constant(name, complex(math.pi))
        if name in _GREEK and self.peek() != (4, "_"):
            return self.symbol(name)
        raise _Unknown

    def logarithm(self, base: Number | None) -> Number:
        argument = self.group() if self.peek() == (4, "{") else self.atom()
        if self.starts_factor() or self.peek() == (4, "^"):  # does `\\ln 2x` end before the `x`?
            raise _Unknown
        if self.exact:
            return self.constant(f"log({argument})/{base}", 0)
        return cmath.log(argument) if base is None else cmath.log(argument) / cmath.log(base)

    def raised(self, base: Number, exponent: Number) -> Number:
        whole = exponent.real if isinstance(exponent, complex) else exponent
        if whole == exponent and whole == int(whole):
            if abs(whole) > MAX_POWER:
                raise _Unknown
            if self.exact:
                bits = max(abs(base.numerator), base.denominator).bit_length()
                if bits * max(1, abs(int(whole))) > MAX_BITS:
                    raise _Unknown
            return base ** int(whole)
        if self.exact:  # the same power of the same base is the same number, whatever it is
            return self.constant(f"{base}^{exponent}", 0)
        if base.imag or base.real <= 0:  # which of the roots is meant is not for us to say
            raise _Unknown
        return base**exponent
