"""Dry run: what a run will do and whether it can work, before it costs anything.

`recipes/train.py --dry_run` reads the same arguments as a real run, loads no weights and needs no GPU. It prints the
batch arithmetic, the memory of a GPU by part, the data with what the filters drop, and every setting that contradicts
the method. The exit status is 1 where there is an error.
"""

import json
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase
from trl import ModelConfig, TrlParser

from ..data import DataArguments, find_stop_tokens, load_generation_config
from .arithmetic import batch_arithmetic
from .checks import check_batch, check_lengths, check_memory, check_method
from .findings import Finding, error, warning
from .hub import ask_the_hub_once
from .inspection import check_eval_data, inspect_data
from .launch import planned_config, read_launch
from .memory import LoraTargetError, ModelSize, estimate_memory, model_size
from .report import print_batch, print_data, print_findings, print_memory

__all__ = ["DryRunArguments", "Finding", "dry_run", "error", "warning"]


@dataclass
class DryRunArguments:
    """
    What the dry run needs to know beyond the run itself, for [`~trl.TrlParser`].

    Args:
        dry_run (`bool`, *optional*, defaults to `False`):
            Print what the run will do, and stop.
        accelerate_config (`str`, *optional*):
            Accelerate configuration file that the run will be launched with. A real run does not read it from here.
        num_processes (`int`, *optional*):
            Number of processes, if not that of the file.
        gpu_memory (`float`, *optional*, defaults to `80.0`):
            Memory of a GPU, in GiB.
        model_config (`str`, *optional*):
            Path of a `config.json` to take the sizes of the model from. Defaults to the one of `model_name_or_path`.
    """

    dry_run: bool = field(default=False, metadata={"help": "Print what the run will do, check it, and stop."})
    accelerate_config: str | None = field(
        default=None,
        metadata={"help": "Dry run: accelerate configuration file that the run will be launched with."},
    )
    num_processes: int | None = field(
        default=None, metadata={"help": "Dry run: number of processes, if not that of the accelerate file."}
    )
    gpu_memory: float = field(default=80.0, metadata={"help": "Dry run: memory of a GPU, in GiB."})
    model_config: str | None = field(
        default=None,
        metadata={"help": "Dry run: config.json with the sizes of the model, in place of the model's own."},
    )


@ask_the_hub_once()
def dry_run(
    argv: Sequence[str],
    script_arguments: Sequence[type] = (),
    console: Console | None = None,
    check_script: Callable[..., Iterable[Finding]] | None = None,
) -> int:
    """
    Reports on a run.

    Args:
        argv (`Sequence[str]`):
            Command line of the training script.
        script_arguments (`Sequence[type]`, *optional*):
            Dataclasses of the script's own arguments, for `check_script` to look at.
        console ([`~rich.console.Console`], *optional*):
            Where to print. Defaults to standard output.
        check_script (`Callable[..., Iterable[Finding]]`, *optional*):
            Takes the configuration, then the script's own arguments, and says what is wrong with them.

    Returns:
        `int`: Exit status: 0, or 1 if there is an error: the run cannot work, or not as the method it claims to be.
    """
    console = console or Console()
    plan, _ = TrlParser(DryRunArguments, add_help=False).parse_args_and_config(argv, return_remaining_strings=True)
    try:
        launch = read_launch(plan.accelerate_config, plan.num_processes)
        parser = TrlParser((DryRunArguments, DataArguments, planned_config(launch), ModelConfig, *script_arguments))
        _, data_args, args, model_args, *script_args = parser.parse_args_and_config(argv)
    except ValueError as problem:
        print_findings(console, [error("configuration", str(problem))])
        return 1

    if args.max_completion_length is None:
        text = "None leaves open how long a completion gets, and with it memory and time. Set a number of tokens."
        print_findings(console, [error("max_completion_length", text)])
        return 1

    findings: list[Finding] = [*check_method(args, data_args)]
    if check_script is not None:
        findings += check_script(args, *script_args)
    model_name = model_args.model_name_or_path
    hub = {"revision": model_args.model_revision, "trust_remote_code": args.trust_remote_code}
    tokenizer = _load_tokenizer(model_name, hub, findings)
    if tokenizer is not None:
        generation_config = load_generation_config(model_name, model_args.model_revision)
        stop = find_stop_tokens(tokenizer, generation_config, data_args.prompt_format)
        if stop.warning is not None:
            findings.append(warning("prompt_format", stop.warning))
    logging.getLogger("coda_trl.data").setLevel(logging.INFO)
    data = inspect_data(data_args, tokenizer, args.seed)
    findings += data.findings
    findings += check_eval_data(data_args, args.seed)
    batch = batch_arithmetic(args, data.rows)
    findings += check_batch(args, launch, batch, data.rows)

    console.rule("Dry run")
    print_batch(console, args, launch, batch, data)
    config = _load_config(plan, model_name, hub, findings)
    size = None if config is None else _read_size(config, model_args, findings)
    if size is not None:
        findings += check_lengths(args, data_args.max_prompt_length, size)
        if not args.on_cpu:
            memory = estimate_memory(size, args, model_args, launch, data_args.max_prompt_length, plan.gpu_memory)
            findings += check_memory(args, launch, memory, model_args.dtype, model_args.use_peft, plan.gpu_memory)
            print_memory(console, size, memory, plan.gpu_memory)
    print_data(console, data)
    print_findings(console, findings)
    return int(any(finding.severity == "error" for finding in findings))


def _load_config(
    plan: DryRunArguments, model_name: str | None, hub: dict[str, Any], findings: list[Finding]
) -> PretrainedConfig | None:
    location = plan.model_config or model_name
    if location is None:
        findings.append(error("model_name_or_path", "There is no model. Set it to a hub id or a folder."))
        return None
    path = Path(location)
    try:
        if path.suffix == ".json":
            return AutoConfig.for_model(**json.loads(path.read_text()))
        return AutoConfig.from_pretrained(location, **hub)
    except (OSError, ValueError) as problem:
        findings.append(
            warning(
                "model_config",
                f"The configuration of {location} could not be read ({problem}), so memory was not estimated. Give "
                "its config.json as `--model_config PATH` (and set HF_HUB_OFFLINE=1, so that nothing waits for the "
                "hub).",
            )
        )
        return None


def _read_size(config: PretrainedConfig, model_args: ModelConfig, findings: list[Finding]) -> ModelSize | None:
    try:
        return model_size(config, model_args)
    except LoraTargetError as problem:
        findings.append(error("lora_target_modules", str(problem)))
    except ValueError as problem:
        findings.append(warning("model_config", f"Memory was not estimated: {problem}."))
    return None


def _load_tokenizer(
    model_name: str | None, hub: dict[str, Any], findings: list[Finding]
) -> PreTrainedTokenizerBase | None:
    try:
        return AutoTokenizer.from_pretrained(model_name, **hub)
    except (OSError, ValueError, TypeError) as problem:
        first_line = str(problem).partition("\n")[0]
        findings.append(
            warning(
                "model_name_or_path",
                f"The tokenizer of {model_name} could not be loaded here ({first_line}), so prompt lengths and "
                "end-of-sequence tokens were not checked. Without access to the hub, give a folder as "
                "`--model_name_or_path` (and set HF_HUB_OFFLINE=1, so that nothing waits for it).",
            )
        )
        return None
