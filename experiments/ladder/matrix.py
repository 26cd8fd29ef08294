"""Every run of `matrix.yaml`: a recipe, and what is changed in it. Testbeds with rungs share labels and rungs."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from coda_trl.ladder import RUNGS

SEEDS, ABLATION_SEEDS = 5, 3
START = "start"
ALL_RUNGS = tuple(RUNGS)
# Rungs that stand for the paper's easy (GSM8K, MATH500) and hard (AIME24, AIME25) benchmarks.
EASY_RUNGS, HARD_RUNGS = (1, 2, 3), (5, 6)


@dataclass(frozen=True)
class Run:
    """A line of `matrix.yaml`."""

    label: str
    recipe: str | None = None
    overlays: tuple[str, ...] = ()
    overrides: dict[str, Any] = field(default_factory=dict)
    budgets: tuple[int | None, ...] = (None,)


MAIN, ABLATIONS = (
    {name: Run(**run) for name, run in runs.items()}
    for runs in yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text(encoding="utf-8")).values()
)
RUNS = MAIN | ABLATIONS
# Token budgets that the model trained with L1 is asked for when it is evaluated.
L1_BUDGETS = RUNS["l1"].budgets


def jobs(sets: list[str], seeds: int, first_seed: int = 0) -> list[tuple[str, int]]:
    """
    Pairs of a run and a seed, the most wanted first: all methods with the first seed, then with the second, and so on,
    then the ablations in the same way, with at most `ABLATION_SEEDS` each. `sets`: `"main"`, `"ablations"` or both.
    """
    wanted = {"main": (MAIN, seeds), "ablations": (ABLATIONS, min(seeds, ABLATION_SEEDS))}
    return [
        (name, seed)
        for kind in sets
        for seed in range(first_seed, first_seed + wanted[kind][1])
        for name in wanted[kind][0]
        if RUNS[name].recipe is not None or seed == first_seed
    ]
