"""Samples as columns of numbers, for analysis. Texts are not kept: what `counts` find in them is."""

import json
import os
from array import array
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from .metrics import Outcomes
from .samples import read_samples

Count = Callable[[Mapping[str, Any]], float]

PER_SAMPLE = ("sample", "correct", "tokens", "truncated")

# Parts that the samples of a problem are divided into: some sort problems while another is measured.
PARTS = 4


@dataclass(frozen=True)
class SampleColumns:
    """
    Samples of one benchmark, for `N` samples of `P` problems.

    Args:
        problems (`list[str]` of length `P`):
            Problem ids.
        questions (`np.ndarray` of shape `(P, 2)`):
            Checksums of prompt and gold answer, 0 if the samples lack them, valid within one process.
        problem, sample (`np.ndarray` of shape `(N,)`):
            Index of the problem of every sample, and number of the sample among those of its problem.
        correct, tokens, truncated (`np.ndarray` of shape `(N,)`):
            1, 0, or NaN without a verdict; generated tokens; whether the sample ended at the token limit.
        counts (`dict[str, np.ndarray]`):
            What else was counted, each of shape `(N,)`.
    """

    problems: list[str]
    questions: np.ndarray
    problem: np.ndarray
    sample: np.ndarray
    correct: np.ndarray
    tokens: np.ndarray
    truncated: np.ndarray
    counts: dict[str, np.ndarray]

    def _sum_up(self, cell: np.ndarray, *shape: int) -> Outcomes:
        def total(values: np.ndarray) -> np.ndarray:
            return np.bincount(cell, weights=values, minlength=np.prod(shape)).reshape(shape)

        return Outcomes(
            problems=self.problems,
            samples=total(np.ones(len(cell))),
            graded=total(~np.isnan(self.correct)),
            correct=total(self.correct == 1),
            truncated=total(self.truncated),
            tokens=total(self.tokens),
            correct_tokens=total(np.where(self.correct == 1, self.tokens, 0)),
            wrong_tokens=total(np.where(self.correct == 0, self.tokens, 0)),
            questions=self.questions,
        )

    @cached_property
    def outcomes(self) -> Outcomes:
        """The samples summed up by problem."""
        return self._sum_up(self.problem, len(self.problems))

    @cached_property
    def in_parts(self) -> Outcomes:
        """The samples summed up by problem and part: sums of shape `(P, PARTS)`."""
        return self._sum_up(self.problem * PARTS + self.part, len(self.problems), PARTS)

    @cached_property
    def part(self) -> np.ndarray:
        """Part of every sample, 0 to `PARTS - 1`, shape `(N,)`: those of a problem are dealt to the parts in turn."""
        order = np.lexsort((self.sample, self.problem))
        starts = np.searchsorted(self.problem[order], np.arange(len(self.problems)))
        part = np.empty(len(order), dtype=np.int8)
        part[order] = (np.arange(len(order)) - starts[self.problem[order]]) % PARTS
        return part

    def take(self, chosen: np.ndarray) -> "SampleColumns":
        """Some of the samples, chosen by an array of shape `(N,)`, with their problems."""
        kept, problem = np.unique(self.problem[chosen], return_inverse=True)
        problems = [self.problems[index] for index in kept]
        return SampleColumns.of(problems, self.questions[kept], problem, self.values(chosen))

    @classmethod
    def of(
        cls, problems: list[str], questions: np.ndarray, problem: np.ndarray, values: dict[str, np.ndarray]
    ) -> "SampleColumns":
        """Columns from [`SampleColumns.values`]."""
        return cls(problems, questions, problem, *(values.pop(name) for name in PER_SAMPLE), counts=values)

    def values(self, chosen: np.ndarray) -> dict[str, np.ndarray]:
        """Columns of some of the samples, by name."""
        columns = {name: vars(self)[name] for name in PER_SAMPLE} | self.counts
        return {name: values[chosen] for name, values in columns.items()}

    def per_problem(self, values: np.ndarray) -> np.ndarray:
        """Sums values of shape `(N,)` by problem: shape `(P,)`."""
        return np.bincount(self.problem, weights=values, minlength=len(self.problems))


def _hash(value: Any) -> int:
    return 0 if value is None else hash(json.dumps(value, sort_keys=True)) or 1


