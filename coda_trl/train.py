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
import importlib
import json
import logging
import os
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

import yaml
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from trl import ModelConfig, TrlParser, get_peft_config, get_quantization_config

from .config import CodaGRPOConfig
from .correctness import find_correctness_reward
from .data import (
    DataArguments,
    drop_long_prompts,
    find_stop_tokens,
    load_generation_config,
    load_training_set,
)
from .dry_run import DryRunArguments, Finding, dry_run, error, warning
from .resuming import find_last_whole_checkpoint, has_saved, is_finished, save_finished
from .rewards import REWARD_FUNCTIONS
from .trainer import CodaGRPOTrainer

logger = logging.getLogger("coda_trl.train")


@dataclass
class RewardArguments:
    """
    How rollouts are rewarded.

    Args:
        reward_funcs (`list[str]`, *optional*, defaults to `["accuracy_reward"]`):
            Reward functions, by name or as a dotted path (`my_package.rewards.my_reward`, found from the working
            directory as well). The one that is known to say right or wrong is shaped, or `correctness_reward`.
    """

    reward_funcs: list[str] = field(
        default_factory=lambda: ["accuracy_reward"],
        metadata={"help": f"Reward functions: {', '.join(REWARD_FUNCTIONS)}, or a dotted path."},
    )


USAGE = "%(prog)s --config RECIPE [--overlay FILE ...] [--dry_run] [--SETTING VALUE ...]"
EPILOG = """\
Few of these are ever needed: --config RECIPE is the run, --overlay FILE and single settings change it, --dry_run
says what it would do. The settings of the method (--coda_alpha and so on) are explained in
docs/reference/config.md, recipes and overlays in docs/recipes.md; the rest is TRL's and transformers'.
"""

SCRIPT_ARGUMENTS = (RewardArguments,)
ARGUMENTS = (*SCRIPT_ARGUMENTS, DataArguments, DryRunArguments, CodaGRPOConfig, ModelConfig)


