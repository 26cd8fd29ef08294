"""The paper's analyses, as pure functions of samples and of training logs."""

from .difficulty import BucketComparison, Sorting, bucket_names, compare_buckets, difficulty_buckets, sort_problems
from .dynamics import Curve, curve, find_trainer_state, read_log_history
from .optimality import BudgetCurve, best_budget, best_budgets, budget_curve
from .overthinking import Restatements, count_verifications
from .reflection import REFLECTIVE_TERMS, is_reflective

__all__ = [
    "REFLECTIVE_TERMS",
    "BucketComparison",
    "BudgetCurve",
    "Curve",
    "Restatements",
    "Sorting",
    "best_budget",
    "best_budgets",
    "bucket_names",
    "budget_curve",
    "compare_buckets",
    "count_verifications",
    "curve",
    "difficulty_buckets",
    "find_trainer_state",
    "is_reflective",
    "read_log_history",
    "sort_problems",
]
