"""The planned launch: number of processes, and what they share."""

from dataclasses import dataclass
from typing import Any

from accelerate import DistributedType
from accelerate.commands.config.config_args import load_config_from_file
from accelerate.utils.deepspeed import HfDeepSpeedConfig
from yaml import YAMLError

from ..config import CodaGRPOConfig


@dataclass(frozen=True)
class Launch:
    """How a run is launched."""

    num_processes: int  # one per GPU
    # What the processes divide among them: nothing ("none", "ddp"), optimizer state and gradients ("zero2"), or also
    # weights ("zero3", "fsdp2"). Other names come from the file, and their memory is not estimated.
    sharding: str
    on_cpu: bool = False


def read_launch(accelerate_config: str | None, num_processes: int | None = None) -> Launch:
    """
    Reads an accelerate configuration file, as accelerate does. Without one, the launch is a plain `python`.
    `num_processes` overrides the number in the file, as in `accelerate launch`. Raises a `ValueError` if a file is
    missing, is not accelerate's, or sets no number of processes.
    """
    if accelerate_config is None:
        processes = num_processes or 1
        return Launch(processes, "ddp" if processes > 1 else "none")
    try:
        settings = load_config_from_file(accelerate_config)
        sharding = _sharding(settings.distributed_type, settings.deepspeed_config, settings.fsdp_config)
        processes = num_processes or int(settings.num_processes)
    except (AttributeError, OSError, TypeError, ValueError, YAMLError) as problem:
        raise ValueError(f"`accelerate_config` is {accelerate_config}, but cannot be read: {problem}") from problem
    if processes == -1:  # accelerate's default
        raise ValueError(f"{accelerate_config} sets no `num_processes`. Give it as `--num_processes`.")
    return Launch(processes, sharding or ("ddp" if processes > 1 else "none"), on_cpu=settings.use_cpu)


def _sharding(kind: DistributedType | bool, deepspeed: dict[str, Any], fsdp: dict[str, Any]) -> str | None:
    """Name of the sharding, `None` if there is none. Defaults are accelerate's and DeepSpeed's."""
    if kind == DistributedType.DEEPSPEED:
        if "deepspeed_config_file" in deepspeed:
            file = HfDeepSpeedConfig(deepspeed["deepspeed_config_file"])
            stage, offloads = file.get_value("zero_optimization.stage", 0), file.is_offload()
        else:
            stage = deepspeed.get("zero_stage", 2)
            devices = {deepspeed.get(f"offload_{what}_device") for what in ("optimizer", "param")}
            offloads = devices - {None, "none"}
        return f"zero{stage}" + (" with offloading" if offloads else "")
    if kind == DistributedType.FSDP:
        fsdp = {name.removeprefix("fsdp_"): value for name, value in fsdp.items()}
        return f"fsdp{fsdp.get('version', 1)}" + (" with offloading" if fsdp.get("offload_params") else "")
    # YAML reads a bare NO as false.
    if kind in (False, DistributedType.NO, DistributedType.MULTI_GPU, DistributedType.MULTI_CPU):
        return None
    return DistributedType(kind).value


def planned_config(launch: Launch) -> type[CodaGRPOConfig]:
    """[`CodaGRPOConfig`] with the number of processes of `launch`, which can be made without a GPU."""

    class PlannedConfig(CodaGRPOConfig):
        def __post_init__(self):
            self.on_cpu = self.use_cpu or launch.on_cpu
            self.use_cpu = True
            super().__post_init__()

        @property
        def world_size(self) -> int:
            return launch.num_processes

    return PlannedConfig
