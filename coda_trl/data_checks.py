"""Checks, before weights are loaded, that data sets suit the trainer and its rewards."""

import inspect
import math
from collections.abc import Callable, Collection, Sequence

import torch
from datasets import Dataset
from trl import GRPOConfig

from .data.prompts import missing_box
from .rewards import READ_A_BOX

# Arguments that the trainers give reward functions beside the columns of the data set.
_ARGUMENTS = "prompts completions completion_ids trainer_state log_extra log_metric prompt_opens_thinking".split()


def check_data(
    rewards: Sequence[Callable], names: Sequence[str], train_dataset: object, eval_dataset: object
) -> str | None:
    """Raises a `ValueError` if a data set lacks prompts, or a reward cannot read it. Returns a warning, if any."""
    several = eval_dataset if isinstance(eval_dataset, dict) else {"": eval_dataset}
    datasets = {"train_dataset": train_dataset}
    datasets |= {f"eval_dataset[{key!r}]" if key else "eval_dataset": value for key, value in several.items()}
    for argument, dataset in datasets.items():
        if not isinstance(dataset, Dataset):  # a stream may be slow to start
            continue
        columns = list(next(iter(dataset), dataset.features))  # a transform makes others than `column_names`
        if "prompt" not in columns:
            raise ValueError(
                f"`{argument}` has no column 'prompt' (its columns: {', '.join(columns)}). Rename the one that holds "
                "the questions."
            )
        if taken := {"prompts", "completions"}.intersection(columns):
            raise ValueError(f"`{argument}` has a column {min(taken)!r}, as TRL names rollouts in rewards. Rename it.")
        for reward, name in zip(rewards, names, strict=True):
            _check_call(reward, name, argument, columns)
    if not isinstance(train_dataset, Dataset):
        return None
    own = [name for reward, name in zip(rewards, names, strict=True) if reward in READ_A_BOX.values()]
    return find_missing_box(own, train_dataset[0]["prompt"])  # TRL's `accuracy_reward` reads more than boxes


def check_number_of_prompts(args: GRPOConfig, num_rows: int) -> None:
    """Raises a `ValueError` if a training set is too small for a single step, where TRL would end without one."""
    prompts = args.generation_batch_size // args.num_generations
    if num_rows < prompts:
        raise ValueError(
            f"{num_rows:,} prompts do not fill one batch of {prompts:,}, so there is no step. Use more "
            f"data, or a smaller `generation_batch_size` (now {args.generation_batch_size:,})."
        )


def _check_call(reward: Callable, name: str, argument: str, columns: Sequence[str]) -> None:
    """Raises a `ValueError` if a reward function does not take the columns of the data set called `argument`."""
    given = {*_ARGUMENTS, *columns} - {"prompt", "completion"}
    try:
        inspect.signature(reward, follow_wrapped=False).bind(**dict.fromkeys(given))
    except TypeError as problem:
        remedy = "Rename the column that holds it" if "missing" in str(problem) else "Let it take `**kwargs`"
        raise ValueError(
            f"The reward function {name!r} cannot be called: {problem}. It gets {', '.join(_ARGUMENTS)} and the "
            f"columns of `{argument}` ({', '.join(columns)}) by name. {remedy}."
        ) from problem


def find_missing_box(names: Sequence[str], prompt: str | list[dict]) -> str | None:
    """A warning if a reward reads a box that the data set's first prompt does not ask for."""
    name = next((name for name in names if name in READ_A_BOX), None)
    return name and missing_box(f"`{name}`", prompt)


def check_budget_column(method: str, columns: Collection[str]) -> None:
    """Raises a `ValueError` if the data lack the budgets that a method of L1 needs."""
    if "n_gold" not in columns:
        raise ValueError(
            f"`length_shaping` is {method!r}, but the dataset has no column 'n_gold' (its columns: "
            f"{', '.join(columns)}). Add the token budget that each prompt asks for."
        )


def read_budgets(values: Sequence[object]) -> torch.Tensor:
    """The values of column `n_gold`. Raises a `ValueError` if one is not a positive number."""
    for row, value in enumerate(values):
        if not (isinstance(value, int | float) and 0 < value < math.inf):
            raise ValueError(f"`n_gold` is {value!r} in row {row}, but must be a positive number of tokens.")
    return torch.tensor(values, dtype=torch.float32)
