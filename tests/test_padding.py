"""Models and PEFT methods that compute the same for a row wherever its padding stands: each is run at tiny size."""

import dataclasses
from pathlib import Path

import pytest
import torch
import transformers
from peft import PeftType, get_peft_model
from peft.mapping import PEFT_TYPE_TO_CONFIG_MAPPING
from transformers import AutoConfig, AutoModelForCausalLM
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES

from coda_trl.length_grouping.microbatch import LeftAligned
from coda_trl.length_grouping.padding import MODEL_TYPES, PEFT_TYPES, values_ignore_padding

PROMPT, COMPLETION, WINDOW = 12, 24, 24  # tokens: rows of up to 36 are longer than the window of sliding attention
# Sizes, and the names that configurations have for them.
NAMES = {
    64: "vocab_size vocab_size_per_layer_input",
    32: "hidden_size intermediate_size mamba_d_ssm",
    16: "moe_intermediate_size shared_expert_intermediate_size qk_head_dim mamba_chunk_size index_topk",
    8: "head_dim kv_lora_rank q_lora_rank qk_rope_head_dim qk_nope_head_dim v_head_dim linear_key_head_dim "
    "linear_value_head_dim mamba_d_head hidden_size_per_layer_input",
    4: "num_attention_heads num_key_value_heads linear_num_value_heads mamba_n_heads laurel_rank num_experts "
    "num_local_experts n_routed_experts mamba_d_state",
    2: "num_hidden_layers num_experts_per_tok linear_num_key_heads",
    1: "n_group topk_group n_shared_experts first_k_dense_replace mamba_n_groups",
    0.0: "attention_dropout hidden_dropout resid_pdrop embd_pdrop",
}
SIZES = {name: size for size, names in NAMES.items() for name in names.split()} | {
    "layer_types": None,  # by the number of layers
    "sliding_window": WINDOW,
    "max_position_embeddings": 256,
    "pad_token_id": 0,
    "bos_token_id": 1,
    "eos_token_id": 2,
}
ATTENTION = ["sliding_attention", "full_attention"]
# What some architectures need besides.
OPTIONS = {
    "bamba": {"mamba_d_head": 16},
    "gemma3n_text": {"layer_types": ATTENTION, "num_kv_shared_layers": 0},
    "gemma4_text": {"layer_types": ATTENTION},
    "gemma4_unified_text": {"layer_types": ATTENTION},
    "granitemoehybrid": {"mamba_d_head": 16},
    "lfm2_moe": {"layer_types": ["conv", "full_attention"], "num_dense_layers": 1},
    "longcat_flash": {"num_layers": 1, "ffn_hidden_size": 32, "expert_ffn_hidden_size": 16, "moe_topk": 2},
    "mimo_v2_flash": {"num_key_value_heads": 2},
    "zamba2": {"layers_block_type": ["mamba", "hybrid"], "mamba_headdim": 8, "n_mamba_heads": 8, "mamba_ngroups": 1},
    "zaya": {"num_experts_per_tok": 1},
}
PEFT_SIZES = {
    **dict.fromkeys(("r", "num_virtual_tokens", "adapter_len", "group_size"), 4),
    **dict.fromkeys(("n_frequency", "num_vectors", "vector_length", "block_size"), 8),
    "task_type": "CAUSAL_LM",
    "target_modules": ["q_proj", "v_proj"],
}
PEFT_OPTIONS = {
    "ADALORA": {"total_step": 10},
    "ADAPTION_PROMPT": {"adapter_layers": 1, "target_modules": "self_attn"},
    "CPT": {"cpt_token_ids": [5, 6, 7, 8], "cpt_mask": [1] * 4, "cpt_tokens_type_mask": [1, 2, 3, 4]},
    "IA3": {"feedforward_modules": []},
    "OFT": {"r": 0},
    "TRAINABLE_TOKENS": {"token_indices": [5, 6, 7], "target_modules": None},
}


def make_model(model_type: str) -> torch.nn.Module:
    default = AutoConfig.for_model(model_type)
    names = vars(default).keys() - default.attribute_map.keys()
    sizes = {name: value for name, value in SIZES.items() if name in names}
    return AutoModelForCausalLM.from_config(type(default)(**sizes | OPTIONS.get(model_type, {})))


def randomise(model: torch.nn.Module) -> torch.nn.Module:
    """Weights, adapters among them, so large that every part of the model shows in its logits."""
    torch.manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.ndim > 1 and weight.numel():
                weight.copy_(0.2 * torch.randn_like(weight))
    return model.eval()


