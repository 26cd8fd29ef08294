r"""
Time and memory of one optimizer step, with TRL's micro-batches and with micro-batches grouped by length.

    python benchmarks/microbatch.py [--tiny] [--seconds 390] [--out runs/benchmarks]
    python benchmarks/microbatch.py --longest 4096 16384 --rollouts 64 128 --sides grouped

Both sides are the same `CodaGRPOTrainer` with `length_grouping` off (TRL's own code path) and on, in turns on the
same rollouts. Rollouts are made up, so that their lengths are exactly those of the distribution; what is timed is
everything from rollout to updated weights: padding, rewards, regrouping, forward and backward passes, optimizer. The
model has the shape of Qwen3-0.6B and random weights (`--tiny`: a few thousand parameters and short rollouts, a
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
import json
import os
import platform
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import accelerate
import numpy as np
import torch
import transformers
import trl
from datasets import Dataset
from tokenizers import Tokenizer, models
from tqdm import tqdm
from transformers import PreTrainedTokenizerFast, PrinterCallback, Qwen3Config, Qwen3ForCausalLM, TrainerCallback

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

PROMPT_LENGTH = 128
GENERATIONS = 8
MICRO_BATCHES = 8  # per optimizer step, unless it has another number of rollouts
ROLLOUTS = {2048: 64, 4096: 32, 8192: 16, 16384: 16}  # per optimizer step, by the longest completion
TINY_ROLLOUTS = {64: 32, 128: 16, 256: 16, 512: 16}
TIME_SHARES = (0.12, 0.15, 0.25, 0.63)  # relative, by the longest completion: what equal numbers of rounds take
DISTRIBUTIONS = ("equal", "lognormal", "bimodal")
SIDES = ("trl", "grouped")


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


def make_tokenizer() -> PreTrainedTokenizerFast:
    words = {"<pad>": 0, "<eos>": 1, "<unk>": 2} | {f"w{index}": index for index in range(3, 64)}
    backend = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    return PreTrainedTokenizerFast(tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def make_model(tiny: bool, device: str) -> Qwen3ForCausalLM:
    sizes = {"hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 28, "vocab_size": 151_936}
    heads = {"num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 128}
    if tiny:
        sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "vocab_size": 64}
        heads = {"num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 16}
    config = Qwen3Config(
        **sizes, **heads, tie_word_embeddings=True, max_position_embeddings=40_960, pad_token_id=0, eos_token_id=1
    )
    with torch.device(device):
        return Qwen3ForCausalLM(config)


def reward(completion_ids, **kwargs):
    return [float(ids[0] % 2) for ids in completion_ids]


class Stopwatch(TrainerCallback):
    """
    Switches sides, hands out rollouts, and measures every optimizer step.

    `rows` is the size of a micro-batch. `plan` lists the steps to come as (round, distribution, side), the sides of a
    pair next to each other. Of pairs, none is begun that would not be done by `deadline`.
    """

    def __init__(
        self,
        longest: int,
        rollouts: int,
        rows: int,
        plan: list[tuple[int, str, str]],
        deadline: float,
        report: Callable,
    ):
        self.longest, self.rollouts, self.rows = longest, rollouts, rows
        self.deadline, self.report = deadline, report
        self.plan = plan
        self.slowest = 0.0
        self.cuda = torch.cuda.is_available()

    def rollout(self, prompts, trainer):
        number, distribution, side = self.plan[0]
        trainer.args.length_grouping = side == "grouped"
        lengths = draw_lengths(distribution, self.longest, self.rollouts, seed=number)
        rng = np.random.default_rng(number)
        completion_ids = [[*rng.integers(3, 64, length - 1).tolist(), 1] for length in lengths]
        self.lengths, self.padded_tokens, self.passes = lengths, 0, 0
        if self.cuda:
            torch.cuda.synchronize()
            torch.cuda.reset_peak_memory_stats()
        self.started = time.perf_counter()
        return {
            "prompt_ids": [[3] * PROMPT_LENGTH] * len(prompts),
            "completion_ids": completion_ids,
            "logprobs": [[0.0] * length for length in lengths],
        }

    def count(self, model, args, kwargs):
        """Hook of the model: tokens of a forward pass, padding included."""
        self.padded_tokens += kwargs["input_ids"].numel()
        self.passes += 1

    def on_step_end(self, args, state, control, **kwargs):
        if self.cuda:
            torch.cuda.synchronize()
        seconds = time.perf_counter() - self.started
        number, distribution, side = self.plan.pop(0)
        self.slowest = max(self.slowest, seconds)
        self.report(
            {
                "longest": self.longest,
                "rollouts": self.rollouts,
                "distribution": distribution,
                "round": number,
                "side": side,
                "seconds": seconds,
                "tokens": sum(self.lengths) + PROMPT_LENGTH * len(self.lengths),
                "padded_tokens": self.padded_tokens,
                "forward_passes": self.passes,
                "micro_batch_rows": self.rows,
                # The optimizer's states are not there yet when the first step reaches its peak.
                "peak_memory": torch.cuda.max_memory_allocated() if self.cuda and state.global_step > 1 else None,
                "peak_reserved": torch.cuda.max_memory_reserved() if self.cuda and state.global_step > 1 else None,
                "lengths": self.lengths,
            }
        )
        between_pairs = not self.plan or self.plan[0][:2] != (number, distribution)
        if between_pairs and time.perf_counter() + 1.5 * self.slowest > self.deadline:
            self.plan.clear()
        if not self.plan:
            control.should_training_stop = True


def train(watch: Stopwatch, args: argparse.Namespace) -> None:
    """Optimizer steps as the stopwatch plans them."""
    device = "cuda" if watch.cuda else "cpu"
    config = CodaGRPOConfig(
        "runs/microbatch",
        per_device_train_batch_size=watch.rows,
        gradient_accumulation_steps=watch.rollouts // watch.rows,
        num_generations=GENERATIONS,
        max_completion_length=watch.longest,
        max_steps=len(watch.plan),
        beta=args.beta,
        learning_rate=1e-6,
        bf16=watch.cuda,
        use_cpu=not watch.cuda,
        logging_strategy="no",
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
    )
    trainer = CodaGRPOTrainer(
        make_model(args.tiny, device),
        reward,
        config,
        Dataset.from_dict({"prompt": ["w3"] * 64}),
        processing_class=make_tokenizer(),
        rollout_func=watch.rollout,
        callbacks=[watch],
    )
    trainer.remove_callback(PrinterCallback)
    trainer.model.register_forward_pre_hook(watch.count, with_kwargs=True)
    trainer.train()


def run_maximum(
    longest: int, rollouts: int, rows: int, rounds: int, args: argparse.Namespace, deadline: float, report: Callable
) -> None:
    """Steps of all distributions with the given longest completion, sides in turns, each reported when it is done."""
    plan = [
        (number, distribution, side)
        for number in range(rounds)
        for distribution in args.distributions
        if distribution != "equal" or not args.rollouts or (number == 0 and rollouts == args.rollouts[0])
        for side in (args.sides if number % 2 == 0 else args.sides[::-1])
    ]
    with tqdm(total=len(plan), desc=f"at most {longest} tokens", unit="step") as progress:

        def show_and_report(step: dict) -> None:
            progress.set_postfix_str(f"{step['distribution']} {step['side']} {step['seconds']:.1f} s", refresh=False)
            progress.update()
            report(step)

        watch = Stopwatch(longest, rollouts, rows, plan, deadline, show_and_report)
        while watch.plan:
            try:
                train(watch, args)
            except torch.OutOfMemoryError:
                number, distribution, side = watch.plan[0]
                watch.plan = [entry for entry in watch.plan if entry[1:] != (distribution, side)]
                report(
                    {"longest": longest, "rollouts": rollouts, "distribution": distribution}
                    | {"round": number, "side": side}
                )
                print(f"{side} ran out of memory: {distribution}, at most {longest} tokens")
            gc.collect()  # the trainer and its model refer to each other
            if watch.cuda:
                torch.cuda.empty_cache()


def summarise(steps: list[dict]) -> list[dict]:
    """
    One row a maximum, number of rollouts and distribution: medians over rounds, ratios of the two sides of the same
    round. A side that ran out of memory has no numbers.
    """

    def chosen(**wanted) -> dict[int, dict]:
        return {
            step["round"]: step
            for step in steps
            if "seconds" in step and all(step[key] == value for key, value in wanted.items())
        }

    def median(values) -> float | None:
        return statistics.median(values) if (values := list(values)) else None

    speeds = {}  # seconds a token of full batches, by their width
    for longest in sorted({step["longest"] for step in steps}):
        full = chosen(longest=longest, distribution="equal", side="grouped").values()
        if full:
            speeds[longest + PROMPT_LENGTH] = median(step["seconds"] / step["tokens"] for step in full)

    def limit(step: dict) -> float:
        """Seconds that a step's rollouts would take as parts of full batches of their own length."""
        widths = np.array(step["lengths"]) + PROMPT_LENGTH
        return float((widths * np.interp(widths, list(speeds), list(speeds.values()))).sum())

    rows = []
    kinds = ("longest", "rollouts", "distribution")
    for kind in dict.fromkeys(tuple(step[name] for name in kinds) for step in steps):
        named = dict(zip(kinds, kind, strict=True))
        sides = {side: chosen(**named, side=side) for side in SIDES}
        both = [
            (sides["trl"][number], sides["grouped"][number]) for number in sides["trl"] if number in sides["grouped"]
        ]
        ratios = [before["seconds"] / after["seconds"] for before, after in both]
        row = named | {
            "rounds": len(both),
            "speedup": median(ratios),
            "speedup_lowest": min(ratios, default=None),
            "speedup_highest": max(ratios, default=None),
            "share_of_limit": median(limit(s) / s["seconds"] for s in sides["grouped"].values()) if speeds else None,
        }
        for side, of_side in sides.items():
            done = of_side.values()
            row |= {
                f"{side}_seconds": median(step["seconds"] for step in done),
                f"{side}_tokens_per_second": median(step["tokens"] / step["seconds"] for step in done),
                f"{side}_padding": median(1 - step["tokens"] / step["padded_tokens"] for step in done),
                f"{side}_peak_memory": max((step["peak_memory"] or 0 for step in done), default=None),
            }
        rows.append(row)
    return rows


