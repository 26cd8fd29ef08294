"""Micro-batches as long as they need to be: GRPO with TRL's gradients and without TRL's padding."""

from .trainer import LengthGroupedGRPOTrainer

__all__ = ["LengthGroupedGRPOTrainer"]
