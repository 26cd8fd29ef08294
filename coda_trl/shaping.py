"""Difficulty-aware length shaping as pure functions of tensors: CODA and the baselines it is compared with.

One call shapes a whole batch of groups, without a loop over them. Read it beside Section 3 of the CODA paper
(https://huggingface.co/papers/2603.08659): the success rate of a group, its two gates, the relative length of every
rollout, and the term that is added to the base reward.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch

LengthShaping = Literal["none", "coda", "vlp", "asrr", "l1_exact", "l1_max"]
LengthStats = Literal["group", "correct"]

EPSILON = 1e-6  # added to the standard deviation, and the epsilon of ASRR's gate


@dataclass(frozen=True)
class ShapedRewards:
    """
    What [`shape_rewards`] returns, for `P` groups of `G` rollouts.

    Args:
        rewards (`torch.Tensor` of shape `(P*G,)`):
            Shaped rewards: base reward plus `delta`. NaN where the base reward is NaN.
        delta (`torch.Tensor` of shape `(P*G,)`):
            Shaping term. NaN where the base reward is NaN.
        relative_length (`torch.Tensor` of shape `(P*G,)`):
            Sigmoid of the group-normalised length, in (0, 1); 0.5 for the whole group where it offers no spread to
            normalise with (one rollout, equal lengths, fewer than two correct rollouts under
            `length_stats="correct"`). NaN where the base reward is NaN.
        success_rate (`torch.Tensor` of shape `(P,)`):
            Share of correct rollouts among the scorable ones, in [0, 1]. NaN for a group without a scorable rollout.
        w_easy (`torch.Tensor` of shape `(P,)`):
            CODA's easy-side gate, in [0, 1]. Given for every method, as it describes the group; only `"coda"` uses it.
        w_hard (`torch.Tensor` of shape `(P,)`):
            CODA's hard-side gate, in [0, 1]. Likewise.
    """

    rewards: torch.Tensor
    delta: torch.Tensor
    relative_length: torch.Tensor
    success_rate: torch.Tensor
    w_easy: torch.Tensor
    w_hard: torch.Tensor


def shape_rewards(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    num_generations: int,
    method: LengthShaping = "coda",
    *,
    alpha: float = 0.2,
    beta: float = 0.2,
    tau_easy: float = 0.75,
    tau_hard: float = 0.25,
    length_stats: LengthStats = "group",
    bonus_on_incorrect: bool = False,
    gamma: float = 0.1,
    tau: float = 0.75,
    zeta: float = 0.5,
    window: float = 2048,
    eta: float = 3e-4,
    n_gold: torch.Tensor | None = None,
    unbiased: bool = True,
) -> ShapedRewards:
    r"""
    Shapes 0/1 rewards by the length of the rollouts.

    With base reward \\( r_i \\), length \\( L_i \\), success rate \\( s = \frac{1}{G}\sum_i r_i \\) and relative
    length \\( f_i = \sigma\left(\frac{L_i - \mathrm{mean}(L)}{\mathrm{std}(L) + \epsilon}\right) \\), the shaped
    reward is

    - `"none"`: \\( r_i \\), plain GRPO.
    - `"coda"`: \\( r_i (1 + (\beta w^{hard} - \alpha w^{easy}) f_i) \\) with
      \\( w^{easy} = [\frac{s - \tau_{easy}}{1 - \tau_{easy}}]_+ \\) and
      \\( w^{hard} = [\frac{\tau_{hard} - s}{\tau_{hard}}]_+ \\), the paper's Eq. 4.
    - `"vlp"`: \\( r_i (1 - \gamma f_i) \\), the paper's Appendix B.
    - `"asrr"`: \\( r_i - \zeta \frac{[s - \tau + \epsilon]_+}{1 - \tau + \epsilon}
      \mathrm{clip}(\frac{L_i - L_{shortest\ correct}}{window}, 0, 1) \\), the paper's Appendix B. Acts on wrong
      rollouts too.
    - `"l1_exact"`: \\( r_i - \eta |n_{gold} - L_i| \\), the paper's Appendix C. Acts on wrong rollouts too.
    - `"l1_max"`: \\( r_i \cdot \frac{1}{2}(1 + \mathrm{clip}(\eta (n_{gold} - L_i), -1, 1)) \\), as in the code that
      the authors of L1 published; their paper's slope is twice that (pass `2 * eta` for it).

    NaN rewards are rollouts that cannot be scored. They count in no statistic and stay NaN. Half precision is computed
    and returned in float32.

    Args:
        rewards (`torch.Tensor` of shape `(P*G,)`):
            Base rewards, each 0, 1 or NaN, the rollouts of a group contiguous.
        lengths (`torch.Tensor` of shape `(P*G,)`):
            Tokens that the model generated in each rollout.
        num_generations (`int`):
            Group size `G`.
        method (`str`, *optional*, defaults to `"coda"`):
            One of `"none"`, `"coda"`, `"vlp"`, `"asrr"`, `"l1_exact"`, `"l1_max"`.
        alpha (`float`, *optional*, defaults to `0.2`):
            CODA: strength of the easy-side penalty, in [0, 1] so that a correct rollout never earns less than 0.
        beta (`float`, *optional*, defaults to `0.2`):
            CODA: strength of the hard-side bonus, at least 0.
        tau_easy (`float`, *optional*, defaults to `0.75`):
            CODA: success rate above which a group is easy. 1 switches the penalty off.
        tau_hard (`float`, *optional*, defaults to `0.25`):
            CODA: success rate below which a group is hard. 0 switches the bonus off.
        length_stats (`str`, *optional*, defaults to `"group"`):
            CODA and VLP: whose lengths give mean and standard deviation: all scorable rollouts of the group
            (`"group"`, the paper) or the correct ones (`"correct"`, the published code; a single correct rollout has
            relative length 0.5).
        bonus_on_incorrect (`bool`, *optional*, defaults to `False`):
            CODA: give the hard-side bonus to wrong rollouts as well (the paper's ablation; lengths run away).
        gamma (`float`, *optional*, defaults to `0.1`):
            VLP: strength of the penalty, in [0, 1].
        tau (`float`, *optional*, defaults to `0.75`):
            ASRR: success rate above which lengths are penalised.
        zeta (`float`, *optional*, defaults to `0.5`):
            ASRR: strength of the penalty, at least 0.
        window (`float`, *optional*, defaults to `2048`):
            ASRR: tokens beyond the shortest correct rollout at which the penalty is full.
        eta (`float`, *optional*, defaults to `3e-4`):
            L1: reward per token of distance from the budget, at least 0.
        n_gold (`torch.Tensor` of shape `(P*G,)`, *optional*):
            L1: token budget of each rollout. Required by `"l1_exact"` and `"l1_max"`.
        unbiased (`bool`, *optional*, defaults to `True`):
            Whether the variance is divided by the count less one (the published code) or by the count.

    Returns:
        [`ShapedRewards`]

    Raises:
        ValueError: If shapes do not agree, a reward is not 0, 1 or NaN, a length is negative or not finite, or a
            parameter is out of range.

    Example:

    ```python
    >>> import torch
    >>> from coda_trl.shaping import shape_rewards

    >>> rewards = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    >>> lengths = torch.tensor([100, 200, 300, 400, 100, 200, 300, 400])
    >>> shaped = shape_rewards(rewards, lengths, num_generations=4)
    >>> shaped.success_rate
    tensor([1., 0.])
    >>> shaped.rewards.view(2, 4)  # all correct: the longer, the less; none correct: nothing to shape
    tensor([[0.9523, 0.9191, 0.8809, 0.8477],
            [0.0000, 0.0000, 0.0000, 0.0000]])

    ```
    """
    check_parameters(
        method, alpha=alpha, beta=beta, tau_easy=tau_easy, tau_hard=tau_hard, length_stats=length_stats,
        gamma=gamma, tau=tau, zeta=zeta, window=window, eta=eta,
    )  # fmt: skip
    dtype = torch.promote_types(rewards.dtype, torch.float32)
    rewards = rewards.to(dtype)
    _check_batch(rewards, lengths, num_generations, method, n_gold)

    reward = rewards.view(-1, num_generations)
    length = lengths.to(reward.device, dtype).view(-1, num_generations)
    # Arithmetic with zeros, ones and NaN takes the place of masks, which are several times as slow on a CPU.
    base = reward.nan_to_num(nan=0.0)  # 1 for correct rollouts, 0 for all others
    blank = reward - base  # NaN for rollouts that cannot be scored, 0 for all others
    scorable = (1 + blank).nan_to_num(nan=0.0)

    success_rate = base.sum(dim=1) / scorable.sum(dim=1)  # 0 / 0 = NaN for a group without a scorable rollout
    w_easy, w_hard = _gates(success_rate, tau_easy, tau_hard)
    relative_length = _relative_length(length, base if length_stats == "correct" else scorable, unbiased)

    if method == "none":
        delta = torch.zeros_like(base)
    elif method == "coda":
        bonus, penalty = beta * w_hard[:, None], alpha * w_easy[:, None]
        if bonus_on_incorrect:
            delta = (bonus * scorable - penalty * base) * relative_length
        else:
            delta = (bonus - penalty) * base * relative_length
    elif method == "vlp":
        delta = -gamma * base * relative_length
    elif method == "asrr":
        gate = (success_rate.nan_to_num(nan=0.0) - tau + EPSILON).clamp(min=0) / (1 - tau + EPSILON)
        excess = length - _shortest(length, base)  # -inf where none is correct: no penalty
        delta = -zeta * gate[:, None] * (excess / window).clamp(0, 1)
    else:
        budget = n_gold.to(reward.device, dtype).view(-1, num_generations)
        if method == "l1_exact":
            delta = -eta * (budget - length).abs()
        else:
            delta = base * ((eta * (budget - length)).clamp(-1, 1) - 1) / 2

    return ShapedRewards(
        rewards=(reward + delta).flatten(),
        delta=(blank + delta).flatten(),
        relative_length=(blank + relative_length).flatten(),
        success_rate=success_rate,
        w_easy=w_easy,
        w_hard=w_hard,
    )


def _gates(success_rate: torch.Tensor, tau_easy: float, tau_hard: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Both gates of every group, the paper's Eq. 3. A threshold at its end (1 or 0) closes its gate for good."""
    s = success_rate.nan_to_num(nan=tau_easy)  # nothing is known of an unscorable group: neither easy nor hard
    w_easy = (s - tau_easy).clamp(min=0) / (1 - tau_easy) if tau_easy < 1 else torch.zeros_like(s)
    w_hard = (tau_hard - s).clamp(min=0) / tau_hard if tau_hard > 0 else torch.zeros_like(s)
    return w_easy, w_hard


def _shortest(length: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Shortest length of each group among the rollouts whose `counted` is 1 and not 0. Infinite if there is none."""
    return (length - counted.log()).amin(dim=1, keepdim=True)  # log 0 = -inf


def _relative_length(length: torch.Tensor, counted: torch.Tensor, unbiased: bool) -> torch.Tensor:
    """Sigmoid of the lengths, normalised by mean and deviation of the rollouts whose `counted` is 1 and not 0."""
    count = counted.sum(dim=1, keepdim=True)
    # Measured from the shortest counted rollout, float32 tells long rollouts apart that differ by a token or by none.
    length = length - _shortest(length, counted).nan_to_num(posinf=0.0)
    mean = (length * counted).sum(dim=1, keepdim=True) / count.clamp(min=1)
    deviation = length - mean
    squares = (deviation.square() * counted).sum(dim=1, keepdim=True)
    std = (squares / (count - int(unbiased)).clamp(min=1)).sqrt()
    return torch.sigmoid(deviation * std.sign() / (std + EPSILON))  # sign 0: no spread, no ranking


def check_parameters(
    method: str,
    *,
    alpha: float,
    beta: float,
    tau_easy: float,
    tau_hard: float,
    length_stats: str,
    gamma: float,
    tau: float,
    zeta: float,
    window: float,
    eta: float,
    names: dict[str, str] | None = None,
) -> None:
    """
    Checks the parameters of [`shape_rewards`].

    Args:
        names (`dict[str, str]`, *optional*):
            What the user calls a parameter, where that is another name ([`CodaGRPOConfig`] prefixes them).

    Raises:
        ValueError: Naming the parameter, its value and the range, for the first one out of range.
    """
    names = names or {}

    def fail(name: str, value: object, allowed: str) -> None:
        raise ValueError(f"`{names.get(name, name)}` is {value!r}, but must be {allowed}.")

    if method not in get_args(LengthShaping):
        fail("method", method, f"one of {', '.join(map(repr, get_args(LengthShaping)))}")
    if length_stats not in get_args(LengthStats):
        fail("length_stats", length_stats, f"one of {', '.join(map(repr, get_args(LengthStats)))}")
    # Written as `not (lower <= value <= upper)`, NaN fails as well.
    for name, value in {"alpha": alpha, "gamma": gamma, "tau_easy": tau_easy, "tau_hard": tau_hard}.items():
        if not 0 <= value <= 1:
            fail(name, value, "between 0 and 1")
    for name, value in {"beta": beta, "zeta": zeta, "eta": eta}.items():
        if not 0 <= value < float("inf"):
            fail(name, value, "at least 0 and finite")
    if not 0 <= tau < 1:
        fail("tau", tau, "at least 0 and below 1")
    if not 0 < window < float("inf"):
        fail("window", window, "above 0 and finite (in tokens)")
    if tau_hard > tau_easy:
        easy = names.get("tau_easy", "tau_easy")
        fail("tau_hard", tau_hard, f"at most `{easy}` ({tau_easy!r}): a group cannot be easy and hard at once")


def _check_batch(
    rewards: torch.Tensor, lengths: torch.Tensor, num_generations: int, method: str, n_gold: torch.Tensor | None
) -> None:
    if num_generations < 1:
        raise ValueError(f"`num_generations` is {num_generations!r}, but must be at least 1.")
    if rewards.dim() != 1:
        raise ValueError(f"`rewards` has shape {tuple(rewards.shape)}, but must be one-dimensional: (groups * size,).")
    if len(rewards) % num_generations:
        raise ValueError(
            f"`rewards` has {len(rewards)} entries, which is not a multiple of `num_generations` ({num_generations}): "
            "pass whole groups."
        )
    if lengths.shape != rewards.shape:
        raise ValueError(f"`lengths` has shape {tuple(lengths.shape)}, but `rewards` has {tuple(rewards.shape)}.")
    # Each of the two sums is 0 if all is well. Only if not is it worth the time to look for the culprit.
    values = rewards.nan_to_num(nan=0.0)
    if (values * (1 - values)).abs().sum() != 0:
        invalid = (rewards != 0) & (rewards != 1) & ~rewards.isnan()
        raise ValueError(
            f"`rewards` holds {rewards[invalid][0].item()!r}, but length shaping is defined for correctness rewards: "
            "0, 1, or NaN where a rollout cannot be scored."
        )
    if (lengths.abs() - lengths).sum() != 0:  # NaN if a length is infinite or NaN, which is not 0 either
        invalid = ~((lengths >= 0) & (lengths < torch.inf))
        raise ValueError(f"`lengths` holds {lengths[invalid][0].item()!r}, but must be token counts (0 or more).")
    if method in ("l1_exact", "l1_max"):
        if n_gold is None:
            raise ValueError(f"`n_gold` is missing: method {method!r} needs the token budget of every rollout.")
        if n_gold.shape != rewards.shape:
            raise ValueError(f"`n_gold` has shape {tuple(n_gold.shape)}, but `rewards` has {tuple(rewards.shape)}.")
        valid = (n_gold > 0) & (n_gold < torch.inf)
        if not valid.all():
            raise ValueError(f"`n_gold` holds {n_gold[~valid][0].item()!r}, but must be token budgets (above 0).")
