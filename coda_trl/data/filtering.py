"""Drops prompts that are too long. TRL has no such filter, and an overlong prompt stops vLLM during a run."""

import logging
from collections.abc import Sequence
from typing import Any

from datasets import Dataset
from transformers import PreTrainedTokenizerBase

logger = logging.getLogger(__name__)


def encode_prompts(
    tokenizer: PreTrainedTokenizerBase, prompts: Sequence, chat_template_kwargs: dict[str, Any] | None = None
) -> list[list[int]]:
    """Token ids of prompts, all strings or all conversations. Raises a `ValueError` if they cannot be encoded."""
    if len(tokenizer) == len(tokenizer.all_special_ids):  # what transformers makes where the files are missing
        raise ValueError("The tokenizer has no words: the model comes without its files, such as tokenizer.json.")
    is_text = isinstance(prompts[0], str)
    if not is_text and tokenizer.chat_template is None:
        raise ValueError(
            "The prompts are conversations, but the tokenizer has no chat template: set `prompt_format: plain`, or "
            "use a tokenizer that has one."
        )
    try:
        if is_text:
            return tokenizer(prompts)["input_ids"]
        options = {"add_generation_prompt": True, "return_dict": True, **(chat_template_kwargs or {})}
        return tokenizer.apply_chat_template(prompts, **options)["input_ids"]
    except Exception as problem:  # tokenizers has no narrower class
        raise ValueError(f"The tokenizer cannot encode the prompts: {problem}.") from problem


def drop_long_prompts(
    dataset: Dataset,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    chat_template_kwargs: dict[str, Any] | None = None,
) -> tuple[Dataset, str]:
    """
    Keeps the rows whose prompt has at most `max_length` tokens, with chat template and opening of the answer.

    Args:
        dataset (`Dataset`):
            Rows with a `prompt`, conversational or plain.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`]):
            Tokenizer of the model that will be trained.
        max_length (`int`):
            Longest prompt kept, in tokens. The authors use 1,024.
        chat_template_kwargs (`dict[str, Any]`, *optional*):
            As in [`~trl.GRPOConfig`].

    Returns:
        `tuple[Dataset, str]`: The rows kept, and in words how long prompts are and how many were dropped.

    Raises:
        ValueError: If nothing is left, or the tokenizer has no chat template for conversations or cannot encode them.
    """

    def measure(prompts: list) -> dict[str, list[int]]:
        return {"length": list(map(len, encode_prompts(tokenizer, prompts, chat_template_kwargs)))}

    prompts = dataset.select_columns("prompt")
    lengths = prompts.map(
        measure,
        batched=True,
        input_columns="prompt",
        remove_columns="prompt",
        desc="Prompt lengths",
        keep_in_memory=True,
    )["length"]
    kept = [index for index, length in enumerate(lengths) if length <= max_length]
    if not kept:
        shortest = f"the shortest has {min(lengths):,} tokens"
        raise ValueError(f"`max_prompt_length` is {max_length}, and no prompt is that short: {shortest}.")
    if len(kept) == len(lengths):
        return dataset, f"up to {max(lengths):,} tokens, {max_length:,} allowed"
    report = (
        f"{len(lengths) - len(kept):,} of {len(lengths):,} prompts are longer than {max_length:,} tokens and were "
        f"dropped (longest: {max(lengths):,})"
    )
    logger.warning("%s.", report)
    return dataset.select(kept), report
