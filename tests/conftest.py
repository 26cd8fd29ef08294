"""Fixtures that every test may use. Nothing here needs a network or a GPU."""

# ruff: noqa: E402 (libraries read the environment when they are imported)
import gc
import os
import tempfile

# Not the user's cache, which may hold a benchmark or be read-only. It is removed at exit.
CACHE = tempfile.TemporaryDirectory(prefix="hub-")
os.environ |= dict.fromkeys(("HF_HOME", "HF_HUB_CACHE", "HF_DATASETS_CACHE"), CACHE.name)
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRL_EXPERIMENTAL_SILENCE", "1")
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from trl.chat_template_utils import qwen3_chat_template

torch.set_num_threads(1)  # the models are so small that more threads only wait for each other

WORDS = [str(number) for number in range(20)] + ["+", "=", "ans", "check", "so", "wait"]
CHAT_TEMPLATE = (
    "{% for message in messages %}<|{{ message['role'] }}|> {{ message['content'] }} <|end|> {% endfor %}"
    "{% if add_generation_prompt %}<|assistant|> {% endif %}"
)


def pytest_collection_finish():
    gc.freeze()  # Accelerate collects garbage after every training, which took half of the time for imported modules


def save_random_model(folder, tokenizer: PreTrainedTokenizerFast, **config) -> str:
    """Saves a tokenizer and a random Qwen3-shaped model of about 5k parameters that goes with it."""
    torch.manual_seed(0)
    model = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=len(tokenizer),
            hidden_size=16,
            intermediate_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=8,
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=tokenizer.eos_token_id,
            pad_token_id=tokenizer.pad_token_id,
            **config,
        )
    )
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory) -> str:
    """Folder of a random model and a word-level tokenizer with a chat template."""
    specials = ["<pad>", "<unk>", "<|end|>", "<|system|>", "<|user|>", "<|assistant|>"]
    vocabulary = {token: index for index, token in enumerate(specials + WORDS)}
    backend = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend,
        pad_token="<pad>",
        unk_token="<unk>",
        eos_token="<|end|>",
        additional_special_tokens=["<|system|>", "<|user|>", "<|assistant|>"],
        chat_template=CHAT_TEMPLATE,
    )
    return save_random_model(tmp_path_factory.mktemp("tiny-qwen3"), tokenizer, max_position_embeddings=256)


@pytest.fixture(scope="session")
def tool_model(tmp_path_factory) -> str:
    """Folder of a random model whose byte-level tokenizer has Qwen3's chat template, so TRL can parse tool calls."""
    specials = ["<|endoftext|>", "<|im_start|>", "<|im_end|>", "<tool_call>", "</tool_call>", "<think>", "</think>"]
    vocabulary = {token: index for index, token in enumerate(specials + sorted(pre_tokenizers.ByteLevel.alphabet()))}
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
    return save_random_model(tmp_path_factory.mktemp("tool-qwen3"), tokenizer, max_position_embeddings=4096)
