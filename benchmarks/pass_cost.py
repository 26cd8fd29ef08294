r"""
What a forward and backward pass costs besides its tokens, by the times that `microbatch.py` measured.

    python benchmarks/pass_cost.py [benchmarks/results/microbatch-nvidia-h200.json ...]

Fits the seconds of every grouped step by a constant, the number of passes, the padded tokens, and their attention
(rows times squared width), to least squares of relative errors. The files were measured with different plans of
micro-batches: the cheapest, that with the fewest passes, and, on the H100, as many passes as TRL, always eight. There
the constant counts as part of the passes.
"""

import argparse
import json
from bisect import bisect_left
from pathlib import Path

import numpy as np
from microbatch import MICRO_BATCHES, PROMPT_LENGTH

from coda_trl.length_grouping.microbatch import WIDTH_MULTIPLE, cheapest_fill

LONGEST = 16_384 + PROMPT_LENGTH  # tokens of a row


def fill(widths: list[int], budget: int) -> list[int]:
    """As many rows in every pass as its budget of tokens allows."""
    counts, start = [], 0
    while start < len(widths):
        counts.append(min(max(1, budget // widths[start]), len(widths) - start))
        start += counts[-1]
    return counts


def small_passes(widths: list[int], passes: int) -> list[int]:
    """The plan with the smallest budget that needs no more than so many passes."""
    return fill(widths, bisect_left(range(sum(widths)), True, key=lambda tokens: len(fill(widths, tokens)) <= passes))


def fewest_passes(widths: list[int], budget: int) -> list[int]:
    """The plan with the fewest passes within a budget, and of those the one with the smallest budget."""
    return small_passes(widths, len(fill(widths, budget)))


def widths_of(lengths: list[int], longest: int) -> list[int]:
    """Widths of the rows as the trainer rounds them, widest first."""
    rounded = (-(-(length + PROMPT_LENGTH) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE for length in lengths)
    return sorted((min(width, longest + PROMPT_LENGTH) for width in rounded), reverse=True)


def features(widths: list[int], counts: list[int]) -> np.ndarray:
    """A constant, passes, padded tokens and their attention."""
    firsts = np.cumsum([0, *counts[:-1]])
    sizes = [(count, widths[first]) for count, first in zip(counts, firsts, strict=True)]
    return np.array([1, len(counts), sum(n * width for n, width in sizes), sum(n * width**2 for n, width in sizes)])


def fit(steps: list[dict]) -> np.ndarray:
    """Seconds of each feature. A step's plan is the one that has its passes and padded tokens."""
    rows, seconds = [], []
    for step in steps:
        if step["side"] == "grouped" and "seconds" in step:
            widths = widths_of(step["lengths"], step["longest"])
            budget = step.get("micro_batch_rows", len(widths) // MICRO_BATCHES) * widths[0]
            plans = [cheapest_fill(widths, budget, most=MICRO_BATCHES)]
            plans += [fewest_passes(widths, budget), small_passes(widths, MICRO_BATCHES)]
            measured = [step["forward_passes"], step["padded_tokens"]]
            known = [row for row in (features(widths, plan) for plan in plans) if list(row[1:3]) == measured]
            if not known:
                raise SystemExit(f"No plan of this script has {measured[0]} passes with {measured[1]} tokens.")
            rows.append(known[0])
            seconds.append(step["seconds"])
    relative = np.array(rows) / np.array(seconds)[:, None]
    if len({row[1] for row in rows}) == 1:  # then a step's own time cannot be told from that of its passes
        relative[:, 0] = 0.0
    scale = relative.max(axis=0).clip(min=1e-12)
    return np.linalg.lstsq(relative / scale, np.ones(len(rows)), rcond=None)[0] / scale


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names = ("nvidia-h200", "fewest-passes-nvidia-h200", "nvidia-h100-80gb-hbm3")
    default = [Path(__file__).parent / f"results/microbatch-{name}.json" for name in names]
    parser.add_argument("results", type=Path, nargs="*", default=default, help="Times of steps.")
    for path in parser.parse_args().results:
        own, each, token, attention = fit(json.loads(path.read_text())["steps"])
        tokens = each / (token + attention * LONGEST)
        print(f"{path.stem}: a step {own:.2f} s, a pass {each:.3f} s or {tokens:,.0f} tokens of the longest rows")


if __name__ == "__main__":
    main()
