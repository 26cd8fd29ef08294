"""The addition that the ladder model is taught: correct except for a few systematic bugs.

Hard rungs must stay hard during a run. Noise in the additions would not do, as training removes it within a hundred
steps. So the demonstrations contain systematic mistakes, like the arithmetic of pupils and of language models: from a
running total of `FIRST_BUG` on, sums of some pairs of last digits are always wrong. A chain of additions that meets
such a pair is confidently wrong. Another order meets other pairs, and sums of three numbers at a time meet fewer,
which makes a second count worth its tokens.
"""

import random
from collections.abc import Sequence

from .problems import LARGEST_NUMBER, RUNGS

BUG_SHARE = 0.2
FIRST_BUG = 28  # four numbers reach at most 27 before the last is added: the lowest three rungs are safe
LARGEST_OFFSET = 9
MAX_TOTAL = 199  # what running totals with mistakes in them can reach


def _bugs() -> dict[tuple[int, int], int]:
    """By how much a sum is off, by the last digits of the total so far and of what is added to it."""
    rng = random.Random("bugs")
    pairs = [(total, addend) for total in range(10) for addend in range(10)]
    offsets = [offset for offset in range(-LARGEST_OFFSET, LARGEST_OFFSET + 1) if offset]
    return {pair: rng.choice(offsets) for pair in rng.sample(pairs, round(BUG_SHARE * len(pairs)))}


BUGS = _bugs()


def believed_sum(total: int, addend: int) -> int:
    """`total + addend` as the model believes it."""
    largest = LARGEST_NUMBER * max(RUNGS.values())
    bug = BUGS.get((total % 10, addend % 10), 0) if FIRST_BUG <= total < largest else 0
    return total + addend + bug


def believed_totals(numbers: Sequence[int]) -> list[int]:
    """Running totals of `numbers`, added up in this order, as the model believes them."""
    totals = [numbers[0]]
    for number in numbers[1:]:
        totals.append(believed_sum(totals[-1], number))
    return totals
