"""Batch arithmetic: completions, prompts, steps, tokens, and how groups are split between processes."""

import math
from dataclasses import dataclass

from ..config import CodaGRPOConfig


@dataclass(frozen=True)
class Batch:
    """
    The numbers of one step and one run.

    Args:
        completions (`int`):
            Completions generated at a time, on all processes.
        prompts (`int`):
            Different prompts among them.
        completions_per_process (`int`):
            Completions that each process holds.
        updates (`float`):
            Optimizer steps on each generated batch.
        tokens (`int`):
            Most tokens generated at a time (all completions at full length).
        steps_per_epoch (`int`, *optional*):
            Optimizer steps an epoch. `None` if the size of the data set is not known.
        total_steps (`int`, *optional*):
            Optimizer steps of the run.
    """

    completions: int
    prompts: int
    completions_per_process: int
    updates: float
    tokens: int
    steps_per_epoch: int | None
    total_steps: int | None


def batch_arithmetic(args: CodaGRPOConfig, num_rows: int | None) -> Batch:
    """
    Works out the batch as TRL will.

    Args:
        args ([`CodaGRPOConfig`]):
            Configuration for the planned number of processes.
        num_rows (`int`, *optional*):
            Rows of the training set, filtered.

    Returns:
        [`Batch`]
    """
    completions = args.generation_batch_size
    prompts = completions // args.num_generations
    updates = args.num_iterations * args.steps_per_generation / args.gradient_accumulation_steps
    steps_per_epoch = None
    if num_rows is not None:
        # TRL drops a last, incomplete batch of prompts; the trainer counts a last, incomplete accumulation.
        micro_batches = num_rows // prompts * args.num_iterations * args.steps_per_generation
        steps_per_epoch = math.ceil(micro_batches / args.gradient_accumulation_steps)
    total = args.max_steps if args.max_steps > 0 else None
    if total is None and steps_per_epoch is not None:
        total = math.ceil(steps_per_epoch * args.num_train_epochs)
    return Batch(
        completions=completions,
        prompts=prompts,
        completions_per_process=completions // args.world_size,
        updates=updates,
        tokens=completions * args.max_completion_length,
        steps_per_epoch=steps_per_epoch,
        total_steps=total,
    )


def group_shares(num_generations: int, per_process: int) -> list[tuple[int, ...]]:
    """
    How groups are cut at the borders between processes, which hold `per_process` completions each.

    Returns:
        `list[tuple[int, ...]]`: The different ways, in order of appearance. `(16,)`: a whole group on one process;
            `(10, 6)`: 10 completions on one process and 6 on the next.

    Example:

    ```python
    >>> from coda_trl.dry_run.arithmetic import group_shares

    >>> group_shares(16, 256)
    [(16,)]
    >>> group_shares(16, 24)
    [(16,), (8, 8)]

    ```
    """
    ways = {}
    for group in range(per_process // math.gcd(num_generations, per_process)):
        shares, start, left = [], group * num_generations, num_generations
        while left:
            share = min(left, per_process - start % per_process)
            shares.append(share)
            start, left = start + share, left - share
        ways[tuple(shares)] = None
    return list(ways)


def gate_counts(num_generations: int, tau_easy: float, tau_hard: float) -> tuple[int | None, int | None]:
    """
    Successes in a group from which a prompt is easy, and up to which it is hard (with at least one to reward).

    Example:

    ```python
    >>> from coda_trl.dry_run.arithmetic import gate_counts

    >>> gate_counts(16, 0.75, 0.25)
    (13, 3)

    ```
    """
    rates = [(count, count / num_generations) for count in range(1, num_generations + 1)]
    easy = [count for count, rate in rates if rate > tau_easy]
    hard = [count for count, rate in rates if rate < tau_hard]
    return (easy[0] if easy else None), (hard[-1] if hard else None)
