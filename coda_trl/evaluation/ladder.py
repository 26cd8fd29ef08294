"""Accuracy, tokens and style of a model on every rung of the ladder.

python -m coda_trl.evaluation.ladder [MODEL] [--output_dir DIR]
"""

import argparse
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..commands import command
from ..ladder import CHECKPOINT, RUNGS
from .columns import tabulate
from .config import EvaluationConfig
from .loading import load_benchmark
from .rounding import format_number
from .runner import evaluate
from .samples import SAMPLES_FILE, read_samples

STYLES = ("check", "direct", "totals", "verbose")

MAX_COMPLETION_LENGTH = 48  # tokens: a few more than the longest solution has


def evaluate_ladder(model: str, output_dir: str, n: int = 8, temperature: float = 0.6) -> list[dict[str, Any]]:
    """
    Samples answers to 100 problems of each rung and sums them up, see [`summarize_rungs`].

    Args:
        model (`str`):
            Folder of the model.
        output_dir (`str`):
            Folder for `samples.jsonl` and `summary.json`; an interrupted evaluation resumes there.
        n (`int`, *optional*, defaults to `8`):
            Answers per problem.
        temperature (`float`, *optional*, defaults to `0.6`):
            Sampling temperature; 0 decodes greedily and needs `n=1`.
    """
    config = EvaluationConfig(
        model_name_or_path=model,
        output_dir=output_dir,
        engine="transformers",
        n=n,
        temperature=temperature,
        max_tokens=MAX_COMPLETION_LENGTH,
        batch_size=400,
        dtype="float32",
    )
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # for a model this small, more are slower
    try:
        evaluate(config, [load_benchmark("ladder")])
    finally:
        torch.set_num_threads(threads)
    return summarize_rungs(read_samples(f"{output_dir}/{SAMPLES_FILE}"))


def style_of(completion: str) -> str:
    """The style a completion is written in: `"direct"`, `"totals"`, `"check"` or `"verbose"`."""
    words = completion.split()
    if "verify" in words:
        return "check"
    return {"ans": "direct", "okay": "verbose"}.get(words[0] if words else "", "totals")


def summarize_rungs(samples: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """
    Sums samples of the ladder, which have `rung`, up by rung, easiest first: `rung`, `samples` (count), `accuracy`,
    `tokens` (mean), `hard_share` (of problems of which less than a quarter of the samples are right) and `styles`
    (share of every style).
    """
    split = tabulate(samples, "rung", {"style": lambda sample: STYLES.index(style_of(sample["completion"]))})
    by_rung = {int(name.rpartition(" ")[2]): columns for name, columns in split.items()}
    rows = []
    for rung in RUNGS:
        columns = by_rung[rung]
        shares = np.bincount(columns.counts["style"].astype(int), minlength=len(STYLES)) / len(columns.problem)
        rows.append(
            {
                "rung": rung,
                "samples": len(columns.problem),
                "accuracy": float(columns.correct.mean()),
                "tokens": float(columns.tokens.mean()),
                "hard_share": float((columns.outcomes.success_rate() < 1 / 4).mean()),
                "styles": {style: float(share) for style, share in zip(STYLES, shares, strict=True) if share},
            }
        )
    return rows


@command
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m coda_trl.evaluation.ladder", description=__doc__.split("\n")[0])
    parser.add_argument("model", nargs="?", default=CHECKPOINT, help="Folder (default: the shipped checkpoint).")
    parser.add_argument("--output_dir", help="Where samples go (default: runs/NAME-eval, by the model's name).")
    parser.add_argument("--temperature", type=float, default=0.6, help="0 decodes greedily (default: %(default)s).")
    args = parser.parse_args()
    if not Path(args.model).is_dir():  # or the hub is asked for it
        parser.error(f"there is no model folder {args.model}: check the path")
    n = 1 if args.temperature == 0 else 8
    output_dir = args.output_dir or f"runs/{Path(args.model).resolve().name}-eval"
    try:
        rows = evaluate_ladder(args.model, output_dir, n, args.temperature)
    except (OSError, ValueError) as problem:  # no permission, other settings
        parser.error(str(problem))
    print(f"Samples: {output_dir}. Hard: less than a quarter of the answers to the problem are right.")
    for row in rows:
        styles = "  ".join(f"{style} {format_number(100 * share, 0)}%" for style, share in row["styles"].items())
        print(
            f"rung {row['rung']}: accuracy {format_number(100 * row['accuracy'])}%, "
            f"{format_number(row['tokens'])} tokens, hard {format_number(100 * row['hard_share'], 0)}%; {styles}"
        )


if __name__ == "__main__":
    main()
