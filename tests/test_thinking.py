"""Thinking that is cut off holds no answer, whoever opened it: the model, or the chat template in its place."""

import json
from functools import wraps
from pathlib import Path

import pytest
from datasets import Dataset
from small_training import train
from transformers import AutoTokenizer
from trl import GRPOTrainer

from coda_trl import CodaGRPOTrainer
from coda_trl.evaluation import Benchmark, EvaluationConfig, read_samples
from coda_trl.evaluation.generation import Generation
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.evaluation.runner import evaluate
from coda_trl.grading import opens_thinking
from coda_trl.rewards import accuracy_reward, choice_reward

TURNS = "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n{% endfor %}"
START = "<|im_start|>assistant\n"
# What public templates put in front of the completion: name, template, its settings, and whether thinking is open.
TEMPLATES = {
    "no thinking": (TURNS + START, {}, False),
    "Qwen3": (
        TURNS + START + "{% if enable_thinking is defined and enable_thinking is false %}"
        "{{ '<think>\n\n</think>\n\n' }}{% endif %}",
        {},
        False,
    ),
    "Qwen3-Thinking-2507": (TURNS + START + "{{ '<think>\n' }}", {}, True),
    "R1-Distill": (
        "{% for message in messages %}{% if message.role == 'user' %}<｜User｜>{{ message.content }}{% endif %}"
        "{% endfor %}{{ '<｜Assistant｜><think>\n' }}",
        {},
        True,
    ),
}
TEMPLATES["Qwen3 without thinking"] = (TEMPLATES["Qwen3"][0], {"enable_thinking": False}, False)
# Completions for a gold of 7, and whether they are right without and with an open block.
COMPLETIONS = {
    r"maybe \boxed{7} but wait": (1.0, 0.0),
    r"it is 7</think>So \boxed{7}.": (1.0, 1.0),
    r"it is \boxed{7}</think>So \boxed{8}.": (0.0, 0.0),
    r"<think>maybe \boxed{7} but": (0.0, 0.0),
}
PROMPT = [{"role": "user", "content": "What is 3 + 4?"}]


def expected(is_open: bool) -> list[float]:
    return [verdicts[is_open] for verdicts in COMPLETIONS.values()]


@pytest.fixture(params=TEMPLATES)
def template(request, tool_model):
    template, settings, is_open = TEMPLATES[request.param]
    tokenizer = AutoTokenizer.from_pretrained(tool_model)
    tokenizer.chat_template = template
    return tokenizer, settings, is_open


def test_templates(template):
    tokenizer, settings, is_open = template
    text = tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, tokenize=False, **settings)
    assert opens_thinking(text) is is_open


