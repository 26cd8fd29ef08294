"""Length grouping: GRPO with TRL's gradients and without TRL's padding."""

from .trainer import LengthGroupedGRPOTrainer

__all__ = ["LengthGroupedGRPOTrainer"]
