"""Addition problems whose difficulty is the count of numbers to add, and data sets of them."""

import random
from dataclasses import dataclass

from datasets import Dataset

LARGEST_NUMBER = 9

# How many numbers from 1 to 9 a problem of each rung adds up.
RUNGS = {1: 2, 2: 3, 3: 4, 4: 7, 5: 10, 6: 14}
# Mostly easy, as training data is for a decent model; every rung occurs.
TRAINING_SHARES = {1: 0.25, 2: 0.25, 3: 0.20, 4: 0.05, 5: 0.10, 6: 0.15}


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
    """
    Draws one problem of a rung.

    Example:

    ```python
    >>> import random
    >>> from coda_trl.ladder import sample_problem

    >>> problem = sample_problem(2, random.Random(0))
    >>> problem.question, problem.answer
    ('7 +7 +1 =', '15')

    ```
    """
    return Problem(rung, tuple(rng.randint(1, LARGEST_NUMBER) for _ in range(RUNGS[rung])))


def ends_in_sum(completion: str, answer: str) -> bool:
    """
    Whether a completion, without its end-of-sequence token, ends in `ans` and the right sum.

    Example:

    ```python
    >>> from coda_trl.ladder import ends_in_sum

    >>> ends_in_sum("7 +7 14 +1 15 ans 15", "15"), ends_in_sum("7 +7 14 +1 15", "15")
    (True, False)

    ```
    """
    return completion.split()[-2:] == ["ans", answer]


def make_dataset(num_problems: int, seed: int = 0, rung_shares: dict[int, float] | None = None) -> Dataset:
    """
    Draws a training set, with `TRAINING_SHARES` of the rungs if `rung_shares` gives no others.

    Example:

    ```python
    >>> from coda_trl.ladder import make_dataset

    >>> make_dataset(1, seed=3)[0]
    {'prompt': [{'role': 'user', 'content': '5 +4 +3 +4 ='}], 'solution': '16', 'source': 'ladder', 'rung': 3}

    ```
    """
    shares = rung_shares or TRAINING_SHARES
    rng = random.Random(f"ladder-{seed}")
    rungs, weights = list(shares), list(shares.values())
    # One after the other, so that a smaller set is the beginning of a larger one.
    rows = (as_row(sample_problem(rng.choices(rungs, weights)[0], rng)) for _ in range(num_problems))
    return Dataset.from_list(list(rows))


def as_row(problem: Problem) -> dict:
    """A problem as a dataset row."""
    return {
        "prompt": [{"role": "user", "content": problem.question}],
        "solution": problem.answer,
        "source": "ladder",
        "rung": problem.rung,
    }
