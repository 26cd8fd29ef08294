r"""
Time and memory of one optimizer step, with TRL's micro-batches and with micro-batches grouped by length.

    python benchmarks/microbatch.py [--tiny] [--seconds 390] [--out runs/benchmarks]
    python benchmarks/microbatch.py --longest 4096 16384 --rollouts 64 128 --sides grouped

Both sides are the same `CodaGRPOTrainer` with `length_grouping` off (TRL's own code path) and on, in turns on the
same rollouts. Rollouts are made up, so that their lengths are exactly those of the distribution; what is timed is
everything from rollout to updated weights: padding, rewards, regrouping, forward and backward passes, optimizer. The
model has the shape of Qwen3-0.6B and random weights (`--tiny`: some thousand parameters and short rollouts, a
rehearsal for a CPU).

Distributions, for a longest completion of L tokens: `equal` (all L), `lognormal` (longest L, mean L / 7), `bimodal`
(seven of ten around L / 12, as CODA makes easy ones; the others from 0.4 L to L). Every round draws other lengths.

The padding-free limit is what the rollouts would take if each were computed as fast as full batches of its own length:
time per token of the `equal` steps with grouping, interpolated between the maxima that were run.

`--rollouts` changes how many there are in a step, in more micro-batches of the same size. TRL's side of a log-normal
step of 64 at 16K takes over a minute, so `--sides grouped` leaves it out. `equal`, which the limit needs, is then run
once, with the first of the numbers.

Rounds go on until all are done or the time is up; the results are written after every pair of steps. A side that runs
out of memory is reported as such and not asked again at that maximum.
"""

import argparse
import gc
import os
import time
from collections.abc import Callable

import numpy as np
import pandas as pd
import torch
from datasets import Dataset
from model import random_model
from timing import Turns, machine, parser_of, trainer_options, write
from transformers import PrinterCallback

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

PROMPT_LENGTH = 128
GENERATIONS = 8
MICRO_BATCHES = 8  # per optimizer step, unless it has another number of rollouts
ROLLOUTS = {2048: 64, 4096: 32, 8192: 16, 16384: 16}  # per optimizer step, by the longest completion
TINY_ROLLOUTS = {64: 32, 128: 16, 256: 16, 512: 16}
TIME_SHARES = (0.12, 0.15, 0.25, 0.63)  # relative, by the longest completion: what equal numbers of rounds take
DISTRIBUTIONS = ("equal", "lognormal", "bimodal")
SIDES = ("trl", "grouped")
KIND = ["longest", "rollouts", "distribution"]
COLUMNS = ["round", "side", "seconds", "tokens", "padded_tokens", "peak_memory", "lengths"]


def draw_lengths(distribution: str, longest: int, rollouts: int, seed: int) -> list[int]:
    """Completion lengths in random order, one of them `longest`."""
    rng = np.random.default_rng(seed)
    if distribution == "equal":
        return [longest] * rollouts
    if distribution == "lognormal":
        below = rng.standard_normal(rollouts)
        below -= below.max()
        low, high = 0.0, 10.0  # scale at which the mean is a seventh of the longest; few rollouts may not reach it
        for _ in range(60):
            scale = (low + high) / 2
            low, high = (scale, high) if np.exp(scale * below).mean() > 1 / 7 else (low, scale)
        lengths = longest * np.exp(scale * below)
    else:
        hard = rollouts - rollouts * 7 // 10
        lengths = longest * np.concatenate(
            [rng.normal(1 / 12, 1 / 48, rollouts - hard).clip(1 / 48), [1.0], rng.uniform(0.4, 1, hard - 1)]
        )
    return rng.permutation(lengths.round().astype(int).clip(2)).tolist()


def reward(completion_ids, **kwargs):
    return [float(ids[0] % 2) for ids in completion_ids]


