"""Checks of what `shape_rewards` takes: choices, ranges of parameters, shapes and values of tensors."""

from math import inf
from numbers import Real
from typing import Literal, get_args

import torch

Method = Literal["none", "coda", "vlp", "asrr", "l1_exact", "l1_max", "linear", "alp", "gr3"]
LengthStats = Literal["group", "correct"]
NEED_BUDGET = ("l1_exact", "l1_max")

# What every parameter must be, in words and as a test that NaN fails as well.
_SHARE = ("between 0 and 1", lambda value: 0 <= value <= 1)
_STRENGTH = ("at least 0 and finite", lambda value: 0 <= value < inf)
PARAMETERS = {
    "alpha": _SHARE,
    "beta": _STRENGTH,
    "tau_easy": _SHARE,
    "tau_hard": _SHARE,
    "bonus_on_incorrect": ("true or false", lambda value: value in (False, True)),
    "gamma": _SHARE,
    "tau": ("at least 0 and below 1", lambda value: 0 <= value < 1),
    "zeta": _STRENGTH,
    "window": ("above 0 and finite (in tokens)", lambda value: 0 < value < inf),
    "eta": _STRENGTH,
    "linear_weight": _STRENGTH,
    "alp_beta": _STRENGTH,
    "gr3_alpha": _STRENGTH,
}


def check_parameters(method: str, length_stats: str, *, names: dict[str, str] | None = None, **parameters) -> None:
    """Raises a `ValueError` for the first parameter out of range. `names` has the user's names, if these differ."""
    names = names or {}

    def fail(name: str, value: object, allowed: str) -> None:
        raise ValueError(f"`{names.get(name, name)}` is {value!r}, but must be {allowed}.")

    for name, value, choices in (("method", method, Method), ("length_stats", length_stats, LengthStats)):
        if value not in get_args(choices):
            fail(name, value, f"one of {', '.join(map(repr, get_args(choices)))}")
    for name, value in parameters.items():
        if not isinstance(value, Real):
            fail(name, value, "a number")
        allowed, is_allowed = PARAMETERS[name]
        if not is_allowed(value):
            fail(name, value, allowed)
    tau_easy, tau_hard = parameters["tau_easy"], parameters["tau_hard"]
    if tau_hard > tau_easy:
        easy = names.get("tau_easy", "tau_easy")
        fail("tau_hard", tau_hard, f"at most `{easy}` ({tau_easy!r}): a group cannot be easy and hard at once")


def check_batch(
    rewards: torch.Tensor, lengths: torch.Tensor, num_generations: int, method: str, n_gold: torch.Tensor | None
) -> None:
    """Raises a `ValueError` that names the tensor of [`shape_rewards`], and the value or shape that is wrong."""
    if num_generations < 1:
        raise ValueError(f"`num_generations` is {num_generations!r}, but must be at least 1.")
    if rewards.dim() != 1:
        raise ValueError(f"`rewards` has shape {tuple(rewards.shape)}, but must be one-dimensional: (groups * size,).")
    if len(rewards) % num_generations:
        raise ValueError(
            f"`rewards` has {len(rewards)} entries, which is not a multiple of `num_generations` ({num_generations}): "
            "pass complete groups."
        )
    if lengths.shape != rewards.shape:
        raise ValueError(f"`lengths` has shape {tuple(lengths.shape)}, but `rewards` has {tuple(rewards.shape)}.")
    _check_values("rewards", rewards, (rewards == 0) | (rewards == 1) | rewards.isnan(), "0, 1, or NaN (unscorable)")
    _check_values("lengths", lengths, (lengths >= 0) & (lengths < torch.inf), "token counts (0 or more)")
    if method in NEED_BUDGET:
        if n_gold is None:
            raise ValueError(f"`n_gold` is missing: method {method!r} needs the token budget of every rollout.")
        if n_gold.shape != rewards.shape:
            raise ValueError(f"`n_gold` has shape {tuple(n_gold.shape)}, but `rewards` has {tuple(rewards.shape)}.")
        _check_values("n_gold", n_gold, (n_gold > 0) & (n_gold < torch.inf), "token budgets (above 0)")


def _check_values(name: str, values: torch.Tensor, valid: torch.Tensor, allowed: str) -> None:
    if not valid.all():
        raise ValueError(f"`{name}` holds {values[~valid][0].item()!r}, but must be {allowed}.")
