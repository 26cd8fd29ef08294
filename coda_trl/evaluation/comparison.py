"""Comparison of two runs, paired by problem."""

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .bootstrap import Estimate, num_counted, replicates, summarise
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
    """Seed of a benchmark's resamples, so that benchmarks of equal size do not get the same draws."""
    return zlib.crc32(benchmark.encode())


def _paired(run: Outcomes, reference: Outcomes, benchmark: str) -> tuple[Outcomes, Outcomes]:
    """The problems that both runs have answered, in the order of the reference."""
    both = set(run.problems)
    problems = [problem for problem in reference.problems if problem in both]
    mine, theirs = run.select(problems), reference.select(problems)
    known, differ = (mine.questions != 0) & (theirs.questions != 0), mine.questions != theirs.questions
    # A prompt may be worded otherwise (a token budget, another template) if the gold answers agree.
    other = np.where(known[:, 1], differ[:, 1], known[:, 0] & differ[:, 0])
    if other.any():
        raise ValueError(
            f"problem {problems[other.argmax()]!r} of {benchmark!r} has another prompt or solution in each run: "
            "evaluate both on the same file, or give the problems ids of their own"
        )
    return mine, theirs


def compare(run: Mapping[str, Outcomes], reference: Mapping[str, Outcomes]) -> Comparison:
    """
    Compares two runs on the problems that both have, pairing them by problem. Accuracies need a verdict in both.

    Over several benchmarks their averages are compared, as in the last column of the paper's Table 1.

    Args:
        run, reference (`Mapping[str, Outcomes]`):
            Samples summed up by problem, by benchmark.

    Returns:
        `Comparison`: Differences, with intervals unless fewer than [`~bootstrap.MIN_PROBLEMS`] problems of a benchmark
            count.

    Raises:
        ValueError: If the runs have no problem in common, or an id stands for two problems.

    Example:

    ```python
    >>> from coda_trl.evaluation import collect, compare
    >>> def samples(tokens):
    ...     return [
    ...         {"benchmark": "b", "problem_id": i, "tokens": tokens + i, "finish_reason": "stop", "correct": i > 0}
    ...         for i in range(10)
    ...     ]
    >>> result = compare(collect(samples(50)), collect(samples(100)))
    >>> result.accuracy_points.value, round(result.token_change.value, 1), result.token_change.excludes_zero
    (0.0, -47.8, True)

    ```
    """
    ratios: dict[str, list[Ratio]] = {}
    num_problems = 0
    for benchmark in reference:
        if benchmark not in run:
            continue
        pair = _paired(run[benchmark], reference[benchmark], benchmark)
        if not pair[0].problems:
            continue
        num_problems += len(pair[0].problems)
        accuracies = [accuracy(outcomes) for outcomes in pair]
        # An easy problem graded in one run alone makes no difference.
        graded = (accuracies[0].denominator > 0) & (accuracies[1].denominator > 0)
        accuracies = [Ratio(each.numerator[graded], each.denominator[graded]) for each in accuracies]
        ratios[benchmark] = [_gain(*accuracies), *map(mean_tokens, pair)]
    if not ratios:
        raise ValueError(
            "the two runs have no problem in common: evaluate them on the same benchmark, with the same problem ids"
        )
    return _difference(ratios, num_problems)


def compare_within(run: Outcomes, reference: Outcomes, chosen: np.ndarray, name: str) -> Comparison:
    """
    Compares two runs on the parts of problems that are `chosen`, shape `(P, parts)`, see [`compare`]. `name` seeds the
    resamples. Differences are NaN where the runs have nothing in common.
    """
    both = chosen & (run.samples > 0) & (reference.samples > 0)
    verdicts = both & (run.graded > 0) & (reference.graded > 0)
    gain = _gain(*(accuracy(outcomes).within(verdicts) for outcomes in (run, reference)))
    ratios = [gain, *(mean_tokens(outcomes).within(both) for outcomes in (run, reference))]
    return _difference({name: ratios}, int(both.any(axis=1).sum()))


def _gain(accuracy: Ratio, reference: Ratio) -> Ratio:
    """Difference of two accuracies on the same problems."""
    return Ratio(accuracy.numerator - reference.numerator, reference.denominator, (-1.0, 1.0))


def _difference(ratios: Mapping[str, Sequence[Ratio]], num_problems: int) -> Comparison:
    """Averages the gain in accuracy and the tokens of run and reference, given by benchmark."""

    def draw(ratio: Ratio, name: str) -> np.ndarray:  # first on all problems, then on resamples
        return np.append(ratio.value, replicates(ratio, benchmark_seed(name), len(ratios)))

    drawn = [[draw(ratio, name) for ratio in three] for name, three in ratios.items()]
    gain, *spent = np.mean(drawn, axis=0)
    points, change = 100 * gain, relative_change(*spent)
    fewest = np.min([[num_counted(ratio) for ratio in three] for three in ratios.values()], axis=0).tolist()
    return Comparison(
        accuracy_points=summarise(float(points[0]), points[1:], fewest[0]),
        token_change=summarise(float(change[0]), change[1:], min(fewest[1:])),
        num_problems=num_problems,
    )


def relative_change(run: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Relative change in percent; NaN against a reference of 0 tokens."""
    return 100 * (np.divide(run, reference, out=np.full(run.shape, np.nan), where=reference != 0) - 1)
