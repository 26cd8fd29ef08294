"""The planned launch: number of processes, and what they share."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

from ..config import CodaGRPOConfig


@dataclass(frozen=True)
class Launch:
    """How a run is launched."""

    num_processes: int  # one a GPU
    # What the processes divide among them: nothing; with ZeRO-2, optimizer state and gradients; with ZeRO-3 and FSDP2,
    # weights as well.
    sharding: Literal["none", "ddp", "zero2", "zero3", "fsdp2"]
    on_cpu: bool = False


def read_launch(accelerate_config: str | None, num_processes: int | None = None) -> Launch:
    """
    Reads an accelerate configuration file.

    Args:
        accelerate_config (`str`, *optional*):
            Path of the file that `accelerate launch --config_file` is given. `None`: a plain `python` launch.
        num_processes (`int`, *optional*):
            Overrides the number in the file, as `accelerate launch --num_processes` does.

    Raises:
        ValueError: If the file is missing, or sets up something that GRPO or the estimate of memory does not cover.
    """
    if accelerate_config is None:
        processes = num_processes or 1
        return Launch(processes, "ddp" if processes > 1 else "none")
    path = Path(accelerate_config)
    if not path.is_file():
        raise ValueError(f"`accelerate_config` is {accelerate_config}, but there is no such file.")
    settings = yaml.safe_load(path.read_text())
    processes = num_processes or settings["num_processes"]
    kind = settings["distributed_type"]
    if kind == "DEEPSPEED":
        stage = settings["deepspeed_config"]["zero_stage"]
        if stage not in (2, 3):
            raise ValueError(f"{path} sets ZeRO stage {stage}. Use 2 or 3.")
        return Launch(processes, f"zero{stage}")
    if kind == "FSDP":
        if settings["fsdp_config"]["fsdp_version"] != 2:
            raise ValueError(f"{path} sets FSDP version {settings['fsdp_config']['fsdp_version']}. Use version 2.")
        return Launch(processes, "fsdp2")
    if kind not in ("NO", "MULTI_GPU", "MULTI_CPU"):
        raise ValueError(f"{path} sets `distributed_type` {kind}. Use NO, MULTI_GPU, MULTI_CPU, DEEPSPEED or FSDP.")
    return Launch(processes, "ddp" if processes > 1 else "none", on_cpu=settings["use_cpu"])


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
