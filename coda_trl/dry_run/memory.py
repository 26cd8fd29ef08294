"""Memory of one GPU, by part. Arithmetic from sizes and settings, not a measurement.

Two moments matter: generation, when vLLM holds its share beside the training state, and the backward pass of a
micro-batch whose sequences are all of full length. Where a number is not exact (activations inside a layer, what CUDA
and the allocator keep), it is meant to be a little high.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig, PreTrainedModel
from trl import ModelConfig, get_peft_config

from ..config import CodaGRPOConfig
from .launch import Launch

if TYPE_CHECKING:
    from peft import PeftConfig

GIB = 2**30

# TRL projects the hidden states to logits in tiles of this many tokens and vocabulary entries.
HEAD_TILE = 4096 * 32768
_SIZES = (
    "hidden_size",
    "intermediate_size",
    "max_position_embeddings",
    "num_attention_heads",
    "num_hidden_layers",
    "num_key_value_heads",
    "vocab_size",
)
# DeepSpeed's defaults: elements of a reduction bucket (it keeps two), and of ZeRO-3's gathered weights.
DEEPSPEED_BUCKET = 5e8
ZERO3_LIVE = 1e9
# CUDA context, NCCL buffers, fragmentation.
FIXED = 3 * GIB
# What vLLM needs of its share for activations and CUDA graphs, at the 4,096 batched tokens that TRL sets.
VLLM_WORKSPACE = 1.5 * GIB


class LoraTargetError(ValueError):
    """LoRA's target modules are not in the model."""


