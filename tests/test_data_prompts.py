"""Prompts, length budgets, the length filter, stop tokens, and the contamination check."""

import copy

import pytest
from datasets import Dataset
from transformers import AutoTokenizer, GenerationConfig

from coda_trl.data import (
    INSTRUCTION,
    DataArguments,
    DataError,
    StopTokens,
    add_length_budget,
    choice_prompt,
    drop_long_prompts,
    find_overlap,
    find_stop_tokens,
    load_training_set,
    math_prompt,
    to_plain_text,
)
from coda_trl.data.contamination import question_text


@pytest.fixture
def tokenizer(tiny_model):
    return copy.deepcopy(AutoTokenizer.from_pretrained(tiny_model))


# Prompts


def test_prompts_are_the_authors():
    assert math_prompt("What is $2 + 2$?") == [
        {
            "role": "user",
            "content": "What is $2 + 2$?\n\nLet's think step by step and output the final answer within \\boxed{}.",
        }
    ]
    (turn,) = choice_prompt("Which?", ["A", "B", "C", "D"], ["one", "two", "three", "four\n"])
    assert turn["content"] == (
        "Which?\n\nA. one\nB. two\nC. three\nD. four\n\n\n"
        "Let's think step by step and output the final answer within \\boxed{}. "
        "Please write your final answer in the form of \\boxed{A}, \\boxed{B}, \\boxed{C}, or \\boxed{D}."
    )


def test_plain_text_has_no_turns():
    dataset = to_plain_text(Dataset.from_list([{"prompt": math_prompt("Q"), "solution": "1"}]))
    assert dataset[0] == {"prompt": f"Q\n\n{INSTRUCTION}\n", "solution": "1"}
    assert isinstance(load_training_set("ladder=2", prompt_format="plain")[0]["prompt"], str)
    messages = [{"role": "system", "content": "Be brief."}, *math_prompt("Q")]
    with pytest.raises(DataError, match=r"A prompt has 2 messages \(system, user\), but `prompt_format: plain`"):
        to_plain_text(Dataset.from_list([{"prompt": messages, "solution": "1"}]))  # would be the system's alone


# Length budgets


def test_budgets_are_uniform_in_range_and_the_same_for_a_seed():
    dataset = Dataset.from_list([{"prompt": math_prompt(f"Q{i}")} for i in range(2_000)])
    first, again, other = (add_length_budget(dataset, 128, 10_000, seed=seed)["n_gold"] for seed in (1, 1, 2))
    assert list(first) == list(again) != list(other)
    assert 128 <= min(first) < 200 and 9_900 < max(first) <= 10_000
    assert sum(first) / len(first) == pytest.approx((128 + 10_000) / 2, rel=0.04)


def test_the_budget_asked_for_is_the_one_rewarded():
    dataset = load_training_set("ladder=20", length_budget=[3, 9])
    for row in dataset:
        assert row["prompt"][-1]["content"].endswith(f"= Think for {row['n_gold']} tokens.")


def test_a_budget_is_asked_for_at_the_end_of_the_last_turn():
    system = {"role": "system", "content": "Be brief."}
    dataset = Dataset.from_list([{"prompt": [system, {"role": "user", "content": "Q"}]}])
    asked = {"role": "user", "content": "Q Think for 1 tokens."}
    assert add_length_budget(dataset, 1, 1)[0] == {"prompt": [system, asked], "n_gold": 1}


@pytest.mark.parametrize("span", [(0, 10), (10, 9)])
def test_impossible_budgets_are_refused(span):
    with pytest.raises(ValueError, match="must be a range of positive numbers"):
        add_length_budget(Dataset.from_list([{"prompt": math_prompt("Q")}]), *span)


@pytest.mark.parametrize("arguments", [{"length_budget": [128]}, {"max_prompt_length": 0}])
def test_impossible_arguments_are_refused(arguments):
    with pytest.raises(ValueError, match=f"`{next(iter(arguments))}` is"):
        DataArguments(**arguments)


# The length filter


@pytest.mark.parametrize("chat", [True, False])
def test_length_filter_counts_as_the_model_sees_it(tokenizer, chat, caplog):
    texts = ["1", "1 + 2", "1 + 2 + 3"]  # 1, 3 and 5 tokens
    frame = 3 if chat else 0  # <|user|>, <|end|>, <|assistant|>
    prompts = [[{"role": "user", "content": text}] if chat else text for text in texts]
    dataset = Dataset.from_list([{"prompt": prompt, "solution": "1"} for prompt in prompts])
    kept, report = drop_long_prompts(dataset, tokenizer, max_length=3 + frame)
    assert kept["prompt"] == prompts[:2]
    assert report == f"1 of 3 prompts are longer than {3 + frame} tokens and were dropped (longest: {5 + frame})"
    assert report in caplog.text
    caplog.clear()
    kept, report = drop_long_prompts(dataset, tokenizer, max_length=5 + frame)
    assert len(kept) == 3 and report.startswith("up to") and not caplog.records


