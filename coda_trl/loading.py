"""What both a run and its dry run load: settings, reward functions, the tokenizer with its stop tokens, prompts."""

import argparse
import importlib
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from datasets import Dataset
from transformers import AutoTokenizer, PreTrainedTokenizerBase
from trl import GRPOConfig, ModelConfig, TrlParser

from .data import DataArguments, StopTokens, find_stop_tokens, load_training_set
from .data.loading import name_of
from .data.stopping import load_generation_config
from .help_texts import explain_unknown, help_from_docstring
from .rewards import REWARD_FUNCTIONS
from .setting_types import check_types


@help_from_docstring
@dataclass
class RewardArguments:
    """
    How rollouts are rewarded.

    Args:
        reward_funcs (`list[str]`, *optional*, defaults to `["accuracy_reward"]`):
            Reward functions, by name or as a dotted path (`my_package.rewards.my_reward`, found from the working
            directory as well). The one that is known to judge correctness is shaped, or `correctness_reward`.
    """

    reward_funcs: list[str] = field(default_factory=lambda: ["accuracy_reward"])


def read_settings(argv: Sequence[str], beside: str | None = None) -> tuple[dict[str, Any], list[str]]:
    """
    Reads the files that a command line names: `--config RECIPE` and `--overlay FILE ...`, of which later ones override
    earlier ones, and all a file `beside` the recipe. Returns settings that are no single values, and the command line
    with the others in front, where its own override them. Raises an `OSError`, `yaml.YAMLError` or `ValueError` if a
    file is missing or damaged, or holds no settings.
    """
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--config", type=Path, nargs=1, default=[])
    parser.add_argument("--overlay", type=Path, nargs="+", default=[])
    files, rest = parser.parse_known_args(argv)
    defaults = [path.with_name(beside) for path in files.config if beside and path.with_name(beside).is_file()]
    settings: dict[str, Any] = {}
    for path in [*defaults, *files.config, *files.overlay]:
        if not path.is_file():
            folder = path if path.is_dir() else path.parent
            there = ", ".join(sorted(file.name for file in folder.glob("*.yaml")))
            remedy = f"Files in {folder}: {there}" if there else "`coda-recipes` writes the recipes into ./recipes"
            raise ValueError(f"There is no file {path}. {remedy}.")
        with path.open("rb") as file:  # YAML's errors name the file
            found = yaml.safe_load(file)
        if not isinstance(found, dict):
            raise ValueError(f"{path} holds {found!r:.40}, but must hold settings (`name: value`).")
        settings |= found
    env = settings.pop("env", {})
    if not isinstance(env, dict):
        raise ValueError(f"`env` is {env!r}, but must hold environment variables (`NAME: value`).")
    os.environ.update({name: str(value) for name, value in env.items()})  # as TRL's parser
    # The parser checks types on the command line alone, and makes lists of single values there.
    words = {name: value for name, value in settings.items() if type(value) in (str, int, float)}
    others = {str(name): value for name, value in settings.items() if name not in words}
    return others, [*(f"--{name}={value}" for name, value in words.items()), *rest]


def parse_settings(argv: Sequence[str], classes: Sequence[type], **options: Any) -> tuple:
    """
    An object of each class of settings, from the command line and the files that it names. `options` go to the parser.
    Raises a `ValueError` if a setting does not exist or has a wrong value, and as [`read_settings`].
    """
    parser = TrlParser(classes, allow_abbrev=False, **options)
    settings, rest = read_settings(argv)
    for each in classes:
        check_types(settings, each)
    unknown = parser.set_defaults_with_config(**settings)
    try:
        *found, more = parser.parse_args_into_dataclasses(rest, return_remaining_strings=True)
    except TypeError as problem:  # an unknown key of `accelerator_config`, a null that the annotation allows
        raise ValueError(f"TRL or transformers cannot take a setting: {problem}.") from problem
    except ValueError as problem:
        if "bf16/gpu" not in str(problem):
            raise
        raise ValueError(
            "`bf16` is true and `use_cpu` false, but no GPU here computes in bfloat16. `--dry_run` checks the run on "
            "any machine. To train on an older GPU: `--bf16 false`; on a CPU: `--bf16 false --use_cpu true`."
        ) from problem
    if unknown or more:
        raise ValueError(explain_unknown([*unknown, *more][0], classes))
    return tuple(found)


