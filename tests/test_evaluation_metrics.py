"""Metrics, intervals and comparisons on samples whose answers can be worked out by hand."""

import tracemalloc

import numpy as np
import pytest
from made_samples import sample

from coda_trl.evaluation import (
    Ratio,
    accuracy,
    bootstrap,
    collect,
    compare,
    correct_tokens,
    estimate,
    interval,
    mean_tokens,
    pass_at_k,
    replicates,
    truncated_share,
    unscorable_share,
    wrong_tokens,
)
from coda_trl.evaluation.columns import SampleColumns


@pytest.fixture
def few_resamples(monkeypatch):
    """For tests that make hundreds of intervals."""
    monkeypatch.setattr(bootstrap, "NUM_RESAMPLES", 500)


@pytest.fixture
def outcomes():
    return collect(
        [
            sample("p", True, 10),
            sample("p", True, 30),
            sample("p", False, 100, finish_reason="length"),
            sample("p", False, 60),
            sample("q", False, 100, finish_reason="length"),
            sample("q", None, 50),
        ]
    )["b"]


def test_metrics_by_hand(outcomes):
    assert accuracy(outcomes).value == pytest.approx((2 / 4 + 0 / 1) / 2)  # a sample without a verdict does not count
    assert mean_tokens(outcomes).value == pytest.approx((200 / 4 + 150 / 2) / 2)
    assert correct_tokens(outcomes).value == pytest.approx((10 + 30) / 2)
    assert wrong_tokens(outcomes).value == pytest.approx((100 + 60 + 100) / 3)
    assert truncated_share(outcomes).value == pytest.approx((1 / 4 + 1 / 2) / 2)
    assert unscorable_share(outcomes).value == pytest.approx((0 + 1 / 2) / 2)


def test_every_problem_weighs_the_same_in_an_unfinished_run():
    samples = [sample("p", True)] * 8 + [sample("q", False)]
    assert accuracy(collect(samples)["b"]).value == 0.5


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(4, 1, 2, 0.5), (8, 3, 4, 1 - 5 / 70), (8, 0, 8, 0.0), (8, 5, 4, 1.0), (3, 2, 1, 2 / 3)],
)
def test_pass_at_k_by_hand(n, c, k, expected):
    samples = [sample("p", index < c) for index in range(n)]
    assert pass_at_k(collect(samples)["b"], k).value == pytest.approx(expected)


def test_pass_at_k_leaves_out_problems_with_too_few_samples(outcomes):
    assert pass_at_k(outcomes, 4).denominator.tolist() == [1, 0]
    assert np.isnan(pass_at_k(outcomes, 5).value)


def test_the_bootstrap_resamples_problems_not_samples():
    # One problem always right, one always wrong: a resample of two problems has accuracy 0, 1/2 or 1, however many
    # samples there are.
    samples = [sample("p", True)] * 500 + [sample("q", False)] * 500
    ratio = accuracy(collect(samples)["b"])
    values, counts = np.unique(replicates(ratio), return_counts=True)
    assert values.tolist() == [0, 0.5, 1]
    assert counts / 2000 == pytest.approx([0.25, 0.5, 0.25], abs=0.04)
    assert interval(replicates(ratio), num_problems=2) == (0, 1)


def test_interval_is_made_of_percentiles():
    assert interval(np.append(np.arange(1001.0), np.nan), num_problems=10**6) == pytest.approx((25, 975), abs=0.01)


def test_intervals_cover_the_truth_about_as_often_as_they_say(few_resamples):
    rng = np.random.default_rng(0)
    covered = 0
    for seed in range(200):
        rates = rng.beta(2, 1, size=50)  # mean 2/3
        result = estimate(Ratio(rng.binomial(8, rates) / 8, np.ones(50)), seed=seed)
        covered += result.low <= 2 / 3 <= result.high
    assert 0.88 <= covered / 200 <= 0.99


@pytest.mark.parametrize("limits", [(0, 1), (-1, 1)], ids=["accuracy", "difference"])
@pytest.mark.parametrize("wrong", ["problems", "samples"])
@pytest.mark.parametrize("share", [0.001, 0.01, 0.03])
def test_intervals_of_rates_cover_the_truth_where_hardly_anything_is_wrong(limits, wrong, share, few_resamples):
    """Percentiles of resamples alone, which are all equal where nothing is wrong, hold the truth in 10 to 90%."""
    rng, problems, covered = np.random.default_rng(0), 100, 0
    for _ in range(200):
        failing = share if wrong == "samples" else rng.random(problems) < share
        failures = rng.binomial(8, failing, size=problems) / 8
        values, truth = (1 - failures, 1 - share) if limits == (0, 1) else (-failures, -share)
        result = estimate(Ratio(values, np.ones(problems), limits))
        covered += result.low <= truth <= result.high
    assert covered / 200 >= 0.92