def rewards_of(trainer, tool_model, tokenizer, folder, monkeypatch, rows, **settings):
    """Rewards of one step whose rollouts are `COMPLETIONS`."""
    seen = []

    @wraps(accuracy_reward)
    def reward(*args, **kwargs):
        seen.extend(accuracy_reward(*args, **kwargs))
        return seen[-len(kwargs["prompts"]) :]

    def generate(self, prompt_ids, *args, **kwargs):
        texts = list(COMPLETIONS) * (len(prompt_ids) // len(COMPLETIONS))
        return [tokenizer(text).input_ids + [tokenizer.eos_token_id] for text in texts], None

    monkeypatch.setattr(GRPOTrainer, "_generate_single_turn", generate)
    train(tool_model, folder, reward, Dataset.from_list(rows), trainer, processing_class=tokenizer, **settings)
    return seen[:4]


def test_the_trainer_knows_what_the_template_opened(template, tool_model, tmp_path, monkeypatch):
    tokenizer, settings, is_open = template
    rows = [{"prompt": PROMPT, "solution": "7"}] * 4
    options = {"chat_template_kwargs": settings}
    found = rewards_of(CodaGRPOTrainer, tool_model, tokenizer, tmp_path, monkeypatch, rows, **options)
    assert found == expected(is_open)


@pytest.mark.parametrize("column", [{}, {"prompt_opens_thinking": True}])
def test_plain_trl_learns_it_from_a_column_of_the_data_set(tool_model, tmp_path, monkeypatch, column):
    tokenizer = AutoTokenizer.from_pretrained(tool_model)
    tokenizer.chat_template = TEMPLATES["R1-Distill"][0]
    rows = [{"prompt": PROMPT, "solution": "7", **column}] * 4
    found = rewards_of(GRPOTrainer, tool_model, tokenizer, tmp_path, monkeypatch, rows)
    assert found == expected(is_open=bool(column))


@pytest.mark.parametrize("reward", [accuracy_reward, choice_reward])
def test_what_a_reward_function_can_know_without_the_trainer(reward):
    gold = "B"
    cut, finished = r"maybe \boxed{B} but", r"well</think>\boxed{B}"
    rollouts = [[{"role": "assistant", "content": text}] for text in (cut, finished)]
    # nothing tells, and a stray tag in another row of the batch does not make an answer wrong
    assert reward(rollouts, [gold] * 2, prompts=[PROMPT] * 2) == [1.0, 1.0]
    assert reward(rollouts, [gold] * 2, prompts=[PROMPT] * 2, prompt_opens_thinking=[True] * 2) == [0.0, 1.0]
    assert reward([cut, finished], [gold] * 2, prompts=["Question\n<think>\n", "Question\n"]) == [0.0, 1.0]
    assert reward([cut] * 3, [gold] * 3, prompts=["Question\n<think>\n", "Question\n", PROMPT]) == [0.0, 1.0, 1.0]
    # TRL took the reasoning out of the message
    apart = [
        [{"role": "assistant", "content": r"\boxed{B}", key: "well"}] for key in ("reasoning_content", "thinking")
    ]
    assert reward(apart, [gold] * 2, prompts=[PROMPT] * 2, prompt_opens_thinking=[True] * 2) == [1.0, 1.0]


def test_the_evaluation_knows_it_too_and_follows_the_settings_of_training(template, tool_model, tmp_path, monkeypatch):
    tokenizer, settings, is_open = template
    tokenizer.save_pretrained(tmp_path / "model")
    for file in ("config.json", "model.safetensors", "generation_config.json"):
        (tmp_path / "model" / file).write_bytes((Path(tool_model) / file).read_bytes())
    prompts = []

    class Scripted:
        def generate(self, requests):
            for request in requests:
                prompts.append(tokenizer.decode(request.prompt_ids))
                answers = enumerate(COMPLETIONS, start=request.first_sample)
                yield [Generation(request, number, text, 5, "stop") for number, text in answers]

    monkeypatch.setattr("coda_trl.evaluation.runner._build_engine", lambda *args: Scripted())
    benchmark = load_custom(tmp_path)
    config = EvaluationConfig(
        str(tmp_path / "model"), str(tmp_path / "out"), engine="transformers", n=4, max_tokens=8,
        chat_template_kwargs=json.dumps(settings),
    )  # fmt: skip
    summary = evaluate(config, [benchmark])
    samples = list(read_samples(tmp_path / "out" / "samples.jsonl"))
    assert [sample["correct"] for sample in samples] == [verdict == 1 for verdict in expected(is_open)]
    assert [sample.get("opens_thinking", False) for sample in samples] == [is_open] * 4  # to grade them again
    assert summary["settings"]["chat_template_kwargs"] == settings
    assert prompts == [tokenizer.apply_chat_template(PROMPT, add_generation_prompt=True, tokenize=False, **settings)]


def load_custom(folder) -> Benchmark:
    (folder / "sums.jsonl").write_text(json.dumps({"prompt": PROMPT, "solution": "7"}) + "\n")
    return load_benchmark(f"custom={folder / 'sums.jsonl'}")


@pytest.mark.parametrize("value", ["{enable", "[1]", "3", 3])
def test_template_settings_are_names_with_values(value, tmp_path):
    with pytest.raises(ValueError, match="chat_template_kwargs"):
        EvaluationConfig("model", str(tmp_path), engine="transformers", chat_template_kwargs=value)
    with pytest.raises(ValueError, match="prompt_format='chat'"):
        EvaluationConfig(
            "m", str(tmp_path), engine="transformers", prompt_format="plain", chat_template_kwargs={"a": 1}
        )
