"""What CODA's gates and its factor r are for: a length penalty without them, on the same model.

`ungated` is r - alpha sigmoid(z) with CODA's alpha and z, so length costs in all-wrong groups too.
Dividing advantages by the group's deviation (`scale_rewards: group`) makes the most of the small differences there.
"""

from collections.abc import Sequence
from itertools import groupby
from typing import Any

import torch

from coda_trl.shaping import EPSILON

STEPS = 40
ALPHA = 0.2  # as `coda_alpha` in the recipes
UNGATED = {"reward_funcs": ["accuracy_reward", "experiments.math.collapse.ungated_penalty"]}
# Name of a run: its recipe, and what differs from that. CODA with `scale_rewards: none` is the matrix's own run.
COLLAPSE: dict[str, tuple[str, dict[str, Any]]] = {
    "coda_group": ("coda", {"scale_rewards": "group"}),
    "ungated": ("grpo", UNGATED),
    "ungated_group": ("grpo", UNGATED | {"scale_rewards": "group"}),
}


def ungated_penalty(prompts: Sequence[Any], completion_ids: Sequence[Sequence[int]], **kwargs: Any) -> list[float]:
    """
    CODA's penalty for length without its gate and its factor r.

    Args:
        prompts (`list`):
            Prompt of every rollout; those of a group follow each other.
        completion_ids (`list[list[int]]`):
            Generated tokens.

    Returns:
        `list[float]`: -alpha sigmoid(z), where z is the length in standard deviations from the group's mean.
    """
    penalties: list[float] = []
    for _, group in groupby(range(len(prompts)), key=lambda index: str(prompts[index])):
        lengths = torch.tensor([len(completion_ids[index]) for index in group], dtype=torch.float32)
        z = (lengths - lengths.mean()) / (lengths.std(correction=0) + EPSILON)
        penalties += (-ALPHA * torch.sigmoid(z)).tolist()
    return penalties
