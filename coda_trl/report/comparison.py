"""What sections share: runs, reference, and the difficulty of each problem."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from ..analysis.difficulty import PAPER_THRESHOLDS, Sorting, pool_problems, sort_problems
from ..evaluation.columns import PARTS, SampleColumns
from ..evaluation.comparison import Comparison, compare_within
from ..evaluation.metrics import Outcomes
from .runs import Run
from .style import run_styles

NEEDS = (
    "at least two samples with a verdict (samples.jsonl) of a problem: some sort, the others are measured. "
    "`--difficulty_run NAME` sorts by a run that has them."
)


@dataclass(frozen=True)
class View:
    """Runs on problems that are sorted, the same way for all of them, by the success rates of `sorters`."""

    runs: list[Run]
    sorters: list[Run]
    reference: Run | None

    @cached_property
    def sorting(self) -> Sorting:
        return sort_problems([run.samples for run in self.sorters])

    @cached_property
    def thresholds_from(self) -> Run | None:
        """The run whose training sets the thresholds: the first but the reference that does, or else the reference."""
        return next((run for run in [*self.others, *self.runs] if run.thresholds), None)

    @property
    def thresholds(self) -> tuple[float, float]:
        """Thresholds of easy and of hard; the paper's if no training sets any."""
        return self.thresholds_from.thresholds if self.thresholds_from else PAPER_THRESHOLDS

    @cached_property
    def bands(self) -> dict[str, np.ndarray]:
        """See [`Sorting.bands`]; without bands in which a sorting run has no samples."""
        bands = self.sorting.bands(*self.thresholds).items()
        return {band: chosen for band, chosen in bands if self.num_problems(chosen, *self.sorters)}

    @cached_property
    def columns(self) -> dict[str, SampleColumns]:
        """Samples of the sorted problems of all benchmarks, by run."""
        return {run.name: pool_problems(run.samples, self.sorting.keys) for run in self.runs}

    @property
    def others(self) -> list[Run]:
        return [run for run in self.runs if run is not self.reference]

    def parts(self, run: Run) -> Outcomes:
        return self.columns[run.name].in_parts

    def chosen(self, run: Run, band: str) -> np.ndarray:
        """Which of a run's samples are in a band."""
        columns = self.columns[run.name]
        return self.bands[band][columns.problem, columns.part]

    def samples(self, run: Run, band: str) -> SampleColumns:
        return self.columns[run.name].take(self.chosen(run, band))

    def compare(self, run: Run, band: str) -> Comparison:
        return compare_within(self.parts(run), self.parts(self.reference), self.bands[band], band)

    def num_problems(self, chosen: np.ndarray, *runs: Run) -> int:
        """Number of problems with a chosen part of which each of `runs` (by default, any run) has samples."""
        there = [self.parts(run).samples > 0 for run in runs or self.runs]
        there = np.all(there, axis=0) if runs else np.any(there, axis=0)
        return int((chosen & there).any(axis=1).sum())

    def describe(self, band: str) -> str:
        easy, hard = (f"{round(100 * bound, 1):g}%" for bound in self.thresholds)
        return {"easy": f"easy (success ≥ {easy})", "medium": "medium", "hard": f"hard (success ≤ {hard})"}[band]

    @property
    def sorted_by(self) -> str:
        *others, last = (run.name for run in self.sorters)
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def extent(self) -> str:
        """Number of sorted problems, in all and of each benchmark."""
        there = self.sorting.sorted.any(axis=1)
        counts = Counter(self.sorting.keys[row][0] for row in np.flatnonzero(there))
        return f"{there.sum():,} ({', '.join(f'{count:,} of {name}' for name, count in counts.items())})"


def count_problems(runs: Sequence[Run]) -> str:
    """Number of problems by benchmark, as a sentence; empty if no run has samples."""
    by_run = {
        run.name: ", ".join(f"{name} ({len(outcomes.problems):,})" for name, outcomes in run.outcomes.items())
        for run in runs
        if run.samples
    }
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
        return [run for run in self.runs if run.samples]

    @cached_property
    def styles(self) -> dict[str, dict[str, Any]]:
        """Drawing style of each run, and of trainings with only checkpoints."""
        names = [*(run.name for run in self.runs), *(run.checkpoint[0] for run in self.checkpoints)]
        return run_styles(list(dict.fromkeys(names)), self.reference.name if self.reference else None)

    @cached_property
    def views(self) -> list[View]:
        """One per comparison or, if there is none, per run; only those with sorted problems."""
        reference = self.reference if self.reference is not None and self.reference.samples else None
        if self.difficulty_runs:
            views = [View(self.sampled, list(self.difficulty_runs), reference)]
        elif reference is not None and len(self.sampled) > 1:
            pairs = [[reference, run] for run in self.sampled if run is not reference]
            views = [View(pair, pair, reference) for pair in pairs]
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
        if len({view.extent for view in self.views}) == 1:
            return f"Sorted problems: {self.views[0].extent}."
        return f"Sorted problems: {'; '.join(f'{view.extent} for {view.sorted_by}' for view in self.views)}."

    @property
    def without_verdict(self) -> str:
        """Number of samples without a verdict, as a sentence; empty if all have one."""
        counts = {
            run.name: sum(int(np.isnan(columns.correct).sum()) for columns in run.samples.values())
            for run in self.sampled
        }
        found = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
        return f"Answers without a verdict count only for tokens: {found}." if found else ""
