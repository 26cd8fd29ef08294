"""Four styles of solutions, which trade tokens for reliability.

- `direct`: the answer alone, known by heart. Only on the lower three rungs.
- `totals`: running totals, then the answer.
- `check`: running totals, then again in reverse order; if the sums differ, a third count, in threes, decides. More
  often right than `totals`, as it meets fewer of the model's mistakes (see `arithmetic`).
- `verbose`: the problem restated, then running totals. No better than `totals`.
"""

from collections.abc import Sequence

from .arithmetic import believed_sum, believed_totals
from .problems import Problem

# Share of each style in the demonstrations, by rung. Seven numbers and more are never summed by heart.
STYLE_SHARES = {
    1: {"direct": 0.40, "totals": 0.25, "check": 0.20, "verbose": 0.15},
    2: {"direct": 0.35, "totals": 0.25, "check": 0.20, "verbose": 0.20},
    3: {"direct": 0.30, "totals": 0.25, "check": 0.25, "verbose": 0.20},
    4: {"totals": 0.45, "check": 0.35, "verbose": 0.20},
    5: {"totals": 0.45, "check": 0.35, "verbose": 0.20},
    6: {"totals": 0.45, "check": 0.35, "verbose": 0.20},
}

WORDS = ["=", "ans", "verify", "same", "wait", "okay", "we", "add", "up", "so", "far", "that", "makes"]
# Of the sentence that asks for a length, `Think for N tokens.` (see `data.add_length_budget`).
BUDGET_WORDS = ["Think", "for", "tokens."]


def demonstrate(problem: Problem, style: str) -> list[str]:
    """
    Writes a solution in one of the styles, as words. Sums are those that the model believes, which can be wrong.

    Example:

    ```python
    >>> from coda_trl.ladder import Problem
    >>> from coda_trl.ladder.styles import demonstrate

    >>> " ".join(demonstrate(Problem(rung=2, numbers=(7, 7, 1)), "check"))
    '7 14 15 verify 1 8 15 same ans 15'

    ```
    """
    numbers = problem.numbers
    if style == "direct":
        return ["ans", problem.answer]
    counted = believed_totals(numbers)
    words, total = list(map(str, counted)), counted[-1]
    if style == "verbose":
        restated = problem.question.split()[:-1]
        words = ["okay", "we", "add", "up", *restated, "so", "far", *words, "that", "makes"]
    elif style == "check":
        again = believed_totals(numbers[::-1])
        words += ["verify", *map(str, again)]
        if again[-1] == total:
            words.append("same")
        else:
            recount = _count_in_threes(numbers)
            words, total = [*words, "wait", *map(str, recount)], recount[-1]
    return [*words, "ans", str(total)]


def _count_in_threes(numbers: Sequence[int]) -> list[int]:
    """Sums of three numbers at a time, which are known by heart, each followed by the total so far."""
    counted = [sum(numbers[:3])]
    for start in range(3, len(numbers), 3):
        three = sum(numbers[start : start + 3])
        counted += [three, believed_sum(counted[-1], three)]
    return counted
