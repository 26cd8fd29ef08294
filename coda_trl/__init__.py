"""CODA (https://huggingface.co/papers/2603.08659) for TRL: compute allocation by difficulty awareness."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .config import CodaGRPOConfig, LengthGroupedGRPOConfig
    from .length_grouping import LengthGroupedGRPOTrainer
    from .shaping import ShapedRewards, shape_rewards
    from .trainer import CodaGRPOTrainer

__version__ = "0.1.0"

_MODULES = {
    "CodaGRPOConfig": "config",
    "CodaGRPOTrainer": "trainer",
    "LengthGroupedGRPOConfig": "config",
    "LengthGroupedGRPOTrainer": "length_grouping",
    "ShapedRewards": "shaping",
    "shape_rewards": "shaping",
}

__all__ = [
    "CodaGRPOConfig",
    "CodaGRPOTrainer",
    "LengthGroupedGRPOConfig",
    "LengthGroupedGRPOTrainer",
    "ShapedRewards",
    "shape_rewards",
]


def __getattr__(name: str) -> Any:
    # Loaded on first use: the grading workers import this package too, and must not pay for torch and transformers.
    if name in _MODULES:
        try:
            return getattr(import_module(f".{_MODULES[name]}", __name__), name)
        except AttributeError as problem:  # of packages that do not fit together; `from coda_trl import` would hide it
            raise ImportError(f"coda_trl.{_MODULES[name]} cannot be imported: {problem}") from problem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
