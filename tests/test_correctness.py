"""Which reward is shaped, what is said where it does not say right or wrong, and where nothing is right."""

import re
import warnings

import pytest
import torch
from small_training import PROMPTS, brevity, logs, make, right, train
from trl import GRPOConfig
from trl.rewards import accuracy_reward, think_format_reward

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer
from coda_trl.correctness import find_correctness_reward
from coda_trl.data import INSTRUCTION
from coda_trl.ladder import CHECKPOINT, make_dataset
from coda_trl.rewards import accuracy_reward as accuracy

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
        (["mine", "accuracy_reward"], "mine", 0),
    ],
)
def test_a_chosen_or_known_reward_is_shaped_without_a_word(names, chosen, index):
    assert find_correctness_reward(names, chosen) == (index, None)


@pytest.mark.parametrize("names", [["mine", "yours"], ["accuracy_reward", "choice_reward"]])
def test_of_others_the_first_is_shaped_and_named(names):
    index, warning = find_correctness_reward(names)
    assert index == 0 and f"({', '.join(names)}) the first, '{names[0]}', is shaped" in warning


def test_the_order_of_trl_s_own_scripts(tiny_model, tmp_path, recwarn):
    trainer = make(tiny_model, tmp_path, [think_format_reward, accuracy_reward], SOLVED)
    assert trainer.reward_func_names[trainer._base_column] == "accuracy_reward"
    assert said(recwarn, "is shaped by length") == []
    make(tiny_model, tmp_path, [right, brevity])
    assert len(said(recwarn, "(right, brevity) the first, 'right', is shaped by length")) == 1
    recwarn.clear()
    make(tiny_model, tmp_path, [right, brevity], length_shaping="none")
    assert said(recwarn, "is shaped by length") == []


# What it returns


def gist(completions, solution, **kwargs):
    """The correctness reward of a script that many start from."""
    return [2.0 if text.strip() == gold else 0.0 for text, gold in zip(completions, solution, strict=True)]


def plus_minus(completions, solution, **kwargs):
    return [1.0 if rf"\boxed{{{gold}}}" in text else -1.0 for text, gold in zip(completions, solution, strict=True)]


@pytest.mark.parametrize(("reward", "value", "weights"), [(gist, "2", "1, 6"), (plus_minus, "-1", "1, 6")])
def test_other_numbers_are_refused_before_training_with_a_wrapper_that_works(
    tiny_model, tmp_path, reward, value, weights
):
    name = reward.__name__
    settings = {"correctness_reward": name, "reward_weights": [1.0, 3.0]}
    with pytest.raises(ValueError, match=f"'{name}' returned {value}, but length shaping needs") as refusal:
        make(tiny_model, tmp_path, [brevity, reward], SOLVED, **settings)
    message = str(refusal.value)
    assert f"`reward_funcs=[brevity, correctness]`, `reward_weights=[{weights}]`" in message
    code = re.search(r"\n\n(def .*?)\n\n", message, re.DOTALL)[1]
    names = {name: reward}
    exec(code, names)
    settings = {"correctness_reward": "correctness", "reward_weights": [float(each) for each in weights.split(", ")]}
    trainer = train(tiny_model, tmp_path, [brevity, names["correctness"]], SOLVED, **settings)
    assert logs(trainer, "rewards/correctness/mean")[0] in (0, 0.125, 0.25, 0.375, 0.5)


def test_degrees_are_refused_with_the_names_of_the_others(tiny_model, tmp_path):
    pattern = r"'brevity' returned 0\.\d+, .* degrees: set `correctness_reward` .* does \(right\)\. Or set `length_sh"
    with pytest.raises(ValueError, match=pattern), pytest.warns(UserWarning, match="the first, 'brevity'"):
        train(tiny_model, tmp_path, [brevity, right])
    with pytest.raises(ValueError, match="degrees: add one that does, and set `correctness_reward` to its name"):
        train(tiny_model, tmp_path, brevity)


def test_a_probe_lets_pass_what_it_cannot_tell(tiny_model, tmp_path):
    def fussy(completions, solution, log_extra, trainer_state, **kwargs):
        return [1.0] * len(completions)

    def broken(completions, solution, **kwargs):
        raise RuntimeError("no such service")

    async def patient(completions, solution, **kwargs):
        return [2.0] * len(completions)

    for reward in (fussy, broken, patient):
        make(tiny_model, tmp_path, reward, SOLVED)
    train(tiny_model, tmp_path, fussy, SOLVED)


def words(completions, **kwargs):
    return ["right"] * len(completions)