class Rollouts(Turns):
    """Hands out rollouts, and counts tokens and passes. `sizes`: longest completion, rollouts, micro-batch's rows."""

    def __init__(self, sizes: tuple[int, int, int], *arguments):
        super().__init__(*arguments)
        self.longest, self.rollouts, self.rows = sizes

    def rollout(self, prompts, trainer):
        number = self.plan[0]["round"]
        self.lengths = draw_lengths(self.plan[0]["distribution"], self.longest, self.rollouts, seed=number)
        self.padded_tokens = self.passes = 0
        rng = np.random.default_rng(number)
        made_up = {
            "prompt_ids": [[3] * PROMPT_LENGTH] * len(prompts),
            "completion_ids": [[*rng.integers(3, 64, length - 1).tolist(), 1] for length in self.lengths],
            "logprobs": [[0.0] * length for length in self.lengths],
        }
        self.start()
        return made_up

    def count(self, model, args, kwargs):
        """Hook of the model: tokens of a forward pass, padding included."""
        self.padded_tokens += kwargs["input_ids"].numel()
        self.passes += 1

    def measured(self, step, state):
        # The optimizer's states are not there yet when the first step reaches its peak.
        has_peak = torch.cuda.is_available() and state.global_step > 1
        return step | {
            "tokens": sum(self.lengths) + PROMPT_LENGTH * len(self.lengths),
            "padded_tokens": self.padded_tokens,
            "forward_passes": self.passes,
            "micro_batch_rows": self.rows,
            "peak_memory": torch.cuda.max_memory_allocated() if has_peak else None,
            "peak_reserved": torch.cuda.max_memory_reserved() if has_peak else None,
            "lengths": self.lengths,
        }


