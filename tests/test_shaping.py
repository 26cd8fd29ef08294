"""What `shape_rewards` answers at its edges, what it refuses, and what holds for every input."""

from math import isnan, nan
from typing import get_args

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.utils._python_dispatch import TorchDispatchMode

from coda_trl.shaping import ShapedRewards, shape_rewards
from coda_trl.shaping_checks import LengthStats, Method

METHODS, LENGTH_STATS = list(get_args(Method)), list(get_args(LengthStats))


def shape(rewards: list, lengths: list, group_size: int | None = None, method: str = "coda", **parameters):
    """One group unless told otherwise, in float64, with a budget of 100 tokens where one is needed."""
    if method.startswith("l1_"):
        parameters.setdefault("n_gold", torch.full((len(rewards),), 100))
    rewards = torch.tensor(rewards, dtype=torch.float64)
    return shape_rewards(rewards, torch.tensor(lengths), group_size or len(rewards), method, **parameters)


def values(tensor: torch.Tensor) -> list:
    return pytest.approx(tensor.tolist(), abs=1e-6, nan_ok=True)


# Edges, each with its stated answer


@pytest.mark.parametrize("length_stats", LENGTH_STATS)
def test_group_of_one_has_half_the_relative_length(length_stats):
    shaped = shape([1, 0], [500, 7], group_size=1, length_stats=length_stats)
    assert shaped.relative_length.tolist() == [0.5, 0.5]
    assert shaped.success_rate.tolist() == [1, 0]
    assert [0.9, 0] == values(shaped.rewards)  # s = 1 opens the easy gate fully: 1 - 0.2 / 2


def test_one_correct_is_ranked_among_the_group_or_gets_half():
    rewards, lengths = [1] + [0] * 9, [100, 50, *[75] * 8]
    hard_gate = (0.25 - 0.1) / 0.25
    among_group, among_correct = (shape(rewards, lengths, length_stats=stats) for stats in LENGTH_STATS)
    assert among_group.relative_length[0] > 0.5
    assert among_correct.relative_length.tolist() == [0.5] * 10
    assert [0.2 * hard_gate * 0.5] + [0] * 9 == values(among_correct.delta)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
@pytest.mark.parametrize("length", [0, 1, 16384, 1_048_577 * 3])
@pytest.mark.parametrize("length_stats", LENGTH_STATS)
def test_equal_lengths_carry_no_signal(length_stats, length, dtype):
    # The sum of the longest does not fit into float32, and rounding over epsilon would look like a length.
    shaped = shape_rewards(torch.ones(7, dtype=dtype), torch.full((7,), length), 7, length_stats=length_stats)
    assert shaped.relative_length.tolist() == [0.5] * 7
    assert shaped.rewards.unique().numel() == 1


def test_correct_rollouts_of_equal_length_do_not_rank_the_wrong_ones():
    shaped = shape([1, 1] + [0] * 10, [50, 50, 10, 90] + [50] * 8, length_stats="correct", bonus_on_incorrect=True)
    assert shaped.relative_length.tolist() == [0.5] * 12