def alone(completions, **kwargs):
    return 1.0


@pytest.mark.parametrize(("reward", "value"), [(words, r"\['right'\]"), (alone, "1.0")])
def test_what_is_no_list_of_numbers_is_refused_before_training(tiny_model, tmp_path, reward, value):
    with pytest.raises(ValueError, match=f"'{reward.__name__}' returned {value} for one completion, but must return"):
        make(tiny_model, tmp_path, reward, SOLVED)


def test_the_probe_leaves_out_what_the_tokenizer_cannot_write(tmp_path):
    """The ladder's has no token for a box, so a reward of 0.5 was refused only in the training."""

    def half(completions, solution, **kwargs):
        pairs = zip(completions, solution, strict=True)
        return [0.5 * (completion[-1]["content"] == gold) for completion, gold in pairs]

    with pytest.raises(ValueError, match="'half' returned 0.5"):
        make(CHECKPOINT, tmp_path, half, make_dataset(4))


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
            r"'accuracy_reward' cannot be called: missing .*'solution'.* answer\)",
        ),
        (strict, {}, r"'strict' cannot be called: got an unexpected keyword .* `\*\*kwargs`"),
    ],
)
def test_data_that_a_reward_cannot_read_are_refused(tmp_path, reward, columns, message):
    with pytest.raises(ValueError, match=message):
        make("no/model", tmp_path, reward, SOLVED.rename_columns(columns))


def test_prompts_that_ask_for_no_box_are_warned_of(tiny_model, tmp_path, recwarn):
    asked = SOLVED.map(lambda row: {"prompt": row["prompt"] + INSTRUCTION})
    for reward, rows in ((accuracy, asked), (right, SOLVED)):
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
    (message,) = said(recwarn, "Not one completion was right")
    assert "the reward function 'never' read what the model writes" in message
    recwarn.clear()
    monkeypatch.setattr("accelerate.Accelerator.is_main_process", False)
    train(tiny_model, tmp_path / "other", never, max_steps=5)
    monkeypatch.undo()
    assert said(recwarn, "Not one completion") == []
    train(tiny_model, tmp_path / "once", once, max_steps=5)
    assert said(recwarn, "Not one completion") == []


def test_a_right_answer_that_cannot_be_read_is_what_is_warned_of(tiny_model, tmp_path, recwarn):
    worked = PROMPTS.add_column("solution", ["He has 3 + 4 = <<3+4=7>>7 left.\n#### 7"] * 8)
    train(tiny_model, tmp_path, accuracy, worked, max_steps=4)
    assert said(recwarn, "Not one completion") == []
    (message,) = said(recwarn, "returned None for every completion of the first 3 batches")
    assert "`solution` has to hold the answer alone, such as '72', not 'He has 3 + 4 = " in message


# The two names, and what the dry run says too


def test_a_configuration_that_is_not_coda_s_is_refused_with_what_to_do(tiny_model, tmp_path):
    class MyConfig(GRPOConfig):
        pass

    refusals = {GRPOConfig: "is a GRPOConfig, .* put it in its place", MyConfig: "Derive MyConfig from CodaGRPOConfig"}
    for config, text in refusals.items():
        with pytest.raises(TypeError, match=text):
            CodaGRPOTrainer(tiny_model, right, config(str(tmp_path), bf16=False, use_cpu=True), PROMPTS)


def test_settings_that_work_against_the_method_are_warned_of_before_any_weights(tiny_model, tmp_path):
    with pytest.warns(UserWarning, match="`scale_rewards`: 'group' .* Set it to 'none'"), pytest.raises(OSError):
        make("no-such-model", tmp_path, right, num_generations=8, scale_rewards="group")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        make(tiny_model, tmp_path, right, num_generations=8)
        make(tiny_model, tmp_path, right, length_shaping="none", num_generations=8, scale_rewards="group")


def test_gates_that_act_or_are_off_are_no_news(tmp_path):
    for options in ({"num_generations": 8}, {"coda_tau_hard": 0.3}, {"coda_beta": 0.0}):
        config = CodaGRPOConfig(str(tmp_path), **({"num_generations": 4, "bf16": False, "use_cpu": True} | options))
        assert list(config.contradictions()) == []


def test_unscorable_rewards_say_right_or_wrong():
    from coda_trl.correctness import says_right_or_wrong

    assert says_right_or_wrong(torch.tensor([0.0, 1.0, torch.nan]))
    assert not says_right_or_wrong(torch.tensor([0.0, 0.5, torch.nan]))
