"""What the sections share: the runs, the reference, and how difficult each problem is."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..analysis.difficulty import Key, pool_problems, pooled_success_rate
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import Outcomes
from .runs import Run

# The paper's thresholds on the success rate: above the first a problem is easy, below the second hard.
EASY, HARD = 0.75, 0.25
BANDS = ("easy", "medium", "hard")


@dataclass(frozen=True)
class Comparison:
    """
    The runs of a report.

    Args:
        runs (`list[Run]`):
            All runs, in the order given.
        reference (`Run`, *optional*):
            The run that others are compared with; `None` if there is only one run.
        difficulty_run (`Run`, *optional*):
            The run whose success rate says how difficult a problem is; `None` pools all runs.
    """

    runs: list[Run]
    reference: Run | None
    difficulty_run: Run | None = None

    @property
    def others(self) -> list[Run]:
        """The runs that are compared with the reference."""
        return [run for run in self.runs if run is not self.reference] if self.reference else []

    @property
    def sampled(self) -> list[Run]:
        """The runs that have samples."""
        return [run for run in self.runs if run.samples]

    @cached_property
    def success_rate(self) -> dict[Key, float]:
        """Success rate of the problems that all runs with samples have answered, by benchmark and problem id."""
        if not self.sampled:
            return {}
        shared = pooled_success_rate([run.outcomes for run in self.sampled])
        if self.difficulty_run is None:
            return shared
        own = pooled_success_rate([self.difficulty_run.outcomes])
        return {key: own[key] for key in shared}

    @cached_property
    def bands(self) -> dict[str, list[Key]]:
        """The same problems as easy (success rate at least 0.75), hard (at most 0.25) and medium."""
        bands: dict[str, list[Key]] = {band: [] for band in BANDS}
        for key, rate in self.success_rate.items():
            bands["easy" if rate >= EASY else "hard" if rate <= HARD else "medium"].append(key)
        return bands

    @property
    def difficulty_source(self) -> str:
        """Whose success rate it is, in words."""
        if self.difficulty_run is not None:
            return f"the success rate of {self.difficulty_run.name}"
        return "the success rate over all runs together" if len(self.sampled) > 1 else "the run's own success rate"


def pool(run: Run, keys: Sequence[Key]) -> Outcomes:
    """Samples of some problems, over benchmarks, summed up by problem."""
    return pool_problems(run.outcomes, keys)


def pool_samples(run: Run, keys: Sequence[Key]) -> SampleColumns:
    """Samples of some problems, over benchmarks, as one benchmark."""
    wanted: dict[str, list[str]] = {}
    for benchmark, problem in keys:
        wanted.setdefault(benchmark, []).append(problem)
    parts, names, start = [], [], 0
    for benchmark, problems in wanted.items():
        columns = run.samples[benchmark]
        position = {problem: index for index, problem in enumerate(columns.problems)}
        renumber = np.full(len(columns.problems), -1)
        renumber[[position[problem] for problem in problems]] = np.arange(start, start + len(problems))
        problem = renumber[columns.problem]
        chosen = problem >= 0
        numbers = (columns.sample, columns.correct, columns.tokens, columns.truncated, *columns.counts.values())
        parts.append([problem[chosen], *(column[chosen] for column in numbers)])
        counted = columns.counts
        names += [f"{benchmark}/{problem}" for problem in problems]
        start += len(problems)
    problem, sample, correct, tokens, truncated, *rest = (
        np.concatenate(column) for column in zip(*parts, strict=True)
    )
    return SampleColumns(names, problem, sample, correct, tokens, truncated, dict(zip(counted, rest, strict=True)))
