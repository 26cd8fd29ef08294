"""Trains a model with a recipe.

In a clone of the repository:

accelerate launch --config_file recipes/accelerate/zero3.yaml recipes/train.py --config recipes/qwen3-8b/coda.yaml
python recipes/train.py --config recipes/qwen3-8b/coda.yaml --dry_run

Without one, `coda-recipes` writes the folder `recipes`, and `coda-train` is `python recipes/train.py`.

`--overlay FILE...` puts short YAML files over the recipe, the last one winning; the command line wins over all.
`--dry_run` prints what the run will do, checks it, and stops. The same command resumes a stopped run from its last
complete checkpoint.
"""

import argparse
import gc
import logging
import os
import shutil
import sys
import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.integrations import get_reporting_integration_callbacks
from transformers.utils import is_flash_attn_2_available, is_kernels_available
from trl import ModelConfig, get_peft_config, get_quantization_config

from .commands import command
from .config import CodaGRPOConfig
from .correctness import RewardError
from .data import BENCHMARKS, DataArguments, drop_long_prompts
from .dry_run import DryRunArguments, dry_run, read_plan
from .hub import ask_the_hub_once
from .loading import (
    RewardArguments,
    check_evaluation,
    find_rewards,
    load_evaluation_prompts,
    load_prompts,
    load_tokenizer,
    parse_settings,
)
from .progress import hide_bars, plain_messages, show_steps
from .resuming import check_settings, find_damage, find_last_complete_checkpoint, fixed_settings, is_finished, lock
from .trainer import CodaGRPOTrainer

logger = logging.getLogger("coda_trl.train")


USAGE = "%(prog)s --config RECIPE [--overlay FILE ...] [--dry_run] [--SETTING VALUE ...]"
EPILOG = """\
Few of these are ever needed: --config RECIPE is the run, --overlay FILE and single settings change it, --dry_run
says what it would do. The settings of the method (--coda_alpha and so on) are explained in
docs/reference/config.md, recipes and overlays in docs/recipes.md; the rest is TRL's and transformers'.
"""

ARGUMENTS = (RewardArguments, DataArguments, DryRunArguments, CodaGRPOConfig, ModelConfig)


