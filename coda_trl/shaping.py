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
            Sigmoid of the group-normalised length, in (0, 1); 0.5 for all of a group where it offers no spread to
            normalise with (one rollout, equal lengths, fewer than two correct rollouts under
            `length_stats="correct"`). NaN where the base reward is NaN.
        success_rate (`torch.Tensor` of shape `(P,)`):
            Share of correct rollouts among the scorable ones, in [0, 1]. NaN for a group without a scorable rollout.
        w_easy, w_hard (`torch.Tensor` of shape `(P,)`):
            CODA's gates, in [0, 1]. Given for every method, as they describe the group; only `"coda"` uses them.
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
        alpha (`float`, *optional*, defaults to `0.2`), beta (`float`, *optional*, defaults to `0.2`):
            CODA: strengths of the easy-side penalty, in [0, 1] so that a correct rollout never earns less than 0, and
            of the hard-side bonus, at least 0.
        tau_easy (`float`, *optional*, defaults to `0.75`), tau_hard (`float`, *optional*, defaults to `0.25`):
            CODA: success rates above which a group is easy, and below which it is hard. At 1 there is no penalty, at 0
            no bonus.
        length_stats (`str`, *optional*, defaults to `"group"`):
            CODA and VLP: whose lengths give mean and standard deviation: all scorable rollouts of the group
            (`"group"`, the paper) or the correct ones (`"correct"`, the published code; a single correct rollout has
            relative length 0.5).
        bonus_on_incorrect (`bool`, *optional*, defaults to `False`):
            CODA: give the hard-side bonus to wrong rollouts as well (the paper's ablation; lengths run away).
        gamma (`float`, *optional*, defaults to `0.1`):
            VLP: strength of the penalty, in [0, 1].
        tau (`float`, *optional*, defaults to `0.75`), zeta (`float`, *optional*, defaults to `0.5`):
            ASRR: success rate above which lengths are penalised, and strength of the penalty, at least 0.
        window (`float`, *optional*, defaults to `2048`):
            ASRR: tokens beyond the shortest correct rollout at which the penalty is full.
        eta (`float`, *optional*, defaults to `3e-4`):
            L1: reward per token of distance from the budget, at least 0.
        n_gold (`torch.Tensor` of shape `(P*G,)`, *optional*):
            L1: token budget of each rollout. Required.
        linear_weight (`float`, *optional*, defaults to `0.25`):
            Linear: what the longest rollout of a group with success rate 1 loses, at least 0.
        alp_beta (`float`, *optional*, defaults to `1e-7`):
            ALP: reward per token at success rate 1, at least 0. The default is the paper's, which is next to nothing
            unless rewards are then divided by the standard deviation of the group. Otherwise take about `0.3` by the
            largest number of tokens.
        gr3_alpha (`float`, *optional*, defaults to `0.33`):
            GR3: strength of the rescaling, at least 0. A correct rollout of mean length gets `1 / (1 + gr3_alpha)`.
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
        "alpha": alpha, "beta": beta, "tau_easy": tau_easy, "tau_hard": tau_hard, "gamma": gamma, "tau": tau,
        "zeta": zeta, "window": window, "eta": eta, "linear_weight": linear_weight, "alp_beta": alp_beta,
        "gr3_alpha": gr3_alpha,
    }  # fmt: skip
    check_parameters(method, length_stats, **parameters)
    dtype = torch.promote_types(rewards.dtype, torch.float32)
    rewards = rewards.to(dtype)
    check_batch(rewards, lengths, num_generations, method, n_gold)

    reward = rewards.view(-1, num_generations)
    length = lengths.to(reward.device, dtype).view(-1, num_generations)
    # Arithmetic with zeros, ones and NaN takes the place of masks, which are several times as slow on a CPU.
    correct = reward.nan_to_num(nan=0.0)
    blank = reward - correct  # NaN for rollouts that cannot be scored, 0 for all others
    scorable = (1 + blank).nan_to_num(nan=0.0)

    success_rate = correct.sum(dim=1) / scorable.sum(dim=1)  # 0 / 0 = NaN for a group without a scorable rollout
    w_easy, w_hard = _gates(success_rate, tau_easy, tau_hard)
    group = Group(
        correct=correct,
        scorable=scorable,
        length=length,
        relative_length=_relative_length(length, correct if length_stats == "correct" else scorable, unbiased),
        success_rate=success_rate.nan_to_num(nan=0.0)[:, None],
        w_easy=w_easy[:, None],
        w_hard=w_hard[:, None],
        n_gold=None if n_gold is None else n_gold.to(reward.device, dtype).view(-1, num_generations),
    )
    delta = METHODS[method](group, bonus_on_incorrect=bonus_on_incorrect, **parameters)
    return ShapedRewards(
        rewards=(reward + delta).flatten(),
        delta=(blank + delta).flatten(),
        relative_length=(blank + group.relative_length).flatten(),
        success_rate=success_rate,
        w_easy=w_easy,
        w_hard=w_hard,
    )


