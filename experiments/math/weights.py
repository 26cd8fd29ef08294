"""Expands a GGUF file of Qwen2.5-Coder-1.5B-Instruct into a folder that transformers, TRL and vLLM load.

python -m experiments.math.weights --out runs/math/start/model

Needs the package `gguf`. Without `--gguf` the file comes from the hub; for a machine without it, fetch it elsewhere:

hf download Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF qwen2.5-coder-1.5b-instruct-q4_k_m.gguf --local-dir .

The result equals what transformers reads from the file, except that the head, which the file stores in 6 bits, serves
as the embedding too, as in the original model. transformers keeps the file's own embedding, in 4 bits, beside it. The
last line says whether these are the weights of the published runs.
"""

import argparse
import mmap
import multiprocessing
import os
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gguf import GGUFReader
from gguf.quants import dequantize
from huggingface_hub import hf_hub_download
from safetensors.torch import save_file
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from coda_trl.evaluation.models import ModelFiles, fingerprint

REPOSITORY, FILE = "Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"
REVISION = "f86cb2c1fa58255f8052cc32aeede1b7482d4361"
PUBLISHED = "6a467e56ff55a65d"  # `start` of the published runs
CONFIG = Path(__file__).parents[2] / "recipes/qwen2.5-coder-1.5b/config.json"
END_OF_TURN, PADDING = "<|im_end|>", "<|endoftext|>"
ROWS = 2048  # that one task expands
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}

_sources: dict[str, Any] = {}  # tensors of the file and expanded ones, by name, which workers share by being forked
_expanded: dict[str, np.ndarray] = {}


def name_of(tensor: str) -> str | None:
    """Name in transformers of a tensor of the file; `None` for the file's own embedding."""
    stem, _, kind = tensor.rpartition(".")
    if stem.startswith("blk."):
        _, layer, part = stem.split(".")
        return f"model.layers.{layer}.{LAYER[part]}.{kind}"
    return {"output": "model.embed_tokens.weight", "output_norm": "model.norm.weight", "token_embd": None}[stem]


def _expand(task: tuple[str, int]) -> None:
    name, start = task
    source, rows = _sources[name], slice(start, start + ROWS)
    values = torch.from_numpy(dequantize(source.data[rows], source.tensor_type).copy())
    _expanded[name][rows] = values.to(torch.bfloat16).view(torch.uint16).numpy()


def expand(gguf: Path, processes: int) -> dict[str, torch.Tensor]:
    """Weights of a GGUF file in bfloat16, expanded in so many processes side by side."""
    tasks = []
    for tensor in GGUFReader(gguf).tensors:
        name = name_of(tensor.name)
        if name is None:
            continue
        shape = tuple(int(size) for size in reversed(tensor.shape))
        shared = mmap.mmap(-1, 2 * int(np.prod(shape)))
        _sources[name], _expanded[name] = tensor, np.frombuffer(shared, np.uint16).reshape(shape)
        tasks += [(name, start) for start in range(0, shape[0], ROWS)]
    with multiprocessing.get_context("fork").Pool(processes, torch.set_num_threads, (1,)) as pool:
        for _ in pool.imap_unordered(_expand, tasks):
            pass
    return {name: torch.from_numpy(values).view(torch.bfloat16) for name, values in _expanded.items()}


def write_folder(out: Path, gguf: Path) -> None:
    """Writes everything but the weights; the tokenizer is read from the GGUF file where the folder has none."""
    if not (out / "tokenizer.json").exists():
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        tokenizer.eos_token, tokenizer.pad_token = END_OF_TURN, PADDING
        tokenizer.save_pretrained(out)
    tokenizer = AutoTokenizer.from_pretrained(out)
    tokens = {"eos_token_id": tokenizer.eos_token_id, "pad_token_id": tokenizer.pad_token_id}
    config = AutoConfig.from_pretrained(CONFIG, dtype=torch.bfloat16, bos_token_id=tokens["pad_token_id"], **tokens)
    config.save_pretrained(out)
    GenerationConfig(do_sample=True, **tokens).save_pretrained(out)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gguf", type=Path, help="By default the hub's.")
    parser.add_argument("--out", type=Path, required=True, help="Folder to write to.")
    parser.add_argument("--tokenizer", type=Path, help="Folder of a tokenizer that was made before; saves seconds.")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    args = parser.parse_args()
    if args.tokenizer is not None:
        shutil.copytree(args.tokenizer, args.out, dirs_exist_ok=True)
    gguf = args.gguf or Path(hf_hub_download(REPOSITORY, FILE, revision=REVISION))
    write_folder(args.out, gguf)
    partial = args.out / "weights.partial"
    save_file(expand(gguf, args.processes), partial, metadata={"format": "pt"})
    partial.rename(args.out / "model.safetensors")
    found = fingerprint(ModelFiles(str(args.out)))
    print(f"{'These are' if found == PUBLISHED else 'Not'} the weights of the published runs (checksum {found}).")


if __name__ == "__main__":
    main()