def apply_overlays(argv: Sequence[str]) -> list[str]:
    """
    Replaces `--overlay FILE...` by what the files hold, as arguments in front of the others.

    Args:
        argv (`Sequence[str]`):
            Command line.

    Returns:
        `list[str]`: Command line without `--overlay`.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--overlay", nargs="+", default=[])
    options, rest = parser.parse_known_args(argv)
    flags = []
    for path in options.overlay:
        for key, value in yaml.safe_load(Path(path).read_text()).items():
            values = value if isinstance(value, list) else [json.dumps(value) if isinstance(value, dict) else value]
            flags += [f"--{key}", *map(str, values)]
    return [*flags, *rest]


def find_reward(name: str, max_completion_length: int) -> Callable:
    """
    Finds a reward function.

    Args:
        name (`str`):
            A key of `REWARD_FUNCTIONS`, or a dotted path.
        max_completion_length (`int`):
            Longest completion in tokens, for the punishment of overlong ones: as in DAPO, it sets in over the last
            quarter.

    Raises:
        ValueError: If there is no such function.
    """
    if name == "get_soft_overlong_punishment":
        punishment = REWARD_FUNCTIONS[name]
        return punishment(max_completion_len=max_completion_length, soft_punish_cache=max_completion_length // 4)
    if name == "get_repetition_penalty_reward":
        return REWARD_FUNCTIONS[name]()
    if name in REWARD_FUNCTIONS:
        return REWARD_FUNCTIONS[name]
    module, _, function = name.rpartition(".")
    if not module:
        known = ", ".join(REWARD_FUNCTIONS)
        raise ValueError(f"`reward_funcs` has {name!r}, but must hold a dotted path or any of: {known}.")
    sys.path.append(os.getcwd())
    try:
        return vars(importlib.import_module(module))[function]
    except (ImportError, KeyError) as error:
        raise ValueError(f"`reward_funcs` has {name!r}, but that cannot be imported: {error!r}.") from error


def check_rewards(args: CodaGRPOConfig, reward_args: RewardArguments) -> Iterator[Finding]:
    """What the dry run says of the reward functions."""
    try:
        names = [find_reward(name, args.max_completion_length).__name__ for name in reward_args.reward_funcs]
    except ValueError as problem:
        yield error("reward_funcs", str(problem))
        return
    try:
        _, guess = find_correctness_reward(names, args.correctness_reward)
    except ValueError as problem:
        yield error("correctness_reward", str(problem))
        return
    if guess is not None and args.length_shaping != "none":
        yield warning("correctness_reward", guess)


def load_data(specs: list[str], data_args: DataArguments, tokenizer: PreTrainedTokenizerBase, seed: int) -> Dataset:
    """The prompts of a training or evaluation set, without those that are too long."""
    columns = (data_args.prompt_column, data_args.solution_column)
    dataset = load_training_set(specs, data_args.prompt_format, data_args.length_budget, seed=seed, columns=columns)
    dataset, lengths = drop_long_prompts(dataset, tokenizer, data_args.max_prompt_length)
    logger.info("%s: %s prompts, %s.", " + ".join(specs), f"{len(dataset):,}", lengths)
    return dataset


def main(argv: Sequence[str] | None = None) -> int:
    argv = apply_overlays(sys.argv[1:] if argv is None else argv)
    logging.basicConfig(format="%(message)s")
    if not argv:
        logger.error("Nothing says what to train: give --config RECIPE, such as recipes/ladder/coda.yaml.")
        return 2
    plan, _ = TrlParser(DryRunArguments, add_help=False).parse_args_and_config(argv, return_remaining_strings=True)
    if plan.dry_run:
        return dry_run(argv, SCRIPT_ARGUMENTS, check_script=check_rewards)

    parser = TrlParser(
        ARGUMENTS,
        usage=USAGE,
        description=__doc__,
        epilog=EPILOG,  # the end of a help of a thousand lines is what a terminal shows
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    reward_args, data_args, _, args, model_args = parser.parse_args_and_config(argv)
    logging.getLogger("coda_trl").setLevel(logging.INFO if args.process_index == 0 else logging.ERROR)
    if args.use_vllm and find_spec("vllm") is None:  # TRL says so too, but only behind the weights
        logger.error(
            '`use_vllm` is true, but vLLM is not installed: `pip install "vllm>=0.22,<0.32"`, or `--use_vllm false` '
            "to generate with transformers, which is much slower."
        )
        return 1

    checkpoint = args.resume_from_checkpoint
    if checkpoint is None:  # one process looks, so that all resume from the same
        state = PartialState()
        found = find_last_whole_checkpoint(args.output_dir) if state.is_main_process else None
        (checkpoint,) = broadcast_object_list([found])
        saved = has_saved(args)  # the last checkpoint may be gone then, with `load_best_model_at_end`
        if checkpoint is not None and (saved or is_finished(checkpoint, args)):
            logger.info(
                "This run is finished, its last checkpoint is %s. To continue, raise --max_steps or "
                "--num_train_epochs; for a new run, choose another --output_dir.", checkpoint,
            )  # fmt: skip
            state.wait_for_everyone()
            if state.is_main_process and not saved:
                save_finished(checkpoint, args)
                lacking = " It has not been pushed to the hub." if args.push_to_hub else ""
                logger.warning("Its model had not been saved, and is now in %s.%s", args.output_dir, lacking)
            state.destroy_process_group()
            return 0
        if checkpoint is not None:
            logger.info("Resuming from %s. For a new run, choose another --output_dir.", checkpoint)

    name, revision = model_args.model_name_or_path, model_args.model_revision
    tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=args.trust_remote_code)
    stop = find_stop_tokens(tokenizer, load_generation_config(name, revision), data_args.prompt_format)
    if stop.warning is not None:
        logger.warning(stop.warning)
    if stop.added:  # TRL stops at the tokenizer's end of sequence and the checkpoint's; vLLM at its own and at these
        (tokenizer.eos_token,) = stop.added
        if args.use_vllm:
            args.generation_kwargs = {"stop_token_ids": list(stop.ids)} | (args.generation_kwargs or {})

    rewards = [find_reward(reward, args.max_completion_length) for reward in reward_args.reward_funcs]
    train_dataset, eval_dataset = (
        None if specs is None else load_data(specs, data_args, tokenizer, args.seed)
        for specs in (data_args.dataset, data_args.eval_dataset)
    )

    args.model_init_kwargs = {
        "revision": revision,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
    } | (args.model_init_kwargs or {})
    trainer = CodaGRPOTrainer(
        model=name,
        reward_funcs=rewards,
        args=args,
        train_dataset=train_dataset,
        eval_dataset=eval_dataset,
        processing_class=tokenizer,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
    again = f"The same command resumes from the last complete checkpoint in {args.output_dir}"
    try:
        trainer.train(resume_from_checkpoint=checkpoint)
        trainer.save_model(args.output_dir)
        trainer.save_state()
    except KeyboardInterrupt:
        logger.warning("Stopped. %s.", again)
        return 130
    except Exception:
        free = shutil.disk_usage(args.output_dir).free / 1e9
        logger.error("Stopped by the error below. %s, on a disk with %.1f GB free.", again, free)
        raise
    logger.info(
        "Model and tokenizer: %s\nMetrics of every step: %s\nReport: coda-report %s",
        args.output_dir, os.path.join(args.output_dir, "trainer_state.json"), args.output_dir,
    )  # fmt: skip
    trainer.accelerator.wait_for_everyone()  # gloo can hang when it is taken down right behind its last gathering
    if args.push_to_hub:
        trainer.push_to_hub()
    if not args.use_vllm:  # vLLM in this process takes its groups down itself at exit, and needs ours for that
        trainer.accelerator.end_training()
    return 0


if __name__ == "__main__":  # vLLM's processes import this file
    sys.exit(main())
