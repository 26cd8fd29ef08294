"""What cannot work, and what contradicts the method."""

from collections.abc import Iterator

from trl import ModelConfig
from trl.trainer.utils import get_callable_name

from ..config import CodaGRPOConfig
from ..correctness import find_correctness_reward
from ..data import DataArguments
from ..data_checks import check_number_of_prompts
from ..loading import RewardArguments, find_rewards
from ..shaping_checks import NEED_BUDGET
from .arithmetic import Batch
from .findings import Finding, error, warning
from .launch import Launch
from .memory import GIB, MemoryEstimate, ModelSize

_REMEDIES = (
    "To lower it: `vllm_enable_sleep_mode`, `gradient_checkpointing`, a lower `vllm_gpu_memory_utilization` or "
    "`per_device_train_batch_size`, ZeRO-3 or FSDP2, more or larger GPUs, LoRA (`use_peft`)."
)


def check_method(args: CodaGRPOConfig, data_args: DataArguments) -> Iterator[Finding]:
    """Settings that contradict the method or the paper, with what to change."""
    method = args.length_shaping
    for setting, message in args.contradictions():
        yield (error if setting == "scale_rewards" else warning)(setting, message)
    needs_budget = method in NEED_BUDGET
    if needs_budget and data_args.length_budget is None:
        yield error(
            "length_budget",
            f"`length_shaping` {method!r} needs a token budget in every prompt. Set the range to draw it from, for "
            "example `length_budget: [128, 10000]`.",
        )
    if not needs_budget and data_args.length_budget is not None:
        yield warning(
            "length_budget",
            f"Prompts ask for a number of tokens, but `length_shaping` {method!r} does not reward it. Remove it.",
        )
    if args.beta and args.use_bias_correction_kl:
        yield warning(
            "use_bias_correction_kl",
            "Multiplies the KL term by the importance ratio. The authors use the plain k3 estimator. Set it to false, "
            "or `beta` to 0.",
        )
    if args.lr_scheduler_type == "linear":
        yield warning(
            "lr_scheduler_type",
            "'linear' is the default, and lowers the learning rate to 0. The authors keep it constant. Set it to "
            "'constant', or to 'cosine' if it is meant to fall.",
        )


def check_rewards(args: CodaGRPOConfig, reward_args: RewardArguments) -> Iterator[Finding]:
    """Reward functions that do not exist, and which of them is shaped."""
    setting = "reward_funcs"
    try:
        names = list(map(get_callable_name, find_rewards(reward_args, args)))
        setting = "correctness_reward"
        _, guess = find_correctness_reward(names, args.correctness_reward)
    except ValueError as problem:
        yield error(setting, str(problem))
        return
    if guess is not None and args.length_shaping != "none":
        yield warning(setting, guess)


def check_batch(args: CodaGRPOConfig, launch: Launch, batch: Batch, num_rows: int | None) -> Iterator[Finding]:
    """Batches that are impossible, or not the paper's."""
    if num_rows is not None:
        try:
            check_number_of_prompts(args, num_rows)
        except ValueError as problem:
            yield error("dataset", str(problem))
    if batch.updates < 1:
        yield warning(
            "gradient_accumulation_steps",
            f"One optimizer step takes {1 / batch.updates:g} generated batches. For one step per batch set it to "
            f"{args.steps_per_generation}.",
        )
    elif batch.updates > 1:
        iterations = " and `num_iterations` to 1" if args.num_iterations > 1 else ""
        yield warning(
            "gradient_accumulation_steps",
            f"Every generated batch is used for {batch.updates:g} optimizer steps, so the later ones are off-policy; "
            f"the paper does one. Set it to {args.steps_per_generation}{iterations}.",
        )
    colocated = args.use_vllm and args.vllm_mode == "colocate"
    if colocated and launch.num_processes % args.vllm_tensor_parallel_size:
        yield error(
            "vllm_tensor_parallel_size",
            f"{args.vllm_tensor_parallel_size} does not divide the {launch.num_processes} processes.",
        )


def check_lengths(args: CodaGRPOConfig, max_prompt_length: int, size: ModelSize) -> Iterator[Finding]:
    """Sequences that are longer than the model or vLLM takes."""
    length = max_prompt_length + args.max_completion_length
    parts = f"`max_prompt_length` ({max_prompt_length:,}) and `max_completion_length` ({args.max_completion_length:,})"
    if length > size.max_positions:
        yield error(
            "max_completion_length",
            f"{parts} make {length:,} tokens, but the model is made for {size.max_positions:,}. Lower one of them.",
        )
    if args.use_vllm and args.vllm_max_model_length is not None and args.vllm_max_model_length < length:
        yield error(
            "vllm_max_model_length", f"{args.vllm_max_model_length:,} is less than {parts}. Set it to {length:,}."
        )


def check_memory(
    args: CodaGRPOConfig, model_args: ModelConfig, launch: Launch, memory: MemoryEstimate, gpu_memory: float
) -> Iterator[Finding]:
    """Runs that do not fit a GPU, or lose small updates."""
    peak = max(memory.generation_peak, memory.training_peak) / GIB
    moment = "generation" if memory.generation_peak > memory.training_peak else "the backward pass"
    need = f"About {peak:.0f} GiB are needed during {moment}, and a GPU has {gpu_memory:g}."
    if peak > gpu_memory:
        yield error("gpu_memory", f"{need} {_REMEDIES}")
    elif peak > 0.9 * gpu_memory:
        yield warning("gpu_memory", f"{need} That is close. {_REMEDIES}")
    if memory.kv_cache is not None and memory.kv_cache < memory.sequence:
        left = max(memory.kv_cache, 0) / GIB
        yield error(
            "vllm_gpu_memory_utilization",
            f"vLLM's share leaves {left:.1f} GiB for keys and values, but one sequence of full length takes "
            f"{memory.sequence / GIB:.1f}. Raise it, or `vllm_tensor_parallel_size`.",
        )
    if model_args.dtype != "float32" and not model_args.use_peft and launch.sharding in ("none", "ddp"):
        yield warning(
            "dtype",
            f"Weights in {model_args.dtype} without a float32 copy lose updates as small as `learning_rate` "
            f"{args.learning_rate:g} makes them. Set it to 'float32', or launch with ZeRO or FSDP2.",
        )
