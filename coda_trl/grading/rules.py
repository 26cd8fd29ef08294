r"""
Decide whether an answer is right.

What needs no algebra (exact text, numbers, numerals, letters, words, and lists, tuples, intervals of these) is decided
here, by exact arithmetic. Everything else is handed to `algebra`, which is computer algebra in a worker process.
"""

import math
import re
from collections.abc import Iterable
from functools import partial
from types import ModuleType
from typing import NamedTuple

from .approximations import approximated, is_close, is_rounded
from .choice import chosen_letter, chosen_letters, gold_letter, without_label
from .guards import too_heavy, too_long
from .lists import Equal, as_tuple, by_label, same_elements, same_items
from .literals import is_words, numbers_equal, numeral, numerals_equal, same_number, same_words, times_equal, words_key
from .normalize import WORDS, normalize
from .numeric import equal_by_value, is_evaluable, rational_value
from .plain import FUNCTION, is_unknown
from .sets import bounds_of, same_set
from .structure import (
    APPROXIMATELY,
    GREEK,
    LABEL,
    LETTERS,
    NAME,
    RELATIONS,
    balanced,
    sequence,
    simplify_notation,
    split_top,
)
from .units import CIRCLE, split_unit, units_differ

_UNION, _RATIO = frozenset(["\\cup"]), frozenset([":"])
_INFINITE = {"\\infty", "-\\infty"}
_MARKS = re.compile(" ?[⟦⟧] ?| (?=[<>=])|(?<=[<>=]) ")
_UNITS = re.compile(r"⟦[^⟦⟧]*⟧(?:\s*\^\s*\{?[23]\}?)?")
# What becomes of a missing gold on its way through JSON, CSV and pandas.
_NO_GOLD = {"", "None", "null", "NULL", "nan", "NaN", "NAN", "NaT", "<NA>", "N/A"}
# Degrees with minutes, other primes, and lists that go on are compared as text.
_ONLY_TEXT = re.compile(r"\\ldots|\.\.\.|\^\\circ|'")
_FRACTION_BEFORE_FACTOR = re.compile(r"(?<![\w.}^)])(\d+)/(\d+)(?=\s*(?:[A-Za-z(]|\\(?:pi|sqrt)))")
_NO_UNKNOWN = re.compile(r"\^\s*(?:T|\{T\})|\{(?:[bpvBV]?matrix|array|cases|aligned)\}(?:\{[clr|]*\})?")
_MODULUS = re.compile(r"^((?:[A-Za-z] *= *)?-?\d+) *\\pmod *(?:\{\w+\}|\w)$")
_CONTENT = re.compile(r"[^\W_]")


class NeedsAlgebra(Exception):
    """The case cannot be decided without computer algebra."""


class NoAlgebra:
    """Replaces the module `algebra` in the process that must not run it."""

    def reads(self, *texts: str) -> bool:
        raise NeedsAlgebra

    equal = reads


Algebra = ModuleType | NoAlgebra


class Case(NamedTuple):
    """A gold and an answer, both in canonical form, and the texts of the options if there are any, A first."""

    gold: str
    answer: str
    options: tuple[str, ...] = ()


def prepare(gold: str | None, answer: str | None, options: Iterable[str] | None = None) -> Case | None:
    """
    Writes a gold and an answer in canonical form; `None` for a gold that holds nothing.

    The answer is empty if there is none, or if it is longer than any answer.
    """
    # Behind "####" stands the answer of a worked solution, which as a whole is no answer.
    if gold is None or gold.strip() in _NO_GOLD or "####" in gold or too_long(gold):
        return None
    gold = normalize(gold)
    if not _CONTENT.search(gold) or too_long(gold):
        return None
    answer = " ".join((answer or "").split())
    answer = "" if too_long(answer) else normalize(answer)
    if "\\pmod" not in gold:
        answer = _MODULUS.sub(r"\1", answer)
    return Case(gold, "" if too_long(answer) else answer, tuple(map(str, options or ())))  # `½` is longer in LaTeX


def judge(case: Case, algebra: Algebra, gold_is_readable: bool = False) -> bool | None:
    """
    Returns the verdict on a case, `None` if the gold cannot be read.

    Raises:
        [`NeedsAlgebra`]: by way of [`NoAlgebra`].
    """
    gold, answer, options = case
    if not gold_is_readable and not readable(gold, algebra):
        return None
    if not _CONTENT.search(answer):
        return False
    if letter := gold_letter(gold):
        return chosen_letter(answer, options) == letter
    if (gold_letters := chosen_letters(gold)) is not None:
        return chosen_letters(answer) == gold_letters
    gold, answer = without_label(gold), without_label(answer)
    said, value = _behind_name(gold), _behind_name(answer)
    if (decided := times_equal(said, value)) is not None:
        return decided
    if is_words(said):
        return same_words(said, value)
    return all(_sides(answer)) and balanced(simplify_notation(answer)) and equivalent(gold, answer, algebra)


