"""Benchmarks by name: those of the paper, your own files, and the arithmetic ladder."""

import logging
import random
from collections.abc import Sequence

from datasets import Dataset

from ..data import BENCHMARKS, DataError, add_length_budget, load_source, to_plain_text
from ..data.loading import name_of
from ..data.prompts import missing_box
from ..grading import Grade, default_pool
from ..ladder import RUNGS, ends_in_sum, sample_problem
from ..ladder.problems import as_row
from .benchmarks import Benchmark, Problem

logger = logging.getLogger(__name__)


def load_benchmark(
    spec: str,
    token_budget: int | None = None,
    prompt_format: str = "chat",
    limit: int | None = None,
    columns: tuple[str, str] = ("prompt", "solution"),
) -> Benchmark:
    """
    Loads a benchmark with its grader: `coda_trl.grading`, but for the ladder an exact one.

    Args:
        spec (`str`):
            A name in `coda_trl.data.BENCHMARKS`, `NAME=LOCATION` to read it from a file or another hub id,
            `custom=LOCATION` for yours (on the hub `ID:CONFIG:SPLIT`, by default the split `test`), or `ladder`: 100
            problems of each rung, in turn.
        token_budget (`int`, *optional*):
            Ask for this many tokens in every prompt, for L1.
        prompt_format (`str`, *optional*, defaults to `"chat"`):
            `"chat"` or `"plain"` (bare text, for base models without a chat template).
        limit (`int`, *optional*):
            Take only the first so many problems.
        columns (`tuple[str, str]`, *optional*, defaults to `("prompt", "solution")`):
            Columns of `custom` that hold the prompt and the gold.

    Raises:
        DataError: If the name is unknown, or the data is missing or damaged.
        ValueError: If `limit` leaves no problem, or the ladder is given a location.

    Example:

    ```python
    >>> from coda_trl.evaluation.loading import load_benchmark
    >>> ladder = load_benchmark("ladder", limit=6)
    >>> [problem["rung"] for problem in ladder.problems]
    [1, 2, 3, 4, 5, 6]

    ```
    """
    if limit is not None and limit < 1:
        raise ValueError(f"limit must be at least 1, got {limit}")
    name, is_located, _ = spec.partition("=")
    if name == "ladder":
        if is_located:
            raise ValueError(f"{spec!r}: the ladder is made, not read: say `ladder`, and `limit` for fewer problems")
        draws = {rung: random.Random(f"evaluation-1-{rung}") for rung in RUNGS}  # the same for every run
        rows = [as_row(sample_problem(rung, draws[rung])) for _ in range(100) for rung in RUNGS]
        dataset, grade = Dataset.from_list(rows), _grade_ladder
    elif name in BENCHMARKS or name == "custom":
        dataset, grade = load_source(spec, columns, split="test"), _grade_math
        if name == "custom" and (message := missing_box(f"The grader of {spec}", dataset[0]["prompt"])):
            logger.warning(message)
    else:
        raise DataError(
            f"{name!r} is not a benchmark. They are: {', '.join(BENCHMARKS)}, ladder, and custom=LOCATION for yours."
        )
    if limit is not None:
        dataset = dataset.select(range(min(limit, len(dataset))))
    if token_budget is not None:
        dataset = add_length_budget(dataset, token_budget, token_budget)
    if prompt_format == "plain":
        dataset = to_plain_text(dataset)
    return Benchmark(name_of(spec), dataset, grade)


def _grade_math(completions: Sequence[str], problems: Sequence[Problem]) -> list[Grade]:
    golds, options = ([problem.get(name) for problem in problems] for name in ("solution", "options"))
    return default_pool().grade(completions, golds, options, again=True)


def _grade_ladder(completions: Sequence[str], problems: Sequence[Problem]) -> list[bool | None]:
    return [
        ends_in_sum(completion, problem["solution"]) for completion, problem in zip(completions, problems, strict=True)
    ]
