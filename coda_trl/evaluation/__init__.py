"""Evaluation: sampled answers, metrics with intervals, and comparisons of two runs.

Generation is in `coda_trl.evaluation.runner`, which needs PyTorch; what is imported here does not.
"""

from .benchmarks import Benchmark
from .bootstrap import Estimate, estimate, interval, over_seeds, replicates
from .columns import SampleColumns, collect, load_samples
from .comparison import Comparison, compare
from .config import EvaluationConfig
from .metrics import (
    Outcomes,
    Ratio,
    accuracy,
    correct_tokens,
    mean_tokens,
    pass_at_k,
    truncated_share,
    unscorable_share,
    wrong_tokens,
)
from .rounding import format_number
from .samples import SampleWriter, read_samples

__all__ = [
    "Benchmark",
    "Comparison",
    "Estimate",
    "EvaluationConfig",
    "Outcomes",
    "Ratio",
    "SampleColumns",
    "SampleWriter",
    "accuracy",
    "collect",
    "compare",
    "correct_tokens",
    "estimate",
    "format_number",
    "interval",
    "load_samples",
    "mean_tokens",
    "over_seeds",
    "pass_at_k",
    "read_samples",
    "replicates",
    "truncated_share",
    "unscorable_share",
    "wrong_tokens",
]
