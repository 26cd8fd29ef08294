"""What sections share: runs, reference, and the difficulty of each problem."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..analysis.difficulty import BANDS, PAPER_THRESHOLDS, Sorting, pool_problems, sort_problems
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.columns import PARTS, SampleColumns
from ..evaluation.metrics import Outcomes, Ratio
from .runs import SeedRun
from .seeds import Run, describe_means, pairs
from .style import run_styles

NEEDS = (
    "at least two samples with a verdict (samples.jsonl) of a problem: some sort, the others are measured. "
    "`--difficulty_run NAME` sorts by a run that has them."
)


@dataclass(frozen=True)
class View:
    """
    Runs of one seed, by name, on problems that are sorted, the same way for all of them, by the success rates of
    `sorters`.
    """

    runs: Mapping[str, SeedRun]
    sorters: Sequence[str]
    reference: str | None

    @cached_property
    def sorting(self) -> Sorting:
        return sort_problems([self.runs[name].samples for name in self.sorters])

    @cached_property
    def thresholds_from(self) -> str | None:
        """The run whose training sets the thresholds: the first but the reference that does, or else the reference."""
        return next((name for name in [*self.others, *self.runs] if self.runs[name].thresholds), None)

    @property
    def thresholds(self) -> tuple[float, float]:
        """Thresholds of easy and of hard; the paper's if no training sets any."""
        return self.runs[self.thresholds_from].thresholds if self.thresholds_from else PAPER_THRESHOLDS

    @cached_property
    def bands(self) -> dict[str, np.ndarray]:
        """See [`Sorting.bands`]; without bands in which a sorting run has no samples."""
        bands = self.sorting.bands(*self.thresholds).items()
        return {band: chosen for band, chosen in bands if self.num_problems(chosen, *self.sorters)}

    @cached_property
    def columns(self) -> dict[str, SampleColumns]:
        """Samples of the sorted problems of all benchmarks, by run."""
        return {name: pool_problems(run.samples, self.sorting.keys) for name, run in self.runs.items()}

    @property
    def others(self) -> list[str]:
        return [name for name in self.runs if name != self.reference]

    def parts(self, run: str) -> Outcomes:
        return self.columns[run].in_parts

    def chosen(self, run: str, band: str) -> np.ndarray:
        """Which of a run's samples are in a band."""
        columns = self.columns[run]
        return self.bands[band][columns.problem, columns.part]

    def samples(self, run: str, band: str) -> SampleColumns:
        return self.columns[run].take(self.chosen(run, band))

    def estimate(self, metric: Callable[[Outcomes], Ratio], run: str, band: str) -> Estimate:
        return estimate(metric(self.parts(run)).within(self.bands[band]))

    def num_problems(self, chosen: np.ndarray, *runs: str) -> int:
        """Number of problems with a chosen part of which each of `runs` (by default, any run) has samples."""
        there = [self.parts(run).samples > 0 for run in runs or self.runs]
        there = np.all(there, axis=0) if runs else np.any(there, axis=0)
        return int((chosen & there).any(axis=1).sum())

    def describe(self, band: str) -> str:
        easy, hard = (f"{round(100 * bound, 1):g}%" for bound in self.thresholds)
        return {"easy": f"easy (success ≥ {easy})", "medium": "medium", "hard": f"hard (success ≤ {hard})"}[band]

    @property
    def sorted_by(self) -> str:
        *others, last = self.sorters
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def extent(self) -> str:
        """Number of sorted problems, in all and of each benchmark."""
        there = self.sorting.sorted.any(axis=1)
        counts = Counter(self.sorting.keys[row][0] for row in np.flatnonzero(there))
        return f"{there.sum():,} ({', '.join(f'{count:,} of {name}' for name, count in counts.items())})"


def count_problems(runs: Sequence[Run]) -> str:
    """Number of problems by benchmark, as a sentence; empty if no run has samples."""

    def count(one: SeedRun) -> str:
        return ", ".join(f"{name} ({len(columns.problems):,})" for name, columns in one.samples.items())

    by_run = {run.name: " or ".join(dict.fromkeys(map(count, run.seeds.values()))) for run in runs if run.sampled}
    if len(set(by_run.values())) > 1:
        return f"Problems: {'; '.join(f'{name}: {counts}' for name, counts in by_run.items())}."
    return f"Problems: {next(iter(by_run.values()))}." if by_run else ""


