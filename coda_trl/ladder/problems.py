"""Addition problems of graded difficulty: how many numbers there are to add."""

import random
from dataclasses import dataclass

LARGEST_NUMBER = 9

# How many numbers from 1 to 9 a problem of each rung adds up.
RUNGS = {1: 2, 2: 3, 3: 4, 4: 7, 5: 10, 6: 14}


@dataclass(frozen=True)
class Problem:
    """A sum to compute: of `numbers`, on a rung of `RUNGS`."""

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
    """Draws one problem of a rung."""
    return Problem(rung, tuple(rng.randint(1, LARGEST_NUMBER) for _ in range(RUNGS[rung])))


def ends_in_sum(completion: str, answer: str) -> bool:
    """Whether a completion, without its end-of-sequence token, ends in `ans` and the right sum."""
    return completion.split()[-2:] == ["ans", answer]