@pytest.mark.parametrize("length_stats", LENGTH_STATS)
def test_long_rollouts_a_token_apart_are_told_apart_in_float32(length_stats):
    rewards, lengths = torch.ones(16), torch.tensor([131_071] * 15 + [131_072])
    single = shape_rewards(rewards, lengths, 16, length_stats=length_stats)
    double = shape_rewards(rewards.double(), lengths, 16, length_stats=length_stats)
    torch.testing.assert_close(single.rewards.double(), double.rewards, rtol=0, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_zero_lengths_are_lengths(method):
    shaped = shape([1, 1, 1, 0], [0, 0, 5, 0], method=method)
    assert shaped.rewards.isfinite().all()


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("length_stats", LENGTH_STATS)
def test_unscorable_rollouts_stay_nan_and_count_nowhere(method, length_stats):
    shaped = shape([nan, 1, 1, nan, 1, 0], [9999, 10, 20, 0, 30, 40], method=method, length_stats=length_stats)
    without = shape([1, 1, 1, 0], [10, 20, 30, 40], method=method, length_stats=length_stats)
    scorable = [1, 2, 4, 5]
    for name in ("rewards", "delta", "relative_length"):
        found = getattr(shaped, name)
        assert [isnan(value) for value in found.tolist()] == [True, False, False, True, False, False], name
        assert getattr(without, name).tolist() == values(found[scorable]), name
    assert without.success_rate.tolist() == values(shaped.success_rate)
    assert without.w_easy.tolist() == values(shaped.w_easy)


@pytest.mark.parametrize("method", METHODS)
def test_group_without_a_scorable_rollout_is_nan_and_leaves_its_neighbour_alone(method):
    shaped = shape([nan, nan, 1, 1], [1, 2, 3, 4], group_size=2, method=method)
    assert shaped.rewards[:2].isnan().all() and shaped.delta[:2].isnan().all()
    assert shaped.success_rate[0].isnan() and (shaped.w_easy[0], shaped.w_hard[0]) == (0, 0)
    assert shape([1, 1], [3, 4], method=method).rewards.tolist() == values(shaped.rewards[2:])


def test_gates_are_shut_exactly_at_the_thresholds():
    rewards = [1, 1, 1, 0] + [1, 0, 0, 0]
    shaped = shape(rewards, [1, 2, 3, 4, 5, 6, 7, 8], group_size=4)
    assert shaped.success_rate.tolist() == [0.75, 0.25]
    assert shaped.w_easy.tolist() == shaped.w_hard.tolist() == [0, 0]
    assert shaped.rewards.tolist() == rewards


def test_thresholds_at_their_ends_switch_a_side_off():
    shaped = shape([1, 1, 0, 0], [1, 2, 3, 4], group_size=2, tau_easy=1, tau_hard=0, bonus_on_incorrect=True)
    assert shaped.w_easy.tolist() == shaped.w_hard.tolist() == [0, 0]
    assert shaped.delta.tolist() == [0, 0, 0, 0]


def test_bonus_on_incorrect_pays_wrong_rollouts_for_length():
    shaped = shape([0, 0, 0, 0], [10, 20, 30, 40], bonus_on_incorrect=True)
    assert shaped.delta.tolist() == sorted(shaped.delta.tolist()) and shaped.delta[0] > 0
    assert shape([1, 1, 1, 0], [10, 20, 30, 9000], bonus_on_incorrect=True).delta[3] == 0  # an easy group: no bonus


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.int64, torch.bool])
@pytest.mark.parametrize("method", METHODS)
def test_low_precision_and_integer_rewards_are_computed_in_float32(method, dtype):
    rewards, lengths = torch.tensor([1, 1, 1, 1, 0, 1, 1, 1]), torch.tensor([16384, 16383, 9, 0, 77, 5, 4, 3])
    n_gold = torch.full((8,), 4000) if method.startswith("l1_") else None
    low = shape_rewards(rewards.to(dtype), lengths, 8, method, n_gold=n_gold)
    full = shape_rewards(rewards.float(), lengths.float(), 8, method, n_gold=n_gold)
    for name in ShapedRewards.__dataclass_fields__:
        assert getattr(low, name).dtype == torch.float32
        assert torch.equal(getattr(low, name), getattr(full, name))


def test_double_precision_is_kept():
    assert shape_rewards(torch.ones(4, dtype=torch.float64), torch.arange(4), 4).rewards.dtype == torch.float64


@pytest.mark.parametrize("method", METHODS)
def test_empty_batch_gives_empty_results(method):
    shaped = shape([], [], group_size=4, method=method)
    assert all(getattr(shaped, name).shape == (0,) for name in ShapedRewards.__dataclass_fields__)


def test_inputs_are_not_written_to():
    rewards, lengths = torch.tensor([1.0, 1.0, nan, 0.0]), torch.tensor([3.0, 4.0, 5.0, 6.0])
    before = rewards.clone(), lengths.clone()
    shaped = shape_rewards(rewards, lengths, 4)
    shaped.rewards.zero_()
    assert torch.equal(rewards.nan_to_num(), before[0].nan_to_num()) and torch.equal(lengths, before[1])


class Operations(TorchDispatchMode):
    """Counts operations on tensors."""

    count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += 1
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("method", METHODS)
def test_more_groups_take_no_more_operations(method):
    counts = set()
    for groups in (2, 50):
        with Operations() as operations:
            shape([1, 0, 1, 1] * groups, [1, 2, 3, 4] * groups, group_size=4, method=method)
        counts.add(operations.count)
    assert len(counts) == 1