@dataclass(frozen=True)
class Group:
    """All that a method may look at, for `P` groups of `G` rollouts at once: shape `(P, G)`, or `(P, 1)`."""

    correct: torch.Tensor  # base reward: 1 for correct rollouts, 0 for all others
    scorable: torch.Tensor  # 0 for rollouts that cannot be scored, 1 for all others
    length: torch.Tensor  # tokens, also of rollouts that cannot be scored: leave them out of every statistic
    relative_length: torch.Tensor  # of the sigmoid, in (0, 1)
    success_rate: torch.Tensor  # `(P, 1)`; 0 for a group without a scorable rollout
    w_easy: torch.Tensor  # `(P, 1)`
    w_hard: torch.Tensor  # `(P, 1)`
    n_gold: torch.Tensor | None  # token budgets


# A method is a function of a group and of the parameters it names, and returns the shaping term, shape `(P, G)`. What
# it returns for rollouts that cannot be scored does not count. Formulas and sources are in `shape_rewards`.


def _none(group: Group, **_) -> torch.Tensor:
    return torch.zeros_like(group.correct)


def _coda(group: Group, *, alpha: float, beta: float, bonus_on_incorrect: bool, **_) -> torch.Tensor:
    bonus, penalty = beta * group.w_hard, alpha * group.w_easy
    if bonus_on_incorrect:
        return (bonus * group.scorable - penalty * group.correct) * group.relative_length
    return (bonus - penalty) * group.correct * group.relative_length


def _vlp(group: Group, *, gamma: float, **_) -> torch.Tensor:
    return -gamma * group.correct * group.relative_length


def _asrr(group: Group, *, tau: float, zeta: float, window: float, **_) -> torch.Tensor:
    gate = (group.success_rate - tau + EPSILON).clamp(min=0) / (1 - tau + EPSILON)
    excess = group.length - _shortest(group.length, group.correct)  # -inf where none is correct: no penalty
    return -zeta * gate * (excess / window).clamp(0, 1)


def _l1_exact(group: Group, *, eta: float, **_) -> torch.Tensor:
    return -eta * (group.n_gold - group.length).abs()


def _l1_max(group: Group, *, eta: float, **_) -> torch.Tensor:
    return group.correct * ((eta * (group.n_gold - group.length)).clamp(-1, 1) - 1) / 2


def _linear(group: Group, *, linear_weight: float, **_) -> torch.Tensor:
    longest = (group.length * group.scorable).amax(dim=1, keepdim=True)
    return -linear_weight * group.success_rate * group.length / longest.clamp(min=1)


def _alp(group: Group, *, alp_beta: float, **_) -> torch.Tensor:
    one_solved = 1 / group.scorable.sum(dim=1, keepdim=True).clamp(min=1)
    return -alp_beta * torch.maximum(group.success_rate, one_solved) * group.length


def _gr3(group: Group, *, gr3_alpha: float, **_) -> torch.Tensor:
    count = group.scorable.sum(dim=1, keepdim=True).clamp(min=1)
    mean = (group.length * group.scorable).sum(dim=1, keepdim=True) / count
    excess = gr3_alpha * group.length
    return -group.correct * excess / (mean + excess).clamp(min=EPSILON)  # 1 / (1 + x) - 1 = -x / (1 + x)


METHODS: dict[Method, Callable[..., torch.Tensor]] = {
    "none": _none, "coda": _coda, "vlp": _vlp, "asrr": _asrr, "l1_exact": _l1_exact, "l1_max": _l1_max,
    "linear": _linear, "alp": _alp, "gr3": _gr3,
}  # fmt: skip


def _gates(success_rate: torch.Tensor, tau_easy: float, tau_hard: float) -> tuple[torch.Tensor, torch.Tensor]:
    """Both gates of every group, the paper's Eq. 3. `tau_easy` 1 and `tau_hard` 0 close their gates."""
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
