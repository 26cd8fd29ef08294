"""Training curves from the log history that TRL's trainers keep (Fig. 2 and 4 of the paper)."""

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

STATE_FILE = "trainer_state.json"

SHAPING_REWARD = "length_shaping"


@dataclass(frozen=True)
class Curve:
    """
    One logged quantity over training.

    Args:
        steps, values (`np.ndarray` of shape `(T,)`):
            Optimiser steps, ascending, and what was logged then.
    """

    steps: np.ndarray
    values: np.ndarray

    def smoothed(self, width: int) -> "Curve":
        """Centred moving average over `width` logged points, fewer near the ends."""
        center = np.arange(len(self.values))
        low, high = np.maximum(0, center - width // 2), np.minimum(len(center), center + (width + 1) // 2)
        total = np.concatenate([[0.0], np.cumsum(self.values)])
        return Curve(self.steps, (total[high] - total[low]) / (high - low))


def find_trainer_state(folder: str | os.PathLike) -> Path | None:
    """The `trainer_state.json` at the top of a training folder, or else in its latest `checkpoint-*`, if any."""
    folder = Path(folder)
    if (folder / STATE_FILE).exists():
        return folder / STATE_FILE
    states = [path for path in folder.glob(f"checkpoint-*/{STATE_FILE}") if path.parent.name[11:].isdigit()]
    return max(states, key=lambda path: int(path.parent.name[11:]), default=None)


def read_log_history(path: str | os.PathLike) -> list[dict[str, Any]]:
    """Log history of a `trainer_state.json`: entries with `step` and some logged quantities."""
    with open(path, encoding="utf-8") as file:
        return json.load(file)["log_history"]


def curve(log_history: Sequence[dict[str, Any]], key: str) -> Curve | None:
    """
    The finite values of one quantity; `None` if there are none.

    Args:
        log_history (`Sequence[dict[str, Any]]`):
            Entries with `step` and logged quantities.
        key (`str`):
            Name of the quantity, for example `"coda/mean_w_easy"`.
    """
    # A step that was logged twice (a run resumed from an earlier checkpoint) counts as it was the last time.
    logged = {entry["step"]: entry[key] for entry in log_history if isinstance(entry.get(key), int | float)}
    points = sorted((step, value) for step, value in logged.items() if np.isfinite(value))
    if not points:
        return None
    steps, values = zip(*points, strict=True)
    return Curve(np.array(steps), np.array(values, dtype=float))


def base_reward_key(log_history: Sequence[dict[str, Any]]) -> str | None:
    """Name of the unshaped reward: `coda/mean_score`, or the mean of TRL's first reward function, if logged."""
    names = {name: None for entry in log_history for name in entry}
    if "coda/mean_score" in names:
        return "coda/mean_score"
    rewards = (name for name in names if re.fullmatch(r"rewards/[^/]+/mean", name) and SHAPING_REWARD not in name)
    return next(rewards, None)


def evaluation_histories(log_history: Sequence[dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Logs of evaluations during training, by evaluation set (`""` if there is only one), without `eval_`."""
    histories: dict[str, list[dict[str, Any]]] = {}
    for entry in log_history:
        logged = {name.removeprefix("eval_"): value for name, value in entry.items() if name.startswith("eval_")}
        sets = [name[: -len("runtime")].rstrip("_") for name in logged if name.endswith("runtime")]
        if sets:
            histories.setdefault(sets[0], []).append({"step": entry["step"], **logged})
    return histories
