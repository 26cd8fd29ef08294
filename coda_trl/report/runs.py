"""Reads the folders of a run: samples, summaries, training logs, in any combination."""

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from ..analysis.dynamics import find_trainer_state, read_log_history
from ..analysis.overthinking import Restatements, count_verifications
from ..analysis.reflection import is_reflective
from ..evaluation.bootstrap import Estimate, num_counted, replicates, summarise
from ..evaluation.columns import Count, SampleColumns, load_samples
from ..evaluation.comparison import benchmark_seed
from ..evaluation.metrics import accuracy, mean_tokens
from ..evaluation.rounding import format_number
from ..evaluation.samples import SAMPLES_FILE, SUMMARY_FILE, was_stopped

SETTINGS_FILE = "settings.json"  # of `coda-train`

METRICS = {"accuracy": accuracy, "tokens": mean_tokens}

# The paper's order; other benchmarks follow by name.
_ORDER = ("svamp", "gsm8k", "math500", "amc23", "aime24", "aime25", "commonsenseqa", "gpqa")


@dataclass
class SeedRun:
    """
    Contents of the folders of a run, or of one of its seeds: `summaries` are accuracy and tokens where there are no
    samples, `facts` say how the numbers were made, `thresholds` are the success rates of easy and hard prompts in
    training; `missing` and `unfinished` are sentences about what the folders lack.
    """

    name: str
    samples: dict[str, SampleColumns] = field(default_factory=dict)
    summaries: dict[str, dict[str, Estimate]] = field(default_factory=dict)
    log_history: list[dict[str, Any]] = field(default_factory=list)
    thresholds: tuple[float, float] | None = None
    facts: dict[str, str] = field(default_factory=dict)
    missing: list[str] = field(default_factory=list)
    unfinished: list[str] = field(default_factory=list)

    @property
    def benchmarks(self) -> set[str]:
        return {*self.samples, *self.summaries}

    def estimate(self, metric: str, benchmarks: Sequence[str]) -> Estimate:
        """`"accuracy"` or `"tokens"` on a benchmark, or their plain average over several: from samples if all have
        them, else from summaries; NaN if a benchmark has neither."""
        if all(name in self.samples for name in benchmarks):
            ratios = {name: METRICS[metric](self.samples[name].outcomes) for name in benchmarks}
            draws = [replicates(ratio, benchmark_seed(name), averaged=len(ratios)) for name, ratio in ratios.items()]
            value = float(np.mean([ratio.value for ratio in ratios.values()]))
            return summarise(value, np.mean(draws, axis=0), min(map(num_counted, ratios.values())))
        if len(benchmarks) == 1:
            return self.summaries.get(benchmarks[0], {}).get(metric, Estimate(np.nan))
        return Estimate(float(np.mean([self.estimate(metric, [name]).value for name in benchmarks])))


def load_run(
    name: str, folders: Sequence[str | os.PathLike], split_by: str = "rung", benchmarks: Sequence[str] = ()
) -> SeedRun:
    """Loads a run from its folders, see [`find_files`]. `benchmarks` are those to keep, by default all."""
    run = SeedRun(name)
    for folder in map(Path, folders):
        _load_folder(run, folder, split_by)
    run.samples = {name: run.samples[name] for name in sorted(run.samples, key=benchmark_order)}
    if benchmarks:
        run.samples, run.summaries = (
            {name: of for name, of in found.items() if any(is_part(name, whole, split_by) for whole in benchmarks)}
            for found in (run.samples, run.summaries)
        )
    _note_missing(run)
    return run


def is_part(benchmark: str, whole: str, split_by: str) -> bool:
    """Whether a benchmark is the one named, or one of the parts that it is split into."""
    return benchmark == whole or benchmark.startswith(f"{whole} {split_by} ")


