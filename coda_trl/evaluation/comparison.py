"""Comparison of two runs, paired by problem."""

import zlib
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from .bootstrap import NUM_RESAMPLES, Estimate, num_counted, replicates, summarise
from .metrics import Outcomes, Ratio, accuracy, mean_tokens


@dataclass(frozen=True)
class Comparison:
    """
    A run against a reference on the problems that both have answered.

    Args:
        accuracy_points (`Estimate`):
            Difference of accuracies (run minus reference), in percentage points.
        token_change (`Estimate`):
            Relative change of the mean number of tokens, in percent: -25 says a quarter fewer than the reference.
        num_problems (`int`):
            Number of problems compared.
    """

    accuracy_points: Estimate
    token_change: Estimate
    num_problems: int


def benchmark_seed(benchmark: str) -> int:
    """Seed of a benchmark's resamples: benchmarks of equal size must not be resampled in step with each other."""
    return zlib.crc32(benchmark.encode())


def paired(run: Outcomes, reference: Outcomes) -> tuple[Outcomes, Outcomes]:
    """The problems that both runs have answered, in the order of the reference."""
    both = set(run.problems)
    problems = [problem for problem in reference.problems if problem in both]
    return run.select(problems), reference.select(problems)


def graded(run: Outcomes, reference: Outcomes) -> tuple[Outcomes, Outcomes]:
    """Of paired problems those with a verdict in both runs: an easy one graded in one alone makes no difference."""
    verdicts = (accuracy(run).denominator > 0) & (accuracy(reference).denominator > 0)
    problems = [problem for problem, there in zip(reference.problems, verdicts, strict=True) if there]
    return run.select(problems), reference.select(problems)


def compare(
    run: Mapping[str, Outcomes], reference: Mapping[str, Outcomes], num_resamples: int = NUM_RESAMPLES
) -> Comparison:
    """
    Compares two runs on the benchmarks and problems that both have, pairing them by problem. Accuracies are compared
    on those with a verdict in both.

    Over several benchmarks the averages are compared, every benchmark with equal weight, as in the last column of the
    paper's Table 1; each is then resampled by itself.

    Args:
        run (`Mapping[str, Outcomes]`):
            Samples summed up by problem, by benchmark.
        reference (`Mapping[str, Outcomes]`):
            The same of the run compared with.
        num_resamples (`int`, *optional*, defaults to `2000`):
            Number of bootstrap resamples.

    Returns:
        `Comparison`: Differences with intervals; a difference whose interval holds 0 may be noise. There is none if a
            benchmark has fewer than [`~bootstrap.MIN_PROBLEMS`] problems that count.

    Raises:
        ValueError: If the runs have no problem in common.

    Example:

    ```python
    >>> from coda_trl.evaluation import collect, compare
    >>> def samples(tokens):
    ...     return [
    ...         {"benchmark": "b", "problem_id": i, "tokens": tokens + i, "finish_reason": "stop", "correct": i > 0}
    ...         for i in range(10)
    ...     ]
    >>> result = compare(collect(samples(50)), collect(samples(100)))
    >>> result.accuracy_points, round(result.token_change.value, 1), result.token_change.excludes_zero
    (Estimate(value=0.0, low=0.0, high=0.0), -47.8, True)

    ```
    """
    values, draws, counted, num_problems = [], [], [], 0
    for benchmark in reference:
        if benchmark not in run:
            continue
        pair = paired(run[benchmark], reference[benchmark])
        if not pair[0].problems:
            continue
        ratios: list[Ratio] = [accuracy(outcomes) for outcomes in graded(*pair)]
        ratios += [mean_tokens(outcomes) for outcomes in pair]
        seed = benchmark_seed(benchmark)
        values.append([ratio.value for ratio in ratios])
        counted.append([num_counted(ratio) for ratio in ratios])
        draws.append([replicates(ratio, seed, num_resamples) for ratio in ratios])
        num_problems += len(pair[0].problems)
    if not values:
        raise ValueError(
            "the two runs have no problem in common: evaluate them on the same benchmark, with the same problem ids"
        )
    accuracy_run, accuracy_reference, tokens_run, tokens_reference = np.mean(values, axis=0).tolist()
    drawn = np.mean(draws, axis=0)
    fewest = np.min(counted, axis=0).tolist()
    return Comparison(
        accuracy_points=summarise(
            100 * (accuracy_run - accuracy_reference), 100 * (drawn[0] - drawn[1]), min(fewest[:2])
        ),
        token_change=summarise(
            100 * (tokens_run / tokens_reference - 1), 100 * (drawn[2] / drawn[3] - 1), min(fewest[2:])
        ),
        num_problems=num_problems,
    )
