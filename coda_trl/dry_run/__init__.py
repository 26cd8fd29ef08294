"""Dry run: what a run will do and whether it can work, before it costs anything.

`recipes/train.py --dry_run` reads the same arguments as a real run, loads no weights and needs no GPU. It prints the
batch arithmetic, the memory of a GPU by part, the data with what the filters drop, and every setting that contradicts
the method. The exit status is 1 if there is an error.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rich.console import Console
from transformers import AutoConfig
from trl import ModelConfig, TrlParser

from ..config import CodaGRPOConfig
from ..help_texts import help_from_docstring
from ..hub import ask_the_hub_once
from ..loading import load_tokenizer, read_settings
from ..setting_types import check_types
from .arithmetic import batch_arithmetic
from .checks import check_batch, check_lengths, check_memory, check_method, check_rewards
from .findings import Finding, error, warning
from .inspection import check_eval_data, inspect_data
from .launch import planned_config, read_launch
from .memory import LoraTargetError, ModelSize, estimate_memory, model_size
from .report import print_batch, print_data, print_findings, print_memory

__all__ = ["DryRunArguments", "dry_run", "read_plan"]

BESIDE = "dry_run.yaml"


@help_from_docstring
@dataclass
class DryRunArguments:
    """
    Options of the dry run, for [`~trl.TrlParser`]. Training ignores them.

    Args:
        dry_run (`bool`, *optional*, defaults to `False`):
            Print what the run will do, and stop.
        accelerate_config (`str`, *optional*):
            Accelerate configuration file that the run will be launched with.
        num_processes (`int`, *optional*):
            Number of processes, if not that of the file.
        gpu_memory (`float`, *optional*, defaults to `80.0`):
            Memory of a GPU, in GiB.
        model_config (`str`, *optional*):
            Path of a `config.json` to take the sizes of the model from. Defaults to the one of `model_name_or_path`.
        benchmarks (`list[str]`, *optional*):
            Evaluation sets to compare the training set with. Defaults to all eight, from the hub.
    """

    dry_run: bool = False
    accelerate_config: str | None = None
    num_processes: int | None = None
    gpu_memory: float = 80.0
    model_config: str | None = None
    benchmarks: list[str] | None = None


def read_plan(argv: Sequence[str]) -> DryRunArguments:
    """Reads the dry run's arguments from a command line, its recipe, and `dry_run.yaml` beside the recipe."""
    parser = TrlParser(DryRunArguments, add_help=False, allow_abbrev=False)
    settings, rest = read_settings(argv, beside=BESIDE)
    check_types(settings, DryRunArguments)
    parser.set_defaults_with_config(**settings)
    plan, _ = parser.parse_args_into_dataclasses(rest, return_remaining_strings=True)
    return plan


@ask_the_hub_once()
def dry_run(
    plan: DryRunArguments, parse: Callable[[type[CodaGRPOConfig]], tuple], console: Console | None = None
) -> int:
    """
    Reports on a run.

    Args:
        plan ([`DryRunArguments`]):
            Launch and data to check with, from [`read_plan`].
        parse (`Callable[[type], tuple]`):
            Reads the settings of the run, its configuration as an object of the given class: [`~train.parse`].
        console ([`~rich.console.Console`], *optional*):
            Where to print. Defaults to standard output.

    Returns:
        `int`: Exit status: 0, or 1 if there is an error: the run cannot work, or not as the method it claims to be.
    """
    console = console or Console()
    try:
        launch = read_launch(plan.accelerate_config, plan.num_processes)
        reward_args, data_args, _, args, model_args = parse(planned_config(launch))
    except (ImportError, OSError, ValueError) as problem:
        return print_findings(console, [error("configuration", str(problem))])
    if model_args.model_name_or_path is None and plan.model_config is None:
        return print_findings(console, [error("model_name_or_path", "There is none. Set it to a hub id or a folder.")])
    if args.max_completion_length is None:
        text = "None leaves open how long a completion gets, and with it memory and time. Set a number of tokens."
        return print_findings(console, [error("max_completion_length", text)])

    findings = [*check_method(args, data_args), *check_rewards(args, reward_args)]
    tokenizer = None
    try:
        tokenizer, stop = load_tokenizer(model_args, data_args.prompt_format, args.trust_remote_code)
        if stop.warning is not None:
            findings.append(warning("prompt_format", stop.warning))
    except ValueError as problem:
        text = f"{problem} So prompt lengths and end-of-sequence tokens were not checked."
        findings.append(warning("model_name_or_path", text))
    logging.getLogger("coda_trl.data").setLevel(logging.INFO)
    data = inspect_data(data_args, reward_args.reward_funcs, tokenizer, args, plan.benchmarks)
    findings += data.findings
    findings += check_eval_data(data_args, args)
    batch = batch_arithmetic(args, data.rows)
    findings += check_batch(args, launch, batch, data.rows)

    console.rule("Dry run")
    print_batch(console, args, launch, batch, data)
    size = _read_size(plan.model_config, model_args, args.trust_remote_code)
    if isinstance(size, Finding):
        findings.append(size)
    else:
        findings += check_lengths(args, data_args.max_prompt_length, size)
        if launch.sharding not in ("none", "ddp", "zero2", "zero3", "fsdp2"):
            text = f"Memory was not estimated: that covers DDP, ZeRO-2, ZeRO-3 and FSDP2, not {launch.sharding}."
            findings.append(warning("accelerate_config", text))
        elif not args.on_cpu:
            memory = estimate_memory(size, args, model_args, launch, data_args.max_prompt_length, plan.gpu_memory)
            findings += check_memory(args, model_args, launch, memory, plan.gpu_memory)
            print_memory(console, args, size, memory, plan.gpu_memory, batch.total_steps)
    print_data(console, data)
    return print_findings(console, findings)


def _read_size(config_file: str | None, model_args: ModelConfig, trust_remote_code: bool) -> ModelSize | Finding:
    location, revision = config_file or model_args.model_name_or_path, model_args.model_revision
    try:
        config = AutoConfig.from_pretrained(location, revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as problem:
        text = (
            f"The configuration of {location} could not be read ({problem}), so memory was not estimated. Give its "
            "config.json as `--model_config PATH` (and set HF_HUB_OFFLINE=1, so that nothing waits for the hub)."
        )
        return warning("model_config", text)
    try:
        return model_size(config, model_args)
    except LoraTargetError as problem:
        return error("lora_target_modules", str(problem))
    except (AttributeError, ValueError) as problem:
        return warning("model_config", f"Memory was not estimated: {problem}.")