def find_files(name: str, folder: Path) -> list[Path]:
    """The samples, summary and training log in a folder of a run. Raises if there are none, or no folder."""
    if not folder.is_dir():
        raise FileNotFoundError(f"run {name!r}: there is no folder {folder}: check the path")
    found = _results(folder)
    if found == [folder / SAMPLES_FILE] and not found[0].stat().st_size:
        raise ValueError(
            f"run {name!r}: the evaluation in {folder} has no answers yet: repeat its command, which says why"
        )
    if not found:
        inside = ", ".join(str(each) for each in sorted(folder.iterdir()) if each.is_dir() and _results(each))
        raise ValueError(
            f"run {name!r}: {folder} holds neither {SAMPLES_FILE} nor {SUMMARY_FILE} (an evaluation) nor "
            f"trainer_state.json (a training run): {f'name those in it ({inside})' if inside else 'check the path'}"
        )
    return found


def _results(folder: Path) -> list[Path]:
    places = (folder / SAMPLES_FILE, folder / SUMMARY_FILE, find_trainer_state(folder))
    return [path for path in places if path is not None and path.exists()]


def _load_folder(run: SeedRun, folder: Path, split_by: str) -> None:
    found = find_files(run.name, folder)
    settings = (folder.parent if folder.name.startswith("checkpoint-") else folder) / SETTINGS_FILE
    if settings.is_file():
        found.append(settings)
    readers = {
        SAMPLES_FILE: lambda run, path: _add(run, "samples", load_samples(path, split_by, COUNTS)),
        SUMMARY_FILE: _load_summary,
        SETTINGS_FILE: _load_settings,
    }
    for path in found:
        try:
            readers.get(path.name, _load_log)(run, path)
        except _DAMAGED as error:
            message = f"{path} is damaged ({error!r}): delete it, or bring it back"
            if path == found[0]:  # there is nothing to show beside it
                raise ValueError(message) from error
            run.missing.append(f"left out: {message}")


def _add(run: SeedRun, kind: str, loaded: dict[str, Any]) -> None:
    if twice := loaded.keys() & vars(run)[kind].keys():
        raise ValueError(
            f"run {run.name!r}: two of its folders hold {kind} of {', '.join(sorted(twice))}: leave one out"
        )
    vars(run)[kind].update(loaded)


# Errors from a file that is not JSON, or has other contents than expected.
_DAMAGED = (AttributeError, KeyError, TypeError, UnicodeDecodeError, json.JSONDecodeError)


def _read_json(path: Path) -> dict[str, Any]:
    return json.loads(path.read_text(encoding="utf-8"))


def _load_summary(run: SeedRun, path: Path) -> None:
    content = _read_json(path)
    if not (path.parent / SAMPLES_FILE).exists():  # it may be written by hand
        results = content.get("benchmarks") if isinstance(content, dict) else None
        if not isinstance(results, dict):
            raise ValueError(
                f"run {run.name!r}: {path} has no results: write "
                '{"benchmarks": {"svamp": {"accuracy": 0.9, "tokens": 800}}}'
            )
        _add(run, "summaries", {name: _estimates(values, f"{path}, {name}") for name, values in results.items()})
    run.facts |= _facts(content)
    if not content.get("complete", True):
        run.unfinished.append(
            f"the evaluation in {path.parent} is not complete, and what is missing may be easier or harder; its "
            "command resumes it"
        )


def _load_settings(run: SeedRun, path: Path) -> None:
    settings = _read_json(path)
    if {"coda_tau_easy", "coda_tau_hard"} <= set(settings):  # not a file of that name from a script of one's own
        run.thresholds = settings["coda_tau_easy"], settings["coda_tau_hard"]


def _load_log(run: SeedRun, path: Path) -> None:
    if run.log_history:
        raise ValueError(
            f"run {run.name!r}: two of its folders hold a training log, {path.parent} the second: give every training "
            "a name of its own"
        )
    history = read_log_history(path)
    run.facts["training"] = f"{max((entry['step'] for entry in history), default=0)} steps"
    run.log_history = history


