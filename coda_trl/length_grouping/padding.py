"""Models that compute the same wherever padding is, so that micro-batches may leave it out."""

from transformers import PreTrainedConfig

# Those that `tests/test_padding.py` runs in both layouts, as no configuration tells: RecurrentGemma's state and
# DeepSeek-V4's compression take padding for tokens, Llama 4 scales queries by column, Doge's attention sees later
# tokens unless a mask forbids it, GPT-2's positions count left padding.
MODEL_TYPES = frozenset(
    """afmoe apertus arcee aria_text axk1 axk2 bamba bitnet cohere cohere2 cohere2_moe cwm deepseek_v2 deepseek_v3
    deepseek_v32 diffllama dots1 ernie4_5 ernie4_5_moe exaone4 exaone_moe falcon falcon_h1 flex_olmo gemma gemma2
    gemma3_text gemma3n_text gemma4_text gemma4_unified_text glm glm4 glm4_moe glm4_moe_lite glm_moe_dsa gpt_neox
    gpt_neox_japanese gpt_oss granite granite_swa granitemoe granitemoe_swa granitemoehybrid granitemoeshared helium
    hrm_text hunyuan_v1_dense hunyuan_v1_moe hy_v3 hy_v4 hyperclovax jais2 jetmoe laguna lfm2 lfm2_moe llama
    longcat_flash mellum mimo_v2_flash minicpm3 minimax minimax_m2 ministral ministral3 mistral mixtral
    modernbert-decoder moshi nanochat nemotron olmo olmo2 olmo3 olmo_hybrid olmoe persimmon phi phi3 phimoe qwen2
    qwen2_moe qwen3 qwen3_5_moe_text qwen3_5_text qwen3_moe qwen3_next qwen4_exp_text seed_oss smollm3 solar_open
    stablelm starcoder2 vaultgemma youtu zamba2 zaya""".split()
)
# Prompt tuning, p-tuning and CPT ignore given positions, so that TRL's padding is between virtual tokens and prompt;
# Lily's router averages over a row.
PEFT_TYPES = frozenset(
    """PREFIX_TUNING LORA ADALORA BOFT ADAPTION_PROMPT IA3 BEFT LOHA LOKR OFT LN_TUNING VERA FROD PVERA FOURIERFT GLORA
    HRA VBLORA UNILORA MISS RANDLORA ROAD TRAINABLE_TOKENS HIRA SHIRA C3A WAVEFT OSF DELORA GRALORA CARTRIDGE TINYLORA
    PSOFT PEANUT SUPERTUNING DEFT""".split()
)


def values_ignore_padding(config: PreTrainedConfig, peft_type: str | None = None) -> bool:
    """
    Whether a model is known to compute the same for a row wherever its padding is and however wide the micro-batch is:
    model types and PEFT methods (`peft_type`, such as `"LORA"`) that tests have compared, unless rotary frequencies
    depend on the last position of the forward pass (`"dynamic"`, `"longrope"`).
    """
    config = config.get_text_config()
    rope = config.to_dict().get("rope_parameters") or {}
    # Models with several kinds of attention have parameters for each.
    kinds = [rope] if "rope_type" in rope else [parameters for parameters in rope.values() if parameters]
    fixed = not any("dynamic" in kind["rope_type"] or kind["rope_type"] == "longrope" for kind in kinds)
    return fixed and config.model_type in MODEL_TYPES and (peft_type is None or peft_type in PEFT_TYPES)
