r"""
What a forward and backward pass costs besides its tokens, by the times that `microbatch.py` measured.

    python benchmarks/pass_cost.py [benchmarks/results/microbatch-nvidia-h200.json]

Fits the seconds of every grouped step by a constant, the number of passes, the padded tokens, and their attention
(rows times squared width), to least squares of relative errors. Then predicts what plans of micro-batches take: that
with the fewest passes (measured in `microbatch-fewest-passes-nvidia-h200.json`), and the cheapest for several costs of
a pass. The H100 was measured with as many passes as TRL's, always eight: there the constant counts as part of the
passes.

`--others` are times of more rollouts a step. What share of the limit they reach follows from the full batches of the
first file, of which they have too few.
"""

import argparse
import json
from bisect import bisect_left
from pathlib import Path

import numpy as np
from microbatch import MICRO_BATCHES, PROMPT_LENGTH, draw_lengths, summarise

from coda_trl.microbatch import PASS_COST, WIDTH_MULTIPLE, cheapest_fill

SEEDS = range(20)
SIZES = ((8192, 16), (8192, 64), (16_384, 16), (16_384, 64), (16_384, 128))  # longest completion, rollouts
ROWS = 2  # of a micro-batch, at both


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


def widths_and_budget(lengths: list[int], longest: int) -> tuple[list[int], int]:
    """What the trainer plans from: widths of the rows, widest first, and the tokens that a micro-batch may hold."""
    rounded = (-(-(length + PROMPT_LENGTH) // WIDTH_MULTIPLE) * WIDTH_MULTIPLE for length in lengths)
    widths = sorted((min(width, longest + PROMPT_LENGTH) for width in rounded), reverse=True)
    return widths, ROWS * widths[0]


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
            widths, _ = widths_and_budget(step["lengths"], step["longest"])
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
    default = Path(__file__).parent / "results/microbatch-nvidia-h200.json"
    parser.add_argument("results", type=Path, nargs="?", default=default, help="Times (default: %(default)s).")
    parser.add_argument("--others", type=Path, nargs="*", default=[], help="Times of other rollouts a step.")
    args = parser.parse_args()
    content = json.loads(args.results.read_text())
    seconds = fit(content["steps"])
    token = seconds[2] + seconds[3] * (max(SIZES)[0] + PROMPT_LENGTH)
    print(f"{content['about']['model']} on {content['about']['hardware']}:")
    print(
        f"a step {seconds[0]:.2f} s, a pass {seconds[1]:.3f} s or {seconds[1] / token:,.0f} tokens of the longest rows"
    )

    print("\nShares of a step's seconds: its own, its passes', padding's, tokens'; passes; padding among tokens")
    for longest, rollouts in SIZES:
        for distribution in ("lognormal", "bimodal"):
            found = []
            for seed in SEEDS[:5]:
                lengths = draw_lengths(distribution, longest, rollouts, seed)
                widths, budget = widths_and_budget(lengths, longest)
                row = features(widths, cheapest_fill(widths, budget, most=len(widths) // ROWS))
                tokens = np.array(lengths) + PROMPT_LENGTH
                needed = tokens.sum() * seconds[2] + (tokens**2).sum() * seconds[3]
                own, passes, whole = seconds[0], row[1] * seconds[1], row @ seconds
                parts = [own, passes, whole - own - passes - needed, needed]
                found.append([*(part / whole for part in parts), row[1], 1 - tokens.sum() / row[2]])
            own, passes, padding, needed, number, padded = np.mean(found, axis=0)
            shares = f"{own:>6.0%}{passes:>6.0%}{padding:>6.0%}{needed:>6.0%}{number:>7.1f}{padded:>6.0%}"
            print(f"{longest:>7} {rollouts:>8} {distribution:<9} {shares}")

    costs = (PASS_COST // 2, PASS_COST, PASS_COST * 2)
    print("\nSeconds a step, and passes, by plan (mean of 20 draws)")
    print(f"{'longest':>7} {'rollouts':>8} {'lengths':<9} {'fewest':>12}" + "".join(f"{cost:>12}" for cost in costs))
    for longest, rollouts in SIZES[:1] + SIZES[2:4]:
        for distribution in ("lognormal", "bimodal"):
            found = []
            for seed in SEEDS:
                widths, budget = widths_and_budget(draw_lengths(distribution, longest, rollouts, seed), longest)
                plans = [fewest_passes(widths, budget)]
                plans += [cheapest_fill(widths, budget, most=rollouts // ROWS, pass_cost=cost) for cost in costs]
                found.append([(features(widths, plan) @ seconds, len(plan)) for plan in plans])
            cells = "".join(f"{time:>7.2f} {passes:>4.1f}" for time, passes in np.mean(found, axis=0))
            print(f"{longest:>7} {rollouts:>8} {distribution:<9} {cells}")

    full = [step for step in content["steps"] if step["distribution"] == "equal"]
    for path in args.others:
        steps = [step for step in json.loads(path.read_text())["steps"] if step["distribution"] != "equal"]
        print(f"\n{path.stem}: seconds a step (median), share of the limit")
        for row in summarise(full + steps):
            if row["grouped_seconds"] and row["share_of_limit"]:
                cells = f"{row['grouped_seconds']:>7.2f}{row['share_of_limit']:>6.0%}"
                print(f"{row['longest']:>7} {row['rollouts']:>8.0f} {row['distribution']:<9} {cells}")


if __name__ == "__main__":
    main()