def parse(argv: Sequence[str], config: type[CodaGRPOConfig] = CodaGRPOConfig) -> tuple:
    """The settings as an object of each of `ARGUMENTS`, or of `config` for its base. Raises as [`parse_settings`]."""
    return parse_settings(
        argv,
        [config if arguments is CodaGRPOConfig else arguments for arguments in ARGUMENTS],
        usage=USAGE,
        description=__doc__,
        epilog=EPILOG,  # the end of a help of a thousand lines is what a terminal shows
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def check_arguments(data_args: DataArguments, args: CodaGRPOConfig, model_args: ModelConfig) -> None:
    """Raises at once what TRL and transformers would raise only after loading the weights."""
    if args.use_vllm and find_spec("vllm") is None:
        raise ValueError(
            '`use_vllm` is true, but vLLM is not installed: `pip install "vllm>=0.22,<0.32"`, or `--use_vllm false` '
            "to generate with transformers, which is much slower."
        )
    flash = model_args.attn_implementation == "flash_attention_2"
    if flash and not (is_flash_attn_2_available() or is_kernels_available()):
        raise ValueError(
            "`attn_implementation` is 'flash_attention_2', but flash-attn is not installed or there is no GPU: "
            "`pip install flash-attn`, or `--attn_implementation sdpa`."
        )
    check_evaluation(data_args, args)
    checkpoint = args.resume_from_checkpoint
    if checkpoint is not None and (damage := find_damage(Path(str(checkpoint)))) is not None:
        raise ValueError(
            f"`resume_from_checkpoint` is {checkpoint!r}, but that is no complete checkpoint: {damage}. Leave it "
            "out to resume from the last complete one in `output_dir`."
        )
    for callback in get_reporting_integration_callbacks(args.report_to):
        callback()  # raises if its package is not installed
    try:
        os.makedirs(args.output_dir, exist_ok=True)
    except OSError as problem:
        raise ValueError(f"`output_dir` is {args.output_dir!r}, but cannot be made: {problem}.") from problem
    if not os.access(args.output_dir, os.W_OK):
        raise ValueError(f"`output_dir` is {args.output_dir!r}, which may not be written.")


def find_checkpoint(args: CodaGRPOConfig, settings: dict[str, Any], held: ExitStack) -> tuple[str | None, bool]:
    """
    The checkpoint to resume from, and whether the run is finished; locks its folder as long as `held` is open. The
    main process looks for all. Raises a `ValueError` if the run has other settings, or another process trains it.
    """
    checkpoint, finished = None, False
    problem = f"Another process is training in {args.output_dir}. End it, or choose another --output_dir."
    if PartialState().is_main_process and (file := lock(args.output_dir)) is not None:
        held.enter_context(file)
        checkpoint = args.resume_from_checkpoint or find_last_complete_checkpoint(args.output_dir)
        problem = check_settings(args.output_dir, settings, resumes=checkpoint is not None)
        finished = checkpoint is not None and not args.resume_from_checkpoint and is_finished(checkpoint, args)
    ((checkpoint, finished, problem),) = broadcast_object_list([(checkpoint, finished, problem)])
    if problem is not None:
        raise ValueError(problem)
    return checkpoint, finished


def load_datasets(
    data_args: DataArguments, tokenizer: PreTrainedTokenizerBase, args: CodaGRPOConfig
) -> tuple[Dataset, Dataset | dict[str, Dataset] | None]:
    """The prompts to train and to evaluate on, without overlong ones. Several evaluation sets are given by name."""

    def short(name: str, dataset: Dataset) -> Dataset:
        dataset, _ = drop_long_prompts(dataset, tokenizer, data_args.max_prompt_length, args.chat_template_kwargs)
        logger.info("%s: %s prompts.", name, f"{len(dataset):,}")
        return dataset

    for name in BENCHMARKS:
        if name in data_args.dataset:  # without a location
            logger.warning("Warning: `dataset` has %s, a benchmark: its test problems are trained on.", name)
    evaluation = load_evaluation_prompts(data_args, args.seed)  # the short ones first: either name may be wrong
    evaluation = {name: short(name, dataset) for name, dataset in evaluation.items()}
    training = short(" + ".join(data_args.dataset), load_prompts(data_args.dataset, data_args, args.seed))
    return training, evaluation if len(evaluation) > 1 else next(iter(evaluation.values()), None)


@command
def main(argv: Sequence[str] | None = None) -> int:
    logging.basicConfig(format="%(message)s")
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")  # caused by TRL, not by the user
    try:
        argv = sys.argv[1:] if argv is None else argv
        if not argv or not argv[0].startswith("-"):
            raise ValueError("Nothing says what to train: give --config RECIPE, such as recipes/ladder/coda.yaml.")
        plan = read_plan(argv)
        if not plan.dry_run:
            reward_args, data_args, _, args, model_args = parse(argv)
    # A file, setting or package is missing, or a value is wrong.
    except (ImportError, OSError, ValueError, yaml.YAMLError) as problem:
        logger.error("%s", problem)
        return 2
    if plan.dry_run:
        if not sys.stderr.isatty():
            hide_bars()
        return dry_run(plan, lambda config: parse(argv, config))
    with plain_messages():
        try:
            with ExitStack() as held:
                return train(reward_args, data_args, args, model_args, held)
        except KeyboardInterrupt:
            logger.warning(
                "Stopped. The same command resumes from the last complete checkpoint in %s, if there is one.",
                args.output_dir,
            )
            return 130


@ask_the_hub_once()
def train(
    reward_args: RewardArguments,
    data_args: DataArguments,
    args: CodaGRPOConfig,
    model_args: ModelConfig,
    held: ExitStack,
) -> int:
    """Trains, or resumes a training, in a folder that is locked as long as `held` is open. Returns the exit status."""
    logging.getLogger("coda_trl").setLevel(logging.INFO if args.process_index == 0 else logging.ERROR)
    args.disable_tqdm |= not sys.stderr.isatty()  # in a file, a bar is one endless line
    if args.num_completions_to_print is None:
        args.num_completions_to_print = 0  # the table is too wide for a terminal; all are in `completions/`
    if args.disable_tqdm or args.process_index:
        hide_bars()
    try:
        rewards = find_rewards(reward_args, args)
        check_arguments(data_args, args, model_args)
        peft_config = get_peft_config(model_args)
        settings = fixed_settings(args, reward_args, data_args, model_args)
        checkpoint, finished = find_checkpoint(args, settings, held)
    except (RuntimeError, ValueError) as problem:
        logger.error("%s", problem)
        return 1

    if finished:
        logger.info(
            "This run is finished; its last checkpoint %s also holds the model. To continue, raise --max_steps or "
            "--num_train_epochs; for a new run, choose another --output_dir.", checkpoint,
        )  # fmt: skip
        PartialState().wait_for_everyone()  # see below
        PartialState().destroy_process_group()
        return 0
    if checkpoint is not None:
        logger.info("Resuming from %s. For a new run, choose another --output_dir.", checkpoint)

    try:
        tokenizer, stop = load_tokenizer(model_args, data_args.prompt_format, args.trust_remote_code)
        train_dataset, eval_dataset = load_datasets(data_args, tokenizer, args)
    except ValueError as problem:
        logger.error("%s", problem)
        return 1
    if stop.warning is not None:
        logger.warning(stop.warning)
    if stop.added:  # TRL stops at the end of sequence of tokenizer and checkpoint; vLLM at its own and at these
        (tokenizer.eos_token,) = stop.added
        if args.use_vllm:
            args.generation_kwargs = {"stop_token_ids": list(stop.ids)} | (args.generation_kwargs or {})

    args.model_init_kwargs = {
        "revision": model_args.model_revision,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
    } | (args.model_init_kwargs or {})
    try:
        trainer = CodaGRPOTrainer(
            model=model_args.model_name_or_path,
            reward_funcs=rewards,
            args=args,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            processing_class=tokenizer,
            quantization_config=get_quantization_config(model_args),
            peft_config=peft_config,
        )
    # Rewards do not suit the data, settings contradict each other, or weights or a package are missing.
    except (ImportError, OSError, ValueError) as problem:
        logger.error("%s", problem)
        return 1
    except TypeError as problem:
        if "unexpected keyword argument" not in str(problem):
            raise
        logger.error("A name in a mapping, such as `model_init_kwargs`, is wrong: %s.", problem)
        return 1
    show_steps(trainer)
    hide_bars()  # one for each checkpoint that is written
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
        if trainer.state.global_step < trainer.state.max_steps:  # after a SIGTERM, with `enable_jit_checkpoint`
            trainer.accelerator.wait_for_everyone()
            raise KeyboardInterrupt
        trainer.save_model(args.output_dir)
        trainer.save_state()
    except RewardError as problem:  # which all processes raise alike
        if args.process_index == 0:
            logger.error("%s", problem)
        trainer.accelerator.wait_for_everyone()  # the first that ends has the launcher end the others
        return 1
    except Exception:
        free = shutil.disk_usage(args.output_dir).free / 1e9
        logger.error(
            "Stopped by the error below. The same command resumes from the last complete checkpoint in %s, if there "
            "is one; its disk has %.1f GB free.", args.output_dir, free,
        )  # fmt: skip
        raise
    logger.info(
        "Model and tokenizer: %s\nMetrics: %s\nReport: coda-report %s",
        args.output_dir, os.path.join(args.output_dir, "trainer_state.json"), args.output_dir,
    )  # fmt: skip
    # A process that exits right after a collective closes the connection of one that is still in it, and gloo hangs or
    # aborts.
    trainer.accelerator.wait_for_everyone()
    if args.push_to_hub:
        trainer.push_to_hub()
    if not args.use_vllm:  # vLLM in this process destroys its groups itself at exit, and needs ours for that
        # Gloo's threads live as long as anything holds the group, and can abort Python at exit (pytorch#190489).
        # torch.distributed must be the last to hold it: others keep the GIL, for which those threads may wait.
        del trainer
        gc.collect()
        PartialState().destroy_process_group()
    return 0


if __name__ == "__main__":  # vLLM's processes import this file
    sys.exit(main())