def test_length_filter_leaves_no_empty_set(tokenizer):
    with pytest.raises(ValueError, match="`max_prompt_length` is 1, and no prompt is that short: the shortest has 3"):
        drop_long_prompts(Dataset.from_list([{"prompt": "1 + 2"}]), tokenizer, max_length=1)


# Stop tokens


def test_a_closed_turn_stops_where_checkpoint_and_template_agree(tokenizer):
    stop = find_stop_tokens(tokenizer, GenerationConfig(eos_token_id=tokenizer.eos_token_id))
    assert stop == StopTokens(ids=(tokenizer.eos_token_id,), added=(), warning=None)


def test_end_of_turn_of_a_base_checkpoint_is_added(tokenizer):
    # As Qwen3's base checkpoints: end of sequence is one token, and the template closes turns with another.
    end = tokenizer.convert_tokens_to_ids("<|end|>")
    tokenizer.eos_token = "<pad>"
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end|>"]})
    stop = find_stop_tokens(tokenizer, GenerationConfig(eos_token_id=[tokenizer.pad_token_id]))
    assert stop == StopTokens(tuple(sorted((tokenizer.pad_token_id, end))), ("<|end|>",), None)
    assert find_stop_tokens(tokenizer, None, "plain") == StopTokens((tokenizer.pad_token_id,), (), None)
    for declared in (end, [end]):
        stop = find_stop_tokens(tokenizer, GenerationConfig(eos_token_id=declared), "plain")
        assert set(stop.ids) == {tokenizer.pad_token_id, end}


def test_generation_that_cannot_stop_is_warned_of(tokenizer):
    template, tokenizer.chat_template = tokenizer.chat_template, None
    assert "no chat template" in find_stop_tokens(tokenizer, None).warning
    tokenizer.eos_token = None
    assert "set `eos_token`" in find_stop_tokens(tokenizer, None, "plain").warning
    tokenizer.chat_template = template.replace(" <|end|> ", " ")
    assert find_stop_tokens(tokenizer, GenerationConfig(eos_token_id=2)).warning is None
    assert "closes a turn with no special token" in find_stop_tokens(tokenizer, None).warning


# Contamination

LONG = "A train leaves the town at noon and drives for three hours at sixty miles an hour until it stops."


def overlap(training: list[str], problems: list[str]):
    def dataset(questions):
        return Dataset.from_list([{"prompt": math_prompt(question)} for question in questions])

    return find_overlap(dataset(training), {"test": dataset(problems)})["test"]


def test_same_text_is_found_whatever_its_form():
    found = overlap(["Something else.", r"Find $x + 1$  if  $x=2$."], ["find  $X+1$ if $x = 2$"])
    assert (found.identical, found.half, found.any, found.training_rows) == (1, 1, 1, (1,))


def test_runs_of_thirteen_words_are_found_and_told_apart_by_share():
    head = " ".join(LONG.split()[:13])
    other = "Then eleven ducks swim over a very wide lake while nine geese look on and count all of them twice a day."
    some, half = overlap([LONG], [f"{head} {other}"]), overlap([LONG], [LONG.replace("stops", "halts")])
    assert (some.identical, some.half, some.any, some.training_rows) == (0, 0, 1, ())
    assert (half.identical, half.half, half.any, half.training_rows) == (0, 1, 1, (0,))
    assert overlap([LONG], [" ".join(LONG.split()[:12]) + " " + other]).any == 0
    for problem in (head, f"{head} sharp"):  # all of one run, half of two
        found = overlap([LONG], [problem])
        assert (found.identical, found.half, found.any, found.training_rows) == (0, 1, 1, (0,))


def test_the_instruction_is_no_overlap():
    # All prompts end in it, and with a letter sentence it is longer than thirteen words.
    def letters(question):
        return Dataset.from_list([{"prompt": choice_prompt(question, ["A", "B", "C"], ["x", "y", "z"])}])

    assert question_text(letters("Which one?")[0]["prompt"]) == "Which one?\n\nA. x\nB. y\nC. z\n"
    found = find_overlap(letters("Which one?"), {"test": letters("What else?")})["test"]
    assert (found.half, found.any) == (0, 0)
    assert question_text(f"Which?\n\n{INSTRUCTION}\n") == question_text("Which?") == "Which?"
