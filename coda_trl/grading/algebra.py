r"""
Equality of mathematical expressions by [math-verify](https://github.com/huggingface/Math-Verify).

Runs in worker processes only: it can take for ever, and importing it costs half a second. Nothing in the text is
executed: the expressions go through math-verify's LaTeX grammar, never through its parser of plain (Python-like)
expressions.
"""

import logging
import re
from functools import lru_cache

import sympy
from latex2sympy2_extended import NormalizationConfig
from math_verify import LatexExtractionConfig, parse, verify

from .normalize import WORDS

# math-verify's own removal of units takes `2s`, `5h` and `3t` for 2, 5 and 3; `split_unit` has done that already.
_EXTRACTION = [
    LatexExtractionConfig(
        boxed_match_priority=0,
        normalization_config=NormalizationConfig(basic_latex=True, malformed_operators=True, boxed="last"),
    )
]
_DIGITS = 30  # of the numeric comparison

_DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)(?![\d.])")
_MIXED = re.compile(r"(?<![\d.\w}^_])(\d+)\s*\\frac\s*\{(\d+)\}\s*\{(\d+)\}")
_PRIME = re.compile(r"([A-Za-z])'")
_CAPITAL = re.compile(r"\\[A-Za-z]+|\{(?:[bpvBV]?matrix|array|cases|aligned)\}|[A-Z]")
_NEIGHBOURS = re.compile(r"\d\s+[\d.]")  # math-verify takes `2 7` for 2 + 7
_SUBSCRIPT = re.compile(r"\d\s*\)?\s*_")  # and ignores the base of a numeral

logging.getLogger("math_verify").setLevel(logging.ERROR)  # it warns that we switch off its time limits


def reads(text: str) -> bool:
    """Whether the text is a mathematical expression."""
    return _parse(text, False) is not None


def equal(gold: str, answer: str) -> bool:
    """
    Whether two expressions are mathematically equal.

    Args:
        gold (`str`), answer (`str`):
            Canonical LaTeX without units.

    Returns:
        `bool`: `False` also where the answer cannot be read.
    """
    mixed_case = _has_both_cases(gold) or _has_both_cases(answer)
    left, right = _parse(gold, mixed_case), _parse(answer, mixed_case)
    if left is None or right is None or _surely_different(left, right):
        return False
    if isinstance(left, sympy.Eq) and isinstance(right, sympy.Eq) and _has_unknown_exponent(left, right):
        # solving such an equation loses solutions: `y^x = x^y` and `y^y = x^y` would be the same
        left, right = left.lhs - left.rhs, right.lhs - right.rhs
        return _verify(left, right) or _verify(left, -right)
    return _verify(left, right)


def _verify(left: sympy.Basic, right: sympy.Basic) -> bool:
    return verify(left, right, numeric_precision=_DIGITS, allow_set_relation_comp=True, timeout_seconds=None)


@lru_cache(maxsize=1024)
def _parse(text: str, mixed_case: bool) -> sympy.Basic | None:
    if not text or _NEIGHBOURS.search(text) or _SUBSCRIPT.search(text):
        return None
    text = _PRIME.sub(r"\1_{p}", text)
    text = _MIXED.sub(_mixed_number, _DECIMAL.sub(_fraction, text))
    if mixed_case:  # math-verify does not tell `A` from `a`
        text = _CAPITAL.sub(lambda token: f"{token.group()}_{{0}}" if len(token.group()) == 1 else token.group(), text)
    text = WORDS.sub(r"\\text{\1}", text)
    # "first_match": otherwise it looks for a fraction inside of what it cannot read
    found = parse(
        f"\\boxed{{{text}}}",
        _EXTRACTION,
        fallback_mode="no_fallback",
        extraction_mode="first_match",
        parsing_timeout=None,
    )
    if not found or not isinstance(found[0], sympy.Basic | sympy.MatrixBase):
        return None
    # math-verify takes symbols for complex or real by the look of the text; they have to be the same on both sides
    uniform = {
        symbol: sympy.I if symbol.name == "i" else sympy.Symbol(symbol.name, real=True)
        for symbol in _symbols(found[0])
        if symbol.name == "i" or not symbol.is_real
    }
    return found[0].subs(uniform) if uniform else found[0]


def _fraction(decimal: re.Match) -> str:
    """Decimals are exact: math-verify would round them to six places."""
    whole, part = decimal.groups()
    return rf"\frac{{{(whole + part).lstrip('0') or '0'}}}{{1{'0' * len(part)}}}"


def _mixed_number(match: re.Match) -> str:
    whole, top, bottom = match.groups()
    return (
        rf"(\frac{{{int(whole) * int(bottom) + int(top)}}}{{{bottom}}})" if int(top) < int(bottom) else match.group()
    )


def _has_both_cases(text: str) -> bool:
    letters = set(re.sub(r"\\[A-Za-z]+|\{(?:[bpvBV]?matrix|array|cases|aligned)\}|⟦[^⟧]*⟧", "", text))
    return any(letter.islower() and letter.upper() in letters for letter in letters if letter.isascii())


def _has_unknown_exponent(*equations: sympy.Basic) -> bool:
    return any(power.exp.free_symbols for equation in equations for power in equation.atoms(sympy.Pow))


def _symbols(expression: sympy.Basic) -> set[sympy.Symbol]:
    return {symbol for symbol in expression.free_symbols if isinstance(symbol, sympy.Symbol)}


def _surely_different(left: sympy.Basic, right: sympy.Basic) -> bool:
    """Whether two expressions differ at one point, which saves the search for a proof that they are equal."""
    if not isinstance(left, sympy.Expr) or not isinstance(right, sympy.Expr):
        return False
    point = {
        symbol: sympy.Rational(sympy.prime(20 + index), sympy.prime(10 + index))
        for index, symbol in enumerate(sorted(_symbols(left) | _symbols(right), key=str))
    }
    try:
        one, other = left.evalf(20, subs=point), right.evalf(20, subs=point)
        gap, size = abs(one - other).evalf(15), abs(one).evalf(15) + 1
        return bool(gap.is_Float and size.is_Float and gap > 1e-9 * size)
    except (TypeError, ValueError, ArithmeticError, AttributeError, RecursionError):
        return False
