"""What counts as length when not every token of a rollout is the model's: tools, environments, `rollout_func`."""

import json

import pytest
import torch
from datasets import Dataset
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

QUESTIONS = Dataset.from_dict({"prompt": [[{"role": "user", "content": "3 * 4?"}]] * 2})


@pytest.fixture(scope="module")
def tool_model(tmp_path_factory) -> str:
    """Folder of a tiny model whose byte-level tokenizer has Qwen3's chat template, so TRL can parse tool calls."""
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {token: index for index, token in enumerate(specials + alphabet)}
    backend = Tokenizer(models.BPE(vocabulary, merges=[]))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<|endoftext|>",
        eos_token="<|im_end|>",
        chat_template=qwen3_chat_template,
    )
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|im_start|>"]})
    tokenizer.add_tokens(specials[3:])
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(vocabulary),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            max_position_embeddings=4096,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
        )
    )
    folder = tmp_path_factory.mktemp("tool-qwen3")
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def right(completions, **kwargs):
    return [1.0] * len(completions)


def make(model, folder, reward_funcs, train_dataset=QUESTIONS, **others):
    args = CodaGRPOConfig(
        str(folder),
        per_device_train_batch_size=4,
        num_generations=4,
        max_completion_length=400,
        max_steps=1,
        log_completions=True,
        logging_steps=1,
        report_to="none",
        bf16=False,
        use_cpu=True,
        disable_tqdm=True,
    )
    return CodaGRPOTrainer(model, reward_funcs, args, train_dataset, **others)


def script(trainer, *turns: list[str]):
    """Makes the model say this: one list of texts a turn, as a random model would never call a tool."""
    turns = iter(turns)

    def generate(prompt_ids, images, multimodal_fields, num_generations, has_tool_images=False):
        texts = next(turns)
        assert len(texts) == len(prompt_ids)
        return [trainer.processing_class(text)["input_ids"] for text in texts], None

    trainer._generate_single_turn = generate


CALL = '<tool_call>\n{"name": "multiply", "arguments": {"a": 3, "b": 4}}\n</tool_call><|im_end|>'


def test_results_of_tools_are_not_the_model_s_length(tool_model, tmp_path):
    def multiply(a: int, b: int) -> str:
        """
        Multiplies two integers.

        Args:
            a: The first.
            b: The second.

        Returns:
            Their product, at length.
        """
        return f"{a * b}" + "!" * 150

    trainer = make(tool_model, tmp_path, right, tools=[multiply])
    script(trainer, [CALL, "12<|im_end|>", CALL, "1" * 100 + "<|im_end|>"], ["12<|im_end|>", "Twelve.<|im_end|>"])
    trainer.train()

    call = len(trainer.processing_class(CALL)["input_ids"])
    assert list(trainer._logs["extra"]["coda/length"]) == [call + 3, 3, call + 8, 101]
    assert trainer.state.log_history[0]["tools/call_frequency"] == 0.5
    whole = [len(json.dumps(messages)) for messages in trainer._logs["completion"]]
    assert whole[0] > whole[3]  # with the tool's answer, the first is the longest; on its own, the last is
    term = list(trainer._logs["rewards"]["length_shaping"])
    assert min(term) == term[3] and max(term) == term[1]


class Multiplication:
    """An environment whose method is a tool and which judges the answer itself."""

    def reset(self, **kwargs) -> str:
        self.calls = 0
        return " Use the tool."

    def multiply(self, a: int, b: int) -> str:
        """
        Multiplies two integers.

        Args:
            a: The first.
            b: The second.

        Returns:
            Their product.
        """
        self.calls += 1
        return f"{a * b}" + "!" * 150

    def get_reward(self) -> float:
        return float(self.calls > 0)


def test_environment_owns_the_reward_that_is_shaped(tool_model, tmp_path):
    trainer = make(tool_model, tmp_path, None, environment_factory=Multiplication)
    script(trainer, [CALL] * 4, ["12<|im_end|>", "It is 12.<|im_end|>", "Twelve.<|im_end|>", "144<|im_end|>"])
    trainer.train()
    call = len(trainer.processing_class(CALL)["input_ids"])
    assert list(trainer._logs["extra"]["coda/length"]) == [call + 3, call + 10, call + 8, call + 4]
    logs = trainer.state.log_history[0]
    assert logs["rewards/Multiplication/mean"] == 1 and logs["rewards/length_shaping/mean"] < 0


@pytest.mark.parametrize("masked", [True, False])
def test_tokens_masked_by_a_rollout_func_are_not_the_model_s_length(tool_model, tmp_path, masked):
    own = [1, 3, 5, 7]

    def rollout(prompts, trainer):
        output = {
            "prompt_ids": [[10, 11]] * 4,
            "completion_ids": [[20] * 9 + [trainer.processing_class.eos_token_id]] * 4,
            "logprobs": [[-1.0] * 10] * 4,
            "verdict": [1.0, 1.0, 1.0, 1.0],
        }
        if masked:
            output["env_mask"] = [[1] * count + [0] * (10 - count) for count in own]
        return output

    def verdict_reward(completions, verdict, **kwargs):
        return verdict

    trainer = make(tool_model, tmp_path, verdict_reward, rollout_func=rollout)
    trainer.train()
    assert list(trainer._logs["extra"]["coda/length"]) == (own if masked else [10] * 4)
    term = torch.tensor(list(trainer._logs["rewards"]["length_shaping"]))
    assert (term.diff() < 0).all() if masked else (term == term[0]).all()
