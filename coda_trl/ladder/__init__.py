"""A laptop-sized testbed in which answers can be too long for easy problems and too short for hard ones.

A model of about a million parameters adds numbers: two small ones on the lowest rung, twelve two-digit ones on the
highest, where it is mostly wrong. It knows four ways to write a solution down, longer ones more reliable. Everything is
made here (problems, tokenizer, demonstrations, checkpoint), so that a method can be tried without a download.
"""

from pathlib import Path

from .dataset import TRAINING_SHARES, ladder_reward, make_dataset
from .problems import RUNGS, Problem, Rung, grade, sample_problem

CHECKPOINT = str(Path(__file__).parent / "checkpoint")

__all__ = [
    "CHECKPOINT",
    "RUNGS",
    "TRAINING_SHARES",
    "Problem",
    "Rung",
    "grade",
    "ladder_reward",
    "make_dataset",
    "sample_problem",
]
