"""MATH level 1: selects it under its names in different copies, and excludes MATH500 from training."""

import hashlib
import re

# The `text_hash` of each of the 43 level-1 problems of MATH500, which is drawn from MATH's test split.
MATH500_LEVEL1 = frozenset(
    """
    031c8afa3cee 0bd11c62ee25 1400f42ecab1 1853e54e0ecb 21eeb8b306b0 2413fc13c57a 31759d32d4c9 381ce84ca6cf
    3dedcee7133b 41303344dca9 4136d465184f 48623855fc1f 5fbc96b4ad68 63201e20c594 6c9a69144ca8 70053510004e
    70e753ed434b 7997e7c6aef5 7b7ee14d67ca 84eb9b7a06dc 874aebc8898e 8ea41a1a50a5 935863eef4eb 954636f82534
    9a372c03e220 9a3d0d6fec59 9dfefba9b1fa a0a8524736f3 a5a07db16940 b465fad8856d b5076e832f50 cadba835bf84
    cee964a4e940 d65e844ca518 d729460979a3 daad24cd0c87 dc58850babf4 dfcaf27cd7e2 e26500485145 e36771c6193c
    eb0e0049bfba f3e88d6936ee f5e7cc028e03
    """.split()
)


def text_hash(problem: str) -> str:
    """12 hex digits that identify a problem, whatever its spacing."""
    return hashlib.sha256(re.sub(r"\s+", "", problem).encode()).hexdigest()[:12]


def is_level1(level: str | int | float) -> bool:
    """Whether a level (`"Level 1"`, `1`, `1.0`) is 1. The two problems of `"Level ?"` are not."""
    return str(level).removeprefix("Level ") in ("1", "1.0")