def readable(gold: str, algebra: Algebra) -> bool:
    """Whether a gold in canonical form means something: a letter, words, a number, mathematics, or a list of these."""
    if gold_letter(gold) or chosen_letters(gold) is not None or is_words(gold) or numeral(gold) or words_key(gold):
        return balanced(gold)
    value = simplify_notation(split_unit(gold).value)
    if not balanced(value) or is_unknown(value):
        return False
    if ":" in value and all(rational_value(part) is not None for part in split_top(value, _RATIO)[0]):
        return True
    if too_heavy(value, value) or _ONLY_TEXT.search(value):
        return True  # nothing but the same text will be right
    if (bounds := bounds_of(without_label(value))) is not None:
        return all(readable(bound, algebra) for bound in bounds)
    items = sequence(value)
    parts = items.items if items else _sides(value)
    parts = [piece for part in parts for piece in split_top(part, APPROXIMATELY)[0] if piece]
    if parts != [value]:
        return bool(parts) and all(readable(part, algebra) for part in parts)
    return value in _INFINITE or is_evaluable(value) or algebra.reads(value)


def _behind_name(text: str) -> str:
    r"""`\text{east}` of `x = \text{east}`, and all of `x \neq \text{east}`."""
    (*names, value), signs = split_top(text, RELATIONS)
    return value if set(signs) <= {"="} and all(map(LABEL.match, names)) else text


def _sides(text: str) -> list[str]:
    return split_top(text, RELATIONS)[0]


def equivalent(gold: str, answer: str, algebra: Algebra) -> bool:
    """Whether two answers in canonical form mean the same."""
    if _MARKS.sub("", gold) == _MARKS.sub("", answer):
        return True
    if any(sign in gold + answer for sign in ("=", "\\approx", "\\sim")):
        return _equations(simplify_notation(gold), simplify_notation(answer), algebra)
    if (decided := numerals_equal(gold, answer)) is not None:
        return decided
    if same_words(gold, answer):
        return True
    if all((items := sequence(text)) and items.brackets == "" for text in (gold, answer)):  # each with its own unit
        return _values(gold, answer, algebra)
    is_degrees = (CIRCLE in gold) != (CIRCLE in answer) and "\\pi" not in gold + answer
    if is_degrees and FUNCTION.search(gold) and FUNCTION.search(answer):
        gold, answer = gold.replace(CIRCLE, ""), answer.replace(CIRCLE, "")  # `\csc 10` where degrees are meant
    left, right = split_unit(gold), split_unit(answer)
    if units_differ(left.unit, right.unit) or (left.percent and right.unit) or (right.percent and left.unit):
        return False
    if (decided := numbers_equal(left, right)) is not None:
        return decided
    gold, answer = simplify_notation(left.value), simplify_notation(right.value)
    if right.percent and not left.percent:
        answer = rf"\frac{{{answer}}}{{100}}"
    if gold == answer:
        return True
    if not answer or _ONLY_TEXT.search(gold) or _ONLY_TEXT.search(answer):
        return False
    return _values(gold, answer, algebra)


def _equations(gold: str, answer: str, algebra: Algebra) -> bool:
    """At least one side holds `=` or an approximation, perhaps inside a list."""
    equal = partial(equivalent, algebra=algebra)
    gold, answer = by_label(gold), by_label(answer)
    if (same := same_set(gold, answer, equal)) is not None:
        return same
    if any((items := sequence(text)) and items.brackets == "" for text in (gold, answer)):
        return same_items(gold, answer, equal)  # each may be an approximation
    golds, answers = approximated(gold), approximated(answer)
    if golds != [gold] or answers != [answer]:
        claims = {answers[0], answers[-1]} if is_rounded(answers) else answers[:1]
        return is_close(answers) and any(equal(one, claim) for one in golds for claim in claims)
    (gold_sides, gold_signs), (answer_sides, answer_signs) = split_top(gold, RELATIONS), split_top(answer, RELATIONS)
    gold_equals, answer_equals = set(gold_signs) == {"="}, set(answer_signs) == {"="}
    if gold_equals:
        gold_sides = _label_first(gold_sides)
        if not any(LETTERS.search(side) for side in gold_sides):
            return any(equal(side, answer) for side in gold_sides)  # 0.56 = 56%
        if not answer_signs:
            return bool(NAME.match(gold_sides[0])) and equal(gold_sides[-1], answer)
    if not gold_signs and answer_equals:
        value = (answer_sides if LABEL.match(gold) else _label_first(answer_sides))[-1]
        return _is_consistent(answer_sides, value, equal) and equal(gold, value)
    return _values(gold, answer, algebra)


def _label_first(sides: list[str]) -> list[str]:
    """`5 = x` says what `x = 5` does."""
    return sides[::-1] if LABEL.match(sides[-1]) and not LABEL.match(sides[0]) else sides


def _is_consistent(sides: list[str], value: str, equal: Equal) -> bool:
    """A chain of equalities may not be false: sides without other letters and units than the value equal it."""
    words, plain_value = set(WORDS.findall(value)), _UNITS.sub("", value)
    known = _letters(plain_value)
    comparable = [side for side in sides if not LABEL.match(side) and set(WORDS.findall(side)) in (set(), words)]
    plain = [_UNITS.sub("", side) for side in comparable]
    claims = [side for side in plain if _letters(side) <= known and (_letters(side) or re.search(r"\d", side))]
    return all(equal(side, plain_value) or equal(plain_value, side) or same_number(side, value) for side in claims)


