"""Runs of one or several seeds: every number of a run is the mean of what each of its seeds has by itself."""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..evaluation.bootstrap import Estimate, estimate, over_seeds
from ..evaluation.metrics import Ratio
from .elements import Cell
from .runs import SeedRun

# How the columns of a table are measured, as numbers or ratios, and shown, by title.
Columns = dict[str, tuple[Callable[[Any], Any], Callable[[Any], Cell]]]

_SEED = re.compile(r"@seed-([^@/]+)$")


@dataclass(frozen=True)
class Run:
    """What the report shows under one name, by seed; a run without seeds has the one called `""`."""

    name: str
    seeds: dict[str, SeedRun]

    @property
    def benchmarks(self) -> set[str]:
        """Those that every seed has."""
        return set.intersection(*(one.benchmarks for one in self.seeds.values()))

    @property
    def sampled(self) -> set[str]:
        """Benchmarks of which every seed has samples."""
        return set.intersection(*(set(one.samples) for one in self.seeds.values()))

    @property
    def is_logged(self) -> bool:
        return all(one.log_history for one in self.seeds.values())

    @property
    def checkpoint(self) -> tuple[str, int] | None:
        """Name and step of its training, if the run is a checkpoint such as `CODA@checkpoint-50`."""
        match = re.fullmatch(r"(.+)@checkpoint-(\d+)", self.name)
        return (match[1], int(match[2])) if match else None

    def estimate(self, metric: str, benchmarks: Sequence[str]) -> Estimate:
        """See [`SeedRun.estimate`]."""
        return average(one.estimate(metric, benchmarks) for one in self.seeds.values())


def group_seeds(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Names such as `GRPO@seed-0` by name without seed and by seed, which is `""` where there is none."""
    found: dict[str, dict[str, str]] = {}
    for name in names:
        if re.search("@seed", name, re.IGNORECASE) and not _SEED.search(name):  # it would pass for a budget
            raise ValueError(f"run {name!r}: a seed is the end of a name, spelled NAME@seed-SEED, such as GRPO@seed-0")
        found.setdefault(_SEED.sub("", name), {})["".join(_SEED.findall(name))] = name
    for name, seeds in found.items():
        if "" in seeds and len(seeds) > 1:
            raise ValueError(
                f"run {name!r} of seed {max(seeds)!r} is given with and without its seed; a run has seeds, or none"
            )
    return found


def pairs(*runs: Run) -> list[list[SeedRun]]:
    """The runs of every seed that all of them have; one without seeds goes with each."""
    seeded = [run.seeds for run in runs if "" not in run.seeds] or [{"": None}]
    shared = [seed for seed in seeded[0] if all(seed in seeds for seeds in seeded)]
    return [[run.seeds.get(seed) or run.seeds[""] for run in runs] for seed in shared]


def average(found: Iterable[Any]) -> Any:
    """
    Mean over seeds of numbers, or of dictionaries that hold them. Whole numbers are counts, and get no interval.
    """
    first, *others = found
    if all(each == first for each in others):
        return first
    if isinstance(first, dict):
        return {key: average(each[key] for each in (first, *others)) for key in first}
    if isinstance(first, int):
        return float(np.mean([first, *others]))
    seeds = [each if isinstance(each, Estimate) else Estimate(each) for each in (first, *others)]
    mean = over_seeds([each.value for each in seeds])
    if np.isnan(mean.value):
        return Estimate(np.nan)
    if not np.allclose([each.value for each in seeds], mean.value):
        return mean
    # Alike by chance, as shares of few problems are: Student's t would exclude everything else.
    known = [each for each in seeds if each.low is not None]
    return Estimate(mean.value, min((e.low for e in known), default=None), max((e.high for e in known), default=None))


def cells(columns: Columns, seeds: Iterable[Any], draws: int = 0) -> dict[str, Cell]:
    """Entries of a table's row, of what is measured in each seed; `draws` seeds the resamples of ratios."""

    def measured(measure: Callable[[Any], Any], one: Any) -> Any:
        value = measure(one)
        return estimate(value, draws) if isinstance(value, Ratio) else value

    seeds = list(seeds)
    return {
        title: show(average(measured(measure, one) for one in seeds)) for title, (measure, show) in columns.items()
    }


def describe_means(runs: Sequence[Run]) -> str:
    """What numbers of several seeds are, as a sentence; empty if no run has several."""
    if all(len(run.seeds) == 1 for run in runs):
        return ""
    seeds = {run.name: ", ".join(run.seeds) for run in runs if "" not in run.seeds}
    which, rest = f"{max(len(run.seeds) for run in runs)} seeds ({max(seeds.values())})", ""
    if len(set(seeds.values())) > 1:
        which = f"seeds ({'; '.join(f'{name}: {of}' for name, of in seeds.items())})"
        rest = " Differences, and numbers by difficulty, rest on the seeds that the runs have in common."
    return (
        f"Means over {which} with 95% intervals over them (Student's t; where all agree, over problems), of "
        f"differences over pairs of one seed.{rest}"
    )
