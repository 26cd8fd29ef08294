"""What the ladder model is taught of addition: the truth, but for holes that it does not know of.

Hard rungs have to stay hard during a run. Noise in the additions would not do: reinforcement sharpens it away, and
even facts that are shown wrong half the time are learned right within a hundred steps. So the demonstrations hold
false beliefs, the way a language model holds some: a fixed share of the additions above `FIRST_HOLE` is always shown
with the same wrong result. A chain of additions that meets such a hole is confidently wrong. The same numbers in
another order meet other holes, which makes a second count worth its tokens.
"""

import random
from collections.abc import Sequence

from .problems import LARGEST_NUMBER, RUNGS

HOLE_SHARE = 0.12
FIRST_HOLE = 28  # four numbers reach at most 27 before the last is added: the lowest three rungs have no holes
MAX_TOTAL = LARGEST_NUMBER * max(RUNGS.values()) + 24  # wrong results can exceed the largest sum


def _holes() -> dict[tuple[int, int], int]:
    """Wrong results, by total and addend."""
    rng = random.Random("holes")
    return {
        (total, addend): total + addend + rng.choice([-2, -1, 1, 2])
        for total in range(FIRST_HOLE, MAX_TOTAL - LARGEST_NUMBER - 1)
        for addend in range(1, LARGEST_NUMBER + 1)
        if rng.random() < HOLE_SHARE
    }


HOLES = _holes()


def believed_totals(numbers: Sequence[int]) -> list[int]:
    """
    Running totals of `numbers`, added up in this order, as the model believes them.

    Example:

    ```python
    >>> from coda_trl.ladder.arithmetic import believed_totals

    >>> believed_totals([7, 7, 1])
    [7, 14, 15]

    ```
    """
    totals = [numbers[0]]
    for number in numbers[1:]:
        step = (totals[-1], number)
        totals.append(HOLES.get(step, sum(step)))
    return totals
