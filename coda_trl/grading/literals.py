"""Numbers, numerals in other bases, and words: what can be compared exactly without any algebra."""

import re
from functools import lru_cache

from .normalize import WORDS
from .numeric import rational_value
from .units import Quantity

_BASED = re.compile(
    r"^(-?)\s*\(?\s*⟦?(\d[0-9A-Za-z]*(?:\.\d+)?|[0-9A-Z]+)⟧?\s*\)?\s*"
    r"(?:_\s*(?:\{\s*\(?(?:⟦base⟧)?\s*⟦?\s*(?:base\s+)?(\w+)\s*⟧?\s*\)?\}|(\d))"
    r"|⟦\(?(?:in )?base[ -](\w+)\)?⟧|⟦\(?(?:in )?base⟧\s*(\d{1,2}))$"
)
_BASES = {
    name: base for base, name in enumerate("two three four five six seven eight nine ten eleven twelve".split(), 2)
}
_BASES["sixteen"] = 16
_TIME_OF_DAY = re.compile(r"^0?(\d{1,2})((?:\s*:\s*\d\d){0,2})\s*(?:([ap])\.?\s?m\.?)?$", re.IGNORECASE)
_FULL_STOP = re.compile(r"\.(?!\d)|(?<=[^\W\d_])\.(?=\d)")  # and no decimal point
# An apostrophe and a hyphen may stand in a word.
_NOT_WORDS = re.compile(r"[\\^_=<>+*{}()\[\]|/!%\"?]|(?<![^\W\d_])'|'(?![^\W\d_])|(?<![^\W_])\s*-")
_ARTICLE = re.compile(r"\b(?:the|an?)\s+(?=\w)|(?<=\d) (?:st|nd|rd|th)\b")  # not `Vitamin A`
_WORD = re.compile(r"[^\W\d_]{2}")


def numbers_equal(gold: Quantity, answer: Quantity) -> bool | None:
    """
    Compares two rational numbers exactly, percent signs included; `None` if one of them is not known to be rational.

    `15%` equals 0.15. A percent sign left out of the answer is forgiven, one added to an integer gold as well (the
    question may have asked for percent); one added to any other gold is not.
    """
    gold_value, answer_value = rational_value(gold.value), rational_value(answer.value)
    if gold_value is None or answer_value is None:
        return None
    if gold.percent == answer.percent:
        return gold_value == answer_value
    if gold.percent:
        return answer_value in (gold_value, gold_value / 100)
    return answer_value / 100 == gold_value or (gold_value.denominator == 1 and answer_value == gold_value)


def numeral(text: str) -> tuple[str, int] | None:
    """Digits and base of a numeral such as `52_8`, `(1011)_{2}` or `1A_{sixteen}`, or `None`."""
    match = _BASED.match(text)
    if not match:
        return None
    sign, digits, *names = match.groups()
    name = next(filter(None, names)).casefold()
    base = int(name) if name.isdecimal() and len(name) < 3 else _BASES.get(name, 0)
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in digits.replace(".", "")):
        return None
    return sign + (digits.upper().lstrip("0") or "0"), base


def numerals_equal(gold: str, answer: str) -> bool | None:
    """
    Compares numerals with a base; `None` if neither has one.

    The base may be left out of the answer (the question fixes it). An answer with a base for a gold without one
    must have the same value.
    """
    gold_numeral, answer_numeral = numeral(gold), numeral(answer)
    if gold_numeral and answer_numeral:
        return gold_numeral == answer_numeral
    if gold_numeral:
        return answer.upper().lstrip("0") == gold_numeral[0].lstrip("0")
    if answer_numeral:
        return "." not in answer_numeral[0] and rational_value(gold) == int(*answer_numeral)
    return None


def same_number(one: str, other: str) -> bool:
    """Whether two numerals with bases have the same value."""
    numerals = [numeral(text) for text in (one, other) if "." not in text]
    return len(numerals) == 2 and None not in numerals and int(*numerals[0]) == int(*numerals[1])


@lru_cache(maxsize=8192)
def words_key(text: str) -> str | None:
    """What counts of an answer in words: lower case, without articles and punctuation; `None` if it is not words."""
    plain = re.sub(r"(?<=\d)(?=[^\W\d_])", " ", _FULL_STOP.sub("", WORDS.sub(r" \1 ", text)))
    if _NOT_WORDS.search(plain) or not _WORD.search(plain):
        return None
    words = re.findall(r"\d*\.\d+|[^\W_]+|(?<=\d)\s*-|[^\w\s.,;'-]", _ARTICLE.sub("", plain.casefold()))
    return " ".join(words) or None


def same_words(gold: str, answer: str) -> bool:
    """Whether words are the same, perhaps at the end of a sentence: `The function is odd`."""
    key, other = words_key(gold), words_key(answer) or ""
    return key in (other, other.partition(" is ")[2])


def times_equal(gold: str, answer: str) -> bool | None:
    """Compares times of day; `None` if neither has a.m. or p.m., which may be left out or added as units may."""
    times = [*filter(None, (_TIME_OF_DAY.match(WORDS.sub(r"\1", text).strip()) for text in (gold, answer)))]
    halves = {match[3].casefold() for match in times if match[3]}
    if not halves or (len(times) == 1 and not times[0][2]):  # `2am` may be a product
        return None
    clocks = {(match[1], match[2].replace(" ", "") or ":00") for match in times}
    return len(times) == 2 and len(halves) == len(clocks) == 1


def is_words(gold: str) -> bool:
    r"""Whether a gold is text: in `\text{}`, or letters that read as a word and not as a product."""
    if words_key(gold) is None:
        return False
    if "⟦" in gold:
        return not re.search(r"\d", WORDS.sub("", gold))
    return re.fullmatch(r"(?:[^\W\d_]{4,}|[A-Z][a-z]{2,})(?:[ ,]+[^\W\d_]+)*", gold) is not None
