"""Difficulty-aware length shaping as pure functions of tensors: CODA and the baselines it is compared with.

One call shapes a batch of groups, without a loop over them. Read it beside Section 3 of the CODA paper
(https://huggingface.co/papers/2603.08659): the success rate of a group, its two gates, the relative length of every
rollout, and the term that is added to the base reward.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from .shaping_checks import LengthStats, Method, check_batch, check_parameters

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
            Sigmoid of the group-normalised length, in (0, 1); 0.5 if the group has no spread to normalise with (one
            rollout, equal lengths, fewer than two correct rollouts under `length_stats="correct"`). NaN where the base
            reward is NaN.
        success_rate (`torch.Tensor` of shape `(P,)`):
            Share of correct rollouts among the scorable ones, in [0, 1]. NaN for a group without a scorable rollout.
        w_easy, w_hard (`torch.Tensor` of shape `(P,)`):
            CODA's gates, in [0, 1]. Every method returns them, but only `"coda"` uses them.
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
    method: Method = "coda",
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
    linear_weight: float = 0.25,
    alp_beta: float = 1e-7,
    gr3_alpha: float = 0.33,
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
    - `"linear"`: \\( r_i - w s \frac{L_i}{\max L} \\), the pass-rate penalty of
      [prime-rl](https://github.com/PrimeIntellect-ai/prime-rl) on output tokens. Acts on wrong rollouts too, in groups
      with a correct one.
    - `"alp"`: \\( r_i - \beta \max(s, \frac{1}{G}) L_i \\), from [ALP](https://huggingface.co/papers/2506.05256). Acts
      on wrong rollouts too, even where none is correct.
    - `"gr3"`: \\( r_i \cdot \frac{1}{1 + \alpha L_i / \mathrm{mean}(L)} \\), from
      [GR3](https://huggingface.co/papers/2603.10535).

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
            One of the above.
        alpha, beta, ..., gr3_alpha:
            Parameters of the methods, explained by [`CodaGRPOConfig`], where the method precedes most names
            (`coda_alpha`).
        n_gold (`torch.Tensor` of shape `(P*G,)`, *optional*):
            L1: token budget of each rollout. Required.
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
    parameters = {
        "alpha": alpha, "beta": beta, "tau_easy": tau_easy, "tau_hard": tau_hard,
        "bonus_on_incorrect": bonus_on_incorrect, "gamma": gamma, "tau": tau, "zeta": zeta, "window": window,
        "eta": eta, "linear_weight": linear_weight, "alp_beta": alp_beta, "gr3_alpha": gr3_alpha,
    }  # fmt: skip
    check_parameters(method, length_stats, **parameters)
    rewards = rewards.to(torch.promote_types(rewards.dtype, torch.float32))
    check_batch(rewards, lengths, num_generations, method, n_gold)

    reward = rewards.view(-1, num_generations)
    length = lengths.to(reward).view_as(reward)  # also its device and type
    correct, scorable = reward == 1, ~reward.isnan()
    s = correct.sum(dim=1, keepdim=True) / scorable.sum(dim=1, keepdim=True, dtype=reward.dtype)  # 0 / 0 = NaN
    group = Group(
        correct=correct,
        scorable=scorable,
        length=length,
        relative_length=_relative_length(length, correct if length_stats == "correct" else scorable, unbiased),
        success_rate=s,
        # The paper's Eq. 3. Of a group that cannot be scored, s is NaN, and both gates are shut.
        w_easy=torch.where(s > tau_easy, (s - tau_easy) / (1 - tau_easy), 0),
        w_hard=torch.where(s < tau_hard, (tau_hard - s) / tau_hard, 0),
        n_gold=None if n_gold is None else n_gold.to(reward).view_as(reward),
    )
    delta = METHODS[method](group, **parameters)
    delta, relative_length = (torch.where(scorable, each, torch.nan) for each in (delta, group.relative_length))
    return ShapedRewards(
        rewards=(reward + delta).flatten(),
        delta=delta.flatten(),
        relative_length=relative_length.flatten(),
        success_rate=group.success_rate.flatten(),
        w_easy=group.w_easy.flatten(),
        w_hard=group.w_hard.flatten(),
    )


@dataclass(frozen=True)
class Group:
    """What a method may use, for `P` groups of `G` rollouts at once: shape `(P, G)`, or `(P, 1)`."""

    correct: torch.Tensor  # whether a rollout is right
    scorable: torch.Tensor  # whether it can be scored
    length: torch.Tensor  # tokens, also of rollouts that cannot be scored: leave them out of every statistic
    relative_length: torch.Tensor  # of the sigmoid, in (0, 1)
    success_rate: torch.Tensor  # `(P, 1)`; NaN for a group without a scorable rollout
    w_easy: torch.Tensor  # `(P, 1)`
    w_hard: torch.Tensor  # `(P, 1)`
    n_gold: torch.Tensor | None  # token budgets


# A method is a function of a group and of the parameters it names. It returns the shaping term, shape `(P, G)`, whose
# entries for rollouts that cannot be scored are ignored. Formulas and sources are in `shape_rewards`.


def _none(group: Group, **_) -> torch.Tensor:
    return torch.zeros_like(group.length)


def _coda(group: Group, *, alpha: float, beta: float, bonus_on_incorrect: bool, **_) -> torch.Tensor:
    bonus = beta * group.w_hard * group.relative_length
    penalty = alpha * group.w_easy * group.relative_length
    return torch.where(group.correct, bonus - penalty, bonus if bonus_on_incorrect else 0)


def _vlp(group: Group, *, gamma: float, **_) -> torch.Tensor:
    return torch.where(group.correct, -gamma * group.relative_length, 0)


def _asrr(group: Group, *, tau: float, zeta: float, window: float, **_) -> torch.Tensor:
    gate = (group.success_rate - tau + EPSILON).clamp(min=0) / (1 - tau + EPSILON)
    excess = group.length - _shortest(group.length, group.correct)  # -inf where none is correct: no penalty
    return -zeta * gate * (excess / window).clamp(0, 1)


def _l1_exact(group: Group, *, eta: float, **_) -> torch.Tensor:
    return -eta * (group.n_gold - group.length).abs()


def _l1_max(group: Group, *, eta: float, **_) -> torch.Tensor:
    share = (1 + (eta * (group.n_gold - group.length)).clamp(-1, 1)) / 2
    return torch.where(group.correct, share - 1, 0)


def _linear(group: Group, *, linear_weight: float, **_) -> torch.Tensor:
    longest = torch.where(group.scorable, group.length, 0).amax(dim=1, keepdim=True)
    return -linear_weight * group.success_rate * group.length / longest.clamp(min=1)


def _alp(group: Group, *, alp_beta: float, **_) -> torch.Tensor:
    one_solved = 1 / group.scorable.sum(dim=1, keepdim=True, dtype=group.length.dtype)
    return -alp_beta * torch.maximum(group.success_rate, one_solved) * group.length


def _gr3(group: Group, *, gr3_alpha: float, **_) -> torch.Tensor:
    excess = gr3_alpha * group.length / _mean(group.length, group.scorable).clamp(min=EPSILON)
    return torch.where(group.correct, 1 / (1 + excess) - 1, 0)


METHODS: dict[Method, Callable[..., torch.Tensor]] = {
    "none": _none, "coda": _coda, "vlp": _vlp, "asrr": _asrr, "l1_exact": _l1_exact, "l1_max": _l1_max,
    "linear": _linear, "alp": _alp, "gr3": _gr3,
}  # fmt: skip


def _relative_length(length: torch.Tensor, counted: torch.Tensor, unbiased: bool) -> torch.Tensor:
    """Sigmoid of the lengths, normalised by mean and deviation of the counted rollouts. 0.5 without a spread."""
    # Measured from the shortest counted rollout, as float32 would round the mean of long, equal lengths.
    length = length - _shortest(length, counted)
    deviation = length - _mean(length, counted)
    squares = torch.where(counted, deviation.square(), 0).sum(dim=1, keepdim=True)
    std = (squares / (counted.sum(dim=1, keepdim=True) - int(unbiased))).sqrt()  # of one rollout: 0 / 0 = NaN
    return torch.sigmoid(torch.where(std > 0, deviation / (std + EPSILON), 0))


def _mean(length: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Mean length of each group's counted rollouts. NaN if there is none."""
    return torch.where(counted, length, 0).sum(dim=1, keepdim=True) / counted.sum(dim=1, keepdim=True)


def _shortest(length: torch.Tensor, counted: torch.Tensor) -> torch.Tensor:
    """Shortest length of each group's counted rollouts. Infinite if there is none."""
    return torch.where(counted, length, torch.inf).amin(dim=1, keepdim=True)