def test_no_failure_in_100_problems_allows_for_3_in_100():
    result = estimate(Ratio(np.ones(100), np.ones(100), (0, 1)))
    assert (result.low, result.high) == (pytest.approx(0.97, abs=0.002), 1)
    varied = Ratio(np.arange(100) / 99, np.ones(100), (0, 1))  # shows by itself what other problems may do
    assert (replicates(varied) == replicates(Ratio(varied.numerator, varied.denominator))).all()


def test_the_fewer_the_problems_the_wider_the_interval():
    values = np.random.default_rng(0).normal(size=20_000)
    widths = [high - low for low, high in (interval(values, num_problems=count) for count in (5, 10, 30, 1000))]
    # Student's t at 97.5% (2.776, 2.262, 2.045, 1.962) times sqrt(n / (n - 1)), on both sides.
    expected = [2 * t * (n / (n - 1)) ** 0.5 for t, n in ((2.776, 5), (2.262, 10), (2.045, 30), (1.962, 1000))]
    assert widths == pytest.approx(expected, rel=0.05)


def test_very_many_problems_are_resampled_in_bundles_and_stay_paired():
    rng, problems = np.random.default_rng(0), 90_000
    lengths = rng.lognormal(5, 1, size=problems)
    ratios = [Ratio(lengths * factor, np.ones(problems)) for factor in (1.0, 0.9)]
    tracemalloc.start()
    result = estimate(ratios[0])
    assert tracemalloc.get_traced_memory()[1] < 2**28  # bytes; draws of single problems took more than a gigabyte
    tracemalloc.stop()
    assert result.high - result.low == pytest.approx(2 * 1.96 * lengths.std() / problems**0.5, rel=0.06)
    mine, theirs = map(replicates, ratios)
    assert mine * 0.9 == pytest.approx(theirs)  # bundle by bundle the same draws


def test_few_problems_have_no_interval():
    result = estimate(accuracy(collect([sample(str(number), True) for number in range(5)])["b"]))
    assert (result.value, result.low, result.high, result.excludes_zero) == (1, None, None, False)
    assert np.isnan(estimate(accuracy(collect([sample(str(number), None) for number in range(9)])["b"])).value)


def runs_that_differ(token_factor=1.0, solve=0, benchmark="b"):
    """Two runs on 40 problems of very different lengths; one spends `token_factor` of the tokens and solves more."""
    reference = [sample(i, i % 2 == 0, 100 * (i + 1), benchmark=benchmark) for i in range(40)]
    mine = [
        sample(i, i % 2 == 0 or i < solve, round(100 * (i + 1) * token_factor), benchmark=benchmark) for i in range(40)
    ]
    return collect(mine), collect(reference)


def test_a_run_does_not_differ_from_itself():
    result = compare(*runs_that_differ())
    assert result.num_problems == 40
    assert (result.accuracy_points.value, result.token_change.value) == (0, 0)
    assert not result.accuracy_points.excludes_zero and not result.token_change.excludes_zero
    assert result.accuracy_points.high == pytest.approx(300 / 40, rel=0.2)  # other problems could be solved by one


def test_pairing_by_problem_removes_the_spread_between_problems():
    result = compare(*runs_that_differ(token_factor=0.9))
    assert result.token_change.value == pytest.approx(-10)
    # Lengths spread over a factor of 40; unpaired, the interval would be tens of percent wide.
    assert result.token_change.high - result.token_change.low < 1e-6
    assert result.token_change.excludes_zero


def test_a_difference_on_few_problems_may_be_noise():
    assert compare(*runs_that_differ(solve=2)).accuracy_points.value == pytest.approx(2.5)  # one more of 40
    assert not compare(*runs_that_differ(solve=2)).accuracy_points.excludes_zero
    assert compare(*runs_that_differ(solve=20)).accuracy_points.excludes_zero  # ten more of 40


