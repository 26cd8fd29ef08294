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
from ..evaluation.comparison import Comparison, compare_within
from ..evaluation.metrics import Outcomes, Ratio
from .runs import SeedRun
from .seeds import Run, average, describe_means, each_seed, pairs
from .style import run_styles

NEEDS = (
    "at least two samples with a verdict (samples.jsonl) of a problem: some sort, the others are measured. "
    "`--difficulty_run NAME` sorts by a run that has them."
)


@dataclass(frozen=True)
class SortedRuns:
    """Runs of one seed on problems that are sorted, the same way for all, by the success rates of `sorters`."""

    runs: Mapping[str, SeedRun]  # by name without the seed
    sorters: Sequence[str]
    thresholds: tuple[float, float]

    @cached_property
    def sorting(self) -> Sorting:
        return sort_problems([self.runs[name].samples for name in self.sorters])

    @cached_property
    def bands(self) -> dict[str, np.ndarray]:
        """See [`Sorting.bands`]; without bands in which a sorting run has no samples."""
        bands = self.sorting.bands(*self.thresholds).items()
        return {band: chosen for band, chosen in bands if self.num_problems(chosen, *self.sorters)}

    @cached_property
    def columns(self) -> dict[str, SampleColumns]:
        """Samples of the sorted problems of all benchmarks, by run."""
        return {name: pool_problems(run.samples, self.sorting.keys) for name, run in self.runs.items()}

    def parts(self, name: str) -> Outcomes:
        return self.columns[name].in_parts

    def chosen(self, name: str, band: str) -> np.ndarray:
        """Which of a run's samples are in a band."""
        columns = self.columns[name]
        return self.bands[band][columns.problem, columns.part]

    def samples(self, name: str, band: str) -> SampleColumns:
        return self.columns[name].take(self.chosen(name, band))

    def num_problems(self, chosen: np.ndarray, *names: str) -> int:
        """Number of problems with a chosen part of which each of some runs (by default, any run) has samples."""
        there = [self.parts(name).samples > 0 for name in names or self.runs]
        there = np.all(there, axis=0) if names else np.any(there, axis=0)
        return int((chosen & there).any(axis=1).sum())

    @property
    def extent(self) -> str:
        """Number of sorted problems, in all and of each benchmark."""
        there = self.sorting.sorted.any(axis=1)
        counts = Counter(self.sorting.keys[row][0] for row in np.flatnonzero(there))
        return f"{there.sum():,} ({', '.join(f'{count:,} of {name}' for name, count in counts.items())})"


@dataclass(frozen=True)
class View:
    """Runs on problems that are sorted, in every seed that they share, by the success rates of `sorters`."""

    runs: list[Run]
    sorters: list[Run]
    reference: Run | None

    @cached_property
    def seeds(self) -> list[SortedRuns]:
        names, sorters = [run.name for run in self.runs], [run.name for run in self.sorters]
        return [SortedRuns(dict(zip(names, of, strict=True)), sorters, self.thresholds) for of in pairs(*self.runs)]

    @cached_property
    def thresholds_from(self) -> Run | None:
        """The run whose training sets the thresholds: the first but the reference that does, or else the reference."""
        return next((run for run in [*self.others, *self.runs] if run.thresholds), None)

    @property
    def thresholds(self) -> tuple[float, float]:
        """Thresholds of easy and of hard; the paper's if no training sets any."""
        return self.thresholds_from.thresholds if self.thresholds_from else PAPER_THRESHOLDS

    @cached_property
    def bands(self) -> list[str]:
        """Those with problems in every seed."""
        return [band for band in BANDS if all(band in seed.bands for seed in self.seeds)]

    @property
    def lost(self) -> list[str]:
        """Bands that only some seeds have."""
        found = [band for band in BANDS if any(band in seed.bands for seed in self.seeds)]
        return [f"{band} problems of {self.sorted_by}" for band in found if band not in self.bands]

    @property
    def others(self) -> list[Run]:
        return [run for run in self.runs if run is not self.reference]

    def mean(self, measure: Callable[[SortedRuns], Any]) -> Any:
        """See [`average`]."""
        return average(map(measure, self.seeds))

    def num_problems(self, run: Run, band: str) -> float:
        return self.mean(lambda seed: seed.num_problems(seed.bands[band], run.name))

    def estimate(self, metric: Callable[[Outcomes], Ratio], run: Run, band: str) -> Estimate:
        return self.mean(lambda seed: estimate(metric(seed.parts(run.name)).within(seed.bands[band])))

    def compare(self, run: Run, band: str) -> Comparison:
        reference = self.reference.name
        return self.mean(
            lambda seed: compare_within(seed.parts(run.name), seed.parts(reference), seed.bands[band], band)
        )

    def describe(self, band: str) -> str:
        easy, hard = (f"{round(100 * bound, 1):g}%" for bound in self.thresholds)
        return {"easy": f"easy (success ≥ {easy})", "medium": "medium", "hard": f"hard (success ≤ {hard})"}[band]

    @property
    def sorted_by(self) -> str:
        *others, last = (run.name for run in self.sorters)
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def extent(self) -> str:
        """See [`SortedRuns.extent`]; by seed where that differs."""
        return " or ".join(dict.fromkeys(seed.extent for seed in self.seeds))


