"""Problems of the ladder as data sets."""

import random

from datasets import Dataset

from .problems import Problem, sample_problem

# Mostly easy, as training data is for a model that is any good; every rung occurs.
TRAINING_SHARES = {1: 0.25, 2: 0.25, 3: 0.20, 4: 0.05, 5: 0.10, 6: 0.15}


def make_dataset(num_problems: int, seed: int = 0, rung_shares: dict[int, float] | None = None) -> Dataset:
    """Draws a training set, with `TRAINING_SHARES` of the rungs if `rung_shares` gives no others."""
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