def _values(gold: str, answer: str, algebra: Algebra) -> bool:
    equal = partial(equivalent, algebra=algebra)
    if sequence(gold) or sequence(answer):
        gold, answer = as_tuple(gold), as_tuple(answer)
    if (same := same_set(gold, answer, equal)) is not None:
        return same
    is_sequence = sequence(gold) or sequence(answer)
    if not is_sequence and (split_top(gold, RELATIONS)[1] or split_top(answer, RELATIONS)[1]):
        return _relations(gold, answer, algebra)
    if split_top(gold, _RATIO)[1] or split_top(answer, _RATIO)[1]:
        return _ratios(gold, answer, equal)
    if is_sequence:
        return same_items(gold, answer, equal)
    (gold_parts, gold_union), (answer_parts, answer_union) = split_top(gold, _UNION), split_top(answer, _UNION)
    if gold_union and answer_union:
        return same_elements(gold_parts, answer_parts, equal)
    return _algebraic(gold, answer, algebra)


def _relations(gold: str, answer: str, algebra: Algebra) -> bool:
    (gold_sides, gold_signs), (answer_sides, answer_signs) = split_top(gold, RELATIONS), split_top(answer, RELATIONS)
    if not gold_signs or not answer_signs or not _same_letters(gold, answer):
        return False
    mirrored = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
    flipped = [mirrored.get(sign, sign) for sign in reversed(answer_signs)]
    for sides, signs in ((answer_sides, answer_signs), (answer_sides[::-1], flipped)):
        if signs == gold_signs and all(map(partial(equivalent, algebra=algebra), gold_sides, sides)):
            return True
    label = gold_sides[0]
    if gold_signs == answer_signs == ["="] and LABEL.match(label):
        if "(" not in label and not LETTERS.search(gold_sides[1]):
            return False  # x = 5 solves 2x + 3 = 13, which is the question
        if answer_sides[0] == label and not _letters(label) & _letters(gold_sides[1] + answer_sides[1]):
            return False  # both are solved for the same letter, with different values
    return bool(LETTERS.search(gold)) and _algebraic(gold, answer, algebra)


def _same_letters(gold: str, answer: str) -> bool:
    """Whether two texts have the same letters, in any case unless one has both cases of a letter."""
    golds, answers = _letters(gold), _letters(answer)
    folded, others = {letter.lower() for letter in golds}, {letter.lower() for letter in answers}
    return golds == answers or (folded == others and len(folded) == len(golds) == len(answers))


def _letters(text: str) -> set[str]:
    names = re.findall(r"\\[A-Za-z]+|[A-Za-z]", text)
    return {name for name in names if len(name) == 1 or name[1:] in GREEK}


def _unknowns(text: str) -> set[str]:
    return _letters(_NO_UNKNOWN.sub("", text)) - {"e", "i"}


def _ratios(gold: str, answer: str, equal: Equal) -> bool:
    left, right = split_top(gold, _RATIO)[0], split_top(answer, _RATIO)[0]
    is_time = any(re.fullmatch(r"0\d+", part) for part in left + right)  # 10:02 is a time of day, and 3:30 no ratio
    if is_time or (re.fullmatch(r"\d{1,2}:[1-5]\d", gold) and math.gcd(*map(int, left)) > 1):
        return gold.lstrip("0") == answer.lstrip("0")
    if len(left) == len(right) and all(map(equal, left, right)):
        return True
    if max(len(left), len(right)) != 2 or not all(left + right):
        return False
    quotients = [rf"\frac{{{parts[0]}}}{{{parts[1]}}}" if len(parts) == 2 else parts[0] for parts in (left, right)]
    return equal(*quotients)


def _algebraic(gold: str, answer: str, algebra: Algebra) -> bool:
    gold, answer = split_unit(gold).value, split_unit(answer).value
    if too_heavy(answer, gold) or too_heavy(gold, gold):
        return False
    if gold in _INFINITE or answer in _INFINITE:
        return gold == answer
    if not _unknowns(gold) and _unknowns(answer):  # `f(0)` or `\frac{2x}{x}` is no final form of a number
        return False
    if FUNCTION.search(answer) and not FUNCTION.search(gold) and "i" not in _letters(answer):
        return False  # `\tan 225^\circ` is the question; but `\cos 60^\circ + i \sin 60^\circ` may be asked for
    # `1/2x` may mean a half of x, too
    readings = {answer, _FRACTION_BEFORE_FACTOR.sub(r"\\frac{\1}{\2}", answer)}
    return any(_same_value(gold, reading, algebra) for reading in readings)


def _same_value(gold: str, answer: str, algebra: Algebra) -> bool:
    by_value = equal_by_value(gold, answer)
    return algebra.equal(gold, answer) if by_value is None else by_value
