"""Memory of one GPU, by part. Arithmetic from sizes and settings, not a measurement.

Two moments matter: generation, when vLLM holds its share beside the training state, and the backward pass of a
micro-batch whose sequences are all of full length. Inexact numbers (activations inside a layer, what CUDA and the
allocator keep) are meant to be a little high.
"""

from dataclasses import dataclass

import torch
from transformers import AutoModelForCausalLM, PretrainedConfig
from trl import ModelConfig, get_peft_config

from ..config import CodaGRPOConfig
from .launch import Launch

GIB = 2**30

# TRL projects the hidden states to logits in tiles of this many tokens and vocabulary entries.
HEAD_TILE = 4096 * 32768
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
    """Sizes of a decoder."""

    parameters: int  # tied ones once
    trainable: int  # all, or LoRA's
    layers: int
    hidden: int  # width of the residual stream
    intermediate: int
    query_width: int  # of all heads
    kv_width: int  # of all keys
    vocabulary: int
    max_positions: int  # longest sequence that the model is made for

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token in all layers, in bfloat16."""
        return 2 * self.layers * self.kv_width * 2


def model_size(config: PretrainedConfig, model_args: ModelConfig) -> ModelSize:
    """
    Sizes of a causal language model, from its configuration. The weights are neither loaded nor allocated.

    Raises:
        AttributeError: If the configuration does not tell a size.
        ValueError: If PEFT is needed and not installed.
        LoraTargetError: If LoRA's target modules are not in the model.
    """
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    parameters = trainable = model.num_parameters()
    if model_args.use_peft:
        lora = get_peft_config(model_args)
        from peft import get_peft_model  # it need not be installed where no adapter is trained

        try:
            trainable, _ = get_peft_model(model, lora).get_nb_trainable_parameters()
        except ValueError as problem:
            raise LoraTargetError(str(problem)) from problem
    text = config.get_text_config()
    head_dim = text.to_dict().get("head_dim") or text.hidden_size // text.num_attention_heads
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


@dataclass(frozen=True)
class MemoryEstimate:
    """Memory of one GPU, in bytes."""

    state: dict[str, float]  # held all the time
    generation: dict[str, float]  # added during generation
    training: dict[str, float]  # added during the backward pass
    kv_cache: float | None  # rest of vLLM's share for keys and values; `None` without colocated vLLM
    sequence: float  # keys and values of one sequence of full length, on one GPU
    checkpoint: float  # on disk, of all GPUs

    @property
    def generation_peak(self) -> float:
        return sum(self.state.values()) + sum(self.generation.values())

    @property
    def training_peak(self) -> float:
        return sum(self.state.values()) + sum(self.training.values())


def estimate_memory(
    size: ModelSize,
    args: CodaGRPOConfig,
    model_args: ModelConfig,
    launch: Launch,
    max_prompt_length: int,
    gpu_memory: float,
) -> MemoryEstimate:
    """Estimates the memory of each GPU of a run. `gpu_memory` is that of a GPU in GiB."""
    length = max_prompt_length + args.max_completion_length
    tensor_parallel = args.vllm_tensor_parallel_size
    colocated = args.use_vllm and args.vllm_mode == "colocate"
    vllm_share = args.vllm_gpu_memory_utilization * gpu_memory * GIB if colocated else 0.0
    vllm_weights = 2 * size.parameters / tensor_parallel

    generation = {}
    if colocated:
        generation["vLLM: weights"] = vllm_weights
        generation["vLLM: KV cache and workspace"] = vllm_share - vllm_weights
    elif not args.use_vllm:
        # transformers generates a process's complete batch at once
        sequences = args.generation_batch_size // launch.num_processes
        generation["KV cache (transformers)"] = sequences * length * size.kv_bytes_per_token
        if launch.sharding in ("zero3", "fsdp2"):
            generation["Gathered weights"] = 2 * size.parameters

    # Bytes of a weight as it is trained. DeepSpeed and FSDP2 fix it; otherwise it is as loaded.
    weight = 4 if model_args.dtype == "float32" else 2
    if launch.sharding in ("zero2", "zero3"):
        weight = 2
    elif launch.sharding == "fsdp2" and not model_args.use_peft:
        weight = 4
    training = _training(size, args, model_args, launch, weight, args.per_device_train_batch_size * length)
    if colocated and not args.vllm_enable_sleep_mode:
        training["vLLM (does not sleep)"] = vllm_share
    return MemoryEstimate(
        state=_state(size, args, model_args, launch, weight),
        generation=generation,
        training=training,
        kv_cache=vllm_share - vllm_weights - VLLM_WORKSPACE if colocated else None,
        sequence=length * size.kv_bytes_per_token / (tensor_parallel if colocated else 1),
        checkpoint=_checkpoint(size, args, model_args, launch, weight),
    )


def _checkpoint(size: ModelSize, args: CodaGRPOConfig, model_args: ModelConfig, launch: Launch, weight: int) -> float:
    # With ZeRO-2, DeepSpeed's state holds the weights once more.
    optimizer = {"zero2": 12 + weight, "zero3": 12}.get(launch.sharding)
    trained = weight if optimizer or not model_args.use_peft else 4
    return size.trainable * (trained + (0 if args.save_only_model else optimizer or 2 * trained))


def _state(
    size: ModelSize, args: CodaGRPOConfig, model_args: ModelConfig, launch: Launch, weight: int
) -> dict[str, float]:
    deepspeed = launch.sharding in ("zero2", "zero3")
    weights = weight * size.parameters / (launch.num_processes if launch.sharding in ("zero3", "fsdp2") else 1)
    trainable = size.trainable / (launch.num_processes if deepspeed or launch.sharding == "fsdp2" else 1)
    # LoRA's own weights are float32 outside DeepSpeed, whatever the model is.
    trained = weight if deepspeed or not model_args.use_peft else 4
    state = {f"Weights ({_dtype(weight)})": weights}
    if deepspeed:
        state["Master weights and Adam (float32)"] = 12 * trainable
    else:
        state[f"Adam ({_dtype(trained)})"] = 2 * trained * trainable
    state[f"Gradients ({_dtype(trained)})"] = trained * trainable
    if args.beta and not model_args.use_peft:  # LoRA's reference is the model with the adapter off
        state[f"Reference model ({_dtype(weight)})"] = weights
    if deepspeed:
        state["DeepSpeed buckets"] = 2 * 2 * min(DEEPSPEED_BUCKET, size.trainable)
    elif launch.sharding == "ddp":
        state["DDP buckets"] = trained * size.trainable
    state["CUDA, NCCL, fragmentation (assumed)"] = FIXED
    return state


def _training(
    size: ModelSize, args: CodaGRPOConfig, model_args: ModelConfig, launch: Launch, weight: int, tokens: int
) -> dict[str, float]:
    autocast = launch.sharding in ("none", "ddp") and weight == 4
    # Inputs and outputs of the matrix products of a layer, and its two norms.
    inner = 2 * (2 * size.query_width + 2 * size.kv_width + 6 * size.hidden + 4 * size.intermediate)
    if args.gradient_checkpointing:
        residual = 4 if autocast else 2  # under autocast the embeddings, and so the residual stream, are float32
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
        training["Gathered weights"] = 4 * (head + (size.parameters - head) / size.layers)
        # Unless every micro-batch is synchronised, each GPU keeps gradients of all weights, in bfloat16.
        kwargs = args.accelerator_config.gradient_accumulation_kwargs or {}
        if args.gradient_accumulation_steps > 1 and not kwargs.get("sync_each_batch"):
            sharded = 4 * size.trainable / launch.num_processes
            training["Gradients not sharded yet (bfloat16)"] = max(0, 2 * size.trainable - sharded)
    elif autocast and not model_args.use_peft:
        training["Weights cast for autocast"] = 2 * size.parameters
    return training


def _dtype(size: int) -> str:
    return {2: "bfloat16", 4: "float32"}[size]
