"""Word problems of graded difficulty: a number of things that changes in a few steps, told in plain language.

Easy steps add, take away, double or triple. Hard ones multiply by a number of two digits, take a percentage away, or
keep what is left over after packing: a small language model gets these wrong in one go, and mostly right in parts.

python -m experiments.word_problems.problems                       # writes data/ anew
"""

import gzip
import itertools
import json
import random
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from coda_trl.data import math_prompt

DATA = Path(__file__).resolve().parent / "data"
TRAIN, TEST = "train.jsonl.gz", "test.jsonl.gz"
TRAINING_PROBLEMS = 2_000
EVALUATION_PROBLEMS = 100  # of each rung

# Steps of each rung: e for an easy one, m for a product with one digit, h for a hard one. The order is drawn.
RUNGS = {1: "e", 2: "ee", 3: "eee", 4: "eem", 5: "eehm", 6: "eehh"}
# Words of tables for them.
RUNG_NAMES = {
    1: "1 easy",
    2: "2 easy",
    3: "3 easy",
    4: "2 easy, 1 medium",
    5: "2 easy, 1 medium, 1 hard",
    6: "2 easy, 2 hard",
}
# Easy ones for saving tokens, hard ones for an accuracy to lose. With six in ten hard, the reward for right answers
# drowned the shaping term (README.md, earlier attempts).
TRAINING_SHARES = {1: 0.175, 2: 0.175, 3: 0.175, 4: 0.175, 5: 0.15, 6: 0.15}

LARGEST_TOTAL = 9_999

NAMES = ("Mia", "Tom", "Ana", "Ben", "Lea", "Sam", "Zoe", "Max", "Eva", "Leo", "Ida", "Jon")
THINGS = ("apples", "stamps", "marbles", "books", "cards", "shells", "coins", "beads", "pencils", "stickers")
BEGINNINGS = (
    "{name} has {n} {things}.",
    "There are {n} {things} in {name}'s box.",
    "{name} starts with {n} {things}.",
)
TELLINGS = {
    "add": ("Then {name} gets {n} more.", "{name} buys another {n}.", "A friend brings {n} more."),
    "take": ("Then {n} of them are lost.", "{name} gives {n} away.", "{name} sells {n} of them."),
    "times": (
        "Then each of them is swapped for {n} new ones.",
        "{name} trades every single one for {n} others.",
    ),
    "percent": ("Then {n}% of them are sold.", "{name} gives {n}% of them away."),
    "remainder": (
        "{name} packs them into boxes of {n} and keeps only those that do not fill a box.",
        "They go into bags of {n}, and {name} keeps only what is left over.",
    ),
}
DOUBLE, TRIPLE = "Then the number of {things} doubles.", "Then the number of {things} triples."
QUESTIONS = ("How many {things} does {name} have now?", "How many {things} are there in the end?")


# What a step makes of a total, and how its calculation is written down, result included.
APPLY = {
    "add": lambda total, number: total + number,
    "take": lambda total, number: total - number,
    "times": lambda total, number: total * number,
    "percent": lambda total, number: total - total * number // 100,
    "remainder": lambda total, number: total % number,
}
WRITTEN = {
    "add": "{total} + {number} = {result}",
    "take": "{total} - {number} = {result}",
    "times": "{total} * {number} = {result}",
    "percent": "{total} less {number}% = {result}",
    "remainder": "{total} in groups of {number} leaves {result}",
}


@dataclass(frozen=True)
class Step:
    """One change: `"add"`, `"take"`, `"times"`, `"percent"` (so much is taken away) or `"remainder"` of a number."""

    kind: str
    number: int

    @property
    def is_hard(self) -> bool:
        """Whether a small model had better do it in parts: all but sums, differences, doubling and tripling."""
        return self.kind in ("percent", "remainder") or (self.kind == "times" and self.number > 3)

    def apply(self, total: int) -> int:
        """The number after the step."""
        return APPLY[self.kind](total, self.number)

    def fits(self, total: int) -> bool:
        """Whether the step makes sense with so many things: none is cut, and something is left."""
        whole = self.kind != "percent" or total * self.number % 100 == 0
        return whole and 1 <= self.apply(total) <= LARGEST_TOTAL


