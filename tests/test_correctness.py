"""Which reward is shaped, what is said if it does not judge correctness, or if nothing is right."""

import warnings

import pytest
from small_training import PROMPTS, brevity, make, right, train
from trl import GRPOConfig
from trl.rewards import accuracy_reward, think_format_reward

from coda_trl import CodaGRPOTrainer
from coda_trl.correctness import find_correctness_reward
from coda_trl.data import INSTRUCTION
from coda_trl.data_checks import check_data
from coda_trl.rewards import accuracy_reward as accuracy

NONE_RIGHT = "found no completion of the first 3 batches right"
SOLVED = PROMPTS.add_column("solution", [str(number + 3) for number in range(8)])


def said(recwarn, text: str) -> list[str]:
    return [str(warning.message) for warning in recwarn if text in str(warning.message)]


# Which one


@pytest.mark.parametrize(
    ("names", "chosen", "index"),
    [
        (["anything"], None, 0),
        (["think_format_reward", "accuracy_reward"], None, 1),
        (["get_soft_overlong_punishment", "choice_reward", "mine"], None, 1),
        (["think_format_reward", "reasoning_accuracy_reward", "mine"], None, 1),
        (["mine", "accuracy_reward"], "mine", 0),
    ],
)
def test_a_chosen_or_known_reward_is_shaped_without_a_word(names, chosen, index):
    assert find_correctness_reward(names, chosen) == (index, None)


@pytest.mark.parametrize("names", [["mine", "yours"], ["accuracy_reward", "choice_reward"]])
def test_of_others_the_first_is_shaped_and_named(names):
    index, warning = find_correctness_reward(names)
    assert index == 0 and f"({', '.join(names)}) '{names[0]}' is shaped" in warning


@pytest.mark.parametrize(
    ("names", "index"),
    [
        (["format_reward", "correctness_reward_func"], 1),
        (["int_reward", "check_accuracy", "xml_reward"], 1),
        (["FormatReward", "CorrectnessReward"], 1),
        (["format_reward", "incorrect_penalty"], 0),
        (["format_reward", "inaccuracy_penalty"], 0),
        (["format_reward", "format_correctness", "math_accuracy"], 0),
    ],
)
def test_the_only_one_that_is_called_correct_is_shaped_and_named(names, index):
    found, warning = find_correctness_reward(names)
    assert found == index and f"'{names[index]}' is shaped" in warning


def test_a_reward_model_does_not_say_right_or_wrong():
    assert find_correctness_reward(["model", "mine"], models={"model"}) == (1, None)
    index, warning = find_correctness_reward(["model", "mine", "yours"], models={"model"})
    assert index == 1 and "'mine' is shaped" in warning


def test_the_order_of_trl_s_own_scripts(tiny_model, tmp_path, recwarn):
    trainer = make(tiny_model, tmp_path, [think_format_reward, accuracy_reward], SOLVED)
    assert trainer._judges == ["accuracy_reward"]
    assert said(recwarn, "is shaped by length") == []
    make(tiny_model, tmp_path, [right, brevity])
    assert len(said(recwarn, "(right, brevity) 'right' is shaped by length")) == 1
    recwarn.clear()
    make(tiny_model, tmp_path, [right, brevity], length_shaping="none")
    assert said(recwarn, "is shaped by length") == []


# What it returns


def test_other_numbers_are_refused_in_the_first_batch_with_what_to_do(tiny_model, tmp_path):
    def gist(completions, **kwargs):
        """The correctness reward of a script that many start from."""
        return [0.0, 1.0] + [2.0] * (len(completions) - 2)

    with pytest.raises(
        ValueError, match="'gist' returned 2, but .* as its weight .* to the name of one that does, or"
    ):
        train(tiny_model, tmp_path, [brevity, gist], correctness_reward="gist")
    with (
        pytest.raises(ValueError, match=r"'brevity' returned 0\.\d+, "),
        pytest.warns(UserWarning, match="'brevity' is shaped"),
    ):
        train(tiny_model, tmp_path, [brevity, right])


def test_rewards_are_called_with_completions_of_the_model_alone(tiny_model, tmp_path):
    """They may cost money, or count their calls."""
    calls = []

    def dear(prompts, completions, **kwargs):
        calls.append(len(completions))
        return [1.0] * len(completions)

    trainer = make(tiny_model, tmp_path, dear, SOLVED)
    assert calls == []
    trainer.train()
    assert calls == [8]


# Whether the rewards suit the data; no weights are asked for


def strict(prompts, completions):
    return [1.0] * len(completions)


@pytest.mark.parametrize(
    ("reward", "columns", "message"),
    [
        (right, {"prompt": "question"}, r"no column 'prompt' \(its columns: question, n_gold, solution\)"),
        (
            accuracy,
            {"solution": "answer"},
            r"'accuracy_reward' cannot be called: missing .*'solution'.* answer\) by name. Rename",
        ),
        (right, {"solution": "completions"}, "a column 'completions', as TRL names rollouts in rewards. Rename it"),
        (strict, {}, r"'strict' cannot be called: got an unexpected keyword .* `\*\*kwargs`"),
    ],
)
def test_data_that_a_reward_cannot_read_are_refused(tmp_path, reward, columns, message):
    with pytest.raises(ValueError, match=message):
        make("no/model", tmp_path, reward, SOLVED.rename_columns(columns))


