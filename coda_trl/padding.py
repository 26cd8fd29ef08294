"""Models that do not mind where padding is, so that micro-batches may leave it out."""

from transformers import PreTrainedConfig

# Model types and PEFT methods of the last two kinds below. Rotary parameters do not tell: `tests/test_padding.py`.
_PADDING_COUNTS = ("recurrent_gemma", "deepseek_v4", "blt", "doge", "llama4_text", "minimax_m3_vl_text")
_PADDING_COUNTS_TO_PEFT = ("PROMPT_TUNING", "P_TUNING", "MULTITASK_PROMPT_TUNING", "CPT", "LILY")


def values_ignore_padding(config: PreTrainedConfig, peft_type: str | None = None) -> bool:
    """
    Whether a model computes the same for a row wherever its padding is and however wide the micro-batch is.

    It does with rotary positions of fixed frequencies. It does not with

    - learned or sinusoidal absolute positions (GPT-2), which count left padding in TRL;
    - rotary frequencies that follow from the last position of the forward pass (`"dynamic"` and `"longrope"`);
    - layers that take padding for tokens (RecurrentGemma's state, DeepSeek-V4's compression, BLT's patches) or go by
      columns (Llama 4's scaled queries, MiniMax-M3's blocks), and attention that sees later tokens where no mask
      forbids it (Doge);
    - PEFT's prompt tuning, p-tuning and CPT, which drop the positions that are given to them, so that TRL's padding is
      between virtual tokens and prompt, and Lily, whose router averages over a row.

    Models without rotary positions all count as such, though some of them (OPT, BLOOM, Mamba) would not mind.

    Args:
        config ([`~transformers.PreTrainedConfig`]):
            Configuration of the model.
        peft_type (`str`, *optional*):
            PEFT's name of the method that trains it, such as `"LORA"`.

    Example:

    ```python
    >>> from transformers import GPT2Config, LlamaConfig, Qwen3Config

    >>> from coda_trl.padding import values_ignore_padding

    >>> dynamic = {"rope_type": "dynamic", "factor": 2.0, "rope_theta": 10_000.0}
    >>> [values_ignore_padding(c) for c in (Qwen3Config(), GPT2Config(), LlamaConfig(rope_parameters=dynamic))]
    [True, False, False]

    ```
    """
    config = config.get_text_config()
    rope = config.to_dict().get("rope_parameters") or {}
    # Models with several kinds of attention have parameters for each.
    kinds = [rope] if "rope_type" in rope else [parameters for parameters in rope.values() if parameters]
    fixed = not any("dynamic" in kind["rope_type"] or kind["rope_type"] == "longrope" for kind in kinds)
    counts = config.model_type in _PADDING_COUNTS or peft_type in _PADDING_COUNTS_TO_PEFT
    return bool(kinds) and fixed and not counts