# Refusals: the message names the argument and its value


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"method": "koda"}, "`method` is 'koda'"),
        ({"alpha": -0.1}, "`alpha` is -0.1"),  # the other ranges: tests/test_config.py
        ({"tau_hard": 0.8}, r"`tau_hard` is 0.8, but must be at most `tau_easy` \(0.75\)"),
        ({"num_generations": 0}, "`num_generations` is 0"),
        ({"num_generations": 3}, r"`rewards` has 4 entries.*`num_generations` \(3\)"),
        ({"rewards": torch.ones(2, 2)}, r"`rewards` has shape \(2, 2\)"),
        ({"lengths": torch.ones(3)}, r"`lengths` has shape \(3,\)"),
        ({"rewards": torch.tensor([1.0, 0.5, 0.0, 1.0])}, "`rewards` holds 0.5"),
        ({"rewards": torch.tensor([1.0, 1.0, -1.0, 1.0])}, "`rewards` holds -1.0"),
        ({"rewards": torch.tensor([1.0, 1.0, torch.inf, 1.0])}, "`rewards` holds inf"),
        ({"lengths": torch.tensor([1, 2, 3, -4])}, "`lengths` holds -4"),
        ({"lengths": torch.tensor([1, 2, 3, nan])}, "`lengths` holds nan"),
        ({"lengths": torch.tensor([1, 2, 3, torch.inf])}, "`lengths` holds inf"),
        ({"method": "l1_exact"}, "`n_gold` is missing: method 'l1_exact'"),
        ({"method": "l1_max", "n_gold": torch.ones(3)}, r"`n_gold` has shape \(3,\)"),
        ({"method": "l1_max", "n_gold": torch.tensor([9, 9, 9, 0])}, "`n_gold` holds 0"),
        ({"method": "l1_exact", "n_gold": torch.tensor([9, 9, 9, nan])}, "`n_gold` holds nan"),
        ({"method": "l1_exact", "n_gold": torch.tensor([1, 9, 9, torch.inf])}, "`n_gold` holds inf"),
    ],
)
def test_refusals(arguments, message):
    defaults = {"rewards": torch.ones(4), "lengths": torch.ones(4), "num_generations": 4}
    with pytest.raises(ValueError, match=message):
        shape_rewards(**(defaults | arguments))


# Properties: they hold for every batch

ROLLOUTS = st.tuples(st.sampled_from([0, 1]), st.integers(0, 16384))
GROUPS = st.lists(ROLLOUTS, min_size=1, max_size=16)
BATCHES = st.integers(1, 12).flatmap(
    lambda size: st.lists(st.lists(ROLLOUTS, min_size=size, max_size=size), min_size=1, max_size=4)
)
STATS = st.sampled_from(LENGTH_STATS)
properties = settings(max_examples=60, deadline=None, derandomize=True)


def unzip(group: list) -> tuple[list, list]:
    rewards, lengths = zip(*group, strict=True)
    return list(rewards), list(lengths)


@properties
@given(lengths=st.lists(st.integers(0, 16384), min_size=2, max_size=16), wrong=st.integers(0, 16384), stats=STATS)
def test_easy_side_falls_with_length(lengths, wrong, stats):
    lengths = sorted(lengths)
    rewards = shape([*[1] * len(lengths), 0], [*lengths, wrong], length_stats=stats, tau_easy=0.5).rewards[:-1]
    assert (rewards.diff() <= 0).all()
    assert (rewards >= 0.8).all() and (rewards <= 1).all()
    if lengths[0] < lengths[-1]:
        assert rewards[0] > rewards[-1]


@properties
@given(
    correct=st.lists(st.integers(0, 16384), min_size=2, max_size=4),
    wrong=st.lists(st.integers(0, 16384), min_size=13, max_size=16),
    stats=STATS,
)
def test_hard_side_rises_with_length(correct, wrong, stats):
    correct = sorted(correct)
    rewards = [1] * len(correct) + [0] * len(wrong)
    found = shape(rewards, correct + wrong, length_stats=stats).rewards[: len(correct)]
    assert (found.diff() >= 0).all()
    assert (found >= 1).all() and (found <= 1.2).all()
    if correct[0] < correct[-1] and shape(rewards, correct + wrong).w_hard > 0:
        assert found[0] < found[-1]


