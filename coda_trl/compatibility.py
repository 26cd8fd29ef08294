"""Releases of TRL that the trainers are tested with, and whether the installed one calls their methods likewise."""

import functools
import inspect
from collections.abc import Callable
from typing import TypeVar

import trl
from packaging.version import Version
from trl import GRPOConfig, GRPOTrainer

TESTED_TRL = ("1.14.2", "1.15.0", "1.16.0")

_STARRED = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_Method = TypeVar("_Method", bound=Callable)


def with_signature_of(method: _Method) -> Callable[[Callable], _Method]:
    """`functools.wraps`, which type checkers take to return a method with the arguments of `method`."""
    return functools.wraps(method)


def check_overrides(trainer: type[GRPOTrainer]) -> None:
    """
    Compares the methods that a trainer marks with `typing_extensions.override` with those of the installed TRL. Raises
    a `RuntimeError` if TRL lacks one of them, or calls it with other arguments.
    """
    for name, method in vars(trainer).items():
        if not hasattr(method, "__override__"):
            continue
        ours = inspect.signature(method)
        theirs = inspect.signature(getattr(GRPOTrainer, name)) if hasattr(GRPOTrainer, name) else None
        if theirs is None or not _fits(ours, theirs):
            raise RuntimeError(
                f"{trainer.__name__} overrides GRPOTrainer.{name}({', '.join(ours.parameters)}), but in TRL "
                f"{trl.__version__} " + ("there is none" if theirs is None else f"it is {name}{theirs}") + ". Tested "
                f"releases of TRL: {', '.join(TESTED_TRL)}. Install one (`pip install trl=={TESTED_TRL[-1]}`), or a "
                "newer coda-trl."
            )


def _fits(ours: inspect.Signature, theirs: inspect.Signature) -> bool:
    """Whether our method takes every call that theirs takes, with the same meaning of each argument."""
    mine, named = ([p.name for p in each.parameters.values() if p.kind not in _STARRED][1:] for each in (ours, theirs))
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in theirs.parameters.values()):
        return set(named) <= set(mine)
    others = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in ours.parameters.values())
    return named[: len(mine)] == mine and (others or len(named) == len(mine))


def scores_by_calling(args: GRPOConfig) -> bool:
    """Whether TRL computes log-probabilities by calling the model. With Liger, TRL 1.14 takes it apart instead."""
    return not args.use_liger_kernel or Version(trl.__version__) >= Version("1.15")
