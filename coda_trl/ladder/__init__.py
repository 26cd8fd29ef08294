"""A laptop-sized testbed in which answers can be too long for easy problems and too short for hard ones.

A model of half a million parameters adds numbers: two on the lowest rung, fourteen on the highest, where it is mostly
wrong. It has four styles of solutions, of which a longer one is more reliable. Problems, tokenizer, demonstrations and
checkpoint come with the package, so a method can be tried without a download.
"""

from pathlib import Path

from .problems import RUNGS, TRAINING_SHARES, Problem, ends_in_sum, make_dataset, sample_problem

CHECKPOINT = str(Path(__file__).parent / "checkpoint")

__all__ = [
    "CHECKPOINT",
    "RUNGS",
    "TRAINING_SHARES",
    "Problem",
    "ends_in_sum",
    "make_dataset",
    "sample_problem",
]
