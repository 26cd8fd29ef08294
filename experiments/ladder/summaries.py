"""What a line of `results.jsonl` keeps of a run's samples and of its training log."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from coda_trl.analysis import curve, is_reflective
from coda_trl.evaluation.columns import tabulate
from coda_trl.evaluation.ladder import STYLES
from coda_trl.ladder import RUNGS

from ..files import Row

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