def train(watch: Rollouts, args: argparse.Namespace) -> None:
    """Optimizer steps as they are planned."""
    model, tokenizer = random_model(tiny=args.tiny, dtype=torch.float32)
    config = CodaGRPOConfig(
        "runs/microbatch",
        per_device_train_batch_size=watch.rows,
        gradient_accumulation_steps=watch.rollouts // watch.rows,
        num_generations=GENERATIONS,
        max_completion_length=watch.longest,
        max_steps=len(watch.plan),
        learning_rate=1e-6,
        **trainer_options(),
    )
    trainer = CodaGRPOTrainer(
        model,
        reward,
        config,
        Dataset.from_dict({"prompt": ["3"] * 64}),
        processing_class=tokenizer,
        rollout_func=watch.rollout,
        callbacks=[watch],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.model.register_forward_pre_hook(watch.count, with_kwargs=True)
    trainer.train()


def run_maximum(
    sizes: tuple[int, int, int], rounds: int, args: argparse.Namespace, deadline: float, report: Callable
) -> None:
    """Steps of all distributions with a longest completion, sides in turns, each reported when it is done."""
    plan = [
        {"longest": sizes[0], "rollouts": sizes[1], "distribution": distribution, "round": number, "side": side}
        for number in range(rounds)
        for distribution in args.distributions
        if distribution != "equal" or not args.rollouts or (number == 0 and sizes[1] == args.rollouts[0])
        for side in (args.sides if number % 2 == 0 else args.sides[::-1])
    ]
    watch = Rollouts(sizes, plan, deadline, report)
    while watch.plan:
        try:
            train(watch, args)
        except torch.OutOfMemoryError:
            failed = watch.plan[0]
            report(failed)
            watch.plan = [
                step for step in watch.plan if any(step[of] != failed[of] for of in ("distribution", "side"))
            ]
        gc.collect()  # the trainer and its model refer to each other
        torch.cuda.empty_cache()


def summarise(steps: list[dict]) -> list[dict]:
    """
    One row a maximum, number of rollouts and distribution: medians over rounds, ratios of the two sides of the same
    round. A side that ran out of memory has no numbers.
    """
    every = pd.DataFrame(steps, columns=[*KIND, *COLUMNS])
    done = every.dropna(subset="seconds").assign(
        tokens_per_second=lambda of: of["tokens"] / of["seconds"],
        padding=lambda of: 1 - of["tokens"] / of["padded_tokens"],
    )
    full = done[(done["distribution"] == "equal") & (done["side"] == "grouped")]
    # Seconds a token of full batches, by their width.
    speeds = (full["seconds"] / full["tokens"]).groupby(full["longest"] + PROMPT_LENGTH).median()

    def share_of_limit(step: pd.Series) -> float:
        """What a step's rollouts would take as parts of full batches of their own length, over what they took."""
        widths = np.array(step["lengths"]) + PROMPT_LENGTH
        return float((widths * np.interp(widths, speeds.index, speeds)).sum() / step["seconds"])

    rows = []
    for kind in every[KIND].drop_duplicates().itertuples(index=False):
        sides = {
            side: done[(done[KIND] == [*kind]).all(axis=1) & (done["side"] == side)].set_index("round")
            for side in SIDES
        }
        ratios = (sides["trl"]["seconds"] / sides["grouped"]["seconds"]).dropna()
        row = kind._asdict() | {"rounds": len(ratios), "speedup": ratios.median()}
        row |= {"speedup_lowest": ratios.min(), "speedup_highest": ratios.max(), "share_of_limit": None}
        if len(speeds) and len(sides["grouped"]):
            row["share_of_limit"] = sides["grouped"].apply(share_of_limit, axis=1).median()
        for side, of in sides.items():
            row |= {f"{side}_{name}": of[name].median() for name in ("seconds", "tokens_per_second", "padding")}
            row[f"{side}_peak_memory"] = of["peak_memory"].astype(float).max()
        rows.append({name: None if pd.isna(value) else value for name, value in row.items()})
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tiny", action="store_true", help="A tiny model and short rollouts, to rehearse on a CPU.")
    parser.add_argument("--longest", type=int, nargs="+", help="Longest completions (default: all but 4096).")
    parser.add_argument(
        "--rollouts", type=int, nargs="+", help="Rollouts a step, in micro-batches of the same size as otherwise."
    )
    parser.add_argument("--distributions", nargs="+", choices=DISTRIBUTIONS, default=DISTRIBUTIONS)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--rounds", type=int, default=3, help="Steps of each side and kind.")
    parser.add_argument("--seconds", type=float, default=390, help="Begin no step that would end later than this.")
    args = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # with more cards in sight, Trainer wants to be launched

    begin = time.perf_counter()
    number = f"{'-'.join(map(str, args.rollouts))}-rollouts-" if args.rollouts else ""
    about = machine() | {"model": "random tiny Qwen3" if args.tiny else "random Qwen3-0.6B"}
    about["settings"] = {"prompt_length": PROMPT_LENGTH, "micro_batches": MICRO_BATCHES}
    known = TINY_ROLLOUTS if args.tiny else ROLLOUTS
    longest = sorted(args.longest or [maximum for place, maximum in enumerate(known) if place != 1])
    shares = np.array([share for maximum, share in zip(known, TIME_SHARES, strict=True) if maximum in longest])
    if len(shares) < len(longest):
        parser.error(f"--longest has to be among {', '.join(map(str, known))}.")
    if args.rollouts and any(number % known[maximum] for maximum in longest for number in args.rollouts):
        parser.error(f"--rollouts has to be a multiple of {max(known[maximum] for maximum in longest)}.")
    ends = begin + np.cumsum(shares) / shares.sum() * args.seconds

    def sizes(maximum: int, count: int) -> tuple[int, int, int]:
        return maximum, count, known[maximum] // MICRO_BATCHES

    # Kernels are chosen and compiled in the first steps: once, before anything is measured.
    run_maximum(sizes(longest[0], known[longest[0]]), 1, args, ends[0], lambda step: None)
    steps = []

    def report(step: dict) -> None:
        steps.append(step)
        shown = f"{step['seconds']:.1f} s" if "seconds" in step else "out of memory"
        print(f"at most {step['longest']} tokens, {step['distribution']}, {step['side']}: {shown}", flush=True)
        name = f"microbatch-{'tiny-' if args.tiny else ''}{number}{about['hardware']}"
        write(args.out, name, {"about": about, "rows": summarise(steps), "steps": steps})

    for maximum, end in zip(longest, ends, strict=True):
        for count in args.rollouts or [known[maximum]]:
            run_maximum(sizes(maximum, count), args.rounds, args, end, report)
    print(pd.DataFrame(summarise(steps)).round(2).T.to_string(header=False))


if __name__ == "__main__":
    main()
