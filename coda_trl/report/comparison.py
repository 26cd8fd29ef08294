"""What the sections share: runs, reference, and the difficulty of each problem."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..analysis.difficulty import Sorting, pool_problems, sort_problems
from ..evaluation.columns import PARTS, SampleColumns
from ..evaluation.metrics import Outcomes
from .runs import Run

CROSS_FIT = (
    f"No run is judged on the samples that sorted it: the samples of a problem are divided into {PARTS} parts, and "
    f"each part is measured on problems as the success rate of the other {PARTS - 1} sorts them."
)
NEEDS = "at least two samples with a verdict (samples.jsonl) of a problem: some sort, the others are measured."


def without_verdict(runs: Sequence[Run]) -> str:
    """How many samples have no verdict, and what that means for accuracies; empty if all have one."""
    counts = {run.name: sum(int(np.isnan(columns.correct).sum()) for columns in run.samples.values()) for run in runs}
    found = ", ".join(f"{name} {count:,}" for name, count in counts.items() if count)
    return f"Answers without a verdict count for tokens alone: {found}." if found else ""


@dataclass(frozen=True)
class View:
    """
    Some runs on problems that are sorted for all of them alike.

    Args:
        runs (`list[Run]`):
            The runs.
        sorters (`list[Run]`):
            Those whose success rate, with equal weight, says how difficult a problem is.
        reference (`Run`, *optional*):
            The run that others are compared with.
    """

    runs: list[Run]
    sorters: list[Run]
    reference: Run | None

    @cached_property
    def sorting(self) -> Sorting:
        """The problems that all sorting runs have, with their success rates."""
        return sort_problems([run.samples for run in self.sorters])

    @cached_property
    def bands(self) -> dict[str, np.ndarray]:
        """Easy, medium and hard ones, see [`Sorting.bands`]; without those in which a sorting run has no samples."""
        bands = self.sorting.bands().items()
        return {band: chosen for band, chosen in bands if self.num_problems(chosen, *self.sorters)}

    @cached_property
    def columns(self) -> dict[str, SampleColumns]:
        """Samples of the problems, over benchmarks, by run."""
        return {run.name: pool_problems(run.samples, self.sorting.keys) for run in self.runs}

    @property
    def others(self) -> list[Run]:
        """The runs that are compared with the reference."""
        return [run for run in self.runs if run is not self.reference]

    def parts(self, run: Run) -> Outcomes:
        """A run's samples, over benchmarks, summed up by problem and part."""
        return self.columns[run.name].in_parts

    def chosen(self, run: Run, band: str) -> np.ndarray:
        """Which of a run's samples are in a band."""
        columns = self.columns[run.name]
        return self.bands[band][columns.problem, columns.part]

    def num_problems(self, chosen: np.ndarray, *runs: Run) -> int:
        """Number of problems with a chosen part that each of the runs (by default, any) has samples of."""
        there = [self.parts(run).samples > 0 for run in runs or self.runs]
        there = np.all(there, axis=0) if runs else np.any(there, axis=0)
        return int((chosen & there).any(axis=1).sum())

    @property
    def sorted_by(self) -> str:
        """The sorting runs in words."""
        *others, last = (run.name for run in self.sorters)
        return f"{', '.join(others)} and {last}" if others else last

    @property
    def extent(self) -> str:
        """How many problems are sorted, and of which benchmarks."""
        there = self.sorting.sorted.any(axis=1)
        counts = Counter(self.sorting.keys[row][0] for row in np.flatnonzero(there))
        return f"{there.sum():,} problems: {', '.join(f'{name} ({count:,})' for name, count in counts.items())}"


@dataclass(frozen=True)
class ComparedRuns:
    """
    The runs of a report.

    Args:
        runs (`list[Run]`):
            All runs, in the order given.
        reference (`Run`, *optional*):
            The run that others are compared with; `None` if there is only one run.
        difficulty_runs (`Sequence[Run]`, *optional*):
            The runs whose success rate says how difficult a problem is. By default every comparison is sorted by the
            two runs that it compares, so that no other run moves its numbers.
        groups (`Mapping[str, list[str]]`, *optional*, defaults to `{}`):
            Benchmarks that are shown as one, by the name they go by together.
        checkpoints (`Sequence[Run]`, *optional*):
            Evaluations of checkpoints, which are shown over their steps alone.
    """

    runs: list[Run]
    reference: Run | None
    difficulty_runs: Sequence[Run] = ()
    groups: Mapping[str, list[str]] = field(default_factory=dict)
    checkpoints: Sequence[Run] = ()

    @property
    def others(self) -> list[Run]:
        """The runs that are compared with the reference."""
        return [run for run in self.runs if run is not self.reference] if self.reference else []

    @property
    def sampled(self) -> list[Run]:
        """The runs that have samples."""
        return [run for run in self.runs if run.samples]

    @cached_property
    def views(self) -> list[View]:
        """Runs on problems that are sorted for all of them alike, as far as any can be sorted."""
        reference = self.reference if self.reference is not None and self.reference.samples else None
        if self.difficulty_runs:
            views = [View(self.sampled, list(self.difficulty_runs), reference)]
        elif reference is not None and len(self.sampled) > 1:
            pairs = [[reference, run] for run in self.sampled if run is not reference]
            views = [View(pair, pair, reference) for pair in pairs]
        else:
            views = [View([run], [run], None) for run in self.sampled]
        return [view for view in views if view.bands]

    @property
    def difficulty(self) -> str:
        """How problems were sorted, in sentences."""
        if self.difficulty_runs:
            how = f"Problems are sorted by the success rate of {self.views[0].sorted_by}"
            if len(self.difficulty_runs) > 1:
                how += ", each with the same weight"
        elif self.views[0].reference is not None:
            how = "For each comparison, problems are sorted by the success rate of its two runs, with equal weight"
        else:
            how = "Problems are sorted by the run's own success rate"
        return f"{how}. {CROSS_FIT}"

    @property
    def extent(self) -> str:
        """How many problems are sorted and of which benchmarks, by view."""
        if len({view.extent for view in self.views}) == 1:
            return f"{self.views[0].extent}."
        return "; ".join(f"for {view.sorted_by} {view.extent}" for view in self.views) + "."