def test_a_verdict_that_only_one_run_has_is_no_difference():
    graded = [sample(str(i), True) for i in range(5)]
    mine = [*graded, *(sample(f"x{i}", None) for i in range(5))]
    theirs = [*graded, *(sample(f"x{i}", True) for i in range(5))]
    for pair in ((mine, theirs), (theirs, mine)):
        result = compare(*map(collect, pair))
        assert (result.accuracy_points.value, result.num_problems) == (0.0, 10)
    nothing = compare(*(collect([sample(i, verdict) for i in range(6)]) for verdict in (None, True)))
    assert np.isnan(nothing.accuracy_points.value) and nothing.token_change.value == nothing.token_change.low == 0


def test_few_problems_tell_nothing_of_others_in_a_comparison_either():
    def runs(correct, problems):
        return collect([sample(str(i), correct, benchmark=name) for name in ("a", "b") for i in range(problems)])

    few = compare(runs(True, 5), runs(False, 5))
    assert few.accuracy_points.value == 100 and few.accuracy_points.low is None is few.token_change.low
    assert compare(runs(True, 6), runs(False, 6)).accuracy_points.low > 10


@pytest.mark.parametrize("problems", [6, 10, 30])
def test_two_runs_of_one_policy_rarely_seem_to_differ(problems, few_resamples):
    """5% is the promise, which plain percentiles miss by far where problems are few."""
    rng, repetitions, differ = np.random.default_rng(problems), 300, np.zeros(2)

    def run(success, lengths):
        correct = rng.random((problems, 8)) < success[:, None]
        tokens = np.exp(rng.normal(lengths[:, None], 0.5, size=(problems, 8))).round()
        problem, sample = (index.ravel() for index in np.indices((problems, 8)))
        ids, questions = [str(number) for number in range(problems)], np.zeros((problems, 2), dtype=int)
        samples = problem, sample, correct.ravel(), tokens.ravel(), np.zeros(8 * problems)
        return {"b": SampleColumns(ids, questions, *samples, {}).outcomes}

    for _ in range(repetitions):
        policy = rng.beta(1, 1, problems), rng.normal(6, 0.5, problems)
        result = compare(run(*policy), run(*policy))
        differ += [result.accuracy_points.excludes_zero, result.token_change.excludes_zero]
    assert (differ / repetitions < 0.09).all()


def test_only_problems_of_both_runs_are_compared():
    mine = collect([sample("p", True), sample("q", True), sample("mine", True)])
    theirs = [sample("q", False), sample("p", True), sample("theirs", False), sample("theirs2", False)]
    theirs = collect([*theirs, sample("p", False, benchmark="theirs alone")])
    result = compare(mine, theirs)
    assert (result.accuracy_points.value, result.num_problems) == (50, 2)
    with pytest.raises(ValueError, match="no problem in common"):
        compare(mine, collect([sample("other", True)]))


def test_ids_that_stand_for_other_problems_are_refused():
    mine, theirs = (collect([sample("p", True) | {"prompt": text}]) for text in ("x", "y"))
    with pytest.raises(ValueError, match="problem 'p' of 'b' has another prompt or solution in each run"):
        compare(mine, theirs)
    asked = {"prompt": "x", "solution": "1"}
    for other in (
        {"prompt": "y", "solution": "1"},
        {"prompt": "x"},
        {"solution": "1"},
        {},
    ):  # worded otherwise, unknown
        pair = [collect([sample("p", True) | fields]) for fields in (asked, other)]
        assert compare(*pair).num_problems == compare(*reversed(pair)).num_problems == 1
    with pytest.raises(ValueError, match="has another prompt or solution"):
        compare(*(collect([sample("p", True) | asked | {"solution": solution}]) for solution in "12"))


def test_benchmarks_weigh_the_same_and_are_resampled_independently():
    pairs = [runs_that_differ(solve=10, benchmark=name) for name in ("a", "b")]
    single = compare(*pairs[0]).accuracy_points
    mine, theirs = ({**pairs[0][side], **pairs[1][side]} for side in (0, 1))
    both = compare(mine, theirs).accuracy_points
    assert both.value == pytest.approx(single.value)
    # Two independent benchmarks of one size: the interval shrinks by sqrt(2). In step it would not shrink at all.
    assert (both.high - both.low) / (single.high - single.low) == pytest.approx(2**-0.5, abs=0.1)


def test_benchmarks_without_any_failure_allow_for_as_few_as_all_their_problems_do():
    def run(benchmarks):
        return collect([sample(i, True, benchmark=name) for name in benchmarks for i in range(100)])

    one, three = (compare(run(names), run(names)).accuracy_points for names in ("a", "abc"))
    assert one.high == pytest.approx(2.6, abs=0.3) and three.high == pytest.approx(0.9, abs=0.2)  # 3 in 300: 1 point
