"""Values of TRL's settings that TRL and transformers refuse in the first step, with the weights loaded, or never."""

from collections.abc import Collection
from dataclasses import fields
from difflib import get_close_matches

import torch
from accelerate.utils import GradientAccumulationPlugin
from transformers import GenerationConfig, get_scheduler
from transformers.trainer_pt_utils import AcceleratorConfig
from trl import GRPOConfig

_COUNTS = (
    "per_device_train_batch_size gradient_accumulation_steps generation_batch_size steps_per_generation "
    "num_iterations max_completion_length"
).split()
_AT_LEAST = {"num_generations": 2} | dict.fromkeys(_COUNTS, 1) | dict.fromkeys(("learning_rate", "beta", "epsilon"), 0)
_CHOICES = {"importance_sampling_level": ("token", "sequence"), "scale_rewards": ("none", "group", "batch")}


def check_before(args: GRPOConfig) -> None:
    """Raises a `ValueError` for what TRL and transformers would stumble over while they complete the settings."""
    for name, least in _AT_LEAST.items():
        value = vars(args)[name]
        if value is None and name != "num_generations":  # there it stands for what follows from others, or no limit
            continue
        if value is None or not value >= least:
            raise ValueError(f"`{name}` is {value!r}, but must be at least {least}.")
    for name in ("temperature", "repetition_penalty"):
        if not vars(args)[name] > 0:
            raise ValueError(f"`{name}` is {vars(args)[name]!r}, but must be above 0.")
    if isinstance(args.accelerator_config, dict):
        _check_keys("accelerator_config", args.accelerator_config, _names(AcceleratorConfig))


def check_after(args: GRPOConfig) -> None:
    """Raises a `ValueError` if a word is none of TRL's, or a mapping does not suit what it is for."""
    for name, choices in _CHOICES.items():
        if vars(args)[name] not in choices:
            raise ValueError(f"`{name}` is {vars(args)[name]!r}, but must be one of {', '.join(choices)}.")
    accumulation = args.accelerator_config.gradient_accumulation_kwargs or {}
    _check_keys("gradient_accumulation_kwargs", accumulation, _names(GradientAccumulationPlugin))
    if not args.use_vllm:  # which refuses them itself
        _check_keys("generation_kwargs", args.generation_kwargs or {}, vars(GenerationConfig()))
    optimizer = torch.optim.SGD([torch.zeros(1)])
    try:
        get_scheduler(args.lr_scheduler_type, optimizer, 0, 1, args.lr_scheduler_kwargs)
    except (TypeError, ValueError) as problem:
        raise ValueError(
            f"`lr_scheduler_kwargs` is {args.lr_scheduler_kwargs}, which does not suit `lr_scheduler_type` "
            f"'{args.lr_scheduler_type.value}': {problem}."
        ) from problem


def _names(arguments: type) -> list[str]:
    return [field.name for field in fields(arguments)]


def _check_keys(name: str, mapping: dict, known: Collection[str]) -> None:
    for key in mapping:
        if key not in known:
            close = get_close_matches(str(key), known, 1)
            remedy = f"did you mean {close[0]!r}?" if close else "remove it."
            raise ValueError(f"`{name}` has {key!r}, which nothing reads: {remedy}")
