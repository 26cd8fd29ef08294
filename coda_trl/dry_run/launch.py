"""The planned launch: number of processes, and what they share."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file
from yaml import YAMLError

from ..config import CodaGRPOConfig


@dataclass(frozen=True)
class Launch:
    """How a run is launched."""

    num_processes: int  # one a GPU
    # What the processes divide among them: nothing ("none", "ddp"); with "zero2", optimizer state and gradients; with
    # "zero3" and "fsdp2", weights as well. Of anything else, which the file names, the memory is not estimated.
    sharding: str
    on_cpu: bool = False

    @property
    def is_estimated(self) -> bool:
        return self.sharding in ("none", "ddp", "zero2", "zero3", "fsdp2")


def read_launch(accelerate_config: str | None, num_processes: int | None = None) -> Launch:
    """
    Reads an accelerate configuration file, as accelerate does.

    Args:
        accelerate_config (`str`, *optional*):
            Path of the file that `accelerate launch --config_file` is given. `None`: a plain `python` launch.
        num_processes (`int`, *optional*):
            Overrides the number in the file, as `accelerate launch --num_processes` does.

    Raises:
        ValueError: If a file is missing, is not accelerate's, or leaves the number of processes open.
    """
    if accelerate_config is None:
        processes = num_processes or 1
        return Launch(processes, "ddp" if processes > 1 else "none")
    try:
        settings = load_config_from_file(accelerate_config)
        sharding = _sharding(settings.distributed_type, settings.deepspeed_config, settings.fsdp_config)
    except (OSError, TypeError, ValueError, YAMLError) as problem:
        raise ValueError(f"`accelerate_config` is {accelerate_config}, but cannot be read: {problem}") from problem
    processes = num_processes or settings.num_processes
    if processes == -1:  # accelerate's default
        raise ValueError(f"{accelerate_config} sets no `num_processes`. Give it as `--num_processes`.")
    return Launch(processes, sharding or ("ddp" if processes > 1 else "none"), on_cpu=settings.use_cpu)


def _sharding(kind: DistributedType | bool, deepspeed: dict[str, Any], fsdp: dict[str, Any]) -> str | None:
    """Name of the sharding, `None` if there is none. Defaults are accelerate's and DeepSpeed's."""
    if kind == DistributedType.DEEPSPEED:
        stage = deepspeed.get("zero_stage", 2)
        devices = [deepspeed.get(f"offload_{what}_device") for what in ("optimizer", "param")]
        if "deepspeed_config_file" in deepspeed:
            zero = json.loads(Path(deepspeed["deepspeed_config_file"]).read_text()).get("zero_optimization", {})
            stage = zero.get("stage", 0)
            devices = [zero.get(f"offload_{what}", {}).get("device") for what in ("optimizer", "param")]
        return f"zero{stage}" + (" with offloading" if {*devices} - {None, "none"} else "")
    if kind == DistributedType.FSDP:
        fsdp = {name.removeprefix("fsdp_"): value for name, value in fsdp.items()}
        return f"fsdp{fsdp.get('version', 1)}" + (" with offloading" if fsdp.get("offload_params") else "")
    # YAML reads a bare NO as false.
    if kind in (False, DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU):
        return None
    return kind.value


def planned_config(launch: Launch) -> type[CodaGRPOConfig]:
    """[`CodaGRPOConfig`] for the number of processes of `launch`, which needs no GPU where it is built."""

    @dataclass
    class PlannedConfig(CodaGRPOConfig):
        def __post_init__(self):
            self.on_cpu = self.use_cpu or launch.on_cpu
            self.use_cpu = True
            if self.generation_batch_size is not None:
                _check_division(self, launch.num_processes)
            super().__post_init__()

        @property
        def world_size(self) -> int:
            return launch.num_processes

    return PlannedConfig


def _check_division(args: CodaGRPOConfig, processes: int) -> None:
    """As TRL's own check of the batch, with what to change."""
    batch, micro = args.generation_batch_size, args.per_device_train_batch_size
    if batch % (micro * processes):
        allowed = [count for count in range(1, 2 * processes) if batch % (micro * count) == 0]
        raise ValueError(
            f"`generation_batch_size` {batch:,} cannot be divided among {processes} processes in micro-batches of "
            f"{micro} (`per_device_train_batch_size`). Use {', '.join(map(str, allowed))} processes, or another batch."
        )
    if batch % args.num_generations:
        raise ValueError(
            f"`generation_batch_size` {batch:,} does not hold complete groups of {args.num_generations} "
            f"(`num_generations`). Make it {batch - batch % args.num_generations:,}, or change the size of a group."
        )