def find_rewards(reward_args: RewardArguments, args: GRPOConfig) -> list[Callable]:
    """The reward functions of a run. Raises a `ValueError` if one does not exist or has no weight of its own."""
    names, weights = reward_args.reward_funcs, args.reward_weights
    if not names:
        raise ValueError("`reward_funcs` is [], but must name a reward function.")
    if weights is not None and len(weights) != len(names):
        raise ValueError(f"`reward_weights` is {weights}, but must have one weight for each of {', '.join(names)}.")
    return [find_reward(name, args.max_completion_length) for name in names]


def find_reward(name: str, max_completion_length: int) -> Callable:
    """A reward function: a key of `REWARD_FUNCTIONS`, or a dotted path. Raises a `ValueError` if there is none."""
    if name == "get_soft_overlong_punishment":
        last_quarter = max_completion_length // 4  # as in DAPO
        return REWARD_FUNCTIONS[name](max_completion_len=max_completion_length, soft_punish_cache=last_quarter)
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
        found = vars(importlib.import_module(module))
    except ImportError as error:
        raise ValueError(f"`reward_funcs` has {name!r}, but {module} cannot be imported: {error}.") from error
    if not callable(found.get(function)):
        raise ValueError(f"`reward_funcs` has {name!r}, but {module} has no function {function!r}.")
    return found[function]


def check_evaluation(data_args: DataArguments, args: GRPOConfig) -> None:
    """Raises a `ValueError` if evaluations are planned without a set to evaluate on."""
    if (args.eval_strategy != "no" or args.eval_on_start) and not data_args.eval_dataset:
        strategy = f"`eval_strategy` is '{args.eval_strategy.value}'"
        setting = "`eval_on_start` is true" if args.eval_on_start else strategy
        raise ValueError(f"{setting}, but there is nothing to evaluate on. Set `eval_dataset`, or leave this out.")


def load_tokenizer(
    model_args: ModelConfig, prompt_format: str, trust_remote_code: bool
) -> tuple[PreTrainedTokenizerBase, StopTokens]:
    """The tokenizer of a model, and the tokens to stop at. Raises a `ValueError` if there is no tokenizer."""
    name, revision = model_args.model_name_or_path, model_args.model_revision
    if name is None:
        raise ValueError("There is no model: set `model_name_or_path` to a hub id or a folder.")
    try:
        tokenizer = AutoTokenizer.from_pretrained(name, revision=revision, trust_remote_code=trust_remote_code)
    except (OSError, ValueError) as problem:
        reason = str(problem).partition("\n")[0]
        raise ValueError(
            f"The tokenizer of {name} could not be loaded here ({reason}). Correct `model_name_or_path`; without "
            "access to the hub, give a folder (and set HF_HUB_OFFLINE=1, so that nothing waits for it)."
        ) from problem
    return tokenizer, find_stop_tokens(tokenizer, load_generation_config(name, revision), prompt_format)


def load_prompts(specs: Sequence[str], data_args: DataArguments, seed: int, split: str = "train") -> Dataset:
    """Prompts of any length. `seed` draws length budgets, `split` is that of `custom` sets on the hub."""
    columns = (data_args.prompt_column, data_args.solution_column)
    return load_training_set(specs, data_args.prompt_format, data_args.length_budget, seed, columns, split)


def load_evaluation_prompts(data_args: DataArguments, seed: int) -> dict[str, Dataset]:
    """The evaluation sets by name, as [`load_prompts`]. Raises a `ValueError` if two have the same name."""
    specs = data_args.eval_dataset or []
    names = list(map(name_of, specs))
    if len(set(names)) < len(names):
        raise ValueError(f"`eval_dataset` has two sets of one name: {', '.join(names)}. Rename a file.")
    return {name: load_prompts([spec], data_args, seed, "test") for name, spec in zip(names, specs, strict=True)}
