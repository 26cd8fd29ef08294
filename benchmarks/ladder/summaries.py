"""The summary of one run: small enough to be committed, enough to rebuild every table and figure.

A summary is a JSON file. Counts that are kept for every problem are one string of whole numbers, in the order of the
evaluation problems (rungs in turn), so that a file stays readable and a difference of two files does too.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from coda_trl.analysis import curve, is_reflective
from coda_trl.evaluation.columns import tabulate
from coda_trl.ladder import RUNGS
from coda_trl.ladder.evaluate import STYLES, style_of

# Metrics of the training log that are kept, as means over `LOG_EVERY` steps.
LOGGED = (
    "coda/mean_score",
    "coda/success_rate",
    "coda/mean_w_easy",
    "coda/mean_w_hard",
    "coda/global_easy_penalty_mean",
    "coda/global_hard_reward_mean",
    "coda/mean_response_length",
    "coda/easy/share",
    "coda/easy/mean_length",
    "coda/easy/accuracy",
    "coda/middle/share",
    "coda/middle/mean_length",
    "coda/middle/accuracy",
    "coda/hard/share",
    "coda/hard/mean_length",
    "coda/hard/accuracy",
    "coda/frac_zero_std_base",
    "coda/frac_zero_std_shaped",
    "completions/clipped_ratio",
    "entropy",
)
LOG_EVERY = 10


def rechecks(completion: str) -> bool:
    """The ladder's own marker of reflection: a second count that was carried through to its comparison."""
    words = completion.split()
    return "verify" in words and ("same" in words or "wait" in words)


def summarise_samples(
    samples: Iterable[Mapping[str, Any]],
    style_of: Callable[[str], str] = style_of,
    rechecks: Callable[[str], bool] = rechecks,
) -> dict[str, Any]:
    """
    Sums samples up, by problem and by rung.

    Args:
        samples (`Iterable[Mapping[str, Any]]`):
            Lines of a sample file, with `rung`.
        style_of (`Callable[[str], str]`, *optional*), rechecks (`Callable[[str], bool]`, *optional*):
            The style of a completion, and whether it checks itself. Default to the ladder's.

    Returns:
        `dict[str, Any]`: `samples_per_problem`; `problems`, with a string of counts over the samples of every problem
        for `rung`, `correct`, `tokens` (their sum), `rechecks`, `verbose` and `reflective`, and those of the correct
        ones; and `rungs`, with the accuracy, tokens, share of truncated answers and shares of styles of every rung,
        for the reader.
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


def thin_log(log_history: Sequence[dict[str, Any]], every: int = LOG_EVERY) -> dict[str, list[float | None]]:
    """
    Means of the kept metrics over `every` steps.

    Args:
        log_history (`Sequence[dict[str, Any]]`):
            Log history of a trainer.
        every (`int`, *optional*, defaults to `10`):
            Steps that one mean covers.

    Returns:
        `dict[str, list[float | None]]`: `step`, the last step of every mean, and the metrics; `None` where a metric
        was not logged (the length of hard prompts where there were none).
    """
    last = max(entry["step"] for entry in log_history)
    ends = list(range(every, last + every, every))
    log: dict[str, list[float | None]] = {"step": [min(end, last) for end in ends]}
    for key in LOGGED:
        line = curve(log_history, key)
        if line is None:
            continue
        means = []
        for end in ends:
            inside = line.values[(line.steps > end - every) & (line.steps <= end)]
            means.append(float(f"{inside.mean():.4g}") if len(inside) else None)
        log[key] = means
    return log


@dataclass(frozen=True)
class Evaluation:
    """
    Counts by problem of one evaluation.

    Args:
        budget (`int` or `None`):
            Token budget that was asked for.
        samples (`int`):
            Samples of every problem.
        columns (`dict[str, np.ndarray]`):
            Counts of shape `(P,)`, by the names that [`summarise_samples`] gives them.
    """

    budget: int | None
    samples: int
    columns: dict[str, np.ndarray]

    @property
    def rung(self) -> np.ndarray:
        """Rung of every problem, shape `(P,)`."""
        return self.columns["rung"]


@dataclass(frozen=True)
class Summary:
    """
    One run.

    Args:
        name (`str`), seed (`int`):
            Which run it is.
        content (`dict[str, Any]`):
            All that the file holds.
        evaluations (`dict[int | None, Evaluation]`):
            Evaluations by token budget.
    """

    name: str
    seed: int
    content: dict[str, Any]
    evaluations: dict[int | None, Evaluation]

    @property
    def log(self) -> dict[str, list[float | None]]:
        """The thinned training log, see [`thin_log`]; empty for the start."""
        return self.content["log"]


def summary_path(folder: Path, name: str, seed: int) -> Path:
    """Where the summary of a run lies."""
    return folder / f"{name}-seed{seed}.json"


def read_summary(path: Path) -> Summary:
    """Reads a summary."""
    content = json.loads(path.read_text())
    evaluations = {
        entry["budget"]: Evaluation(
            entry["budget"],
            entry["samples_per_problem"],
            {name: np.array(counts.split(), dtype=int) for name, counts in entry["problems"].items()},
        )
        for entry in content["evaluations"]
    }
    return Summary(content["name"], content["seed"], content, evaluations)


def write_summary(path: Path, content: Mapping[str, Any]) -> None:
    """Writes a summary."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = json.dumps(content, indent=1, ensure_ascii=False)
    text = re.sub(r"\[[^\[\]{}]*\]", lambda match: " ".join(match[0].split()), text)  # lists of numbers on one line
    write_whole(path, text + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a file in one step, so that a run that was ended, or a disk that is full, leaves a whole file or none."""
    partial = path.with_suffix(".partial")
    partial.write_text(text)
    partial.replace(path)
