r"""
Refuse texts that cannot be answers before any algebra.

The longest answer in MATH, AIME, AMC, GSM8K and DeepScaleR has 160 characters, the deepest three brackets inside each
other. The limits only save time: whatever passes is still graded in a worker with a time and a memory limit.
"""

import math
import re

from .structure import LETTERS, closing, nesting

MAX_LENGTH = 1000
MAX_DEPTH = 10
MAX_EXPONENT = 20_000
MAX_SYMBOLIC_EXPONENT = 200
MAX_FACTORIAL = 3000
MAX_BINOMIAL = 15_000
MAX_COMMANDS = 150

_EXPONENT = re.compile(r"\^[\s{(+-]*(\d+)")
_SQUARE = re.compile(r"\^\s*(?:[1-3](?!\d)|\{\s*[1-3]\s*\})")
_FACTORIAL = re.compile(r"((?<!\d)\d+|[)}\]!])\s*!")
_BINOMIAL = re.compile(r"\\binom\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}\s*\{([^{}]*(?:\{[^{}]*\}[^{}]*)*)\}")
_UNEVALUATED = re.compile(r"\\(?:int|iint|iiint|oint|sum|prod|lim|max|min|gcd)(?![A-Za-z])")


def too_long(text: str) -> bool:
    """Whether a box holds more text than an answer can; checked before anything else looks at it."""
    return len(text) > MAX_LENGTH


def too_heavy(text: str, gold: str = "") -> bool:
    """Whether a canonical answer must not be given to computer algebra; large exponents of the gold may pass."""
    return (
        too_long(text)
        or nesting(text) > MAX_DEPTH
        or text.count("\\") > MAX_COMMANDS
        or _has_heavy_power(text, gold)
        or any(_is_heavy_argument(argument, text, MAX_FACTORIAL) for argument in _FACTORIAL.findall(text))
        or any(_is_heavy_argument(part, part, MAX_BINOMIAL) for pair in _BINOMIAL.findall(text) for part in pair)
        # no final form unless the gold has them too
        or len(_UNEVALUATED.findall(text)) > len(_UNEVALUATED.findall(gold))
    )


def _has_heavy_power(text: str, gold: str) -> bool:
    exponents = _EXPONENT.findall(text)
    sizes = list(map(int, exponents))
    if max(sizes, default=0) > MAX_EXPONENT or math.prod(max(size, 1) for size in sizes) > 10**9:
        return True
    new = set(exponents) - set(_EXPONENT.findall(gold))
    if LETTERS.search(text) and any(int(exponent) > MAX_SYMBOLIC_EXPONENT for exponent in new):
        return True
    starts = [power.end() for power in re.finditer(r"\^\s*\{", text)]
    return any(_is_tower(text[start : closing(text, start - 1)]) for start in starts)


def _is_tower(exponent: str) -> bool:
    """Whether an exponent holds another power, unless it is as harmless as `e^{x^2}` or `2^{2^3}`."""
    if exponent.count("^") != 1:
        return "^" in exponent
    is_number = not LETTERS.search(exponent)
    return not _SQUARE.search(exponent) or (is_number and re.search(r"\d\d", exponent) is not None)


def _is_heavy_argument(argument: str, around: str, most: int) -> bool:
    """Of a factorial or a binomial: a large number, or a formula that may have one for its value."""
    if argument.isdigit():
        return int(argument) > most
    return argument == "!" or "^" in around or re.search(rf"\d{{{len(str(most))},}}", around) is not None
