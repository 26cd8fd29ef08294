"""Reads what the folders of a run hold: samples, summaries, training logs, in any combination."""

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..analysis.dynamics import find_trainer_state, read_log_history
from ..analysis.overthinking import Restatements, count_verifications
from ..analysis.reflection import is_reflective
from ..evaluation.bootstrap import Estimate
from ..evaluation.columns import Count, SampleColumns, load_samples
from ..evaluation.comparison import in_terms_of
from ..evaluation.metrics import Outcomes
from ..evaluation.samples import SAMPLES_FILE

SUMMARY_FILE = "summary.json"

# The paper's order; other benchmarks follow by name.
_ORDER = ("svamp", "gsm8k", "math500", "amc23", "aime24", "aime25", "commonsenseqa", "gpqa")


@dataclass
class Run:
    """
    One run, as far as its folders tell.

    Args:
        name (`str`):
            Label in tables and plots.
        samples (`dict[str, SampleColumns]`, *optional*, defaults to `{}`):
            Samples by benchmark.
        summaries (`dict[str, dict[str, Estimate]]`, *optional*, defaults to `{}`):
            Accuracy and tokens by benchmark where only a summary is at hand.
        log_history (`list[dict[str, Any]]`, *optional*, defaults to `[]`):
            Training log.
        facts (`dict[str, str]`, *optional*, defaults to `{}`):
            How the numbers came about: engine, versions, settings.
        missing (`list[str]`, *optional*, defaults to `[]`):
            Sentences about what the folders lack.
    """

    name: str
    samples: dict[str, SampleColumns] = field(default_factory=dict)
    summaries: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    log_history: list[dict[str, Any]] = field(default_factory=list)
    facts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)

    @cached_property
    def outcomes(self) -> dict[str, Outcomes]:
        """Samples summed up by problem, by benchmark."""
        return {benchmark: columns.outcomes for benchmark, columns in self.samples.items()}

    @property
    def budget(self) -> int | None:
        """Token budget that the run was asked for, if its name says one: 512 in `L1@512`."""
        match = re.fullmatch(r".+@(\d+)", self.name)
        return int(match[1]) if match else None


def load_run(name: str, folders: Sequence[str | os.PathLike], split_by: str = "rung") -> Run:
    """
    Loads a run.

    Args:
        name (`str`):
            Label in tables and plots.
        folders (`Sequence[str | os.PathLike]`):
            Its folders. Each may hold `samples.jsonl`, `summary.json`, and `trainer_state.json` at the top or in a
            checkpoint.
        split_by (`str`, *optional*, defaults to `"rung"`):
            Field of the samples that splits a benchmark into one for each of its values.

    Returns:
        `Run`: What was found, with a list of what was not.

    Raises:
        FileNotFoundError: If a folder does not exist.
        ValueError: If a folder holds none of the files, or two hold the same benchmark.
    """
    run = Run(name)
    for folder in map(Path, folders):
        if not folder.is_dir():
            raise FileNotFoundError(f"run {name!r}: there is no folder {folder}")
        _load_folder(run, folder, split_by)
    _note_missing(run)
    run.samples = dict(sorted(run.samples.items(), key=lambda item: benchmark_order(item[0])))
    return run


def _load_folder(run: Run, folder: Path, split_by: str) -> None:
    samples, summary, state = folder / SAMPLES_FILE, folder / SUMMARY_FILE, find_trainer_state(folder)
    if not (samples.exists() or summary.exists() or state):
        raise ValueError(
            f"run {run.name!r}: {folder} holds neither {SAMPLES_FILE} nor {SUMMARY_FILE} (an evaluation) nor "
            "trainer_state.json (a training run)"
        )
    if samples.exists():
        loaded = load_samples(samples, split_by, COUNTS)
        twice = loaded.keys() & run.samples.keys()
        if twice:
            raise ValueError(f"run {run.name!r}: two of its folders hold samples of {', '.join(sorted(twice))}")
        run.samples |= loaded
    if summary.exists():
        content = json.loads(summary.read_text(encoding="utf-8"))
        run.facts |= _facts(content)
        if not samples.exists():
            if "benchmarks" not in content:
                raise ValueError(
                    f"run {run.name!r}: {summary} has no results (`benchmarks`): the evaluation was killed before it "
                    "had any; start it again with the same command"
                )
            loaded = {name: _estimates(values, f"{summary}, {name}") for name, values in content["benchmarks"].items()}
            twice = loaded.keys() & run.summaries.keys()
            if twice:
                raise ValueError(f"run {run.name!r}: two of its folders hold a summary of {', '.join(sorted(twice))}")
            run.summaries |= loaded
        elif not content.get("complete", True):
            run.missing.append(f"the evaluation in {folder.name} is unfinished: its numbers are preliminary")
    if state:
        if run.log_history:
            raise ValueError(
                f"run {run.name!r}: two of its folders hold a training log, {folder} the second: give every training "
                "a name of its own"
            )
        run.log_history = read_log_history(state)
        steps = max((entry["step"] for entry in run.log_history), default=0)
        run.facts["training"] = f"{steps} steps"


