r"""Teaches a language model the four styles of solutions, with TRL's supervised trainer. The runs start from it.

python -m experiments.word_problems.warm_start --model HuggingFaceTB/SmolLM2-135M-Instruct \
    --out runs/word_problems/start

`--model` may be a GGUF file of SmolLM2 too, which needs the package `gguf`.
"""

import argparse
import os
import random
import tempfile
import time
from pathlib import Path

import torch
from datasets import Dataset
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)
from trl import SFTConfig, SFTTrainer

from .demonstrations import RUNG_SHARES, draw_demonstration
from .problems import sample_problem

END_OF_TURN, PADDING = "<|im_end|>", "<|endoftext|>"


def load(model: str) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """A model in float32 with its tokenizer. The quantised weights of a GGUF file are expanded to bfloat16."""
    if not model.endswith(".gguf"):
        return AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32), AutoTokenizer.from_pretrained(model)
    folder, file = Path(model).parent, Path(model).name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    tokenizer.eos_token, tokenizer.pad_token = END_OF_TURN, PADDING
    quantised = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    config = quantised.config
    del config.quantization_config  # whoever loads the folder would look for the GGUF file
    tokens = {name: getattr(tokenizer, name) for name in ("bos_token_id", "eos_token_id", "pad_token_id")}
    config.update(tokens)
    expanded = LlamaForCausalLM(config)  # one that was loaded from a quantised file cannot be saved
    expanded.load_state_dict(quantised.state_dict())
    del tokens["bos_token_id"]
    expanded.generation_config = GenerationConfig(do_sample=True, **tokens)
    return expanded.to(torch.bfloat16).float(), tokenizer


def make_demonstrations(count: int, seed: int = 0) -> Dataset:
    """Problems, rungs by `RUNG_SHARES`, with solutions: conversational columns `prompt` and `completion`."""
    rng = random.Random(f"word problems, demonstrations, {seed}")
    rungs = rng.choices(list(RUNG_SHARES), list(RUNG_SHARES.values()), k=count)
    return Dataset.from_list([draw_demonstration(sample_problem(rung, rng), rng) for rung in rungs])


def warm_start(
    model: str,
    out: str,
    steps: int = 700,
    batch_size: int = 64,
    micro_batch_size: int = 32,
    learning_rate: float = 5e-4,
    seed: int = 0,
    use_cpu: bool = False,
) -> None:
    """Trains on demonstrations, each seen once, and saves the model in bfloat16 with its tokenizer."""
    start = time.perf_counter()
    loaded, tokenizer = load(model)
    with tempfile.TemporaryDirectory() as scratch:
        trainer = SFTTrainer(
            model=loaded,
            args=SFTConfig(
                output_dir=scratch,
                max_steps=steps,
                per_device_train_batch_size=micro_batch_size,
                gradient_accumulation_steps=batch_size // micro_batch_size,
                learning_rate=learning_rate,
                lr_scheduler_type="cosine",
                warmup_steps=steps // 20,
                max_length=None,
                dataset_num_proc=min(8, os.cpu_count()),
                gradient_checkpointing=False,
                bf16=not use_cpu,
                use_cpu=use_cpu,
                logging_steps=max(1, steps // 20),
                save_strategy="no",
                report_to="none",
                seed=seed,
            ),
            train_dataset=make_demonstrations(steps * batch_size, seed),
            processing_class=tokenizer,
        )
        trainer.train()
    trainer.model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)
    print(f"{steps} steps in {time.perf_counter() - start:.0f} s; saved to {out}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", required=True, help="Folder, hub id or GGUF file.")
    parser.add_argument("--out", required=True, help="Folder to write to.")
    parser.add_argument(
        "--micro_batch_size", type=int, default=32, help="Demonstrations at a time (default: %(default)s)."
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--use_cpu", action="store_true")
    warm_start(**vars(parser.parse_args()))


if __name__ == "__main__":
    main()
