"""Runs as lines of a `results.jsonl`: small enough to be committed, enough to rebuild every table and figure.

A line holds what was run (`method`, `seed`, `recipe`, `overlays`, `overrides`), what runs that are compared must have
in common (`shared`), `train_seconds`, `device`, `versions`, the training's `log`, and its `evaluations`: none of a run
that was only trained. Counts by problem are one string of integers, in the order of the problems.
"""

import json
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from coda_trl.analysis import curve, is_reflective
from coda_trl.evaluation.columns import tabulate
from coda_trl.evaluation.ladder import STYLES
from coda_trl.ladder import RUNGS

Row = dict[str, Any]

# Metrics of the training log that are kept.
LOGGED = (
    "coda/mean_score",
    "coda/success_rate",
    "coda/mean_w_easy",
    "coda/mean_w_hard",
    "coda/global_easy_penalty_mean",
    "coda/global_hard_reward_mean",
    "coda/mean_response_length",
    *(f"coda/{band}/{name}" for band in ("easy", "medium", "hard") for name in ("share", "mean_length", "accuracy")),
    "coda/frac_zero_std_base",
    "coda/frac_zero_std_shaped",
    "completions/clipped_ratio",
    "entropy",
)

_recording = threading.Lock()


def read_results(path: Path) -> list[Row]:
    """All runs of a results file; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def key_of(row: Row) -> tuple:
    """What tells one run from another."""
    return tuple(row.get(name) for name in ("method", "seed", "variant", "warm_start"))


def record(path: Path, row: Row) -> None:
    """Puts a run into a results file, in the place of an earlier record of it. For threads, not for processes."""
    with _recording:
        rows = [*(other for other in read_results(path) if key_of(other) != key_of(row)), row]
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one step, so that a process that is ended, or a full disk, leaves the old file or the new.
        partial = path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        partial.replace(path)


def summarise_samples(
    samples: Iterable[Mapping[str, Any]], style_of: Callable[[str], str], rechecks: Callable[[str], bool]
) -> Row:
    """
    Sums samples with a `rung` up: `samples_per_problem`; `problems`, with a string of counts for `rung`, `correct`,
    `tokens` (their sum), `rechecks`, `verbose` and `reflective`, and those of the correct ones; and `rungs`, with the
    accuracy, tokens, share of truncated answers and shares of styles of every rung.
    """
    counts: dict[str, Callable[[Mapping[str, Any]], float]] = {
        "rung": lambda sample: sample["rung"],
        "rechecks": lambda sample: rechecks(sample["completion"]),
        "style": lambda sample: STYLES.index(style_of(sample["completion"])),
        "reflective": lambda sample: is_reflective(sample["completion"]),
    }
    (columns,) = tabulate(samples, counts=counts).values()
    outcomes, counted, right = columns.outcomes, columns.counts, columns.correct == 1
    (size,) = set(outcomes.samples.astype(int).tolist())  # an evaluation that is complete
    rungs = {}
    for rung in RUNGS:
        chosen = counted["rung"] == rung
        shares = np.bincount(counted["style"][chosen].astype(int), minlength=len(STYLES)) / chosen.sum()
        rungs[str(rung)] = {
            "accuracy": round(right[chosen].mean(), 4),
            "tokens": round(columns.tokens[chosen].mean(), 3),
            "truncated": round(columns.truncated[chosen].mean(), 4),
            "styles": {style: round(share, 4) for style, share in zip(STYLES, shares, strict=True) if share},
        }
    kept = {
        "rung": columns.per_problem(counted["rung"]) / size,
        "correct": outcomes.correct,
        "tokens": outcomes.tokens,
        "rechecks": columns.per_problem(counted["rechecks"]),
        "rechecks_correct": columns.per_problem(counted["rechecks"] * right),
        "verbose": columns.per_problem(counted["style"] == STYLES.index("verbose")),
        "reflective": columns.per_problem(counted["reflective"]),
        "reflective_correct": columns.per_problem(counted["reflective"] * right),
    }
    order = np.argsort([int(problem) for problem in columns.problems])
    problems = {name: " ".join(map(str, column[order].astype(int))) for name, column in kept.items()}
    return {"samples_per_problem": size, "rungs": rungs, "problems": problems}


def thin_log(log_history: Sequence[Mapping[str, Any]], every: int) -> dict[str, list[float | None]]:
    """
    Means of the kept metrics over `every` steps: `step`, the last of every mean, and the metrics; `None` where a
    metric was not logged (the length of hard prompts where there were none).
    """
    last = max(entry["step"] for entry in log_history)
    ends = list(range(every, last + every, every))
    log: dict[str, list[float | None]] = {"step": [min(end, last) for end in ends]}
    for key in LOGGED:
        line = curve(log_history, key)
        if line is not None:
            inside = [line.values[(line.steps > end - every) & (line.steps <= end)] for end in ends]
            log[key] = [float(f"{values.mean():.4g}") if len(values) else None for values in inside]
    return log
