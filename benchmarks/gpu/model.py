"""The models that smoke cases train."""

import json
from pathlib import Path

import torch
from transformers import AutoTokenizer, Qwen3Config, Qwen3ForCausalLM

from coda_trl.ladder import CHECKPOINT

REPOSITORY = Path(__file__).parents[2]
SHAPE = REPOSITORY / "recipes" / "qwen3-0.6b" / "config.json"


def save_random_model(folder: Path, longest: int) -> None:
    """
    Saves a model of Qwen3-0.6B's shape with random weights, and the ladder's tokenizer.

    It says any token as likely as another. So many of them end a text that a completion is about a quarter of the
    longest.

    Args:
        folder (`Path`):
            Where to.
        longest (`int`):
            Longest completion in tokens.
    """
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    config = Qwen3Config(**json.loads(SHAPE.read_text()))
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16)
    first = tokenizer.eos_token_id
    model.generation_config.eos_token_id = list(range(first, first + 4 * config.vocab_size // longest))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
