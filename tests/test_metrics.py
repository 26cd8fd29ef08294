"""Metrics of a batch, worked out by hand. The 18 published ones also meet golden vectors in `test_shaping_golden`."""

from math import isnan, nan

import pytest
import torch

from coda_trl.metrics import published_metrics, regime_metrics
from coda_trl.shaping import shape_rewards

THRESHOLDS = {"tau_easy": 0.75, "tau_hard": 0.25}

# Four groups of four: easy, hard, medium, easy; the second group is hard without a correct rollout.
REWARDS = torch.tensor([1, 1, 1, 1] + [0, 0, 0, 0] + [1, 0, 0, 1] + [1, nan, 1, 1], dtype=torch.float32)
LENGTHS = torch.tensor([1, 2, 3, 4] + [10, 20, 30, 40] + [5, 7, 9, 11] + [6, 999, 6, 6])
TRUNCATED = torch.tensor([0, 0, 0, 0] + [0, 0, 1, 1] + [0, 0, 0, 1] + [0, 1, 0, 0], dtype=torch.bool)


def metrics(rewards=REWARDS, lengths=LENGTHS, truncated=TRUNCATED, group_size=4, **options) -> dict[str, float]:
    shaped = shape_rewards(rewards, lengths, group_size, **options)
    return published_metrics(rewards, lengths, shaped, **THRESHOLDS) | regime_metrics(
        rewards, lengths, truncated, shaped, **THRESHOLDS
    )


def test_regimes():
    found = metrics()
    assert {name: value for name, value in found.items() if name.count("/") == 2} == pytest.approx(
        {
            "coda/easy/share": 0.5,
            "coda/easy/mean_length": (1 + 2 + 3 + 4 + 6 + 6 + 6) / 7,  # not the 999 tokens that nobody could score
            "coda/easy/accuracy": 1,
            "coda/easy/clipped_ratio": 0,
            "coda/medium/share": 0.25,
            "coda/medium/mean_length": 8,
            "coda/medium/accuracy": 0.5,
            "coda/medium/clipped_ratio": 0.25,
            "coda/hard/share": 0.25,
            "coda/hard/mean_length": 25,
            "coda/hard/accuracy": 0,
            "coda/hard/clipped_ratio": 0.5,
            "coda/all_wrong/mean_length": 25,
        }
    )


def test_zero_variance_share_is_told_apart_on_base_and_shaped_rewards():
    found = metrics()
    assert found["coda/frac_zero_std_base"] == 0.75  # all but the medium group
    assert found["coda/frac_zero_std_shaped"] == 0.5  # CODA gave the first group a signal; the last has equal lengths
    assert metrics(method="none")["coda/frac_zero_std_shaped"] == 0.75


def test_a_group_of_equal_rewards_below_zero_has_no_variance_beside_an_unscorable_one():
    rewards, options = torch.tensor([0, nan, 0, 0]), {"method": "l1_exact", "n_gold": torch.full((4,), 100)}
    assert metrics(rewards, torch.full((4,), 5), torch.zeros(4), **options)["coda/frac_zero_std_shaped"] == 1


def test_unscorable_rollouts_are_counted_once_and_left_out_elsewhere():
    found = metrics()
    assert found["coda/unscorable_ratio"] == 1 / 16
    assert found["coda/mean_score"] == pytest.approx(9 / 15)
    assert found["coda/success_rate"] == pytest.approx((1 + 0 + 0.5 + 1) / 4)
    assert found["coda/mean_easy_len_penalty"] == pytest.approx(0.2 / 2)
    assert found["coda/mean_response_length"] == pytest.approx((LENGTHS.sum().item() - 999) / 15)
    assert found["coda/easy_condition_trigger_rate"] == 0.5
    assert found["coda/easy_trigger_all_correct_rate"] == 1
    assert found["coda/hard_trigger_no_correct_rate"] == 1


def test_groups_at_a_threshold_are_medium_but_trigger_the_published_condition():
    found = metrics(torch.tensor([1.0, 1, 1, 0, 1, 0, 0, 0]), torch.arange(8), torch.zeros(8, dtype=torch.bool))
    assert found["coda/medium/share"] == 1
    assert found["coda/easy_condition_trigger_rate"] == found["coda/hard_condition_trigger_rate"] == 0.5


def test_the_bonus_of_hard_groups_is_a_mean_over_those_with_a_correct_rollout():
    found = metrics(torch.tensor([1.0] + [0.0] * 15), torch.full((16,), 5), torch.zeros(16), group_size=8)
    assert found["coda/mean_hard_len_reward"] == pytest.approx(0.2 * 0.5 / 2)  # s = 1/8 opens the gate by half


def test_a_regime_without_a_group_has_a_share_of_zero_and_no_averages():
    found = metrics(torch.ones(4), torch.arange(4), torch.zeros(4, dtype=torch.bool))
    logged = {name for name, value in found.items() if not isnan(value)}  # by the trainer
    assert {name for name in logged if name.startswith(("coda/medium/", "coda/hard/", "coda/all_wrong"))} == {
        "coda/medium/share",
        "coda/hard/share",
    }


def test_nothing_scorable():
    found = metrics(torch.full((4,), nan), torch.arange(4), torch.zeros(4, dtype=torch.bool))
    assert found["coda/unscorable_ratio"] == 1
    assert found["coda/easy/share"] == found["coda/medium/share"] == found["coda/hard/share"] == 0
    assert found["coda/frac_zero_std_base"] == found["coda/frac_zero_std_shaped"] == 1  # no signal is left in it
    for name in ("mean_score", "success_rate", "mean_w_hard", "mean_response_length_wrong"):
        assert isnan(found[f"coda/{name}"]), name
