"""Every run: a recipe, and what is changed in it. Testbeds with rungs have their labels and rungs from here."""

from dataclasses import dataclass, field
from typing import Any

from coda_trl.ladder import RUNGS

SEEDS = 5
ABLATION_SEEDS = 3

# Token budgets that the model trained with L1 is asked for when it is evaluated.
L1_BUDGETS = (3, 6, 9, 12, 18, 24, 33, 42)

START = "start"

ALL_RUNGS = tuple(RUNGS)
# Rungs that stand for the paper's easy (GSM8K, MATH500) and hard (AIME24, AIME25) benchmarks.
EASY_RUNGS = (1, 2, 3)
HARD_RUNGS = (5, 6)


@dataclass(frozen=True)
class Run:
    """
    One row of the matrix: its label in tables, a recipe's name (`None` evaluates the start without training), names of
    overlays in `recipes/ablations`, arguments that win over both, and token budgets to ask for in evaluation.
    """

    label: str
    recipe: str | None
    overlays: tuple[str, ...] = ()
    overrides: dict[str, Any] = field(default_factory=dict)
    budgets: tuple[int | None, ...] = (None,)


# The rows of the paper's Table 1, three later methods, and L1 of its Fig. 1b.
MAIN = {
    "start": Run("Start", None),
    "grpo": Run("GRPO", "grpo"),
    "coda": Run("CODA", "coda"),
    "vlp": Run("VLP", "vlp"),
    "asrr": Run("ASRR", "asrr"),
    "linear": Run("Linear (prime-rl)", "linear"),
    "alp": Run("ALP", "alp"),
    "gr3": Run("GR3", "gr3"),
    "coda-correct": Run("CODA (correct)", "coda", ("length-stats-correct",)),
    "l1": Run("L1", "l1_exact", budgets=L1_BUDGETS),
}

# What is changed in CODA, in the order in which it is wanted first. The unchanged one is `coda` above.
ABLATIONS = {
    "coda-incorrect-bonus": Run("bonus on wrong answers too", "coda", ("incorrect-bonus",)),
    "coda-alpha-0.0": Run("α = 0", "coda", ("alpha-0.0",)),
    "coda-alpha-0.4": Run("α = 0.4", "coda", ("alpha-0.4",)),
    "coda-beta-0.0": Run("β = 0", "coda", ("beta-0.0",)),
    "coda-beta-0.4": Run("β = 0.4", "coda", ("beta-0.4",)),
    "coda-easy": Run("CODA, easy training set", "coda", overrides={"dataset": "ladder_easy=4000"}),
    "coda-hard": Run("CODA, hard training set", "coda", overrides={"dataset": "ladder_hard=4000"}),
    "grpo-easy": Run("GRPO, easy training set", "grpo", overrides={"dataset": "ladder_easy=4000"}),
    "grpo-hard": Run("GRPO, hard training set", "grpo", overrides={"dataset": "ladder_hard=4000"}),
    "coda-scaled": Run("rewards scaled by group", "coda", overrides={"scale_rewards": "group"}),
    # The batch stays at 160 completions, so that there are more prompts instead.
    "coda-group-4": Run("G = 4", "coda", overrides={"num_generations": 4}),
    "coda-group-8": Run("G = 8", "coda", overrides={"num_generations": 8}),
    "coda-tau-easy-0.6": Run("τ = (0.6, 0.25)", "coda", ("tau-easy-0.6",)),
    "coda-tau-easy-0.9": Run("τ = (0.9, 0.25)", "coda", ("tau-easy-0.9",)),
    "coda-tau-hard-0.1": Run("τ = (0.75, 0.1)", "coda", ("tau-hard-0.1",)),
    "coda-tau-hard-0.4": Run("τ = (0.75, 0.4)", "coda", ("tau-hard-0.4",)),
    "coda-alpha-0.1": Run("α = 0.1", "coda", ("alpha-0.1",)),
    "coda-alpha-0.3": Run("α = 0.3", "coda", ("alpha-0.3",)),
    "coda-beta-0.1": Run("β = 0.1", "coda", ("beta-0.1",)),
    "coda-beta-0.3": Run("β = 0.3", "coda", ("beta-0.3",)),
}

RUNS = MAIN | ABLATIONS


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
