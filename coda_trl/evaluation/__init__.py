"""Evaluation: sampled answers, metrics with intervals, and comparisons of two runs.

Generation is in `coda_trl.evaluation.runner`, which needs PyTorch; what is imported here does not.
"""

from .benchmarks import Benchmark
from .bootstrap import Estimate, estimate, interval, replicates
from .comparison import Comparison, compare
from .config import EvaluationConfig
from .metrics import (
    Outcomes,
    Ratio,
    accuracy,
    collect,
    correct_tokens,
    mean_tokens,
    outcomes_from_columns,
    pass_at_k,
    truncated_share,
    unscorable_share,
    wrong_tokens,
)
from .samples import SampleWriter, read_samples

__all__ = [
    "Benchmark",
    "Comparison",
    "Estimate",
    "EvaluationConfig",
    "Outcomes",
    "Ratio",
    "SampleWriter",
    "accuracy",
    "collect",
    "compare",
    "correct_tokens",
    "estimate",
    "interval",
    "mean_tokens",
    "outcomes_from_columns",
    "pass_at_k",
    "read_samples",
    "replicates",
    "truncated_share",
    "unscorable_share",
    "wrong_tokens",
]
