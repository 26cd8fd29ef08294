"""Which reward is shaped, and whether it judges correctness and ever finds an answer right."""

import re
from collections.abc import Collection, Sequence
from typing import Any

import torch

from .rewards import JUDGE_CORRECTNESS

_KNOWN = {*JUDGE_CORRECTNESS, "reasoning_accuracy_reward"}  # the last one is TRL's
_NAMED_SO = re.compile("(?<!in)(accura|correct)", re.IGNORECASE)
_BATCHES_TO_WARN = 3


class RewardError(ValueError):
    """A reward function returned what cannot be trained on."""


def find_correctness_reward(
    names: Sequence[str], chosen: str | None = None, models: Collection[str] = ()
) -> tuple[int, str | None]:
    """
    Index of the reward that is shaped (the chosen one, else the only one known to judge correctness, else the only one
    named so, else the first), and a warning if that is a guess. Reward models (`models`, by name) do not judge it.
    Raises a `ValueError` if the chosen one is none of them or several.
    """
    listed = ", ".join(names)
    if chosen is not None:
        if names.count(chosen) != 1:
            raise ValueError(
                f"`correctness_reward` is {chosen!r}, but must be the name of one of the reward functions: {listed}."
            )
        return names.index(chosen), None
    functions = [name for name in names if name not in models] or names
    known = [name for name in functions if name in _KNOWN]
    if len(known) == 1 or len(functions) == 1:
        return names.index([*known, *functions][0]), None
    named_so = [name for name in functions if _NAMED_SO.search(name)]
    found = named_so[0] if len(named_so) == 1 else functions[0]
    return names.index(found), (
        f"Of the reward functions ({listed}) {found!r} is shaped by length. If another one judges correctness, wrong "
        "answers are pushed to be short: set `correctness_reward` to its name."
    )


def check_correctness(rewards: torch.Tensor, name: str) -> None:
    """Raises a [`RewardError`] if the rewards `(N,)` of the function `name` are not 0, 1 or NaN."""
    if says_right_or_wrong(rewards):
        return
    value = min(set(rewards[~rewards.isnan()].tolist()) - {0, 1})
    raise RewardError(
        f"The reward function {name!r} returned {value:g}, but length shaping needs 1 (right), 0 (wrong) or "
        "None (cannot be judged). Let it return these, with its size as its weight in `reward_weights`; or set "
        f"`correctness_reward` to the name of one that does, or `length_shaping` to 'none'."
    )


def says_right_or_wrong(rewards: torch.Tensor) -> bool:
    """Whether all rewards are 0, 1 or NaN."""
    return bool(((rewards == 0) | (rewards == 1) | rewards.isnan()).all())


class FirstVerdicts:
    """Warns once if the reward function `name` has found no completion right in the first batches."""

    def __init__(self, name: str):
        self._name, self._batches, self._found_right, self._scored = name, 0, False, False

    def look(self, rewards: torch.Tensor, truncated: torch.Tensor, example: dict[str, Any]) -> str | None:
        """
        The warning, if any, after a batch: its rewards `(N,)`, which of its completions the length limit cut off
        `(N,)`, and a row of the data set of which it is made.
        """
        self._found_right |= bool((rewards == 1).any())
        self._scored |= not rewards.isnan().all()
        self._batches += 1
        if self._batches != _BATCHES_TO_WARN or self._found_right:
            return None
        if self._scored:
            cut_off = truncated.float().mean()
            remedy = (
                f"{cut_off:.0%} of the last batch were cut off: raise `max_completion_length`."
                if cut_off > 0.9
                else "Does it read what the model writes (`accuracy_reward` needs a `\\boxed{}`)? "
                "`log_completions=True` writes answers and rewards into `completions/`."
            )
            return (
                f"The reward function {self._name!r} found no completion of the first {_BATCHES_TO_WARN} batches "
                f"right. {remedy}"
            )
        gold = f", not {str(example['solution'])[:60]!r}" if "solution" in example else ""
        return (
            f"The reward function {self._name!r} returned None for every completion of the first {_BATCHES_TO_WARN} "
            "batches. `accuracy_reward` does so if it cannot read the right answer: the "
            f"column `solution` has to hold the answer alone, such as '72'{gold}."
        )