def test_a_reward_may_take_what_it_gets_and_no_more():
    given = "prompts completions completion_ids trainer_state log_extra log_metric prompt_opens_thinking n_gold"
    exact = eval(f"lambda {', '.join(given.split())}: None")
    check_data([exact], ["exact"], PROMPTS.add_column("completion", [""] * 8), None)  # TRL passes neither text column


@pytest.mark.parametrize("several", [False, True])
def test_evaluation_sets_are_checked_before_the_training_too(tmp_path, several):
    bad, argument = SOLVED.remove_columns("solution"), "`eval_dataset`"
    if several:
        bad, argument = {"good": SOLVED, "bad": bad}, r"`eval_dataset\['bad'\]`"
    with pytest.raises(ValueError, match=rf"missing .*'solution'.* the columns of {argument} \(.*n_gold"):
        make("no/model", tmp_path, accuracy, SOLVED, eval_dataset=bad)


def test_prompts_that_ask_for_no_box_are_warned_of(tiny_model, tmp_path, recwarn):
    asked = SOLVED.map(lambda row: {"prompt": row["prompt"] + INSTRUCTION})
    for reward, rows in ((accuracy, asked), (right, SOLVED), (accuracy_reward, SOLVED)):  # the last one is TRL's
        make(tiny_model, tmp_path, reward, rows)
    assert said(recwarn, "asks for none") == []
    make(tiny_model, tmp_path, accuracy, SOLVED)
    assert len(said(recwarn, "`accuracy_reward` reads the last `\\boxed{}` of an answer, but the first prompt")) == 1


# Whether anything is right


def never(completions, **kwargs):
    return [0.0] * len(completions)


def test_a_reward_that_never_says_right_is_warned_of_once(tiny_model, tmp_path, recwarn, monkeypatch):
    def once(completions, **kwargs):
        return [float(not once.calls.append(1) and len(once.calls) == 2), *[0.0] * (len(completions) - 1)]

    once.calls = []
    train(tiny_model, tmp_path / "never", never, max_steps=5)
    (message,) = said(recwarn, NONE_RIGHT)
    assert "'never' found no completion of the first 3 batches right. Does it read what the model writes" in message
    recwarn.clear()
    train(tiny_model, tmp_path / "plain", [never, brevity], max_steps=5, length_shaping="none")
    assert said(recwarn, NONE_RIGHT) == []  # which of them would say right is not known, and the other one teaches
    monkeypatch.setattr("accelerate.Accelerator.is_main_process", False)
    train(tiny_model, tmp_path / "other", never, max_steps=5)
    monkeypatch.undo()
    assert said(recwarn, NONE_RIGHT) == []
    train(tiny_model, tmp_path / "once", once, max_steps=5)
    assert said(recwarn, NONE_RIGHT) == []


def test_answers_that_are_cut_off_are_the_reason_that_is_named(tiny_model, tmp_path, recwarn):
    endless = {"suppress_tokens": [0, 2]}  # padding and the end of a sequence
    train(tiny_model, tmp_path, never, generation_kwargs=endless, max_steps=3)
    assert said(recwarn, NONE_RIGHT)[0].endswith("100% of the last batch were cut off: raise `max_completion_length`.")


def test_a_right_answer_that_cannot_be_read_is_what_is_warned_of(tiny_model, tmp_path, recwarn):
    worked = PROMPTS.add_column("solution", ["He has 3 + 4 = <<3+4=7>>7 left.\n#### 7"] * 8)
    train(tiny_model, tmp_path, accuracy, worked, max_steps=4)
    assert said(recwarn, NONE_RIGHT) == []
    (message,) = said(recwarn, "returned None for every completion of the first 3 batches")
    assert "`solution` has to hold the answer alone, such as '72', not 'He has 3 + 4 = " in message


# The two names, and what the dry run says too


def test_a_configuration_that_is_not_coda_s_is_refused_with_what_to_do(tiny_model, tmp_path):
    text = "is a GRPOConfig, but CodaGRPOTrainer takes a CodaGRPOConfig, .* put it in its place, or derive your class"
    with pytest.raises(TypeError, match=text):
        CodaGRPOTrainer(tiny_model, right, GRPOConfig(str(tmp_path), bf16=False, use_cpu=True), PROMPTS)


def test_settings_that_work_against_the_method_are_warned_of_before_any_weights(tiny_model, tmp_path):
    with pytest.warns(UserWarning, match="`scale_rewards`: 'group' .* Set it to 'none'"), pytest.raises(OSError):
        make("no-such-model", tmp_path, right, num_generations=8, scale_rewards="group")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        make(tiny_model, tmp_path, right, num_generations=8)
        make(tiny_model, tmp_path, right, length_shaping="none", num_generations=8, scale_rewards="group")