class _Builder:
    """Columns of one benchmark while they grow."""

    def __init__(self, width: int):
        self.index: dict[str, int] = {}
        self.asked: list[tuple[int, Any]] = []
        self.numbers = array("d")
        self.width = width

    def add(self, sample: Mapping[str, Any], counts: Iterable[float]) -> None:
        name, gold = str(sample["problem_id"]), sample.get("solution")
        problem = self.index.setdefault(name, len(self.index))
        if problem == len(self.asked):
            self.asked.append((_hash(sample.get("prompt")), gold))
        elif self.asked[problem][1] != gold:
            raise ValueError(
                f"samples of problem {name!r} in {sample['benchmark']!r} have the solutions "
                f"{self.asked[problem][1]!r} and {gold!r}: one problem_id must stand for one problem"
            )
        correct = np.nan if sample["correct"] is None else sample["correct"]
        truncated = sample["finish_reason"] == "length"
        self.numbers.extend((problem, sample.get("sample", np.nan), correct, sample["tokens"], truncated, *counts))

    def columns(self, benchmark: str, names: Iterable[str]) -> SampleColumns:
        # A copy, column by column: a view of one would keep all.
        problem, sample, *values = np.frombuffer(self.numbers).reshape(-1, self.width).T.copy()
        problem, problems = problem.astype(np.int32), list(self.index)
        if np.isnan(sample).any():  # not numbered: take the order of the file
            sample = np.arange(len(sample))
        order = np.lexsort((sample, problem))
        same = (np.diff(problem[order]) == 0) & (np.diff(sample[order]) == 0)
        if same.any():
            twice = order[np.flatnonzero(same)[0]]
            number, name = f"{sample[twice]:g}", problems[problem[twice]]
            raise ValueError(f"sample {number} of problem {name!r} in {benchmark!r} is there twice")
        questions = np.array([(prompt, _hash(gold)) for prompt, gold in self.asked], dtype=np.int64)
        named = dict(zip((*PER_SAMPLE, *names), (sample, *values), strict=True))
        return SampleColumns.of(problems, questions, problem, named | {"truncated": named["truncated"] == 1})


def tabulate(
    samples: Iterable[Mapping[str, Any]], split_by: str | None = None, counts: Mapping[str, Count] | None = None
) -> dict[str, SampleColumns]:
    """Makes columns of samples, as [`load_samples`] does for a file."""
    counts, builders = counts or {}, {}
    for sample in samples:
        benchmark = sample["benchmark"]
        if split_by is not None and split_by in sample:
            benchmark = f"{benchmark} {split_by} {sample[split_by]}"
        builder = builders.get(benchmark) or builders.setdefault(benchmark, _Builder(5 + len(counts)))
        builder.add(sample, [count(sample) for count in counts.values()])
    return {benchmark: builder.columns(benchmark, counts) for benchmark, builder in builders.items()}


def load_samples(
    path: str | os.PathLike, split_by: str | None = None, counts: Mapping[str, Count] | None = None
) -> dict[str, SampleColumns]:
    """
    Reads a sample file in one pass, keeping numbers and dropping texts: samples by benchmark.

    Args:
        path (`str` or `os.PathLike`):
            Sample file.
        split_by (`str`, *optional*):
            Field whose values split a benchmark: with `"rung"`, `ladder` becomes `ladder rung 3` and so on.
        counts (`Mapping[str, Callable[[Mapping[str, Any]], float]]`, *optional*):
            Further numbers to take from every sample, such as `{"words": lambda s: len(s["completion"].split())}`.

    Raises:
        ValueError: If a line is not a sample, or one sample is there twice.

    Example:

    ```python
    >>> import tempfile
    >>> from coda_trl.evaluation import SampleWriter, load_samples
    >>> sample = {"benchmark": "svamp", "problem_id": "7", "sample": 0, "completion": "so 60", "tokens": 2}
    >>> with SampleWriter(f"{tempfile.mkdtemp()}/samples.jsonl") as writer:
    ...     writer.write([sample | {"finish_reason": "stop", "correct": True}])
    >>> columns = load_samples(writer.path, counts={"words": lambda s: len(s["completion"].split())})["svamp"]
    >>> columns.problems, columns.counts["words"], columns.outcomes.success_rate()
    (['7'], array([2.]), array([1.]))

    ```
    """
    try:
        return tabulate(read_samples(path), split_by, counts)
    except ValueError as error:
        raise error if str(path) in str(error) else ValueError(f"{path}: {error}") from error


def collect(samples: Iterable[Mapping[str, Any]]) -> dict[str, Outcomes]:
    """Sums samples up by problem, by benchmark. `sample` and `completion` are not needed."""
    return {benchmark: columns.outcomes for benchmark, columns in tabulate(samples).items()}
