"""Turns a GGUF file of SmolLM2-135M-Instruct into a folder that transformers, TRL and vLLM load.

python benchmarks/word_problems/convert.py --gguf SmolLM2-135M-Instruct.Q4_1.gguf --out runs/word_problems/smollm2

With the hub at hand there is no need of it: `warm_start.py --model HuggingFaceTB/SmolLM2-135M-Instruct` does as well.
Reading the file needs the package `gguf`.
"""

import argparse
from pathlib import Path

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
)

END_OF_TURN = "<|im_end|>"
PADDING = "<|endoftext|>"


def load_tokenizer(gguf: Path) -> PreTrainedTokenizerBase:
    """The tokenizer of a GGUF file, with the end token that its chat template closes a turn with."""
    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    tokenizer.eos_token = END_OF_TURN
    tokenizer.pad_token = PADDING
    return tokenizer


def convert(gguf: Path, out: Path) -> None:
    """
    Writes weights in bfloat16, configuration and tokenizer.

    Args:
        gguf (`Path`):
            File of a Llama-shaped model; its quantised weights are expanded.
        out (`Path`):
            Folder to write to.
    """
    tokenizer = load_tokenizer(gguf)
    quantised = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    config = quantised.config
    del config.quantization_config  # whoever loads the folder would look for the GGUF file
    config.bos_token_id = tokenizer.bos_token_id
    config.eos_token_id = tokenizer.eos_token_id
    config.pad_token_id = tokenizer.pad_token_id
    model = LlamaForCausalLM(config)  # one that was loaded from a quantised file cannot be saved
    model.load_state_dict(quantised.state_dict())
    model.generation_config = GenerationConfig(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id, do_sample=True
    )
    model.to(torch.bfloat16).save_pretrained(out)
    tokenizer.save_pretrained(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, required=True, help="The GGUF file.")
    parser.add_argument("--out", type=Path, required=True, help="Folder to write to.")
    args = parser.parse_args()
    convert(args.gguf, args.out)
    print(f"Written to {args.out}")


if __name__ == "__main__":
    main()
