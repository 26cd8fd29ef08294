"""The paper's analyses on inputs whose results can be worked out by hand."""

import json

import numpy as np
import pytest
from made_samples import sample

from coda_trl.analysis import (
    REFLECTIVE_TERMS,
    Restatements,
    best_budget,
    best_budgets,
    bucket_names,
    budget_curve,
    compare_buckets,
    count_verifications,
    curve,
    difficulty_buckets,
    find_trainer_state,
    is_reflective,
    read_log_history,
    sort_problems,
)
from coda_trl.analysis.dynamics import base_reward_key, evaluation_histories
from coda_trl.evaluation import bootstrap
from coda_trl.evaluation.columns import tabulate
from coda_trl.evaluation.comparison import compare_within

# Difficulty


def test_buckets_hold_10_20_20_20_20_10_percent_hardest_first():
    rates = np.array([0.9, 0.0, 0.5, 0.2, 1.0, 0.3, 0.7, 0.4, 0.6, 0.1])
    assert difficulty_buckets(rates).tolist() == [4, 0, 3, 1, 5, 2, 4, 2, 3, 1]
    assert bucket_names() == ["0–10%", "10–30%", "30–50%", "50–70%", "70–90%", "90–100%"]


def test_ties_are_cut_without_regard_to_the_order_of_problems():
    rates = np.ones(1000)
    buckets = difficulty_buckets(rates, percentiles=(50,))
    assert buckets.sum() == 500
    assert 200 < buckets[:500].sum() < 300  # the first half of the file is not one bucket
    assert difficulty_buckets(rates, percentiles=(50,)).tolist() == buckets.tolist()


def run_of(correct, tokens=None):
    """A run from verdicts of shape (problems, samples), and its tokens if they matter."""
    tokens = np.ones_like(correct, dtype=int) if tokens is None else tokens
    return tabulate(
        sample(
            problem,
            None if np.isnan(correct[problem, number]) else bool(correct[problem, number]),
            int(tokens[problem, number]),
            sample=number,
        )
        for problem, number in np.ndindex(correct.shape)
    )


def test_a_part_of_the_samples_is_sorted_by_the_others_alone():
    mine = run_of(np.array([[1, 0, 1, 1, 0, 0], [0, 0, 0, np.nan, 1, 1]]))
    # Parts: samples 0 and 4, 1 and 5, 2, 3.
    expected = [[2 / 4, 3 / 4, 2 / 5, 2 / 5], [1 / 3, 1 / 3, 2 / 4, 2 / 5]]
    assert sort_problems([mine]).success_rate == pytest.approx(np.array(expected))
    theirs = run_of(np.array([[1, 1, 1, 1]]))
    both = sort_problems([mine, theirs])
    assert both.keys == [("b", "0")]  # what both have
    assert both.success_rate == pytest.approx((np.array(expected[:1]) + 1) / 2)  # and both weigh the same
    bands = both.bands()
    assert bands["easy"].tolist() == [[True, True, False, False]]
    assert bands["medium"].tolist() == [[False, False, True, True]]


def test_a_single_sample_cannot_both_sort_and_be_measured():
    sorting = sort_problems([run_of(np.array([[1.0], [0.0]]))])
    assert not sorting.sorted[:, 0].any()
    assert not compare_buckets(*[run_of(np.array([[1.0], [0.0]]))] * 2)


def test_only_parts_that_both_runs_have_are_compared():
    few, many = run_of(np.array([[1.0, 0.0]])), run_of(np.array([[1.0, 0, 1, 1]]), np.array([[1, 1, 9, 9]]))
    ungraded, graded = run_of(np.array([[1.0, np.nan]])), run_of(np.array([[1.0, 1.0]]))
    for one, other in ((few, many), (ungraded, graded)):
        for pair in ((one, other), (other, one)):
            result = compare_within(*(run["b"].in_parts for run in pair), np.ones((1, 4), dtype=bool), "all")
            assert (result.accuracy_points.value, result.token_change.value) == (0, 0)