@dataclass(frozen=True)
class Problem:
    """A problem: key of `RUNGS`, the number in the beginning, what happens to it, and the story with its question."""

    rung: int
    start: int
    steps: tuple[Step, ...]
    text: str

    @property
    def totals(self) -> list[int]:
        """The number in the beginning and after every step."""
        return list(itertools.accumulate(self.steps, lambda total, step: step.apply(total), initial=self.start))

    @property
    def answer(self) -> str:
        """The number in the end, in digits."""
        return str(self.totals[-1])

    def as_row(self) -> dict:
        """The problem as a row of a data set."""
        return {"prompt": math_prompt(self.text), "solution": self.answer, "rung": self.rung}


def _candidates(kind: str, total: int) -> Iterable[Step]:
    """Steps of a kind (as in `RUNGS`) that may follow a number, whether they fit or not."""
    if kind == "e":
        yield from (Step("add", number) for number in range(3, 60))
        yield from (Step("take", number) for number in range(3, 60))
        if total < 50:
            yield from (Step("times", number) for number in (2, 3) for _ in range(6))
    elif kind == "m":
        yield from (Step("times", number) for number in range(4, 10) if total > 20)
    else:
        if 12 < total < 100:
            yield from (Step("times", number) for number in range(12, 100) if number % 10)
        if total >= 40:
            yield from (Step("percent", number) for number in range(5, 100, 5) if number != 50 for _ in range(4))
        if total >= 200:
            yield from (Step("remainder", number) for number in range(13, 60))


def _draw_steps(kinds: Sequence[str], start: int, rng: random.Random) -> tuple[Step, ...] | None:
    """Steps of the given kinds that fit one after the other, or `None` where they get stuck."""
    steps: list[Step] = []
    for kind in kinds:
        fitting = [step for step in _candidates(kind, start) if step.fits(start)]
        if not fitting:
            return None
        chosen = rng.choice(sorted({step.kind for step in fitting}))
        steps.append(rng.choice([step for step in fitting if step.kind == chosen]))
        start = steps[-1].apply(start)
    return tuple(steps)


def _tell(start: int, steps: Sequence[Step], rng: random.Random) -> str:
    words = {"name": rng.choice(NAMES), "things": rng.choice(THINGS)}
    sentences = [rng.choice(BEGINNINGS).format(n=start, **words)]
    for step in steps:
        if step.kind == "times" and step.number in (2, 3):
            telling = {2: DOUBLE, 3: TRIPLE}[step.number]
        else:
            telling = rng.choice(TELLINGS[step.kind])
        sentences.append(telling.format(n=step.number, **words))
    return " ".join([*sentences, rng.choice(QUESTIONS).format(**words)])


def sample_problem(rung: int, rng: random.Random) -> Problem:
    """Draws one problem."""
    steps = None
    while steps is None:
        start = rng.randint(11, 99)
        steps = _draw_steps(rng.sample(RUNGS[rung], len(RUNGS[rung])), start, rng)
    return Problem(rung, start, steps, _tell(start, steps, rng))


def training_problems(count: int, seed: int = 0) -> list[Problem]:
    """Problems to train on, rungs by `TRAINING_SHARES`."""
    rng = random.Random(f"word problems, training, {seed}")
    rungs = rng.choices(list(TRAINING_SHARES), list(TRAINING_SHARES.values()), k=count)
    return [sample_problem(rung, rng) for rung in rungs]


def evaluation_problems(per_rung: int, seed: int = 0) -> list[Problem]:
    """Problems to evaluate on, the same for every run: all rungs in turn, easiest first."""
    draws = {rung: random.Random(f"word problems, evaluation, {seed}, {rung}") for rung in RUNGS}
    return [sample_problem(rung, draws[rung]) for _ in range(per_rung) for rung in RUNGS]


def make_files() -> dict[str, str]:
    """What the files of `data/` hold, by name: a JSON object a line. No story of one is in the other."""
    test = evaluation_problems(EVALUATION_PROBLEMS)
    seen = {problem.text for problem in test}
    train = [problem for problem in training_problems(TRAINING_PROBLEMS) if problem.text not in seen]
    return {
        name: "".join(json.dumps(problem.as_row()) + "\n" for problem in problems)
        for name, problems in ((TRAIN, train), (TEST, test))
    }


if __name__ == "__main__":
    for name, text in make_files().items():
        (DATA / name).write_bytes(gzip.compress(text.encode(), mtime=0))
