"""`results.jsonl`: one line a run, with settings, versions, card, seconds, training log and counts by problem.

Samples are too large to keep. Of every problem the file holds how many answers were right, their tokens, and how many
were cut off, each a string of whole numbers in the order of the benchmark.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_trl.evaluation.columns import tabulate

from ..files import Row

# Metrics of the training log that are kept, of every step.
LOGGED = {
    "rewards/accuracy_reward/mean": "reward",
    "completions/mean_length": "tokens",
    "completions/clipped_ratio": "cut_off",
    "coda/easy/share": "easy_share",
    "coda/easy/mean_length": "easy_tokens",
    "coda/easy/accuracy": "easy_accuracy",
    "coda/hard/share": "hard_share",
    "coda/hard/mean_length": "hard_tokens",
    "coda/hard/accuracy": "hard_accuracy",
    "coda/all_wrong/mean_length": "all_wrong_tokens",
    "coda/mean_group_response_length_correct": "right_tokens",
    "coda/mean_group_response_length_wrong": "wrong_tokens",
    "coda/global_easy_penalty_mean": "easy_penalty",
    "coda/global_hard_reward_mean": "hard_bonus",
    "coda/frac_zero_std_base": "no_spread",
    "coda/frac_zero_std_shaped": "no_spread_shaped",
    "entropy": "entropy",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
}
MEMORY = ("peak_gib", "peak_allocated_gib", "card_gib")


def read_steps(path: Path) -> list[Row]:
    """What `training.py` wrote of a run, without a last line that is cut off."""
    lines = path.read_bytes().splitlines(keepends=True) if path.exists() else ()
    return [json.loads(line) for line in lines if line.endswith(b"\n")]


def _short(value: float | None) -> float | None:
    return float(f"{value:.4g}") if value is not None and math.isfinite(value) else None


def summarise_steps(steps: Sequence[Row]) -> Row:
    """
    The training log of a run, from [`read_steps`]: `steps`, `step_seconds`, `phase_seconds` (lists over steps by
    phase), `peak_gib` (reserved by PyTorch), `peak_allocated_gib` (of it in use), `card_gib` (in use on the card by
    all processes) and `log` (lists over steps by metric, `None` where it was not logged).
    """
    phases = sorted({phase for step in steps for phase in step["phases"]})
    return {
        "steps": steps[-1]["step"],
        "step_seconds": [round(step["seconds"], 2) for step in steps],
        "phase_seconds": {phase: [round(step["phases"].get(phase, 0.0), 2) for step in steps] for phase in phases},
        **{name: max(step.get(name, 0.0) for step in steps) for name in MEMORY},
        "log": {
            short: [_short(step["log"].get(name)) for step in steps]
            for name, short in LOGGED.items()
            if any(name in step["log"] for step in steps)
        },
    }


def holds_code(completion: str) -> bool:
    """Whether an answer has a block of code, as a model that was trained to write code likes to give."""
    return "```" in completion


def summarise_samples(samples: Iterable[Mapping[str, Any]], problems: Mapping[str, int], numbers: range) -> Row:
    """
    Sums samples up by problem.

    Args:
        samples (`Iterable[dict]`):
            Lines of a sample file.
        problems (`Mapping[str, int]`):
            Number of problems of every benchmark.
        numbers (`range`):
            Numbers of the samples that count.

    Returns:
        `dict`: By benchmark that is complete: `samples` of a problem, `accuracy`, `tokens`, `cut_off`, `code` and
        `no_box` (shares of answers with a block of code, and without a box), `no_verdict` (answers whose gold cannot
        be read), accuracy, tokens and cut-off `by_level` if problems have one, and `counts` by problem: `correct`,
        `tokens`, `cut_off`, `level`.
    """
    counted = {
        "level": lambda sample: sample.get("level", np.nan),
        "code": lambda sample: holds_code(sample["completion"]),
        "no_box": lambda sample: "\\boxed" not in sample["completion"],
    }
    found = tabulate((sample for sample in samples if sample["sample"] in numbers), counts=counted)
    results = {}
    for name in (name for name in problems if name in found):
        columns, outcomes = found[name], found[name].outcomes
        if len(columns.problems) < problems[name] or outcomes.samples.min() < len(numbers):
            continue
        order = np.argsort([int(problem) for problem in columns.problems])
        sums = {"correct": outcomes.correct, "tokens": outcomes.tokens, "cut_off": outcomes.truncated}
        counts = {column: values[order].astype(int) for column, values in sums.items()}

        def means(chosen: Any = ..., counts: Mapping[str, np.ndarray] = counts) -> Row:
            found = {column: round(float(of[chosen].mean()) / len(numbers), 5) for column, of in counts.items()}
            return {"accuracy": found["correct"], "tokens": found["tokens"], "cut_off": found["cut_off"]}

        result: Row = {"samples": len(numbers), **means()}
        result |= {share: round(float(columns.counts[share].mean()), 5) for share in ("code", "no_box")}
        result["no_verdict"] = int((outcomes.samples - outcomes.graded).sum())
        levels = columns.per_problem(columns.counts["level"])[order] / len(numbers)
        if not np.isnan(levels).any():
            counts["level"] = levels.astype(int)
            result["by_level"] = {str(level): means(counts["level"] == level) for level in sorted({*counts["level"]})}
        result["counts"] = {column: " ".join(map(str, values)) for column, values in counts.items()}
        results[name] = result
    return results
