"""Models with random weights, of the shape that a recipe trains."""

import json
from pathlib import Path

import torch
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer

from coda_trl.ladder import CHECKPOINT

RECIPES = Path(__file__).parents[2] / "recipes"
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1, "head_dim": 32, "vocab_size": 128}


def save_random_model(recipe: str, folder: Path, longest: int | None = None, tiny: bool = False) -> None:
    """
    Saves a model of a recipe's shape (`tiny`: of its architecture) with random weights, and the ladder's tokenizer. It
    says any token as likely as another: with `longest`, so many tokens end a text that one is about a quarter of it.
    """
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    shape = json.loads((RECIPES / recipe / "config.json").read_text())
    config = AutoConfig.for_model(**shape | (TINY if tiny else {}))
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)
    if longest is not None:
        first = tokenizer.eos_token_id
        model.generation_config.eos_token_id = list(range(first, first + 4 * config.vocab_size // longest))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