def test_token_ratio_by_bucket():
    correct = np.array([[k < (i // 2 if i < 6 else 2 + i // 2) for k in range(8)] for i in range(12)], dtype=float)
    shorter = np.full((12, 8), 120)
    shorter[6:] = 50
    mine, reference = run_of(correct, shorter), run_of(correct, np.full((12, 8), 100))
    buckets = compare_buckets(mine, reference, percentiles=(50,))
    assert [bucket.token_ratio.value for bucket in buckets] == pytest.approx([1.2, 0.5])
    assert [bucket.token_ratio.high for bucket in buckets] == pytest.approx([1.2, 0.5])  # paired, hence no spread
    assert [bucket.accuracy_points.value for bucket in buckets] == [0, 0]
    assert [bucket.success_rate for bucket in buckets] == pytest.approx([1 / 8, 6 / 8])
    assert [bucket.num_problems for bucket in buckets] == [6, 6]


@pytest.mark.parametrize("sorted_by", ["both", "reference"])
def test_two_equal_policies_seem_to_differ_no_more_often_than_their_intervals_promise(sorted_by, monkeypatch):
    """Sorted by the very samples that are measured, the reference would seem far worse on hard problems."""
    monkeypatch.setattr(bootstrap, "NUM_RESAMPLES", 300)
    rng, repetitions = np.random.default_rng(1), 300
    differ, compared = np.zeros((2, 3)), np.zeros(3)
    for _ in range(repetitions):
        rates = rng.beta(0.6, 0.6, size=40)[:, None]
        lengths = rng.normal(6, 0.5, size=(40, 1)) - rates

        mine, reference = (
            run_of(
                (rng.random((40, 8)) < rates).astype(float),
                np.exp(rng.normal(lengths, 0.5, size=(40, 8))).round(),
            )
            for _ in range(2)
        )
        sorting = sort_problems([mine, reference] if sorted_by == "both" else [reference])
        pair = mine["b"].in_parts, reference["b"].in_parts
        for index, (band, chosen) in enumerate(sorting.bands().items()):
            result = compare_within(*pair, chosen, band)
            if result.accuracy_points.low is not None:
                compared[index] += 1
                differ[:, index] += result.accuracy_points.excludes_zero, result.token_change.excludes_zero
    assert compared.min() > 0.9 * repetitions
    assert (differ / compared < 0.09).all()


def test_another_training_of_the_same_method_favours_neither_side():
    """Problems that one training happens to find hard are less hard for another: so the two sort with equal weight."""
    rng = np.random.default_rng(0)
    difficulty = rng.normal(0, 2, size=2000)
    mine, reference = (
        run_of((rng.random((2000, 8)) < 1 / (1 + np.exp(difficulty + rng.normal(0, 1, 2000)))[:, None]).astype(float))
        for _ in range(2)
    )
    pair = mine["b"].in_parts, reference["b"].in_parts
    by_both = compare_within(*pair, sort_problems([mine, reference]).bands()["hard"], "hard").accuracy_points
    by_one = compare_within(*pair, sort_problems([reference]).bands()["hard"], "hard").accuracy_points
    assert by_both.low < 0 < by_both.high and by_both.high - by_both.low < 5
    assert by_one.low > 5


# Reflection


def test_there_are_17_terms_and_each_makes_a_response_reflective():
    assert len(set(REFLECTIVE_TERMS)) == 17
    for term in REFLECTIVE_TERMS:
        assert is_reflective(f"Hmm, {term.upper()}: 5"), term


@pytest.mark.parametrize(
    ("texts", "found"),
    [
        (["Wait!", "(wait)", "wait-list", "double\u2011check", "check\n again", "not yet.", "re-Think it"], True),
        (["waiting", "await", "wait_for", "yeti", "verified", "verifying", "re-checked", "recheck2"], False),
        (["check it again"], False),
    ],
)
def test_terms_are_whole_words_in_any_case_and_in_no_other_form(texts, found):
    assert [text for text in texts if is_reflective(text) is not found] == []


# Overthinking

CAPS = (
    "Danny collects bottle caps and wrappers. He found 65 wrappers and 5 bottle caps at the park. "
    "How many more wrappers than bottle caps did Danny find at the park?"
)


@pytest.mark.parametrize(
    ("response", "count"),
    [
        ("65 - 5 = 60, so 60 more wrappers.", 0),
        ("HE FOUND 65 Wrappers and 5.", 1),  # six words in a row
        ("He found 65 wrappers and five.", 0),  # five
        ("So HOW many more *wrappers* than bottle caps did Danny find at the park? Well, 60.", 1),
        ("He found 65 wrappers and 5 bottle caps at the park. Then again: he found 65 wrappers and 5 bottle caps.", 2),
        (CAPS, 1),
    ],
)
def test_restatements_are_passages_of_six_words_of_the_problem(response, count):
    assert Restatements(CAPS)(response) == count


def test_a_short_problem_counts_only_as_a_whole_and_a_very_short_one_never():
    assert Restatements("3 +9 +4 =")("okay we add up 3 +9 +4 so far 3 then +9") == 1
    assert Restatements("3 +9 +4 =")("3 +9 12 +4 16 ans 16") == 0
    assert Restatements("3 +9 =")("3 +9 12 ans 12") == 0


@pytest.mark.parametrize(
    ("response", "count"),
    [
        ("Let me double-check. I verified it; re-checking, cross check, and a re-evaluation confirms it.", 6),
        ("The paycheck and the checkpoint are veritable.", 0),
        ("3 +9 12 verify 9 +3 12 same ans 12", 1),
    ],
)
def test_verifications_are_whole_words_in_all_their_forms(response, count):
    assert count_verifications(response) == count


# Optimality


def test_budget_curve_and_best_budgets_by_hand():
    # Problem 0: right at 10 and at 40 tokens. Problem 1: right at 20 tokens, wrong at 5; so every sample weighs 1/4.
    problem, correct = np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0])
    found = budget_curve(problem, correct, np.array([10, 40, 20, 5]))
    assert found.budgets.tolist() == [0, 10, 20, 40]
    assert found.success.tolist() == [0, 0.25, 0.5, 0.75]
    assert found.at(np.array([0, 9, 10, 39, 40, 99])).tolist() == [0, 0, 0.25, 0.25 + 0.25, 0.75, 0.75]
    assert best_budgets(found) == [(0.025, 20), (0.0125, 40)]  # 10 lies on the line from 0 to 20
    assert [best_budget(found, price) for price in (0.03, 0.02, 0.0125, 0.01, 0)] == [0, 20, 20, 40, 40]
    assert found.marginal_gain(np.array([0, 20, 40])).tolist() == pytest.approx([0.025, 0.0125])


def test_problems_weigh_the_same_and_samples_without_a_verdict_are_left_out():
    problem, correct = np.array([0, 0, 0, 1, 2]), np.array([1, 1, np.nan, 0, np.nan])
    assert budget_curve(problem, correct, np.full(5, 10)).success.tolist() == [0, 0.5]
    with pytest.raises(ValueError, match="no sample has a verdict"):
        budget_curve(problem, np.full(5, np.nan), np.full(5, 10))


def test_best_budget_maximises_utility():
    rng = np.random.default_rng(0)
    for _ in range(20):
        found = budget_curve(rng.integers(0, 10, 60), rng.integers(0, 2, 60).astype(float), rng.integers(1, 200, 60))
        for price in rng.exponential(0.005, 10):
            utilities = found.at(np.arange(201)) - price * np.arange(201)
            assert utilities[best_budget(found, price)] == pytest.approx(utilities.max())


def test_nothing_correct_means_no_budget_is_worth_anything():
    found = budget_curve(np.zeros(3, dtype=int), np.zeros(3), np.ones(3))
    assert best_budgets(found) == []
    assert best_budget(found, 0.0) == 0
    assert found.success.dtype == float  # a report cannot write numpy's integers


# Training logs


def write_state(folder, history):
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "trainer_state.json").write_text(json.dumps({"log_history": history}))


def test_the_latest_checkpoint_is_read_unless_the_run_is_finished(tmp_path):
    assert find_trainer_state(tmp_path) is None
    for step in (9, 10, 100):
        write_state(tmp_path / f"checkpoint-{step}", [{"step": step}])
    write_state(tmp_path / "checkpoint-best", [])
    assert read_log_history(find_trainer_state(tmp_path)) == [{"step": 100}]
    write_state(tmp_path, [{"step": 120}])
    assert read_log_history(find_trainer_state(tmp_path)) == [{"step": 120}]


def test_a_step_logged_twice_counts_once_and_gaps_are_left_out():
    history = [
        {"step": 2, "x": 1.0},
        {"step": 1, "x": 5},
        {"step": 2, "x": 3.0},
        {"step": 3, "x": float("nan")},
        {"step": 4},
    ]
    found = curve(history, "x")
    assert (found.steps.tolist(), found.values.tolist()) == ([1, 2], [5, 3])
    assert curve(history, "y") is None


def test_moving_average_keeps_to_the_points_there_are():
    found = curve([{"step": i, "x": v} for i, v in enumerate([0.0, 3.0, 6.0, 9.0])], "x").smoothed(3)
    assert found.values.tolist() == [1.5, 3, 6, 7.5]
    assert found.smoothed(10).values.tolist() == [4.5] * 4  # wider than the curve


def test_names_in_the_log_of_trl():
    shaped = [{"step": 1, "rewards/length_shaping/mean": 0.1, "rewards/accuracy_reward/mean": 0.5}]
    assert base_reward_key(shaped) == "rewards/accuracy_reward/mean"
    assert base_reward_key([*shaped, {"step": 1, "coda/mean_score": 0.5}]) == "coda/mean_score"
    assert base_reward_key([{"step": 1, "loss": 0.1}]) is None


def test_evaluation_sets_are_told_apart_by_what_transformers_adds():
    one = {"step": 1, "epoch": 0.1, "eval_reward": 0.4, "eval_completions/mean_length": 9, "eval_runtime": 1.0}
    assert evaluation_histories([one, {"step": 1, "reward": 0.3}]) == {
        "": [{"step": 1, "reward": 0.4, "completions/mean_length": 9, "runtime": 1.0}]
    }
    two = [{"step": 1, "eval_reward": i, "eval_rung_3_runtime" if i else "eval_rung_1_runtime": 1.0} for i in (0, 1)]
    assert {name: entries[0]["reward"] for name, entries in evaluation_histories(two).items()} == {
        "rung_1": 0,
        "rung_3": 1,
    }
