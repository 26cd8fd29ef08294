"""Reward functions: TRL's signature, what they log, and TRL's own functions by name."""

import pytest

from coda_trl.rewards import REWARD_FUNCTIONS, accuracy_reward, choice_reward, completion_text


def message(text):
    return [{"role": "assistant", "content": text}]


def test_accuracy_reward_takes_messages_and_text():
    for wrap in (str, message):
        completions = [wrap(r"\boxed{\dfrac12}"), wrap(r"\boxed{2}"), wrap(r"\boxed{2}"), wrap("2")]
        rewards = accuracy_reward(
            completions=completions, solution=["0.5", "3", "{{{", "2"], prompts=[""] * 4, level=[1] * 4
        )
        assert rewards == [1.0, 0.0, None, 0.0]


def test_accuracy_reward_takes_numbers_as_solutions():
    assert accuracy_reward([r"\boxed{033}", r"\boxed{1/2}", r"\boxed{1}"], [33, 0.5, None]) == [1.0, 1.0, None]


@pytest.mark.slow
def test_accuracy_reward_logs_what_was_compared_and_counts_timeouts(monkeypatch):
    from coda_trl.grading import GradingPool

    columns, metrics = {}, {}
    cases = {
        r"\boxed{1{,}000 \text{ miles}}": "1,000",
        "no": "2",
        r"\boxed{2}": "",
        "\\boxed{\ud800}": "1",
        r"\boxed{\int \frac{\sin(2x)\log(x)}{1+x^7} dx}": r"\int \frac{\cos(x)\log(x)}{1+x^7} dx",
    }
    with GradingPool(workers=1, timeout=0.5) as pool:
        monkeypatch.setattr("coda_trl.rewards.default_pool", lambda: pool)
        rewards = accuracy_reward(
            list(map(message, cases)), list(cases.values()), columns.__setitem__, metrics.__setitem__
        )
    assert rewards == [1, 0, None, 0, 0]
    solutions, golds, answers = columns.values()
    assert solutions == list(cases.values())
    assert golds[:4] == ["1000", "2", "[unparseable]", "1"]
    assert answers == [r"1{,}000 \text{ miles}", "[no box]", "[skipped]", "?", "[timeout]"]
    assert metrics["coda/grading_timeouts"] == 1 and metrics["coda/grading_seconds"] > 0


def test_the_last_message_holds_the_answer():
    parts = [{"type": "text", "text": r"\boxed{"}, {"type": "image"}, {"type": "text", "text": "2}"}]
    turns = [
        {"role": "assistant", "content": None, "tool_calls": []},
        {"role": "tool", "content": r"\boxed{1}"},
        {"role": "assistant", "content": parts},
    ]
    assert completion_text(turns) == r"\boxed{2}"
    assert completion_text(turns[:1]) == ""
    assert completion_text([]) == ""


@pytest.mark.parametrize("answer", ["b", r"\textbf{(B)}", "B. bookstore"])
def test_choice_reward_reads_the_letter(answer):
    assert choice_reward([rf"<think>\boxed{{C}}</think> \boxed{{{answer}}}"], ["B"]) == [1.0]
    assert choice_reward([message(rf"\boxed{{{answer}}}")], ["C"]) == [0.0]


@pytest.mark.parametrize("answer", ["", "B or C", "bookstore", "not B"])
def test_choice_reward_wants_one_letter(answer):
    assert choice_reward([rf"\boxed{{{answer}}}"], ["B"]) == [0.0]


def test_choice_reward_with_options():
    options = [["bank", "Bookstore", "bank"]]
    assert choice_reward([r"\boxed{the bookstore}"], ["B"], options=options) == [1.0]
    assert choice_reward([r"\boxed{B bookstore}"], ["B"], options=options) == [1.0]
    assert choice_reward([r"\boxed{\text{The correct answer is bookstore}}"], ["B"], options=options) == [1.0]
    assert choice_reward([r"\boxed{\text{The answer is not bookstore}}"], ["B"], options=options) == [0.0]
    assert choice_reward([r"\boxed{C bookstore}"], ["B"], options=options) == [0.0]
    assert choice_reward([r"\boxed{bank}"], ["A"], options=options) == [0.0]  # two options read so
    assert choice_reward([r"\boxed{}"], ["A"], options=[["", "x"]]) == [0.0]
    assert choice_reward([r"\boxed{3.50}"], ["A"], options=[["3.50", "4"]]) == [1.0]


def test_choice_reward_logs_letters():
    columns, answers = {}, [r"\boxed{B}", "none", r"\boxed{\text{(c)}}"]
    rewards = choice_reward(answers, ["bookstore", r"\text{(A)}", "C"], log_extra=columns.__setitem__)
    assert rewards == [None, 0, 1] and columns["choice_reward/answer_parsed"] == ["B", "[no option]", "C"]
    choice_reward([r"\boxed{bookstore}"], ["B"], [["bank", "bookstore"]], log_extra=columns.__setitem__)
    assert columns["choice_reward/answer_parsed"] == ["B"]


def test_no_two_rewards_log_the_same_column():
    """TRL would append the second one's values to the first one's."""
    columns = []
    for reward in (accuracy_reward, choice_reward, REWARD_FUNCTIONS["trl_accuracy_reward"]):
        reward([message(r"\boxed{B}")], ["B"], log_extra=lambda column, _: columns.append(column))
    assert len(set(columns)) == len(columns) == 8


@pytest.mark.parametrize("gold", [None, float("nan"), "nan", "None", 2, 2.5, True, ["B"], {"B": 1}, "", "BC"])
def test_whatever_is_no_letter_is_no_gold_of_a_choice(gold):
    assert choice_reward([r"\boxed{B}", r"\boxed{B}"], [gold, "B"]) == [None, 1.0]


@pytest.mark.parametrize("gold", [None, float("nan"), float("inf"), "nan", "None", ["4"], {}, True])
def test_a_missing_gold_is_none(gold):
    assert accuracy_reward([r"\boxed{4}", r"\boxed{4}"], [gold, 4]) == [None, 1.0]


def test_reward_functions_by_name():
    assert REWARD_FUNCTIONS["accuracy_reward"] is accuracy_reward
    assert REWARD_FUNCTIONS["think_format_reward"]([message("<think>a</think>b"), message("b")]) == [1.0, 0.0]
    assert REWARD_FUNCTIONS["get_soft_overlong_punishment"](100, 20)(completion_ids=[[1] * 90]) == [-0.5]
    assert REWARD_FUNCTIONS["get_repetition_penalty_reward"](2, -1.0)(completion_ids=[[1, 2, 3], [5] * 5]) == [
        0.0,
        -0.75,
    ]


def test_trl_s_accuracy_reward_puts_golds_into_boxes_and_skips_missing_ones():
    for completion in (r"\boxed{72}", message(r"\boxed{72}")):
        rewards = REWARD_FUNCTIONS["trl_accuracy_reward"]([completion] * 3, solution=[None, "72", 27])
        assert rewards == [None, 1, 0]
