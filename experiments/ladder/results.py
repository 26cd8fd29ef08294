"""Numbers over the seeds of a run and the problems of an evaluation, with 95% intervals.

Two things vary: the seed of training, and the problems that happen to be asked. The problems are resampled (the same
resamples for every run, which pairs them), and the mean over seeds gets noise of Student's t distribution with its
standard error: a bootstrap of three or five seeds would give intervals that are too narrow.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from scipy.special import stdtrit

from coda_trl.analysis import difficulty_buckets
from coda_trl.evaluation import Estimate, Ratio
from coda_trl.evaluation.bootstrap import CONFIDENCE, NUM_RESAMPLES, replicates
from coda_trl.evaluation.comparison import benchmark_seed
from coda_trl.evaluation.metrics import SHARE

from ..files import Row
from .matrix import ALL_RUNGS, START

# Warm start and seed. Where all runs have one start, it is number 1.
Training = tuple[int, int]
# A number of one run or several, as an array: see [`Measured`].
Function = Callable[..., np.ndarray]

# What all runs that are compared must have in common.
COMMON = ("checkpoint", "steps", "learning_rate", "lr_scheduler_type", "problems", "samples")
# Runs whose success rate says how difficult a problem is.
SORTERS = ("grpo", "coda")
# Narrower than this (in points of accuracy or percent, and in tokens), an interval for a new run is not stated: where
# all seeds agree to the digit, their spread says nothing.
RESOLUTION = 0.5


class Measured:
    """
    Counts by problem of an entry of a run's `evaluations`, or of several in the mean. Every number is an array of
    shape `(1 + NUM_RESAMPLES,)`: the number, then what it is on resampled problems. Arithmetic on these arrays carries
    the resamples along.
    """

    def __init__(self, columns: dict[str, np.ndarray], samples: int):
        self.columns, self.rung, self.samples = columns, columns["rung"], samples
        self.total = np.full(len(self.rung), self.samples)

    def mean(self, column: str, where: tuple[int, ...] | np.ndarray = ALL_RUNGS) -> np.ndarray:
        """
        Mean over answers, averaged over rungs or over chosen problems: `"tokens"`, or the percentage that is
        `"correct"`, `"reflective"`, `"verbose"` or has a second count (`"rechecks"`).
        """
        limits = None if column == "tokens" else SHARE
        found = self._over_problems(self.columns[column], where, limits)
        return found if column == "tokens" else 100 * found

    def lead(
        self, column: str, others: Mapping["Measured", float], where: tuple[int, ...] | np.ndarray = ALL_RUNGS
    ) -> np.ndarray:
        """Points by which a percentage exceeds that of other runs, which weigh 1 together, problem by problem."""
        above = self.columns[column] - sum(weight * other.columns[column] for other, weight in others.items())
        return 100 * self._over_problems(above, where, (-1.0, 1.0))

    def _over_problems(
        self, counts: np.ndarray, where: tuple[int, ...] | np.ndarray, limits: tuple[float, float] | None
    ) -> np.ndarray:
        if isinstance(where, np.ndarray):
            # All problems are resampled, as seeds differ in which ones are chosen: so each is drawn for all alike.
            return _ratio(where * counts, where * self.total, "buckets", limits)
        rungs = [(self.rung == rung, f"rung {rung}") for rung in where]
        return np.mean([_ratio(counts[on], self.total[on], name, limits, len(where)) for on, name in rungs], axis=0)

    def right_among(self, marker: str, rungs: tuple[int, ...]) -> np.ndarray:
        """Percent of correct ones among the answers with a marker; NaN if none has it."""
        chosen = np.isin(self.rung, rungs)
        right, marked = self.columns[f"{marker}_correct"], self.columns[marker]
        return 100 * _ratio(right[chosen], marked[chosen], f"rungs {rungs}")


def _ratio(
    above: np.ndarray, below: np.ndarray, name: str, limits: tuple[float, float] | None = None, averaged: int = 1
) -> np.ndarray:
    """Ratio of two sums over problems that are resampled together, see [`Ratio`] and [`replicates`]."""
    ratio = Ratio(above.astype(float), below.astype(float), limits)
    return np.append(ratio.value, replicates(ratio, benchmark_seed(name), averaged=averaged))


def value(column: str, where: tuple[int, ...] | np.ndarray = ALL_RUNGS) -> Function:
    """[`Measured.mean`] of a run."""
    return lambda run: run.mean(column, where)


def change(column: str, where: tuple[int, ...] | np.ndarray = ALL_RUNGS) -> Function:
    """A run against a reference: relative change of tokens in percent, difference of percentages in points."""
    if column == "tokens":
        return lambda run, reference: 100 * (run.mean(column, where) / reference.mean(column, where) - 1)
    return lambda run, reference: run.lead(column, {reference: 1.0}, where)


def over_seeds_and_problems(rows: np.ndarray, has_seeds: bool = True, confidence: float = CONFIDENCE) -> Estimate:
    """
    Mean over seeds, with an interval over seeds and problems; none if one seed would have to speak for all.

    Args:
        rows (`np.ndarray` of shape `(S, 1 + B)`):
            For every seed the number, then its `B` values on resampled problems.
        has_seeds (`bool`, *optional*, defaults to `True`):
            Whether other seeds would give other numbers. Not so for a model that was not trained.
        confidence (`float`, *optional*, defaults to `0.95`):
            How often the interval is to hold the truth.
    """
    count = len(rows)
    mean, draws = float(rows[:, 0].mean()), rows[:, 1:].mean(axis=0)
    if np.isnan(mean) or (has_seeds and count < 2):
        return Estimate(mean)
    if has_seeds:
        error = rows[:, 0].std(ddof=1) / np.sqrt(count)
        draws = draws + error * np.random.default_rng(0).standard_t(count - 1, size=draws.shape)
    low, high = np.percentile(draws, [50 * (1 - confidence), 50 * (1 + confidence)]).tolist()
    return Estimate(mean, min(low, mean), max(high, mean))


def new_run(rows: np.ndarray, runs: int = 1, resolution: float = RESOLUTION) -> Estimate:
    """
    Mean over seeds, with the 95% prediction interval for the mean of `runs` more with other seeds.

    With `S` seeds of standard deviation `s`, a mean of `runs` new ones lies within `t s sqrt(1/S + 1/runs)` of theirs,
    where `t` is the quantile of Student's t distribution with `S - 1` degrees of freedom, and never within less than
    `resolution`. The problems do not enter: all runs are evaluated on the same ones, which move all numbers alike.
    """
    values = rows[:, 0]
    mean = float(values.mean())
    if len(values) < 2 or np.isnan(mean):
        return Estimate(mean)
    error = values.std(ddof=1) * np.sqrt(1 / len(values) + 1 / runs)
    width = max(resolution, float(stdtrit(len(values) - 1, 0.975) * error))
    return Estimate(mean, mean - width, mean + width)


class Results:
    """
    Runs that are compared, lines of a results file. Trainings are compared with those of the same warm start and seed;
    pairs of all warm starts then count alike. Runs that differ in `COMMON`, or are there twice, are refused.
    """

    def __init__(self, lines: Iterable[Row]):
        self.lines = list(lines)
        self.runs: dict[str, dict[Training, Row]] = {}
        self._measured: dict[tuple[str, Training, int | None], Measured] = {}
        self._shared: dict[Any, Any] = {}
        for line in sorted(self.lines, key=lambda line: (line.get("warm_start", 1), line["seed"])):
            method, training = line["method"], (line.get("warm_start", 1), line["seed"])
            if training in self.runs.setdefault(method, {}):
                raise ValueError(f"There is a run of {method} with seed {line['seed']} already.")
            self.runs[method][training] = line
            for evaluation in line["evaluations"]:
                columns = {name: np.array(counts.split(), int) for name, counts in evaluation["problems"].items()}
                measured = Measured(columns, evaluation["samples_per_problem"])
                self._measured[method, training, evaluation["budget"]] = measured
                self._share(line, {"problems": len(measured.rung), "samples": measured.samples})
        self.buckets = cache(self.buckets)

    def _share(self, line: Row, sizes: Row) -> None:
        for what, found in (line["shared"] | sizes).items():
            key = (what, line.get("warm_start")) if what == "checkpoint" else what
            if what in COMMON and self._shared.setdefault(key, found) != found:
                raise ValueError(
                    f"{line['method']}, seed {line['seed']} differs in {what} from the runs before it: {found!r}, not "
                    f"{self._shared[key]!r}. Runs that are compared have it in common: make the older ones anew."
                )

    def trainings(self, *names: str) -> list[Training]:
        """Trainings that all the trained ones among some runs have; next to the start, where theirs is evaluated."""
        methods = [name.partition("@")[0] for name in names]
        if any(method not in self.runs for method in methods):
            return []
        trained = [method for method in methods if method != START]
        found = set.intersection(*(set(self.runs[method]) for method in trained or methods))
        if START in methods:
            started = {warm_start for warm_start, _ in self.runs[START]}
            found = {training for training in found if training[0] in started}
        return sorted(found)

    def measured(self, name: str, training: Training) -> Measured:
        """One evaluation: `"coda"`, or `"l1@12"` with a token budget. For the start, that of the warm start."""
        method, _, budget = name.partition("@")
        if method == START:
            training = min(start for start in self.runs[START] if start[0] == training[0])
        return self._measured[method, training, int(budget) if budget else None]

    def rows(self, function: Function, *names: str) -> np.ndarray | None:
        """
        A number, by a function of one [`Measured`] per name, for every training that some runs have in common. Shape
        `(S, 1 + NUM_RESAMPLES)`; `None` if there is none.
        """
        trainings = self.trainings(*names)
        if not trainings:
            return None
        values = [function(*(self.measured(name, training) for name in names))[0] for training in trainings]
        # What depends on the problems is known best from all trainings together.
        together = function(*(self._mean(name, trainings) for name in names))
        return np.add.outer(values, together - together[0])

    def _mean(self, name: str, trainings: Sequence[Training]) -> Measured:
        runs = [self.measured(name, training) for training in trainings]
        columns = {column: np.mean([run.columns[column] for run in runs], axis=0) for column in runs[0].columns}
        return Measured(columns, runs[0].samples)

    def estimate(self, function: Function, *names: str) -> Estimate | None:
        """Mean over seeds, see [`rows`] and [`over_seeds_and_problems`]; `None` if there is no run."""
        rows = self.rows(function, *names)
        return None if rows is None else over_seeds_and_problems(rows, set(names) != {START})

    def buckets(self, training: Training) -> np.ndarray:
        """
        Difficulty bucket of every problem for the runs of one training, by the success rate of GRPO and CODA together
        in all *others*: no run is judged on answers, or by a training, that sorted the problems. Shape `(P,)`, 0 is
        the hardest.
        """
        others = [other for other in self.trainings(*SORTERS) if other != training]
        runs = [self.measured(name, other) for name in SORTERS for other in others]
        return difficulty_buckets(np.mean([run.columns["correct"] for run in runs], axis=0))

    def in_bucket(self, bucket: int, make: Callable[[np.ndarray], Function], *names: str) -> np.ndarray | None:
        """As [`rows`], by the function that `make` returns of which problems are in a bucket, shape `(P,)`. `None` as
        well if there are not two trainings of those that sort."""
        trainings = self.trainings(*names)
        if not trainings or len(self.trainings(*SORTERS)) < 2:
            return None
        runs = {each: [self.measured(name, each) for name in names] for each in trainings}
        return np.array([make(self.buckets(each) == bucket)(*of_each) for each, of_each in runs.items()])

    def log(self, name: str, key: str) -> tuple[np.ndarray, np.ndarray] | None:
        """Steps, shape `(T,)`, and the course of a logged metric for every seed, shape `(S, T)` with NaN for gaps."""
        logs = [line["log"] for line in self.runs.get(name, {}).values()]
        if not logs or any(key not in log for log in logs):
            return None
        return np.array(logs[0]["step"]), np.array([log[key] for log in logs], dtype=float)

    def logged(self, name: str, key: str, last: int = 3) -> np.ndarray | None:
        """Mean of the last points of a logged metric for every seed, as in [`rows`]; it depends on no problems."""
        found = self.log(name, key)
        if found is None:
            return None
        ends = np.nanmean(found[1][:, -last:], axis=1)
        return np.repeat(ends[:, None], 1 + NUM_RESAMPLES, axis=1)