@pytest.mark.parametrize("method", METHODS)
@properties
@given(group=GROUPS, length_stats=STATS)
def test_wrong_answers_never_gain(group, method, length_stats):
    rewards, lengths = unzip(group)
    delta = shape(rewards, lengths, method=method, length_stats=length_stats).delta
    wrong = torch.tensor(rewards) == 0
    assert (delta[wrong] <= 0).all()
    if method not in ("asrr", "l1_exact", "linear", "alp"):  # these act on wrong answers, by their definition
        assert (delta[wrong] == 0).all()


@pytest.mark.parametrize("method", METHODS)
@properties
@given(group=GROUPS, data=st.data(), length_stats=STATS)
def test_permutation_equivariant(group, data, method, length_stats):
    order = data.draw(st.permutations(range(len(group))))
    rewards, lengths = unzip(group)
    options = {"method": method, "length_stats": length_stats}
    straight = shape(rewards, lengths, **options)
    permuted = shape([rewards[i] for i in order], [lengths[i] for i in order], **options)
    assert straight.rewards[order].tolist() == values(permuted.rewards)
    assert straight.success_rate.tolist() == values(permuted.success_rate)


# Not normalised, longer ones would fill the sigmoid at every scale.
SHORT_GROUPS = st.lists(st.tuples(st.sampled_from([0, 1]), st.integers(0, 9)), min_size=1, max_size=16)


@properties
@given(SHORT_GROUPS, st.integers(2, 1000), st.sampled_from(["coda", "vlp", "linear", "gr3"]), STATS)
def test_scale_invariant(group, factor, method, stats):
    rewards, lengths = unzip(group)
    options = {"method": method, "length_stats": stats, "tau_easy": 0.5, "tau_hard": 0.5}
    one, scaled = (shape(rewards, [times * n for n in lengths], **options) for times in (1, factor))
    assert one.rewards.tolist() == pytest.approx(scaled.rewards.tolist(), abs=1e-5)


@properties
@given(batch=BATCHES, stats=STATS, bonus_on_incorrect=st.booleans())
def test_equal_to_grpo_where_both_gates_are_shut(batch, stats, bonus_on_incorrect):
    rewards, lengths = unzip([row for group in batch for row in group])
    options = {"group_size": len(batch[0]), "length_stats": stats, "bonus_on_incorrect": bonus_on_incorrect}
    shaped = shape(rewards, lengths, **options)
    shut = ((shaped.w_easy == 0) & (shaped.w_hard == 0)).repeat_interleave(len(batch[0]))
    assert torch.equal(shaped.rewards[shut], torch.tensor(rewards, dtype=torch.float64)[shut])  # to the last bit
    assert shape(rewards, lengths, **options, alpha=0, beta=0).rewards.tolist() == rewards


@pytest.mark.parametrize("method", METHODS)
@properties
@given(batch=BATCHES, length_stats=STATS)
def test_groups_do_not_see_each_other(batch, method, length_stats):
    options = {"method": method, "length_stats": length_stats}
    together = shape(*unzip([row for group in batch for row in group]), group_size=len(batch[0]), **options)
    alone = [shape(*unzip(group), **options).rewards for group in batch]
    assert torch.cat(alone).tolist() == values(together.rewards)


@properties
@given(group=GROUPS, method=st.sampled_from(["linear", "alp", "gr3"]), strength=st.floats(0, 2))
def test_rivals_never_pay_for_length(group, method, strength):
    rewards, lengths = unzip(group)
    name = {"linear": "linear_weight", "alp": "alp_beta", "gr3": "gr3_alpha"}[method]
    delta = shape(rewards, lengths, method=method, **{name: strength}).delta
    assert (delta <= 0).all()
    by_length = sorted(range(len(group)), key=lambda i: lengths[i])
    for reward in (0, 1):  # among the right, and among the wrong, the longer loses at least as much
        same = delta[[i for i in by_length if rewards[i] == reward]]
        assert (same.diff() <= 1e-12).all()


@properties
@given(group=GROUPS)
def test_linear_and_gr3_keep_right_above_wrong_at_their_defaults(group):
    rewards, lengths = unzip(group)
    right = torch.tensor(rewards) == 1
    for method in ("linear", "gr3"):
        shaped = shape(rewards, lengths, method=method).rewards
        assert (shaped[right] > 0).all() and (shaped[~right] <= 0).all()
    assert (shape(rewards, lengths, method="linear").rewards[right] >= 0.75).all()
