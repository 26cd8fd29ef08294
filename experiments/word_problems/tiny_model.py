"""A tiny random Llama with a tokenizer trained on demonstrations: for rehearsals, where no weights can be had."""

import random
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from .demonstrations import draw_demonstration
from .problems import RUNGS, sample_problem

PADDING, BEGIN_OF_TURN, END_OF_TURN = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def train_tokenizer(demonstrations: int = 500, vocabulary: int = 600) -> PreTrainedTokenizerFast:
    """A byte-level tokenizer with single digits and turns marked as in SmolLM2."""
    rng = random.Random(0)
    rows = [draw_demonstration(sample_problem(rng.choice(list(RUNGS)), rng), rng) for _ in range(demonstrations)]
    backend = Tokenizer(models.BPE())
    backend.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    backend.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[PADDING, BEGIN_OF_TURN, END_OF_TURN],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    backend.train_from_iterator((row[part][0]["content"] for row in rows for part in row), trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token=PADDING, eos_token=END_OF_TURN, chat_template=CHAT_TEMPLATE
    )


def make_tiny_model(out: Path) -> None:
    """Saves a random model of about 40,000 parameters with its tokenizer."""
    torch.manual_seed(0)
    tokenizer = train_tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=1024,
        tie_word_embeddings=True,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    model = LlamaForCausalLM(config)
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