def _estimates(values: Any, where: str) -> dict[str, Estimate]:
    ranges = {"accuracy": (1, "a share, 0 to 1: divide percent by 100"), "tokens": (sys.maxsize, "a number from 0")}
    estimates = {}
    for name, (most, needed) in ranges.items():
        if not isinstance(values, dict) or name not in values:
            raise ValueError(f"{where}: `{name}` is missing; give it as a number or an object with `value`")
        found = values[name] if isinstance(values[name], dict) else {"value": values[name]}
        value, *ends = (found.get(end) for end in ("value", "low", "high"))
        for number in (value, *ends):
            if number is not None and not (isinstance(number, int | float) and 0 <= number <= most):
                raise ValueError(f"{where}: `{name}` is {number!r}, but must be {needed}")
        estimates[name] = Estimate(np.nan if value is None else value, *ends)  # without verdicts: no accuracy
    return estimates


def _facts(summary: Mapping[str, Any]) -> dict[str, str]:
    facts = {name: str(summary[name]) for name in ("model", "engine", "hardware") if name in summary}
    settings = summary.get("settings", {})
    names = {"temperature": "temperature", "top_p": "top-p", "max_tokens": "at most", "seed": "seed"}
    texts = [f"{label} {settings[name]}" for name, label in names.items() if name in settings]
    if "n" in summary:
        facts["sampling"] = ", ".join([f"{summary['n']} per problem", *texts])
    if "versions" in summary:
        facts["versions"] = ", ".join(f"{name} {number}" for name, number in summary["versions"].items())
    if summary.get("tokens_per_second") and "wall_seconds" in summary:
        seconds, speed = (format_number(summary[name], 0) for name in ("wall_seconds", "tokens_per_second"))
        facts["speed"] = f"{seconds} s, {speed} tokens/s"
    return facts


def _note_missing(run: SeedRun) -> None:
    if not run.samples and not run.summaries:
        run.missing.append("no evaluation: no accuracy, no tokens")
    elif not run.samples:
        run.missing.append("a summary without samples: no intervals, nothing by difficulty, nothing about the texts")
    for benchmark, columns in run.samples.items():
        per_problem = columns.outcomes.samples
        if per_problem.min() < per_problem.max():
            counts = f"between {per_problem.min():g} and {per_problem.max():g}"
            run.missing.append(f"{benchmark}: {counts} samples per problem")
        if stopped := int(columns.counts["stopped"].sum()):
            run.missing.append(f"{benchmark}: {stopped} samples whose grading was stopped, which count as wrong")
        if np.isnan(columns.counts["restatements"]).all():
            run.missing.append(f"{benchmark}: samples without `prompt`, so restatements cannot be counted")
    if not run.log_history:
        run.missing.append("no training log: no training curves")


def benchmark_order(name: str) -> tuple:
    """Sorting key: the paper's benchmarks in its order, then others by name, numbers in them by size."""
    known = _ORDER.index(name) if name in _ORDER else len(_ORDER)
    return known, [int(part) if part.isdecimal() else part for part in re.split(r"(\d+)", name)]


_restatements = lru_cache(maxsize=512)(Restatements)


def _count_restatements(sample: Mapping[str, Any]) -> float:
    """NaN without a prompt in plain text."""
    prompt = sample.get("prompt")
    if isinstance(prompt, list):
        prompt = prompt[-1].get("content") if prompt and isinstance(prompt[-1], dict) else None
    return _restatements(prompt)(sample["completion"]) if isinstance(prompt, str) else np.nan


# What is counted in the texts of samples.
COUNTS: dict[str, Count] = {
    "reflective": lambda sample: is_reflective(sample["completion"]),
    "verifications": lambda sample: count_verifications(sample["completion"]),
    "restatements": _count_restatements,
    "stopped": was_stopped,
}