def _estimates(values: Mapping[str, Any], where: str) -> dict[str, Estimate]:
    estimates = {}
    for name in ("accuracy", "tokens"):
        if name not in values:
            raise ValueError(f"{where}: `{name}` is missing")
        found = values[name] if isinstance(values[name], dict) else {"value": values[name]}
        value = np.nan if found["value"] is None else found["value"]  # without verdicts there is no accuracy
        if name == "accuracy" and value > 1:
            raise ValueError(f"{where}: `accuracy` is {value}, but must be a share, 0 to 1")
        estimates[name] = Estimate(**found | {"value": value})
    return estimates


def _facts(summary: Mapping[str, Any]) -> dict[str, str]:
    facts = {name: str(summary[name]) for name in ("model", "engine", "hardware") if name in summary}
    settings = summary.get("settings", {})
    names = {"temperature": "temperature", "top_p": "top-p", "max_tokens": "at most", "seed": "seed"}
    texts = [f"{label} {settings[name]}" for name, label in names.items() if name in settings]
    if "n" in summary:
        facts["sampling"] = ", ".join([f"{summary['n']} a problem", *texts])
    if "versions" in summary:
        facts["versions"] = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    if summary.get("tokens_per_second"):
        facts["speed"] = f"{summary['wall_seconds']:,.0f} s, {summary['tokens_per_second']:,.0f} tokens/s"
    return facts


def _note_missing(run: Run) -> None:
    if not run.samples and not run.summaries:
        run.missing.append("no evaluation: no accuracy, no tokens")
    elif not run.samples:
        run.missing.append("a summary without samples: no intervals, nothing by difficulty, nothing about the texts")
    for benchmark, columns in run.samples.items():
        per_problem = columns.outcomes.samples
        if per_problem.min() < per_problem.max():
            run.missing.append(
                f"{benchmark}: between {per_problem.min():g} and {per_problem.max():g} samples a problem"
            )
        unscorable = int(np.isnan(columns.correct).sum())
        if unscorable:
            run.missing.append(f"{benchmark}: {unscorable} samples without a verdict, which count for tokens alone")
        if np.isnan(columns.counts["restatements"]).all():
            run.missing.append(f"{benchmark}: samples without `prompt`, so restatements cannot be counted")
    if not run.log_history:
        run.missing.append("no training log: no training curves")


def unify_problems(runs: Sequence[Run]) -> None:
    """
    Gives the problems of every run the ids that the first run with the benchmark has for them.

    Args:
        runs (`Sequence[Run]`):
            The runs; their samples and notes are changed.

    Raises:
        ValueError: If two runs have other problems under the same ids.
    """
    first: dict[str, Run] = {}
    for run in runs:
        for benchmark, columns in run.samples.items():
            owner = first.setdefault(benchmark, run)
            names = f"{benchmark!r} of {run.name} and of {owner.name}"
            problems = in_terms_of(columns, owner.samples[benchmark], names)
            if problems != columns.problems:
                run.samples[benchmark] = replace(columns, problems=problems)
                shared = len(set(problems) & set(owner.samples[benchmark].problems))
                run.missing.append(
                    f"{benchmark}: ids stand for other problems than in {owner.name}; {shared:,} of {len(problems):,} "
                    "problems were found again by prompt and solution"
                )


def benchmark_order(name: str) -> tuple:
    """Sorting key: the paper's benchmarks in its order, then others by name, numbers in them by size."""
    known = _ORDER.index(name) if name in _ORDER else len(_ORDER)
    return known, [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


@lru_cache(maxsize=512)
def _restatements(problem: str) -> Restatements:
    return Restatements(problem)


def _count_restatements(sample: Mapping[str, Any]) -> float:
    """NaN where there is no prompt, or none that is plain text."""
    prompt = sample.get("prompt")
    if isinstance(prompt, list) and prompt:
        prompt = prompt[-1]["content"]
    return _restatements(prompt)(sample["completion"]) if isinstance(prompt, str) else np.nan


# What is taken from the texts of the samples.
COUNTS: dict[str, Count] = {
    "reflective": lambda sample: is_reflective(sample["completion"]),
    "verifications": lambda sample: count_verifications(sample["completion"]),
    "restatements": _count_restatements,
}
