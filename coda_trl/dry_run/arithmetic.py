"""Batch arithmetic: completions, prompts and steps."""

import math
from dataclasses import dataclass

from ..config import CodaGRPOConfig


@dataclass(frozen=True)
class Batch:
    """One generated batch, on all processes, and the steps of the run."""

    completions: int
    prompts: int
    updates: float  # optimizer steps on each generated batch
    steps_per_epoch: int | None  # `None` if the size of the data set is not known
    total_steps: int | None


def batch_arithmetic(args: CodaGRPOConfig, num_rows: int | None) -> Batch:
    """Works out the batch as TRL will, for a training set of `num_rows` prompts."""
    completions = args.generation_batch_size
    prompts = completions // args.num_generations
    steps_per_epoch = None
    if num_rows is not None:
        # TRL drops a last, incomplete batch of prompts; the trainer counts a last, incomplete accumulation.
        micro_batches = num_rows // prompts * args.num_iterations * args.steps_per_generation
        steps_per_epoch = math.ceil(micro_batches / args.gradient_accumulation_steps)
    total = args.max_steps if args.max_steps > 0 else None
    if total is None and steps_per_epoch is not None:
        total = math.ceil(steps_per_epoch * args.num_train_epochs)
    updates = args.num_iterations * args.steps_per_generation / args.gradient_accumulation_steps
    return Batch(completions, prompts, updates, steps_per_epoch, total)


def gate_counts(num_generations: int, tau_easy: float, tau_hard: float) -> tuple[int | None, int | None]:
    """Right answers in a group from which a prompt is easy, and up to which it is hard (at least 1, to reward)."""
    counts = range(1, num_generations + 1)
    easy = [count for count in counts if count / num_generations > tau_easy]
    hard = [count for count in counts if count / num_generations < tau_hard]
    return min(easy, default=None), max(hard, default=None)
