"""What must be true of a case's training: every reward is the one that a single process computes."""

import json
import math
import statistics
from pathlib import Path

import pandas as pd
import torch

from coda_trl import shape_rewards

TOLERANCE = 1e-5  # of a shaped reward, which is of order 1, in float32


def read_rollouts(folder: Path, processes: int) -> dict[int, dict[str, list]]:
    """
    What the reward functions of all processes saw, by step, one process after the other. Of a step that was repeated
    after a restart, the later rollouts.
    """
    by_process = []
    for rank in range(processes):
        rows = map(json.loads, (folder / f"rollouts-{rank}.jsonl").read_text().splitlines())
        by_process.append({row["step"]: row for row in rows})
    return {
        step: {
            name: [value for rows in by_process for value in rows[step][name]]
            for name in ("problems", "rewards", "lengths")
        }
        for step in sorted(set.intersection(*map(set, by_process)))
    }


def read_history(folder: Path) -> list[dict]:
    """The trainer's log, one entry a step."""
    history = json.loads((folder / "state.json").read_text())["log_history"]
    return [entry for entry in history if "reward" in entry]


def check_shaping(folder: Path, processes: int, group_size: int, steps: int) -> dict[str, float]:
    """
    Shapes the base rewards of all processes in this one, and compares TRL's table of completions and logged mean
    reward. Returns the largest difference and the share of rollouts with a shaping term; raises `RuntimeError` if
    steps or rollouts are missing, a value differs, or no reward was shaped.
    """
    rollouts, history = read_rollouts(folder, processes), read_history(folder)
    if list(rollouts) != list(range(1, steps + 1)) or len(history) != steps:
        raise RuntimeError(f"{len(history)} steps logged and rollouts of steps {list(rollouts)}, wanted {steps}")
    largest, terms = 0.0, []
    for entry, (step, seen) in zip(history, rollouts.items(), strict=True):
        table = pd.read_parquet(folder / "completions" / f"completions_{step:05d}.parquet")
        rewards, lengths = torch.tensor(seen["rewards"]), torch.tensor(seen["lengths"])
        shaped = shape_rewards(rewards, lengths, group_size)
        groups = shaped.rewards.view(-1, group_size)
        if len(table) != len(rewards):
            raise RuntimeError(f"step {step}: {len(table)} rollouts in the table, {len(rewards)} were seen")
        mean = pd.Series([entry["reward"]])
        for name, logged, expected in (
            ("base reward", table["ladder_reward"], rewards),
            ("length", table["coda/length"], lengths),
            ("shaping term", table["length_shaping"], shaped.delta),
            ("advantage", table["advantage"], (groups - groups.mean(dim=1, keepdim=True)).flatten()),
            ("the logged mean reward", mean, shaped.rewards.mean()),
        ):
            difference = (torch.tensor(logged.to_numpy()) - expected).abs().max().item()
            largest = max(largest, difference)
            if not difference <= TOLERANCE:
                raise RuntimeError(f"step {step}: {name} differs by {difference:.2g} from that of one process")
        terms += shaped.delta.tolist()
    if not any(terms):
        raise RuntimeError("no reward was shaped, so agreement means nothing")
    return {"largest_difference": largest, "shaped_share": sum(term != 0 for term in terms) / len(terms)}


def check_learning(folder: Path, bound: float | None) -> dict:
    """
    Checks that every step has a finite loss and a gradient, and that vLLM's log-probabilities (if there is a `bound`)
    are the trainer's. Returns losses, gradient norms and `coda/*` metrics by step.
    """
    history = read_history(folder)
    kept = ("loss", "grad_norm", "reward", "completions/mean_length", "coda/", "rewards/", "sampling/")
    names = sorted({name for entry in history for name in entry if name.startswith(kept)})
    metrics = {name: [entry.get(name) for entry in history] for name in names}  # not all are there in every step
    for name in ("loss", "grad_norm"):
        if not all(map(math.isfinite, metrics[name])):
            raise RuntimeError(f"{name} is {metrics[name]}")
    if not any(metrics["grad_norm"]):
        raise RuntimeError("all gradients are 0")
    differences = metrics.get("sampling/sampling_logp_difference/mean")
    if bound is not None and not max(differences) <= bound:
        raise RuntimeError(f"vLLM's log-probabilities differ from the trainer's by {differences}, not up to {bound}")
    return metrics


def read_processes(folder: Path, processes: int, tokens: list[int]) -> dict:
    """Cards, speed and memory. Speed is that of the median step, the first of a process left out."""
    facts = [json.loads((folder / f"process-{rank}.json").read_text()) for rank in range(processes)]
    seconds, total = facts[0]["step_seconds"], facts[0]["parameters"]
    speeds = [count / second for count, second in zip(tokens[-len(seconds) :], seconds, strict=True)]
    return {
        "cards": [fact["card"] for fact in facts],
        "resumed_from": facts[0]["resumed_from"],
        "step_seconds": seconds,
        "tokens_per_second": statistics.median(speeds[1:]),
        "peak_gib": max(fact["peak_bytes"] for fact in facts) / 2**30,
        "card_gib": max(fact["card_bytes"] for fact in facts) / 2**30,
        "parameters": total,
        "parameters_held": [fact["parameters_held"] for fact in facts],
    }
