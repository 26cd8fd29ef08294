r"""
Read LaTeX and compare what it says, exactly.

[latex2sympy2_extended](https://github.com/huggingface/latex2sympy2_extended), the parser of math-verify, reads the
expressions; `values` compares them. Runs in worker processes only: it can take for ever, and importing it costs half a
second. Nothing in the text is executed.
"""

import re
from contextlib import suppress
from functools import lru_cache

import sympy
from latex2sympy2_extended import latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from sympy.core.relational import Relational

from .normalize import IN_BRACES, WORDS
from .numeric import NEIGHBOURS, has_both_cases, improper
from .plain import FUNCTION
from .structure import closing
from .values import Undecided, proportional, same_value

_DECIMAL = re.compile(r"(?<![\d.])(\d*)\.(\d+)(?![\d.])")
_PRIME = re.compile(r"([A-Za-z])('+)")
# The parser ignores the base of a numeral, and the bars around a matrix
_MISREAD = re.compile(r"[\d)]\s*(?:\^\s*(?:\w|\{[^{}]*\})\s*)?_|\|\s*\\begin")
# The parser adds two numbers side by side: 5 for `2(3)`
_SIDE_BY_SIDE = re.compile(
    r"((?<![_^\d.])\d+(?!\d)|\)|\\pi|\\(?:frac|binom)\{[^{}]*\}\{[^{}]*\})\s*(?=\(|\d|e|\{?\\(?:frac|binom)\{)"
)
_SQUARE_BRACKETS = re.compile(r"(?<!\\sqrt)\[([^\[\],]*)\]")
_LOOSE_BRACE = re.compile(r"(?<![A-Za-z\]}^_\\])(?<![A-Za-z\]}^_] )\{")  # of no command: those of `{8 \choose 3}`
# The parser takes a whole product for the argument: sin(3 cos 5) for `\sin{(3)} \cdot \cos{(5)}`
_CALLED = rf"({FUNCTION.pattern}(?:\s*[_^]\s*(?:\w|\{{[^{{}}]*\}}))*)\s*"
_ARGUMENT_IN_BRACES = re.compile(rf"{_CALLED}(?:\{{\s*(\([^{{}}()]*\))\s*\}}|({IN_BRACES}))")
_ARGUMENT_BEFORE_FACTOR = re.compile(
    rf"{_CALLED}([\w.]+)\s*(?=(?:\\cdot|\\times|/)\s*{FUNCTION.pattern}|(?:\\cdot|\\times)\s*(?:[A-Za-z(]|\\sqrt))"
)
_CONSTANTS = {"i": sympy.I, "e": sympy.E}


def reads(text: str) -> bool:
    """Whether the text is a mathematical expression."""
    return _parse(text, False) is not None


def equal(gold: str, answer: str) -> bool:
    """
    Whether two expressions without units are mathematically equal; `False` also where one cannot be read or holds
    words, which would count as symbols.
    """
    if "⟦" in gold + answer:
        return False
    keep_case = has_both_cases(gold) or has_both_cases(answer)
    left, right = (_parse(text, keep_case) for text in (gold, answer))
    return left is not None and right is not None and _equal(left, right)


def _equal(gold: sympy.Basic, answer: sympy.Basic) -> bool:
    if isinstance(gold, Relational):
        return isinstance(answer, Relational) and _same_relation(gold, answer)
    if gold == answer:
        return not gold.has(sympy.nan, sympy.zoo)
    for _ in range(2):  # as they were read, because working out can take for ever; then worked out
        if isinstance(gold, sympy.Expr) and isinstance(answer, sympy.Expr):
            with suppress(Undecided):
                return same_value(gold, answer)
        gold, answer = _worked_out(gold), _worked_out(answer)
    if isinstance(gold, sympy.MatrixBase) or isinstance(answer, sympy.MatrixBase):
        same_shape = getattr(gold, "shape", None) == getattr(answer, "shape", None)
        return same_shape and all(map(_equal, gold.flat(), answer.flat()))
    return gold.func == answer.func and bool(gold.args) and _all_equal(gold.args, answer.args)


def _worked_out(expression: sympy.Basic) -> sympy.Basic:
    expression = expression.doit()
    return expression.as_explicit() if isinstance(expression, sympy.MatrixExpr) else expression


def _all_equal(golds: tuple[sympy.Basic, ...], answers: tuple[sympy.Basic, ...]) -> bool:
    return len(golds) == len(answers) and all(map(_equal, golds, answers))


def _same_relation(gold: Relational, answer: Relational) -> bool:
    """Whether one relation is the other, multiplied by a number (a positive one if the relation has a direction)."""
    (kind, one), (other_kind, other) = map(_as_difference, (gold, answer))
    if kind != other_kind:
        return False
    directed = kind not in (sympy.Eq, sympy.Ne)
    try:
        if proportional(one, other, directed):
            return True
        if directed:  # what is divided by might be negative
            return False
        return proportional(*(sympy.fraction(sympy.together(side))[0] for side in (one, other)))
    except Undecided:
        return False


def _as_difference(relation: Relational) -> tuple[type, sympy.Expr]:
    """Kind of a relation and the expression that it says to be zero, not zero, positive, or not negative."""
    if isinstance(relation, sympy.Eq | sympy.Ne):
        return relation.func, relation.lhs - relation.rhs
    strict = isinstance(relation, sympy.StrictGreaterThan | sympy.StrictLessThan)
    return sympy.Gt if strict else sympy.Ge, relation.gts - relation.lts


@lru_cache(maxsize=1024)
def _parse(text: str, keep_case: bool) -> sympy.Basic | None:
    if not text or NEIGHBOURS.search(text) or _MISREAD.search(text):
        return None
    text = _PRIME.sub(lambda prime: f"{prime.group(1)}_{{{'p' * len(prime.group(2))}}}", text)
    text = _SQUARE_BRACKETS.sub(r"(\1)", text)
    while brace := _LOOSE_BRACE.search(text):
        end = closing(text, brace.start()) or len(text)
        text = f"{text[: brace.start()]}({text[brace.end() : end]}){text[end + 1 :]}"
    for _ in range(2):  # one inside another
        text = _ARGUMENT_IN_BRACES.sub(lambda call: call[1] + (call[2] or f"({call[3][1:-1]})"), text)
    text = _ARGUMENT_BEFORE_FACTOR.sub(r"\1(\2)", text)
    text = _SIDE_BY_SIDE.sub(r"\1\\cdot ", improper(_DECIMAL.sub(_fraction, text)))
    text = WORDS.sub(r"\\text{\1}", text)
    try:
        found = latex2sympy(
            text,
            is_real=True,
            normalization_config=None,
            conversion_config=ConversionConfig(lowercase_symbols=not keep_case),
        )
    except Exception:
        return None
    if not isinstance(found, sympy.Basic | sympy.MatrixBase):
        return None
    constants = {symbol: _CONSTANTS[symbol.name] for symbol in found.free_symbols if symbol.name in _CONSTANTS}
    return found.subs(constants) if constants else found


def _fraction(decimal: re.Match) -> str:
    """Decimals are exact: the parser would round them."""
    whole, part = decimal.groups()
    return rf"\frac{{{(whole + part).lstrip('0') or '0'}}}{{1{'0' * len(part)}}}"