@dataclass(frozen=True)
class ModelSize:
    """
    Sizes of a decoder.

    Args:
        parameters (`int`):
            All parameters, tied ones once.
        trainable (`int`):
            Those that are trained: all, or LoRA's.
        layers, hidden, intermediate, query_width, kv_width, vocabulary (`int`):
            Number of layers, width of the residual stream, of the MLP, of all queries, of all keys, and of the logits.
        max_positions (`int`):
            Longest sequence that the model is made for.
    """

    parameters: int
    trainable: int
    layers: int
    hidden: int
    intermediate: int
    query_width: int
    kv_width: int
    vocabulary: int
    max_positions: int

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token in all layers, in bfloat16."""
        return 2 * self.layers * self.kv_width * 2


def model_size(config: PretrainedConfig, model_args: ModelConfig) -> ModelSize:
    """
    Sizes of a model, from its configuration. The weights are neither loaded nor allocated.

    Args:
        config ([`~transformers.PretrainedConfig`]):
            Configuration of a causal language model.
        model_args ([`~trl.ModelConfig`]):
            Whether and how LoRA is used.

    Returns:
        [`ModelSize`]

    Raises:
        ValueError: If the configuration does not tell the sizes, or PEFT is needed and not installed.
        LoraTargetError: If LoRA's target modules are not in the model.
    """
    text = config.get_text_config()
    sizes = text.to_dict()
    unknown = [name for name in _SIZES if name not in sizes]
    if unknown:
        raise ValueError(
            f"the configuration of {config.model_type!r} does not have {', '.join(unknown)}, from which the memory is "
            "worked out"
        )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters = trainable = model.num_parameters()
    if model_args.use_peft:
        trainable = _lora_parameters(model, get_peft_config(model_args))
    head_dim = sizes.get("head_dim") or text.hidden_size // text.num_attention_heads
    return ModelSize(
        parameters=parameters,
        trainable=trainable,
        layers=text.num_hidden_layers,
        hidden=text.hidden_size,
        intermediate=text.intermediate_size,
        query_width=text.num_attention_heads * head_dim,
        kv_width=text.num_key_value_heads * head_dim,
        vocabulary=text.vocab_size,
        max_positions=text.max_position_embeddings,
    )


def _lora_parameters(model: PreTrainedModel, lora: "PeftConfig") -> int:
    # Here, as it need not be installed where no adapter is trained.
    from peft import get_peft_model
    from peft.utils.error import NoMatchingPeftModuleError

    try:
        return get_peft_model(model, lora).get_nb_trainable_parameters()[0]
    except NoMatchingPeftModuleError as problem:
        raise LoraTargetError(str(problem)) from problem


@dataclass(frozen=True)
class MemoryEstimate:
    """
    Memory of one GPU, in bytes.

    Args:
        state (`dict[str, float]`):
            What is held all the time.
        generation (`dict[str, float]`):
            What comes on top during generation.
        training (`dict[str, float]`):
            What comes on top during the backward pass.
        kv_cache (`float`, *optional*):
            The part of vLLM's share that is left for keys and values. `None` without colocated vLLM.
        sequence (`float`):
            Keys and values of one sequence of full length, on one GPU.
    """

    state: dict[str, float]
    generation: dict[str, float]
    training: dict[str, float]
    kv_cache: float | None
    sequence: float

    @property
    def generation_peak(self) -> float:
        """Bytes in use during generation."""
        return sum(self.state.values()) + sum(self.generation.values())

    @property
    def training_peak(self) -> float:
        """Bytes in use during the backward pass."""
        return sum(self.state.values()) + sum(self.training.values())

    @property
    def peak(self) -> float:
        """The larger of both."""
        return max(self.generation_peak, self.training_peak)


def estimate_memory(
    size: ModelSize,
    args: CodaGRPOConfig,
    model_args: ModelConfig,
    launch: Launch,
    max_prompt_length: int,
    gpu_memory: float,
) -> MemoryEstimate:
    """
    Estimates the memory of each GPU.

    Args:
        size ([`ModelSize`]):
            The model.
        args ([`CodaGRPOConfig`]), model_args ([`~trl.ModelConfig`]), launch ([`Launch`]):
            The run.
        max_prompt_length (`int`):
            Longest prompt, in tokens.
        gpu_memory (`float`):
            Memory of a GPU, in GiB. vLLM's share is a fraction of it.

    Returns:
        [`MemoryEstimate`]
    """
    length = max_prompt_length + args.max_completion_length
    tensor_parallel = args.vllm_tensor_parallel_size
    colocated = args.use_vllm and args.vllm_mode == "colocate"
    vllm_share = args.vllm_gpu_memory_utilization * gpu_memory * GIB if colocated else 0.0
    vllm_weights = 2 * size.parameters / tensor_parallel
    sequence = length * size.kv_bytes_per_token / (tensor_parallel if colocated else 1)

    generation = {}
    if colocated:
        generation["vLLM: weights"] = vllm_weights
        generation["vLLM: KV cache and workspace"] = vllm_share - vllm_weights
    elif not args.use_vllm:
        # transformers generates a process's whole batch at once
        sequences = args.generation_batch_size // launch.num_processes
        generation["KV cache (transformers)"] = sequences * length * size.kv_bytes_per_token
        if launch.sharding in ("zero3", "fsdp2"):
            generation["Gathered weights"] = 2 * size.parameters

    training = _training(size, args, model_args, launch, tokens=args.per_device_train_batch_size * length)
    if colocated and not args.vllm_enable_sleep_mode:
        training["vLLM (does not sleep)"] = vllm_share
    return MemoryEstimate(
        state=_state(size, args, model_args, launch),
        generation=generation,
        training=training,
        kv_cache=vllm_share - vllm_weights - VLLM_WORKSPACE if colocated else None,
        sequence=sequence,
    )


def _weight_bytes(model_args: ModelConfig, launch: Launch) -> int:
    """Bytes of a weight as it is trained. DeepSpeed and FSDP2 fix it; otherwise it is as loaded."""
    if launch.sharding in ("zero2", "zero3"):
        return 2
    if launch.sharding == "fsdp2" and not model_args.use_peft:
        return 4
    return 4 if model_args.dtype == "float32" else 2


def _state(size: ModelSize, args: CodaGRPOConfig, model_args: ModelConfig, launch: Launch) -> dict[str, float]:
    processes, sharding = launch.num_processes, launch.sharding
    weight = _weight_bytes(model_args, launch)
    shard_weights = processes if sharding in ("zero3", "fsdp2") else 1
    shard_optimizer = processes if sharding in ("zero2", "zero3", "fsdp2") else 1
    # LoRA's own weights are float32 outside DeepSpeed, whatever the model is.
    trained = weight if sharding in ("zero2", "zero3") or not model_args.use_peft else 4
    state = {f"Weights ({_dtype(weight)})": weight * size.parameters / shard_weights}
    if sharding in ("zero2", "zero3"):
        state["Master weights and Adam (float32)"] = 12 * size.trainable / shard_optimizer
    else:
        state[f"Adam ({_dtype(trained)})"] = 2 * trained * size.trainable / shard_optimizer
    state[f"Gradients ({_dtype(trained)})"] = trained * size.trainable / shard_optimizer
    if args.beta and not model_args.use_peft:  # LoRA's reference is the model with the adapter off
        state[f"Reference model ({_dtype(weight)})"] = weight * size.parameters / shard_weights
    if sharding in ("zero2", "zero3"):
        state["DeepSpeed buckets"] = 2 * 2 * min(DEEPSPEED_BUCKET, size.trainable)
    elif sharding == "ddp":
        state["DDP buckets"] = trained * size.trainable
    state["CUDA, NCCL, fragmentation (assumed)"] = FIXED
    return state


def _training(
    size: ModelSize, args: CodaGRPOConfig, model_args: ModelConfig, launch: Launch, tokens: int
) -> dict[str, float]:
    weight = _weight_bytes(model_args, launch)
    autocast = launch.sharding in ("none", "ddp") and weight == 4
    # Under autocast the embeddings, and so the residual stream, are float32.
    residual = 4 if autocast else 2
    # Inputs and outputs of the matrix products of a layer, and its two norms.
    inner = 2 * (2 * size.query_width + 2 * size.kv_width + 6 * size.hidden + 4 * size.intermediate)
    if args.gradient_checkpointing:
        training = {
            "Layer inputs (checkpoints)": size.layers * tokens * size.hidden * residual,
            "One layer, recomputed, with gradients": 1.5 * tokens * inner,
        }
    else:
        training = {"Activations of all layers": size.layers * tokens * inner}
    head = size.vocabulary * size.hidden
    head_gradient = 0 if model_args.use_peft else 4 * head
    training["Logit tile and gradient of the head"] = 2 * HEAD_TILE + head_gradient + 4 * tokens * size.hidden
    if launch.sharding == "zero3":
        training["Gathered weights"] = 2 * min(ZERO3_LIVE, size.parameters)
    elif launch.sharding == "fsdp2":
        layer = (size.parameters - head) / size.layers
        training["Gathered weights"] = 2 * 2 * head + 2 * 2 * layer
    elif autocast and not model_args.use_peft:
        training["Weights cast for autocast"] = 2 * size.parameters
    return training


def _dtype(size: int) -> str:
    return {2: "bfloat16", 4: "float32"}[size]