@dataclass(frozen=True)
class ComparedRuns:
    """
    The runs of a report, and the reference that the others are compared with (`None` for a single run).

    Every comparison is sorted by its own two runs, so that no other run moves its numbers, unless there are
    `difficulty_runs`. `groups` are benchmarks shown as one, `checkpoints` are evaluations shown only over their steps.
    """

    runs: list[Run]
    reference: Run | None
    difficulty_runs: Sequence[Run] = ()
    groups: Mapping[str, list[str]] = field(default_factory=dict)
    checkpoints: Sequence[Run] = ()

    @property
    def others(self) -> list[Run]:
        return [run for run in self.runs if run is not self.reference] if self.reference else []

    @property
    def sampled(self) -> list[Run]:
        return [run for run in self.runs if run.sampled]

    @property
    def means(self) -> str:
        return describe_means(self.runs or self.checkpoints)

    @property
    def noise(self) -> str:
        over = "" if self.means else ", over problems and not over trainings,"
        return f"≈ marks a difference whose 95% interval{over} holds 0: it may be noise."

    @cached_property
    def styles(self) -> dict[str, dict[str, Any]]:
        """Drawing style of each run, and of trainings with only checkpoints."""
        names = [*(run.name for run in self.runs), *(run.checkpoint[0] for run in self.checkpoints)]
        return run_styles(list(dict.fromkeys(names)), self.reference.name if self.reference else None)

    @cached_property
    def views(self) -> list[list[View]]:
        """
        One per comparison or, if there is none, per run, each as a list over the seeds that its runs share; only those
        with sorted problems.
        """
        reference = self.reference if self.reference is not None and self.reference.sampled else None
        sets = [[run] for run in self.sampled]
        if self.difficulty_runs:
            sets = [self.sampled]
        elif reference is not None and len(self.sampled) > 1:
            sets = [[reference, run] for run in self.sampled if run is not reference]
        views = []
        for runs in sets:
            names, sorters = [run.name for run in runs], [run.name for run in self.difficulty_runs or runs]
            compared = reference.name if reference in runs and len(runs) > 1 else None
            views.append([View(dict(zip(names, of, strict=True)), sorters, compared) for of in pairs(*runs)])
        return [seeds for seeds in views if shared_bands(seeds)]

    def in_bands(self, *bands: str) -> Iterator[tuple[str, list[View], str]]:
        """Each of some bands with every view that has it, and the name of each of its runs."""
        found = ((band, seeds) for band in bands for seeds in self.views if band in shared_bands(seeds))
        return ((band, seeds, run) for band, seeds in found for run in seeds[0].runs)

    def label(self, view: View, run: str) -> dict[str, str]:
        """Entries of a table's row that name the run and, if views differ, the sorting runs."""
        return ({"Sorted by": view.sorted_by} if len(self.views) > 1 else {}) | {"Run": run}

    @property
    def difficulty(self) -> str:
        view = self.views[0][0]
        if self.difficulty_runs:
            how = f"Problems are sorted by the success rate of {view.sorted_by}"
            if len(self.difficulty_runs) > 1:
                how += ", each with the same weight"
        elif view.reference is not None:
            how = "For each comparison, problems are sorted by the success rate of its two runs, with equal weight"
        else:
            how = "Problems are sorted by the run's own success rate"
        known = dict.fromkeys(seeds[0].thresholds_from for seeds in self.views)
        trained = [name for name in known if name is not None]
        thresholds = "the defaults, as no settings.json sets others"
        if trained:
            rest = ", elsewhere the defaults" if None in known else ""
            thresholds = f"those of the training of {', '.join(trained)}{rest}"
        return (
            f"{how}. No run is judged on the samples that sorted it: the samples of a problem are divided into "
            f"{PARTS} parts, and each part is measured on problems as the success rate of the other {PARTS - 1} sorts "
            f"them. Thresholds are {thresholds}."
        )

    @property
    def extent(self) -> str:
        """See [`View.extent`], as a sentence; by view where that differs."""
        by_view = {
            seeds[0].sorted_by: " or ".join(dict.fromkeys(view.extent for view in seeds)) for seeds in self.views
        }
        extents = dict.fromkeys(by_view.values())
        if len(extents) > 1:
            extents = [f"{extent} for {name}" for name, extent in by_view.items()]
        text = f"Sorted problems: {'; '.join(extents)}."
        found = [(seeds, band) for seeds in self.views for band in BANDS if any(band in view.bands for view in seeds)]
        lost = [f"{band} of {seeds[0].sorted_by}" for seeds, band in found if band not in shared_bands(seeds)]
        return f"{text} Not in every seed: {', '.join(lost)}." if lost else text

    @property
    def without_verdict(self) -> str:
        """Number of samples without a verdict, as a sentence; empty if all have one."""
        counts: Counter[str] = Counter()
        for run in self.sampled:
            for one in run.seeds.values():
                counts[run.name] += sum(int(np.isnan(columns.correct).sum()) for columns in one.samples.values())
        found = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        return f"Answers without a verdict count only for tokens: {found}." if found else ""


def shared_bands(seeds: Sequence[View]) -> list[str]:
    """Bands that a view has in every seed."""
    return [band for band in BANDS if all(band in view.bands for view in seeds)]
