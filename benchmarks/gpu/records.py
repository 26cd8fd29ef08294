"""Reads what the processes of a case left behind, and holds it against the answer of one process."""

import json
import math
import statistics
from pathlib import Path

import pandas as pd
import torch

from coda_trl import shape_rewards

TOLERANCE = 1e-5  # of a shaped reward, which is of order 1, in float32


class CheckError(Exception):
    """A case ran, but not as it should."""


def read_rollouts(folder: Path, processes: int) -> dict[int, dict[str, list]]:
    """
    Joins what the reward functions of all processes saw.

    Args:
        folder (`Path`):
            Folder of the case.
        processes (`int`):
            Number of processes.

    Returns:
        `dict[int, dict[str, list]]`: By step: `problems`, `rewards` and `lengths`, the processes' one after the other.
        Of a step that was repeated after a restart, the later rollouts.
    """
    by_process = []
    for rank in range(processes):
        rows = map(json.loads, (folder / f"rollouts-{rank}.jsonl").read_text().splitlines())
        by_process.append({row["step"]: row for row in rows})
    steps = sorted(set.intersection(*map(set, by_process)))
    return {
        step: {
            name: [value for rows in by_process for value in rows[step][name]]
            for name in ("problems", "rewards", "lengths")
        }
        for step in steps
    }


def read_history(folder: Path) -> list[dict]:
    """The trainer's log, one entry a step."""
    history = json.loads((folder / "state.json").read_text())["log_history"]
    return [entry for entry in history if "reward" in entry]


def check_shaping(folder: Path, processes: int, group_size: int, steps: int) -> dict[str, float]:
    """
    Shapes the base rewards of all processes in this one process, and compares.

    Compared are TRL's table of completions (base reward, length, shaping term, advantage of every rollout) and the
    mean reward of its log.

    Args:
        folder (`Path`):
            Folder of the case.
        processes (`int`):
            Number of processes.
        group_size (`int`):
            Completions a prompt.
        steps (`int`):
            Steps that the run should have.

    Returns:
        `dict[str, float]`: The largest difference, and the share of rollouts with a shaping term.

    Raises:
        CheckError: If steps or rollouts are missing, a value differs, or no reward was shaped, so that nothing could.
    """
    rollouts, history = read_rollouts(folder, processes), read_history(folder)
    if list(rollouts) != list(range(1, steps + 1)) or len(history) != steps:
        raise CheckError(f"{len(history)} steps logged and rollouts of steps {list(rollouts)}, wanted {steps}")

    largest, terms = 0.0, []
    for entry, (step, seen) in zip(history, rollouts.items(), strict=True):
        table = pd.read_parquet(folder / "completions" / f"completions_{step:05d}.parquet")
        reward_column = next(name for name in table.columns if name.endswith("_reward"))
        shaped = shape_rewards(torch.tensor(seen["rewards"]), torch.tensor(seen["lengths"]), group_size)
        advantages = shaped.rewards.view(-1, group_size)
        advantages = (advantages - advantages.mean(dim=1, keepdim=True)).flatten()
        if len(table) != len(shaped.rewards):
            raise CheckError(f"step {step}: {len(table)} rollouts in the table, {len(shaped.rewards)} were seen")
        for name, column, expected in (
            ("base reward", reward_column, torch.tensor(seen["rewards"])),
            ("length", "coda/length", torch.tensor(seen["lengths"])),
            ("shaping term", "length_shaping", shaped.delta),
            ("advantage", "advantage", advantages),
        ):
            difference = (torch.tensor(table[column].to_numpy()) - expected).abs().max().item()
            largest = max(largest, difference)
            if not difference <= TOLERANCE:
                raise CheckError(f"step {step}: {name} differs by {difference:.2g} from that of one process")
        difference = abs(entry["reward"] - shaped.rewards.mean().item())
        if not difference <= TOLERANCE:
            raise CheckError(f"step {step}: the logged mean reward differs by {difference:.2g}")
        terms += shaped.delta.tolist()
    shaped_share = sum(term != 0 for term in terms) / len(terms)
    if shaped_share == 0:
        raise CheckError("no reward was shaped, so agreement means nothing")
    return {"largest_difference": largest, "shaped_share": shaped_share}


def check_learning(folder: Path, bound: float | None) -> dict:
    """
    Checks that every step has a finite loss and a gradient, and with vLLM, that its weights are the trainer's.

    Args:
        folder (`Path`):
            Folder of the case.
        bound (`float`, *optional*):
            Largest mean difference of log-probabilities between vLLM and the trainer; `None` without vLLM.

    Returns:
        `dict`: Losses, gradient norms and `coda/*` metrics, one value a step.

    Raises:
        CheckError: Otherwise.
    """
    history = read_history(folder)
    kept = {"loss", "grad_norm", "reward", "completions/mean_length"}
    names = {name for entry in history for name in entry}
    names = sorted(name for name in names if name in kept or name.startswith(("coda/", "rewards/", "sampling/")))
    metrics = {name: [entry.get(name) for entry in history] for name in names}  # not all are there in every step
    for name in ("loss", "grad_norm"):
        if not all(map(math.isfinite, metrics[name])):
            raise CheckError(f"{name} is {metrics[name]}")
    if not any(metrics["grad_norm"]):
        raise CheckError("all gradients are 0")
    if bound is not None:
        differences = metrics["sampling/sampling_logp_difference/mean"]
        if not max(differences) <= bound:
            raise CheckError(f"vLLM's log-probabilities differ from the trainer's by {differences}, not up to {bound}")
    return metrics


def read_processes(folder: Path, processes: int, tokens_by_step: list[int]) -> dict:
    """Cards, speed and memory of a case. Speed is that of the median step, the first of a process left out."""
    facts = [json.loads((folder / f"process-{rank}.json").read_text()) for rank in range(processes)]
    seconds = facts[0]["step_seconds"]
    speeds = [tokens / second for tokens, second in zip(tokens_by_step[-len(seconds) :], seconds, strict=True)]
    return {
        "cards": [fact["card"] for fact in facts],
        "resumed_from": facts[0]["resumed_from"],
        "step_seconds": seconds,
        "tokens_per_second": statistics.median(speeds[1:]),
        "peak_gib": _largest_gib(facts, "peak_bytes"),
        "card_gib": _largest_gib(facts, "card_bytes"),
        "parameters": facts[0]["parameters"],
        "parameters_held": [fact["parameters_held"] for fact in facts],
    }


def _largest_gib(facts: list[dict], name: str) -> float | None:
    values = [fact[name] for fact in facts if fact[name] is not None]
    return max(values) / 2**30 if values else None