def print_table(rows: list[dict]) -> None:
    def show(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    print(
        f"{'longest':>7} {'rollouts':>8} {'lengths':<9} {'rounds':>6} {'TRL s':>7} {'ours s':>7} "
        f"{'speed-up (range)':>18} {'TRL tok/s':>9} {'ours':>7} {'padding':>11} {'of limit':>8} {'peak GiB':>11}"
    )
    for row in rows:
        peaks = " ".join(show((row[f"{side}_peak_memory"] or 0) / 2**30 or None, ".1f") for side in SIDES)  # of GPUs
        extremes = f"({show(row['speedup_lowest'], '.2f')}-{show(row['speedup_highest'], '.2f')})"
        print(
            f"{row['longest']:>7} {row['rollouts']:>8} {row['distribution']:<9} {row['rounds']:>6} "
            f"{show(row['trl_seconds'], '.2f'):>7} {show(row['grouped_seconds'], '.2f'):>7} "
            f"{show(row['speedup'], '.2f'):>6} {extremes:>11} {show(row['trl_tokens_per_second'], '.0f'):>9} "
            f"{show(row['grouped_tokens_per_second'], '.0f'):>7} {show(row['trl_padding'], '.0%'):>5} "
            f"{show(row['grouped_padding'], '.0%'):>5} {show(row['share_of_limit'], '.0%'):>8} {peaks:>11}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="A tiny model and short rollouts, to rehearse on a CPU.")
    parser.add_argument("--longest", type=int, nargs="+", help="Longest completions (default: all but 4096).")
    parser.add_argument(
        "--rollouts", type=int, nargs="+", help="Rollouts a step, in micro-batches of the same size as otherwise."
    )
    parser.add_argument("--distributions", nargs="+", choices=DISTRIBUTIONS, default=DISTRIBUTIONS)
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES)
    parser.add_argument("--rounds", type=int, default=3, help="Steps of each side and kind.")
    parser.add_argument("--seconds", type=float, default=390, help="Begin no step that would end later than this.")
    parser.add_argument("--beta", type=float, default=0.0, help="KL coefficient; not 0: the reference model runs too.")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), help="Folder for the results.")
    args = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # with more cards in sight, Trainer wants to be launched

    begin = time.perf_counter()
    torch.manual_seed(0)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    number = f"{'-'.join(map(str, args.rollouts))}-rollouts-" if args.rollouts else ""
    path = args.out / f"microbatch-{'tiny-' if args.tiny else ''}{number}{name.lower().replace(' ', '-')}.json"
    args.out.mkdir(parents=True, exist_ok=True)
    about = {
        "hardware": name,
        "processor": platform.processor() or platform.machine(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
        "trl": trl.__version__,
        "accelerate": accelerate.__version__,
        "python": platform.python_version(),
        "model": "random tiny Qwen3" if args.tiny else "random Qwen3-0.6B",
        "settings": {"beta": args.beta, "prompt_length": PROMPT_LENGTH, "micro_batches": MICRO_BATCHES},
    }
    known = TINY_ROLLOUTS if args.tiny else ROLLOUTS
    longest = args.longest or [maximum for place, maximum in enumerate(known) if place != 1]
    shares = np.array([share for maximum, share in zip(known, TIME_SHARES, strict=True) if maximum in longest])
    if len(shares) < len(longest):
        parser.error(f"--longest has to be among {', '.join(map(str, known))}.")
    if args.rollouts and any(number % known[maximum] for maximum in longest for number in args.rollouts):
        parser.error(f"--rollouts has to be a multiple of {max(known[maximum] for maximum in longest)}.")

    # Kernels are chosen and compiled in the first steps: once, before anything is measured.
    shortest = min(longest)
    rows = known[shortest] // MICRO_BATCHES
    first = begin + shares[0] / shares.sum() * args.seconds
    run_maximum(shortest, known[shortest], rows, 1, args, first, lambda step: None)
    steps = []

    def report(step: dict) -> None:
        steps.append(step)
        path.write_text(json.dumps({"about": about, "rows": summarise(steps), "steps": steps}, indent=1) + "\n")

    for maximum, share in zip(sorted(longest), np.cumsum(shares) / shares.sum(), strict=True):
        for count in args.rollouts or [known[maximum]]:
            rows, end = known[maximum] // MICRO_BATCHES, begin + share * args.seconds
            run_maximum(maximum, count, rows, args.rounds, args, end, report)
    rows = summarise(steps)
    print(f"{about['model']} on {name}, torch {torch.__version__}, TRL {trl.__version__}")
    print_table(rows)
    print(f"Every step in {path}")


if __name__ == "__main__":
    main()
