"""Training with vLLM colocated: which weights it samples from, and that rollouts are counted as with transformers."""

import json
import random
import statistics
from pathlib import Path

import pytest
import yaml
from small_training import table
from transformers import AutoModelForCausalLM, AutoTokenizer

from coda_trl.ladder import CHECKPOINT, RUNGS, sample_problem

RECIPE = Path(__file__).parents[2] / "recipes" / "qwen3-8b" / "coda.yaml"
RNG = random.Random(0)
PROBLEMS = [sample_problem(rung, RNG) for rung in RUNGS for _ in range(2)]
LONGEST = 48  # tokens, the recipe's limit


def as_messages(text: str) -> list[dict]:
    return [{"role": "user", "content": text}]


def greedy(model, tokenizer, prompts) -> list[list[int]]:
    """Token ids of transformers' greedy completions."""
    completions = []
    for prompt in prompts:
        inputs = tokenizer.apply_chat_template(prompt, return_tensors="pt", return_dict=True)
        output = model.generate(**inputs, do_sample=False, max_new_tokens=LONGEST)
        completions.append(output[0, inputs["input_ids"].shape[1] :].tolist())
    return completions


def test_the_recipes_settings_for_vllm_train(train):
    recipe = yaml.safe_load(RECIPE.read_text())
    settings = {name: value for name, value in recipe.items() if "vllm" in name}
    # Of memory on a GPU.
    for name in ("vllm_gpu_memory_utilization", "vllm_enable_sleep_mode", "vllm_max_model_length"):
        del settings[name]
    trainer = train(settings | {"max_steps": 3})

    assert trainer.use_vllm and trainer.vllm_mode == "colocate"
    steps = trainer.state.log_history[:-1]
    assert len(steps) == 3
    for step in steps:
        assert step["grad_norm"] > 0
        assert step["coda/mean_w_easy"] > 0 and step["rewards/length_shaping/mean"] < 0
        assert not [name for name in step if name.startswith("sampling/")]  # no correction, as the recipe says


LORA = {"use_peft": True, "lora_target_modules": "all-linear", "lora_dropout": 0.0}


@pytest.mark.parametrize("peft", [{}, LORA], ids=["full", "lora"])
def test_every_step_samples_from_the_weights_of_the_one_before(train, monkeypatch, peft):
    trainer = train(
        {
            "use_vllm": True,
            "vllm_importance_sampling_mode": "token_truncate",
            "max_steps": 3,
            "learning_rate": 5e-3,  # so large that stale weights would show
        }
        | peft
    )
    for step in trainer.state.log_history[:-1]:
        # vLLM's log-probabilities against the trainer's, which came from micro-batches by length.
        assert step["sampling/sampling_logp_difference/max"] < 1e-3
        assert step["sampling/importance_sampling_ratio/mean"] == pytest.approx(1.0, abs=1e-3)

    prompts = [as_messages(problem.question) for problem in PROBLEMS]
    tokenizer = trainer.processing_class
    monkeypatch.setattr(trainer.vllm_generation, "temperature", 0.0)
    rollouts = trainer._generate(prompts)[1]
    assert rollouts == greedy(trainer.model.eval(), tokenizer, prompts)
    assert rollouts != greedy(AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype="float32"), tokenizer, prompts)


@pytest.fixture(scope="module")
def base_checkpoint(tmp_path_factory) -> str:
    """The ladder's, as Qwen3's base checkpoints are: another end of sequence than the chat template writes."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    model = AutoModelForCausalLM.from_pretrained(CHECKPOINT)
    tokenizer.chat_template = (
        "{% for message in messages %}{{ message['content'] }} "
        "{% if message['role'] == 'assistant' %}<eos>{% endif %}{% endfor %}"
    )
    tokenizer.eos_token = tokenizer.pad_token
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.pad_token_id
    tokenizer.save_pretrained(folder)
    model.save_pretrained(folder)
    return str(folder)


@pytest.mark.parametrize("use_vllm", [True, False], ids=["vllm", "transformers"])
@pytest.mark.parametrize("declares_its_end", [True, False], ids=["declared", "base"])
def test_lengths_and_ends_are_counted_alike(train, base_checkpoint, tmp_path, use_vllm, declares_its_end):
    start = AutoModelForCausalLM.from_pretrained(CHECKPOINT, dtype="float32")
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    questions = [problem.question for problem in PROBLEMS[:-1]]
    answers = greedy(start, tokenizer, [as_messages(question) for question in questions])
    # One is answered already, so that the model has only to end it.
    questions.append(f"{questions[0]} {tokenizer.decode(answers[0], skip_special_tokens=True)}")
    answers.append([tokenizer.eos_token_id])
    limit = sorted(len(answer) for answer in answers)[len(answers) // 2]  # one ends there, others before or after
    assert min(map(len, answers)) == 1 < limit < max(map(len, answers))

    rows = [{"prompt": as_messages(question), "solution": "0"} for question in questions]
    path = tmp_path / "questions.jsonl"
    path.write_text("\n".join(map(json.dumps, rows)))
    trainer = train(
        {
            "use_vllm": use_vllm,
            "model_name_or_path": CHECKPOINT if declares_its_end else base_checkpoint,
            "vllm_importance_sampling_correction": False,
            "dataset": f"custom={path}",
            "top_k": 1,  # greedy
            "max_prompt_length": 64,
            "max_completion_length": limit,
            "max_steps": 1,
            "num_generations": 2,
            "generation_batch_size": 2 * len(questions),
            "per_device_train_batch_size": 2 * len(questions),
            "gradient_accumulation_steps": 1,
            "log_completions": True,
        }
    )

    lengths = [min(len(answer), limit) for answer in answers]
    ended = [len(answer) for answer in answers if len(answer) <= limit]
    step = trainer.state.log_history[0]
    assert (
        step["completions/mean_length"] == step["coda/mean_response_length"] == pytest.approx(statistics.mean(lengths))
    )
    assert step["completions/min_length"] == 1 and step["completions/max_length"] == limit
    assert step["completions/max_terminated_length"] == limit
    assert step["completions/mean_terminated_length"] == pytest.approx(statistics.mean(ended))
    assert step["completions/clipped_ratio"] == pytest.approx(1 - len(ended) / len(answers))
    assert step["coda/hard/clipped_ratio"] == pytest.approx(1 - len(ended) / len(answers))  # none is right
    completions = table(tmp_path / "out")
    asked = [prompt[0]["content"] for prompt in completions["prompt"]]
    counted = set(zip(asked, completions["coda/length"], strict=True))
    assert counted == set(zip(questions, lengths, strict=True))
