r"""
Refuse texts that cannot be answers before any algebra.

The longest answer in MATH, AIME, AMC, GSM8K and DeepScaleR has 160 characters, the deepest three brackets inside each
other. The limits only save time: whatever passes is still graded in a worker with a time and a memory limit.
"""

import re

from .literals import MAX_DIGITS

MAX_LENGTH = 1000
MAX_DEPTH = 10
MAX_EXPONENT = 20_000
MAX_SYMBOLIC_EXPONENT = 200
MAX_FACTORIAL = 2000
MAX_COMMANDS = 150

_EXPONENT = re.compile(r"\^\s*(?:\{?\s*[+-]?\s*(\d+))")
_LONG_NUMBER = re.compile(rf"\d{{{MAX_DIGITS + 1}}}")
_SQUARE = re.compile(r"\^\s*(?:[23](?!\d)|\{\s*[23]\s*\})")
_TWO_DIGITS = re.compile(r"\d\d")
_FACTORIAL = re.compile(r"((?<!\d)\d+|[)}\]!])\s*!")
_BINOMIAL = re.compile(r"\\binom\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_ITERATED = re.compile(r"\\(?:int|iint|iiint|oint|sum|prod|lim)(?![A-Za-z])")
_LETTER = re.compile(r"(?<![\\A-Za-z])[A-Za-z]")


def too_long(text: str) -> bool:
    """Whether a box holds more text than an answer can; checked before anything else looks at it."""
    return len(text) > MAX_LENGTH


def too_heavy(text: str, gold: str = "") -> str | None:
    """
    Says why a canonical answer must not be given to computer algebra.

    Args:
        text (`str`):
            Canonical LaTeX of the answer.
        gold (`str`, *optional*, defaults to `""`):
            Canonical LaTeX of the gold. Large exponents that stand in it as well are let through.

    Returns:
        `str` or `None`: the reason, or `None` if the answer may pass.
    """
    if too_long(text):
        return "length"
    if _depth(text) > MAX_DEPTH:
        return "nesting"
    if text.count("\\") > MAX_COMMANDS:
        return "commands"
    if _LONG_NUMBER.search(text):
        return "digits"
    return _heavy_power(text, gold) or _heavy_combinatorics(text) or _heavy_operator(text, gold)


def _depth(text: str) -> int:
    depth = deepest = 0
    for symbol in text:
        if symbol in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif symbol in ")}]":
            depth -= 1
    return deepest


def _heavy_power(text: str, gold: str) -> str | None:
    exponents = [int(exponent[:9]) for exponent in _EXPONENT.findall(text)]
    if any(exponent > MAX_EXPONENT for exponent in exponents):
        return "exponent"
    product = 1
    for exponent in exponents:
        product *= max(exponent, 1)
    if product > 10**9:
        return "exponent"
    if _LETTER.search(text) and max(exponents, default=0) > MAX_SYMBOLIC_EXPONENT:
        known = set(_EXPONENT.findall(gold))
        if any(
            int(exponent) > MAX_SYMBOLIC_EXPONENT and exponent not in known for exponent in _EXPONENT.findall(text)
        ):
            return "exponent"
    return "tower" if _tower(text) else None


def _tower(text: str) -> bool:
    """Whether an exponent holds another power, unless it is as harmless as `e^{x^2}` or `2^{2^3}`."""
    for start in (match.end() for match in re.finditer(r"\^\s*\{", text)):
        depth, end = 1, start
        while end < len(text) and depth:
            depth += (text[end] == "{") - (text[end] == "}")
            end += 1
        exponent = text[start : end - 1]
        powers = exponent.count("^")
        is_number = not _LETTER.search(exponent)
        if powers > 1 or (powers and (not _SQUARE.search(exponent) or (is_number and _TWO_DIGITS.search(exponent)))):
            return True
    return False


def _heavy_combinatorics(text: str) -> str | None:
    for argument in _FACTORIAL.findall(text):
        if argument in "!" or (argument.isdigit() and int(argument[:9]) > MAX_FACTORIAL):
            return "factorial"
        if not argument.isdigit() and ("^" in text or re.search(rf"\d{{{len(str(MAX_FACTORIAL))},}}", text)):
            return "factorial"
    for top, bottom in _BINOMIAL.findall(text):
        if "^" in top + bottom or any(
            int(number[:9]) > 5 * MAX_FACTORIAL for number in re.findall(r"\d+", f"{top} {bottom}")
        ):
            return "binomial"
    return None


def _heavy_operator(text: str, gold: str) -> str | None:
    """Integrals, sums and limits are no final form unless the gold has them too."""
    return "operator" if len(_ITERATED.findall(text)) > len(_ITERATED.findall(gold)) else None
