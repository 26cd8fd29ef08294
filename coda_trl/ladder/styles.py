"""How a solution may be written down: four styles that trade tokens for reliability.

- `direct`: the answer alone.
- `totals`: running totals, then the answer.
- `check`: running totals, the same numbers again in reverse order, and where the two sums differ a third count from
  the middle that decides.
- `verbose`: the problem restated, then running totals with filler words.

`check` is more often right than `totals` because the orders pass through other intermediate sums, so that their
mistakes are independent; `verbose` is no better than `totals`.
"""

import random
from collections.abc import Sequence
from itertools import accumulate

from .problems import Problem

# Share of each style in the demonstrations, by rung: somewhat longer where problems are harder.
STYLE_SHARES = {
    1: {"direct": 0.40, "totals": 0.25, "check": 0.20, "verbose": 0.15},
    2: {"direct": 0.35, "totals": 0.25, "check": 0.20, "verbose": 0.20},
    3: {"direct": 0.25, "totals": 0.30, "check": 0.25, "verbose": 0.20},
    4: {"direct": 0.15, "totals": 0.35, "check": 0.30, "verbose": 0.20},
    5: {"direct": 0.05, "totals": 0.45, "check": 0.30, "verbose": 0.20},
    6: {"direct": 0.05, "totals": 0.45, "check": 0.30, "verbose": 0.20},
}

# Share of `check` demonstrations in which one of the two sums goes wrong, to show what to do then.
SLIP_SHARE = 0.4

WORDS = ["=", "ans", "verify", "same", "wait", "okay", "we", "add", "up", "so", "far", "then", "that", "makes"]


def demonstrate(problem: Problem, style: str, rng: random.Random) -> list[tuple[str, bool]]:
    """
    Writes a solution in one of the styles.

    Args:
        problem ([`Problem`]):
            What to solve.
        style (`str`):
            `"direct"`, `"totals"`, `"check"` or `"verbose"`.
        rng (`random.Random`):
            Source of randomness, for the slips in `"check"`.

    Returns:
        `list[tuple[str, bool]]`: Words, each with whether to learn it. Slips, and what follows from them, are shown but
        not learned: a model never learns to make them, only to react.
    """
    numbers = problem.numbers
    answer = ["ans", problem.answer]
    if style == "direct":
        return _learn(answer)
    if style == "totals":
        return _learn([*_totals(numbers), *answer])
    if style == "verbose":
        first, *totals = _totals(numbers)
        restated = [str(numbers[0]), *(f"+{number}" for number in numbers[1:])]
        steps = [word for total in totals for word in ("then", total)]
        return _learn(["okay", "we", "add", "up", *restated, "so", "far", first, *steps, "that", "makes", *answer])

    forward, backward = _learn(_totals(numbers)), _learn(_totals(numbers[::-1]))
    if rng.random() >= SLIP_SHARE:
        return [*forward, ("verify", True), *backward, *_learn(["same", *answer])]
    if rng.random() < 0.5:
        forward = _slip(numbers, rng)
    else:
        backward = _slip(numbers[::-1], rng)
    middle = len(numbers) // 2
    recount = _totals([*numbers[middle:], *numbers[:middle]])
    return [*forward, ("verify", True), *backward, *_learn(["wait", *recount, *answer])]


def _learn(words: Sequence[str]) -> list[tuple[str, bool]]:
    return [(word, True) for word in words]


def _totals(numbers: Sequence[int]) -> list[str]:
    return [str(total) for total in accumulate(numbers)]


def _slip(numbers: Sequence[int], rng: random.Random) -> list[tuple[str, bool]]:
    """Running totals of which one, and with it all later ones, is off by a little. Learned up to there."""
    step = rng.randrange(1, len(numbers))
    totals = list(accumulate(numbers))
    off_by = rng.choice([off for off in (-10, -2, -1, 1, 2, 10) if totals[step] + off >= 0])
    return [(str(total + (off_by if i >= step else 0)), i < step) for i, total in enumerate(totals)]
