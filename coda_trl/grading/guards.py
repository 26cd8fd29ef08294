r"""
Refuse texts that cannot be answers before any algebra.

The longest answer in MATH, AIME, AMC, GSM8K and DeepScaleR has 160 characters, the deepest three brackets inside each
other. The limits only save time: whatever passes is still graded in a worker with a time and a memory limit.
"""

import re

from .structure import LETTERS, nesting

MAX_LENGTH = 1000
MAX_DEPTH = 10
MAX_EXPONENT = 20_000
MAX_SYMBOLIC_EXPONENT = 200

_EXPONENT = re.compile(r"\^[\s{(+-]*(\d+)")
_UNEVALUATED = re.compile(r"\\(?:int|iint|iiint|oint|sum|prod|lim|max|min|gcd)(?![A-Za-z])")


def too_long(text: str) -> bool:
    """Whether a box holds more text than an answer can; checked before anything else looks at it."""
    return len(text) > MAX_LENGTH


def too_heavy(text: str, gold: str = "") -> bool:
    """Whether a canonical answer must not be given to computer algebra; large exponents of the gold may pass."""
    most = MAX_SYMBOLIC_EXPONENT if LETTERS.search(text) else MAX_EXPONENT
    return (
        too_long(text)
        or nesting(text) > MAX_DEPTH
        or any(int(exponent) > most for exponent in set(_EXPONENT.findall(text)) - set(_EXPONENT.findall(gold)))
        # no final form unless the gold has them too
        or len(_UNEVALUATED.findall(text)) > len(_UNEVALUATED.findall(gold))
    )
