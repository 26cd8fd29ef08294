r"""
Compare expressions by their values, with as many digits as their numbers require.

Rational numbers are compared exactly. Everything else is evaluated at the same points on both sides. The digits follow
from the sizes of all numbers that occur on the way, so that `1 - e^{-100}` and `1 - e^{-101}` are told apart, and a
decimal differs from `\pi` however many of its digits it has. Two values that agree in all these digits are equal.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from itertools import combinations, pairwise, product
from typing import Any

import mpmath
import sympy
from sympy.core.function import AppliedUndef

MAX_DIGITS = 30_000  # what needs more is wrong
MAX_POINT_DIGITS = 5000  # at a point that needs more, as `2^x` does for a large x, expressions are not compared
MAX_FRACTION_DIGITS = 100_000
_SURE_DIGITS = 50  # of two values that agree, beyond the sizes of their terms
_POINTS = 11
_ENOUGH_POINTS = 3

_FUNCTIONS: dict[Any, Callable] = {
    getattr(sympy, name): getattr(mpmath, name)
    for name in (
        "sin cos tan cot sec csc asin acos atan acot asec acsc sinh cosh tanh coth asinh acosh atanh log exp "
        "factorial binomial gamma floor re im arg sign"
    ).split()
} | {
    sympy.Abs: abs,
    sympy.conjugate: mpmath.conj,
    sympy.ceiling: mpmath.ceil,
    sympy.Max: max,
    sympy.Min: min,
    sympy.Add: lambda *terms: mpmath.fsum(terms),
    sympy.Mul: lambda *factors: mpmath.fprod(factors),
    sympy.UnevaluatedExpr: lambda value: value,
}
_IN_PIECES = (sympy.Abs, sympy.floor, sympy.ceiling, sympy.sign, sympy.Max, sympy.Min)
_RATIONAL = (sympy.Add, sympy.Mul, sympy.factorial, sympy.binomial, sympy.UnevaluatedExpr)

Number = mpmath.mpf | mpmath.mpc
Point = dict[sympy.Expr, sympy.Rational]


class Undecided(Exception):
    """The expressions hold something that has no value here."""


def same_value(gold: sympy.Expr, answer: sympy.Expr, points: list[Point] | None = None) -> bool:
    """
    Whether two expressions have the same value wherever the gold is defined. Letters stand for real numbers.

    Of the points (by default `_points`), those count at which everything in the gold is a real number; all if there
    are none.

    Raises:
        [`Undecided`]: if one of them cannot be evaluated.
    """
    points = points or _points(gold, answer)
    compared = []
    for point in points:
        compared.append(_compare(gold, answer, point))
        if compared[-1] == (False, True):
            return False
    found = [verdict for verdict in compared if verdict is not None]
    verdicts = [same for same, is_real in found if is_real] or [same for same, _ in found]
    if not verdicts or (all(verdicts) and len(verdicts) < min(len(points), _ENOUGH_POINTS)):
        raise Undecided
    return all(verdicts)


def proportional(one: sympy.Expr, other: sympy.Expr, positive: bool = False) -> bool:
    """
    Whether one evaluated expression is the other times a number that is not 0; if `positive`, times one above 0.

    Raises:
        [`Undecided`]: if one of them cannot be evaluated.
    """
    has_i = one.has(sympy.I) or other.has(sympy.I)
    points = _points(one, other)
    for point in points:
        # At a point where neither is 0, their values give the factor, if there is one.
        try:
            values = [_Values(point, 30, has_i).value(side) for side in (one, other)]
        except (ArithmeticError, ValueError):
            continue
        if all(abs(value) > 1e-9 for value in values):
            if positive and not (mpmath.im(values[0]) == mpmath.im(values[1]) == 0 < values[0] * values[1]):
                return False
            # As symbols of their own: of `x^y` at a point, sympy would look for a simpler form for ever.
            there = {unknown: sympy.Dummy() for unknown in point}
            values_there = {there[unknown]: value for unknown, value in point.items()}
            return same_value(
                one * other.xreplace(there), other * one.xreplace(there), [at | values_there for at in points]
            )
    raise Undecided


def _points(one: sympy.Expr, other: sympy.Expr) -> list[Point]:
    """
    Values for the unknowns: letters and functions that are not known (`f(x)`).

    One name has the same value on both sides. After some positive points the signs run through all combinations of
    three unknowns. If something changes its form somewhere (`|x - 50|`), the sizes run through several orders of
    magnitude, and each unknown takes values between and beside these corners.
    """
    unknowns = sorted(
        {unknown for side in (one, other) for unknown in side.free_symbols | side.atoms(AppliedUndef)}, key=str
    )
    if not unknowns:
        return [{}]
    sizes = range(5) if one.has(*_IN_PIECES) or other.has(*_IN_PIECES) else range(1)

    def value(unknown: sympy.Expr, size: int, number: int) -> sympy.Rational:
        draw = random.Random(f"{unknown}/{size}/{number}").randrange(10**5, 3 * 10**6)
        signs = max(0, number - _POINTS + 8)  # positive at first
        sign = -1 if signs >> unknowns.index(unknown) % 3 & 1 else 1
        return sympy.Rational(sign * draw * 10**size, 10**6 + 3)

    points = [
        {unknown: value(unknown, size, number) for unknown in unknowns}
        for size, number in product(sizes, range(_POINTS))
    ]
    pieces = one.atoms(*_IN_PIECES) | other.atoms(*_IN_PIECES)
    for unknown in unknowns if pieces else []:
        corners = sorted(_corners(pieces, unknown, points[0]))
        beside = [corner + side * (abs(corner) / 2 or 1) for corner in corners[:1] + corners[-1:] for side in (-1, 1)]
        between = [(low + high) / 2 for low, high in pairwise(corners)]
        points += [points[0] | {unknown: place} for place in beside + between]
    return points


def _corners(pieces: set[sympy.Expr], unknown: sympy.Expr, point: Point) -> set[sympy.Expr]:
    """Where linear arguments of `|...|` are 0, and those of a maximum meet, if all other unknowns stay at a point."""
    others = {other: value for other, value in point.items() if other != unknown}
    zeros = [
        zero for piece in pieces for zero in [one - other for one, other in combinations(piece.args, 2)] or piece.args
    ]
    solved = [sympy.solve_linear(zero.xreplace(others)) for zero in zeros if unknown.is_Symbol]
    return {value for symbol, value in solved if symbol == unknown and value.is_real}


def _compare(gold: sympy.Expr, answer: sympy.Expr, point: Point) -> tuple[bool, bool] | None:
    """Whether the values at a point are the same and whether the gold is real; `None` if it has no value there."""
    has_i = gold.has(sympy.I) or answer.has(sympy.I)
    rough, finer = _Values(point, 30, has_i), _Values(point, 60, has_i)
    try:
        lefts = rough.value(gold), finer.value(gold)
    except (ArithmeticError, ValueError):
        return None
    is_real = finer.is_real
    with suppress(ArithmeticError, ValueError):
        rights = rough.value(answer), finer.value(answer)
        if _near(*lefts) and _near(*rights) and not _near(lefts[0], rights[0]):
            return False, is_real  # neither is noise, which depends on the digits
        if not point and rough.is_rational and rough.magnitude < MAX_FRACTION_DIGITS:
            return gold.doit() == answer.doit(), is_real
        digits = 2 * int(rough.magnitude) + 2 * _SURE_DIGITS
        if point and digits > MAX_POINT_DIGITS:
            return None
        if digits <= MAX_DIGITS:
            exact = _Values(point, digits, has_i)
            difference = abs(exact.value(gold) - exact.value(answer))
            with mpmath.workdps(digits):
                return bool(difference <= exact.largest * mpmath.mpf(10) ** -(rough.magnitude + _SURE_DIGITS)), is_real
    return False, is_real


def _near(one: Number, other: Number) -> bool:
    return bool(abs(one - other) <= 1e-9 * max(abs(one), abs(other)))


class _Values:
    """Evaluates expressions at one point; notes the largest number on the way and the orders of magnitude of all."""

    def __init__(self, point: Point, digits: int, has_i: bool):
        self.point = point
        self.digits = digits
        self.has_i = has_i
        self.largest = mpmath.mpf(1)
        self.magnitude = 0.0
        self.is_real = True
        self.is_rational = True

    def value(self, expression: sympy.Expr) -> Number:
        with mpmath.workdps(self.digits):
            return self._value(expression)

    def _value(self, expression: sympy.Expr) -> Number:
        value = self._evaluate(self.point.get(expression, expression))
        if not mpmath.isfinite(value):
            raise ArithmeticError
        self.largest = max(self.largest, abs(value))
        self.magnitude += _magnitude(value)
        self.is_real &= mpmath.im(value) == 0
        return value

    def _evaluate(self, expression: sympy.Expr) -> Number:
        if expression.is_Rational:
            top, bottom = mpmath.mpf(int(expression.p)), mpmath.mpf(int(expression.q))
            self.magnitude += _magnitude(top) + _magnitude(bottom)
            return top / bottom
        self.is_rational &= expression.func in _RATIONAL or (expression.is_Pow and expression.exp.is_Integer)
        if expression.is_NumberSymbol:
            return mpmath.mpf(expression._as_mpf_val(mpmath.mp.prec))
        if expression is sympy.I:
            return mpmath.mpc(0, 1)
        if not expression.args:
            raise Undecided
        values = [self._value(argument) for argument in expression.args]
        if expression.is_Pow:
            return self._power(expression.exp, *values)
        if expression.func in _FUNCTIONS:
            return _FUNCTIONS[expression.func](*values)
        raise Undecided

    def _power(self, exponent: sympy.Expr, base: Number, power: Number) -> Number:
        # Without `i`, the cube root of -8 is -2.
        if exponent.is_Rational and exponent.q % 2 and exponent.q > 1 and not self.has_i and mpmath.im(base) == 0:
            base = mpmath.re(base)
            return (-1 if base < 0 and exponent.p % 2 else 1) * mpmath.power(abs(base), power)
        return mpmath.power(base, int(exponent)) if exponent.is_Integer else mpmath.power(base, power)


def _magnitude(value: Number) -> float:
    """Decimal orders of magnitude between a number and 1, rounded up."""
    return abs(mpmath.mag(value)) * 0.302 if value else 0.0
