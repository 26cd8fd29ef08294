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
        steps (`np.ndarray` of shape `(T,)`):
            Optimiser steps, ascending.
        values (`np.ndarray` of shape `(T,)`):
            What was logged then.
    """

    steps: np.ndarray
    values: np.ndarray

    def smoothed(self, width: int) -> "Curve":
        """
        Centred moving average, for curves too ragged to read.

        Args:
            width (`int`):
                Number of logged points averaged; near the ends, as many as there are.
        """
        ones = np.ones(width)
        total = np.convolve(self.values, ones, mode="same")
        return Curve(self.steps, total / np.convolve(np.ones(len(self.values)), ones, mode="same"))


def find_trainer_state(folder: str | os.PathLike) -> Path | None:
    """
    The most complete `trainer_state.json` of a training folder.

    Args:
        folder (`str` or `os.PathLike`):
            Output folder of a trainer.

    Returns:
        `Path` or `None`: The one at the top, or else in the latest `checkpoint-*`; `None` if there is none.
    """
    folder = Path(folder)
    if (folder / STATE_FILE).exists():
        return folder / STATE_FILE
    states = [path for path in folder.glob(f"checkpoint-*/{STATE_FILE}") if path.parent.name[11:].isdigit()]
    return max(states, key=lambda path: int(path.parent.name[11:]), default=None)


def read_log_history(path: str | os.PathLike) -> list[dict[str, Any]]:
    """
    Reads the log history of a `trainer_state.json`.

    Args:
        path (`str` or `os.PathLike`):
            The file.

    Returns:
        `list[dict[str, Any]]`: Its entries, each with `step` and some logged quantities.
    """
    with open(path, encoding="utf-8") as file:
        return json.load(file)["log_history"]


def curve(log_history: Sequence[dict[str, Any]], key: str) -> Curve | None:
    """
    One quantity of a log history.

    Args:
        log_history (`Sequence[dict[str, Any]]`):
            Entries with `step` and logged quantities.
        key (`str`):
            Name of the quantity, for example `"coda/mean_w_easy"`.

    Returns:
        `Curve` or `None`: Its course, leaving out values that are not finite; `None` if it was never logged.

    Example:

    ```python
    >>> from coda_trl.analysis import curve
    >>> log_history = [{"step": 1, "reward": 0.5}, {"step": 2, "eval_reward": 0.6}, {"step": 2, "reward": 0.7}]
    >>> curve(log_history, "reward").values
    array([0.5, 0.7])

    ```
    """
    # A step that was logged twice (a run resumed from an earlier checkpoint) counts as it was the last time.
    logged = {entry["step"]: entry[key] for entry in log_history if isinstance(entry.get(key), int | float)}
    points = sorted((step, value) for step, value in logged.items() if np.isfinite(value))
    if not points:
        return None
    steps, values = zip(*points, strict=True)
    return Curve(np.array(steps), np.array(values, dtype=float))


def base_reward_key(log_history: Sequence[dict[str, Any]]) -> str | None:
    """
    Name under which the unshaped reward was logged: `coda/mean_score`, or the mean of TRL's first reward function.

    Args:
        log_history (`Sequence[dict[str, Any]]`):
            Entries of a log history.

    Returns:
        `str` or `None`: The name, or `None` if no reward was logged.
    """
    names = {name: None for entry in log_history for name in entry}
    if "coda/mean_score" in names:
        return "coda/mean_score"
    rewards = (name for name in names if re.fullmatch(r"rewards/[^/]+/mean", name) and SHAPING_REWARD not in name)
    return next(rewards, None)


def evaluation_keys(log_history: Sequence[dict[str, Any]]) -> dict[str, dict[str, str]]:
    """
    Names of what TRL's evaluation during training logged, by evaluation set.

    With one evaluation set the names are `eval_reward` and `eval_completions/mean_length`; with several, the set
    stands after `eval_`.

    Args:
        log_history (`Sequence[dict[str, Any]]`):
            Entries of a log history.

    Returns:
        `dict[str, dict[str, str]]`: For every set (`""` if there is only one), the names of its `reward` and `length`,
        as far as they were logged.
    """
    found: dict[str, dict[str, str]] = {}
    for name in {name: None for entry in log_history for name in entry}:
        for quantity, ending in (("reward", "reward"), ("length", "completions/mean_length")):
            match = re.fullmatch(rf"eval_(?:(.+)_)?{ending}", name)
            if match:
                found.setdefault(match[1] or "", {})[quantity] = name
    return found
