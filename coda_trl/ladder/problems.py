"""Addition problems of graded difficulty: how many numbers there are to add, and how large they are."""

import random
from dataclasses import dataclass

MAX_TOTAL = 999  # every number from 0 to this is one token


@dataclass(frozen=True)
class Rung:
    """
    One difficulty of the ladder.

    Args:
        operands (`int`):
            How many numbers are added.
        smallest (`int`), largest (`int`):
            Range that the numbers are drawn from, both ends included.
    """

    operands: int
    smallest: int
    largest: int


RUNGS = {
    1: Rung(operands=2, smallest=1, largest=9),
    2: Rung(operands=3, smallest=1, largest=9),
    3: Rung(operands=4, smallest=1, largest=9),
    4: Rung(operands=4, smallest=10, largest=99),
    5: Rung(operands=6, smallest=10, largest=99),
    6: Rung(operands=9, smallest=10, largest=99),
}


@dataclass(frozen=True)
class Problem:
    """
    A sum to compute.

    Args:
        rung (`int`):
            Difficulty, a key of `RUNGS`.
        numbers (`tuple[int, ...]`):
            What is to be added.
    """

    rung: int
    numbers: tuple[int, ...]

    @property
    def question(self) -> str:
        """The problem as the model reads it, for example `"3 +9 +4 ="`."""
        return " ".join([str(self.numbers[0]), *(f"+{number}" for number in self.numbers[1:]), "="])

    @property
    def answer(self) -> str:
        """The sum, in digits."""
        return str(sum(self.numbers))


def sample_problem(rung: int, rng: random.Random) -> Problem:
    """
    Draws one problem.

    Args:
        rung (`int`):
            Difficulty, a key of `RUNGS`.
        rng (`random.Random`):
            Source of randomness.

    Example:

    ```python
    >>> import random
    >>> from coda_trl.ladder import sample_problem

    >>> problem = sample_problem(2, random.Random(0))
    >>> problem.question, problem.answer
    ('7 +7 +1 =', '15')

    ```
    """
    shape = RUNGS[rung]
    return Problem(rung, tuple(rng.randint(shape.smallest, shape.largest) for _ in range(shape.operands)))


def grade(completion: str, answer: str) -> bool:
    """
    Whether a completion ends in the right answer: its last two words are `ans` and the sum.

    Args:
        completion (`str`):
            Text written by the model, end-of-sequence token stripped.
        answer (`str`):
            The sum, in digits.

    Example:

    ```python
    >>> from coda_trl.ladder import grade

    >>> grade("7 +7 14 +1 15 ans 15", "15"), grade("7 +7 14 +1 15", "15")
    (True, False)

    ```
    """
    return completion.split()[-2:] == ["ans", answer]