def count_problems(runs: Sequence[Run]) -> str:
    """Number of problems by benchmark, as a sentence; empty if no run has samples."""

    def count(one: SeedRun) -> str:
        return ", ".join(f"{name} ({len(outcomes.problems):,})" for name, outcomes in one.outcomes.items())

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
        """See [`describe_means`]."""
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
    def views(self) -> list[View]:
        """One per comparison or, if there is none, per run; only those with sorted problems."""
        reference = self.reference if self.reference is not None and self.reference.sampled else None
        if self.difficulty_runs:
            views = [View(self.sampled, list(self.difficulty_runs), reference)]
        elif reference is not None and len(self.sampled) > 1:
            both = [[reference, run] for run in self.sampled if run is not reference]
            views = [View(pair, pair, reference) for pair in both]
        else:
            views = [View([run], [run], None) for run in self.sampled]
        return [view for view in views if view.bands]

    def in_bands(self, *bands: str) -> Iterator[tuple[str, View, Run]]:
        """Each band with every view that has it, and each of its runs."""
        return ((band, view, run) for band in bands for view in self.views if band in view.bands for run in view.runs)

    def label(self, view: View, run: Run) -> dict[str, str]:
        """Entries of a table's row that name the run and, if views differ, the sorting runs."""
        sorted_by = {"Sorted by": view.sorted_by} if len(self.views) > 1 else {}
        return sorted_by | {"Run": run.name}

    @property
    def compared(self) -> list[tuple[View, Run]]:
        return [(view, run) for view in self.views if view.reference for run in view.others]

    @property
    def difficulty(self) -> str:
        if self.difficulty_runs:
            how = f"Problems are sorted by the success rate of {self.views[0].sorted_by}"
            if len(self.difficulty_runs) > 1:
                how += ", each with the same weight"
        elif self.views[0].reference is not None:
            how = "For each comparison, problems are sorted by the success rate of its two runs, with equal weight"
        else:
            how = "Problems are sorted by the run's own success rate"
        return (
            f"{how}. No run is judged on the samples that sorted it: the samples of a problem are divided into "
            f"{PARTS} parts, and each part is measured on problems as the success rate of the other {PARTS - 1} sorts "
            f"them. {self._thresholds}"
        )

    @property
    def _thresholds(self) -> str:
        known = dict.fromkeys(view.thresholds_from.name for view in self.views if view.thresholds_from)
        if not known:
            return "Thresholds are the defaults, as no settings.json sets others."
        rest = "" if all(view.thresholds_from for view in self.views) else ", elsewhere the defaults"
        return f"Thresholds are those of the training of {', '.join(known)}{rest}."

    @property
    def extent(self) -> str:
        """See [`View.extent`], as a sentence; by view where that differs."""
        extents, lost = [view.extent for view in self.views], [text for view in self.views for text in view.lost]
        if len(set(extents)) > 1:
            extents = [f"{view.extent} for {view.sorted_by}" for view in self.views]
        else:
            extents = extents[:1]
        return f"Sorted problems: {'; '.join(extents)}." + (f" Not in every seed: {', '.join(lost)}." if lost else "")

    @property
    def without_verdict(self) -> str:
        """Number of samples without a verdict, as a sentence; empty if all have one."""
        counts = {
            run.name: sum(
                int(np.isnan(columns.correct).sum()) for one in each_seed([run]) for columns in one.samples.values()
            )
            for run in self.sampled
        }
        found = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        return f"Answers without a verdict count only for tokens: {found}." if found else ""