def batch() -> tuple[torch.Tensor, torch.Tensor]:
    """Rows as TRL lays them out, and their mask: prompts padded on the left, completions on the right."""
    lengths = [(PROMPT, COMPLETION), (3, 5), (7, 17), (1, 9)]
    mask = torch.tensor([[0] * (PROMPT - p) + [1] * (p + c) + [0] * (COMPLETION - c) for p, c in lengths])
    return torch.randint(3, 64, mask.shape, generator=torch.Generator().manual_seed(0)) * mask, mask


def log_probs(model, input_ids, **inputs) -> torch.Tensor:
    """Of every token but the first. PEFT's virtual tokens may stand in front of the logits."""
    logits = model(input_ids=input_ids, use_cache=False, **inputs).logits[:, -input_ids.size(1) :].float()
    return logits[:, :-1].log_softmax(dim=-1).gather(2, input_ids[:, 1:, None]).squeeze(2)


@torch.no_grad()
def minds_padding(model) -> bool:
    """
    Whether log-probabilities in the layout of `LeftAligned` without a mask differ from those in TRL's layout, or
    change with later tokens.
    """
    input_ids, mask = batch()
    expected = log_probs(model, input_ids, attention_mask=mask)[:, -COMPLETION:]
    rows = LeftAligned.of(input_ids, mask, COMPLETION, multiple=4)
    found = log_probs(model, rows.input_ids, position_ids=rows.position_ids)
    found = rows.restore(torch.nn.functional.pad(found, (1, 0))[:, -rows.logits_to_keep :])
    if (found - expected)[~rows.padding].abs().max() > 1e-4:
        return True
    short = input_ids[:1, : WINDOW - 4].clone()  # so short that no window calls for a mask of the model's own
    before = log_probs(model, short)
    short[:, 12:] = (short[:, 12:] + 7) % 61 + 3
    return bool((log_probs(model, short) - before)[:, :11].abs().max() > 1e-5)


def architectures() -> set[str]:
    """Causal language models of text that transformers can make by themselves."""
    made_of_parts = {"musicgen", "musicgen_melody", "gemma4_assistant"}
    alone = sorted(MODEL_FOR_CAUSAL_LM_MAPPING_NAMES.keys() - made_of_parts)
    configs = {name: AutoConfig.for_model(name) for name in alone}
    return {name for name, config in configs.items() if config.get_text_config() is config}


def make_peft_model(peft_type: str) -> torch.nn.Module:
    config = PEFT_TYPE_TO_CONFIG_MAPPING[peft_type]
    names = {field.name for field in dataclasses.fields(config)}
    options = {name: value for name, value in (PEFT_SIZES | PEFT_OPTIONS.get(peft_type, {})).items() if name in names}
    return get_peft_model(make_model("llama"), config(**options))


@pytest.mark.slow
def test_models_and_methods_whose_padding_moves_do_not_mind():
    here = {"transformers": MODEL_TYPES & architectures(), "peft": PEFT_TYPES & {name.value for name in PeftType}}
    assert len(here["transformers"]) > 90 or transformers.__version__ < "5.17"
    makers = dict.fromkeys(here["transformers"], make_model) | dict.fromkeys(here["peft"], make_peft_model)
    assert [name for name, make in makers.items() if minds_padding(randomise(make(name)))] == []


def test_whatever_has_not_been_run_keeps_trl_s_layout():
    config = AutoConfig.for_model("qwen3")
    assert values_ignore_padding(config) and values_ignore_padding(config, "LORA")
    assert not values_ignore_padding(config, "A_NEW_METHOD")
    plain = config.rope_parameters
    for kind in ("dynamic", "longrope"):
        for each in ({"rope_type": kind}, {"sliding_attention": plain, "full_attention": {"rope_type": kind}}):
            config.rope_parameters = each
            assert not values_ignore_padding(config), each
    config.rope_parameters = {"sliding_attention": plain, "full_attention": None}
    assert values_ignore_padding(config)
    config.model_type = "a_new_model"  # with rotary positions
    assert not values_ignore_padding(config)


@pytest.mark.skipif(
    not transformers.__version__.startswith("5.17."), reason="the page counts those of transformers 5.17"
)
def test_the_page_counts_them():
    page = " ".join((Path(__file__).parent.parent / "docs/performance.md").read_text().split())
    assert f"{len(MODEL_TYPES)} of the {len(architectures())} model types" in page
    assert f"{len(PEFT_TYPES)} of the {len(PeftType)} methods" in page


@pytest.mark.parametrize("name", ["opt", "PROMPT_TUNING", "P_TUNING", "CPT", "LILY"])
def test_those_that_mind_padding_are_seen(name):
    model = make_peft_model(name) if name.isupper() else make_model(name)
    assert minds_padding(randomise(model))
    assert not values_ignore_padding(model.config, name if name.isupper() else None)
