"""Metrics of a batch of shaped groups: the published code's, and metrics by difficulty."""

import torch

from .shaping import ShapedRewards


def _mean(values: torch.Tensor) -> float:
    """Mean, NaN for no values."""
    return values.mean().item()


def _mean_per_group(values: torch.Tensor, mask: torch.Tensor, groups: torch.Tensor) -> torch.Tensor:
    """Mean over the masked rollouts of each chosen group. `values`, `mask`: shape (P, G); `groups`: shape (P,)."""
    values, mask = values[groups], mask[groups]
    return (values * mask).sum(dim=1) / mask.sum(dim=1)


def published_metrics(
    rewards: torch.Tensor, lengths: torch.Tensor, shaped: ShapedRewards, tau_easy: float, tau_hard: float
) -> dict[str, float]:
    """
    The 18 metrics of the published code, under the same names.

    Args:
        rewards (`torch.Tensor` of shape `(P*G,)`):
            Base rewards, 0, 1 or NaN. Unscorable rollouts are left out of every metric.
        lengths (`torch.Tensor` of shape `(P*G,)`):
            Generated tokens.
        shaped ([`~shaping.ShapedRewards`]):
            Result of [`~shaping.shape_rewards`] on them.
        tau_easy, tau_hard (`float`):
            Success rates from which the easy, and up to which the hard condition counts as triggered.

    Returns:
        `dict[str, float]`: Lengths in tokens, everything else a share or a reward. A mean over nothing, such as the
        length of wrong rollouts if all are right, is NaN (0 in the published code), and [`CodaGRPOTrainer`] does not
        log it.
    """
    groups = (shaped.success_rate.shape[0], -1)
    scorable = ~rewards.isnan()
    delta = shaped.delta.nan_to_num().view(groups)
    length = lengths.to(delta.dtype).view(groups)
    correct, wrong = (rewards == 1).view(groups), (rewards == 0).view(groups)
    known = ~shaped.success_rate.isnan()
    s, w_easy, w_hard = shaped.success_rate[known], shaped.w_easy, shaped.w_hard

    any_correct = correct.any(dim=1)
    mixed = any_correct & wrong.any(dim=1)
    easy, hard = s >= tau_easy, s <= tau_hard
    taken, added = -delta.clamp(max=0), delta.clamp(min=0)
    scored = scorable.view(groups)
    return {
        "coda/mean_score": _mean(rewards[scorable]),
        "coda/mean_new_score": _mean(shaped.rewards[scorable]),
        "coda/mean_easy_len_penalty": _mean(_mean_per_group(taken, correct, w_easy > 0.01)),
        "coda/mean_hard_len_reward": _mean(_mean_per_group(added, correct, any_correct & (w_hard > 0.01))),
        "coda/global_easy_penalty_mean": _mean(taken[scored]),
        "coda/global_hard_reward_mean": _mean(added[scored]),
        "coda/success_rate": _mean(s),
        "coda/mean_response_length": _mean(length[scored]),
        "coda/mean_w_easy": _mean(w_easy[known]),
        "coda/mean_w_hard": _mean(w_hard[known]),
        "coda/mean_response_length_correct": _mean(length[correct]),
        "coda/mean_response_length_wrong": _mean(length[wrong]),
        "coda/mean_group_response_length_correct": _mean(_mean_per_group(length, correct, mixed)),
        "coda/mean_group_response_length_wrong": _mean(_mean_per_group(length, wrong, mixed)),
        "coda/easy_condition_trigger_rate": _mean(easy.to(s.dtype)),
        "coda/easy_trigger_all_correct_rate": _mean((s[easy] == 1).to(s.dtype)),
        "coda/hard_condition_trigger_rate": _mean(hard.to(s.dtype)),
        "coda/hard_trigger_no_correct_rate": _mean((s[hard] == 0).to(s.dtype)),
    }


def regime_metrics(
    rewards: torch.Tensor,
    lengths: torch.Tensor,
    truncated: torch.Tensor,
    shaped: ShapedRewards,
    tau_easy: float,
    tau_hard: float,
) -> dict[str, float]:
    """
    Length, accuracy and clipping by difficulty, and the shares of groups that carry no signal.

    A group is `hard` if its success rate is below `tau_hard`, `easy` if it is above `tau_easy`, `medium` otherwise.

    Args:
        rewards, lengths, shaped, tau_easy, tau_hard:
            As in [`published_metrics`].
        truncated (`torch.Tensor` of shape `(P*G,)`):
            Whether a rollout was cut off by the length limit.

    Returns:
        `dict[str, float]`: Lengths in tokens, all others in [0, 1], means over nothing NaN, as in
            [`published_metrics`]; `docs/diagnose.md` explains each.
    """
    groups = (shaped.success_rate.shape[0], -1)
    reward, length, truncated = rewards.view(groups), lengths.view(groups).float(), truncated.view(groups).float()
    s = shaped.success_rate
    easy, hard, known = s > tau_easy, s < tau_hard, ~s.isnan()
    metrics = {}
    for name, regime in {"easy": easy, "medium": known & ~easy & ~hard, "hard": hard}.items():
        metrics[f"coda/{name}/share"] = _mean(regime.float())
        scorable = ~reward[regime].isnan()
        metrics[f"coda/{name}/mean_length"] = _mean(length[regime][scorable])
        metrics[f"coda/{name}/accuracy"] = _mean(reward[regime][scorable])
        metrics[f"coda/{name}/clipped_ratio"] = _mean(truncated[regime][scorable])
    all_wrong = s == 0
    metrics["coda/all_wrong/mean_length"] = _mean(length[all_wrong][~reward[all_wrong].isnan()])
    metrics["coda/unscorable_ratio"] = _mean(rewards.isnan().float())
    metrics["coda/frac_zero_std_base"] = _mean(_is_constant(reward).float())
    metrics["coda/frac_zero_std_shaped"] = _mean(_is_constant(shaped.rewards.view(groups)).float())
    return metrics


def _is_constant(reward: torch.Tensor) -> torch.Tensor:
    """Whether all scorable rewards of each group `(P, G)` are equal, to float32 rounding."""
    highest = reward.nan_to_num(nan=-torch.inf).amax(dim=1)
    lowest = reward.nan_to_num(nan=torch.inf).amin(dim=1)
    return highest - lowest < 1e-6
