"""Models with random weights, of the shape that a recipe trains."""

import json
from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, PreTrainedTokenizerFast

from coda_trl.ladder import CHECKPOINT

RECIPES = Path(__file__).parents[1] / "recipes"
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1, "head_dim": 32, "vocab_size": 256}  # vLLM's least on a CPU


def random_model(
    recipe: str = "qwen3-0.6b", tiny: bool = False, dtype: torch.dtype = torch.bfloat16
) -> tuple[PreTrainedModel, PreTrainedTokenizerFast]:
    """
    A model of a recipe's shape (`tiny`: of its architecture) that says any token as likely as another, and the
    ladder's tokenizer with a word for every further token of the model.
    """
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    shape = json.loads((RECIPES / recipe / "config.json").read_text())
    config = AutoConfig.for_model(**shape | (TINY if tiny else {}))
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    backend = json.loads(tokenizer.backend_tokenizer.to_str())
    backend["model"]["vocab"] |= {f"w{index}": index for index in range(len(tokenizer), config.vocab_size)}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(json.dumps(backend)),
        pad_token=tokenizer.pad_token,
        eos_token=tokenizer.eos_token,
        chat_template=tokenizer.chat_template,
    )
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        return AutoModelForCausalLM.from_config(config, dtype=dtype), tokenizer


def save_random_model(recipe: str, folder: str | Path, longest: int | None = None, tiny: bool = False) -> None:
    """Saves a random model; with `longest`, so many tokens end a text that one is about a quarter of it."""
    model, tokenizer = random_model(recipe, tiny)
    if longest is not None:
        ends = max(1, 4 * model.config.vocab_size // longest)
        model.generation_config.eos_token_id = list(range(tokenizer.eos_token_id, tokenizer.eos_token_id + ends))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
