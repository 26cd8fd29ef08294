"""Trains a model with a recipe.

accelerate launch --config_file recipes/accelerate/zero3.yaml recipes/train.py --config recipes/qwen3-8b/coda.yaml
python recipes/train.py --config recipes/qwen3-8b/coda.yaml --dry_run

`--overlay FILE...` puts short YAML files over the recipe, the last one winning; the command line wins over all.
`--dry_run` prints what the run will do, checks it, and stops.
"""

import argparse
import json
import logging
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import yaml
from transformers import AutoTokenizer
from trl import ModelConfig, TrlParser, get_peft_config, get_quantization_config

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer
from coda_trl.data import (
    DataArguments,
    drop_long_prompts,
    find_stop_tokens,
    load_generation_config,
    load_training_set,
)
from coda_trl.dry_run import DryRunArguments, dry_run
from coda_trl.ladder import ladder_reward
from coda_trl.rewards import accuracy_reward, choice_reward, think_format_reward

logger = logging.getLogger("coda_trl.train")

REWARDS = {reward.__name__: reward for reward in (accuracy_reward, choice_reward, think_format_reward, ladder_reward)}


@dataclass
class RewardArguments:
    """
    How rollouts are rewarded.

    Args:
        reward_funcs (`list[str]`, *optional*, defaults to `["accuracy_reward"]`):
            Reward functions. The first is the one that is shaped, unless `correctness_reward` names another.
    """

    reward_funcs: list[str] = field(
        default_factory=lambda: ["accuracy_reward"],
        metadata={"help": "Reward functions; the first is shaped.", "choices": list(REWARDS)},
    )


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


def main(argv: Sequence[str]) -> int:
    argv = apply_overlays(argv)
    logging.basicConfig(format="%(message)s")
    plan, _ = TrlParser(DryRunArguments, add_help=False).parse_args_and_config(argv, return_remaining_strings=True)
    if plan.dry_run:
        return dry_run(argv, SCRIPT_ARGUMENTS)

    parser = TrlParser(ARGUMENTS, description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    reward_args, data_args, _, args, model_args = parser.parse_args_and_config(argv)
    logging.getLogger("coda_trl").setLevel(logging.INFO if args.process_index == 0 else logging.ERROR)

    name, revision = model_args.model_name_or_path, model_args.model_revision
    tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=args.trust_remote_code)
    stop = find_stop_tokens(tokenizer, load_generation_config(name, revision), data_args.prompt_format)
    if stop.warning is not None:
        logger.warning(stop.warning)
    if stop.added:  # TRL stops at the tokenizer's end of sequence and the checkpoint's; vLLM at its own and at these
        (tokenizer.eos_token,) = stop.added
        if args.use_vllm:
            args.generation_kwargs = {"stop_token_ids": list(stop.ids)} | (args.generation_kwargs or {})

    dataset = load_training_set(data_args.dataset, data_args.prompt_format, data_args.length_budget, seed=args.seed)
    dataset, lengths = drop_long_prompts(dataset, tokenizer, data_args.max_prompt_length)
    logger.info("Training on %s prompts: %s.", f"{len(dataset):,}", lengths)

    args.model_init_kwargs = {
        "revision": revision,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
    } | (args.model_init_kwargs or {})
    trainer = CodaGRPOTrainer(
        model=name,
        reward_funcs=[REWARDS[reward] for reward in reward_args.reward_funcs],
        args=args,
        train_dataset=dataset,
        processing_class=tokenizer,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    trainer.save_model(args.output_dir)
    if args.push_to_hub:
        trainer.push_to_hub()
    return 0


if __name__ == "__main__":  # vLLM's processes import this file
    sys.exit(main(sys.argv[1:]))
