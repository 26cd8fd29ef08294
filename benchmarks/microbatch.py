r"""
Time and memory of one optimizer step, with TRL's micro-batches and with micro-batches grouped by length.

    python benchmarks/microbatch.py [--tiny] [--seconds 390] [--out benchmarks/results]

Both sides are the same `CodaGRPOTrainer` with `length_grouping` off (TRL's own code path) and on, in turns on the
same rollouts. Rollouts are made up, so that their lengths are exactly those of the distribution; what is timed is
everything from rollout to updated weights: padding, rewards, regrouping, forward and backward passes, optimizer. The
model has the shape of Qwen3-0.6B and random weights (`--tiny`: a few thousand parameters and short rollouts, a
rehearsal for a CPU).

Distributions, for a longest completion of L tokens: `equal` (all L), `lognormal` (longest L, mean L / 7), `bimodal`
(seven of ten around L / 12, as CODA makes easy ones; the others from 0.4 L to L). Every round draws other lengths.

The padding-free limit is what the rollouts would take if each were computed as fast as full batches of its own length:
time per token of the `equal` steps with grouping, interpolated between the maxima that were run.

Rounds go on until all are done or the time is up; the results are written after every round.
"""

import argparse
import gc
import json
import platform
import statistics
import time
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
MICRO_BATCHES = 8  # per optimizer step
ROLLOUTS = {2048: 64, 8192: 16, 16384: 16}  # per optimizer step, by the longest completion
TINY_ROLLOUTS = {64: 32, 256: 16, 512: 16}
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
        low, high = 0.0, 10.0  # scale at which the mean is a seventh of the longest
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
    """Switches sides, hands out rollouts, and measures every optimizer step."""

    def __init__(self, longest: int, rollouts: int, rounds: int, deadline: float, progress: tqdm):
        self.longest, self.rollouts, self.deadline, self.progress = longest, rollouts, deadline, progress
        self.plan = [
            (number, distribution, side)
            for number in range(rounds)
            for distribution in DISTRIBUTIONS
            for side in (SIDES if number % 2 == 0 else SIDES[::-1])
        ]
        self.steps = []
        self.cuda = torch.cuda.is_available()

    def rollout(self, prompts, trainer):
        number, distribution, side = self.plan[len(self.steps)]
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
        number, distribution, side = self.plan[len(self.steps)]
        self.steps.append(
            {
                "longest": self.longest,
                "distribution": distribution,
                "round": number,
                "side": side,
                "seconds": seconds,
                "tokens": sum(self.lengths) + PROMPT_LENGTH * len(self.lengths),
                "padded_tokens": self.padded_tokens,
                "forward_passes": self.passes,
                "peak_memory": torch.cuda.max_memory_allocated() if self.cuda else None,
                "lengths": self.lengths,
            }
        )
        self.progress.update()
        ahead = len(self.steps)
        if ahead % 2 == 0 and ahead < len(self.plan):  # both sides of a pair, or neither
            slowest = max(step["seconds"] for step in self.steps)
            if time.perf_counter() + 1.5 * slowest > self.deadline:
                control.should_training_stop = True


def run_maximum(longest: int, rollouts: int, args: argparse.Namespace, deadline: float) -> list[dict]:
    """Steps of all distributions with the given longest completion, sides in turns."""
    device = "cuda" if torch.cuda.is_available() else "cpu"
    steps = len(DISTRIBUTIONS) * len(SIDES) * args.rounds
    with tqdm(total=steps, desc=f"at most {longest} tokens", unit="step") as progress:
        watch = Stopwatch(longest, rollouts, args.rounds, deadline, progress)
        config = CodaGRPOConfig(
            "runs/microbatch",
            per_device_train_batch_size=rollouts // MICRO_BATCHES,
            gradient_accumulation_steps=MICRO_BATCHES,
            num_generations=GENERATIONS,
            max_completion_length=longest,
            max_steps=steps,
            beta=args.beta,
            learning_rate=1e-6,
            bf16=device == "cuda",
            use_cpu=device == "cpu",
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
    del trainer
    gc.collect()  # the trainer and its model refer to each other
    if device == "cuda":
        torch.cuda.empty_cache()
    return watch.steps


def summarise(steps: list[dict]) -> list[dict]:
    """One row a maximum and distribution: medians over rounds, and ratios of the two sides of the same round."""

    def chosen(**wanted):
        return [step for step in steps if all(step[key] == value for key, value in wanted.items())]

    maxima = sorted({step["longest"] for step in steps})
    speeds = {  # seconds a token of full batches, by their width
        longest + PROMPT_LENGTH: statistics.median(
            step["seconds"] / step["tokens"] for step in chosen(longest=longest, distribution="equal", side="grouped")
        )
        for longest in maxima
    }
    rows = []
    for longest in maxima:
        for distribution in DISTRIBUTIONS:
            trl_steps, grouped = (chosen(longest=longest, distribution=distribution, side=side) for side in SIDES)
            if not grouped:  # no time was left
                continue
            limits = []
            for step in grouped:
                widths = np.array(step["lengths"]) + PROMPT_LENGTH
                limits.append((widths * np.interp(widths, list(speeds), list(speeds.values()))).sum())
            ratios = [before["seconds"] / after["seconds"] for before, after in zip(trl_steps, grouped, strict=True)]
            rows.append(
                {
                    "longest": longest,
                    "distribution": distribution,
                    "rounds": len(grouped),
                    "trl_seconds": statistics.median(step["seconds"] for step in trl_steps),
                    "grouped_seconds": statistics.median(step["seconds"] for step in grouped),
                    "speedup": statistics.median(ratios),
                    "speedup_lowest": min(ratios),
                    "speedup_highest": max(ratios),
                    "trl_tokens_per_second": statistics.median(s["tokens"] / s["seconds"] for s in trl_steps),
                    "grouped_tokens_per_second": statistics.median(s["tokens"] / s["seconds"] for s in grouped),
                    "trl_padding": statistics.median(1 - s["tokens"] / s["padded_tokens"] for s in trl_steps),
                    "grouped_padding": statistics.median(1 - s["tokens"] / s["padded_tokens"] for s in grouped),
                    "share_of_limit": statistics.median(
                        limit / step["seconds"] for limit, step in zip(limits, grouped, strict=True)
                    ),
                    "trl_peak_memory": max((s["peak_memory"] or 0) for s in trl_steps),
                    "grouped_peak_memory": max((s["peak_memory"] or 0) for s in grouped),
                }
            )
    return rows


def print_table(rows: list[dict]) -> None:
    print(
        f"{'longest':>7} {'lengths':<9} {'rounds':>6} {'TRL s':>7} {'ours s':>7} {'speed-up (range)':>18} "
        f"{'TRL tok/s':>9} {'ours':>7} {'padding':>11} {'of limit':>8} {'peak GiB':>11}"
    )
    for row in rows:
        peaks = row["trl_peak_memory"], row["grouped_peak_memory"]
        memory = " ".join(f"{peak / 2**30:.1f}" if peak else "-" for peak in peaks)  # only known of GPUs
        print(
            f"{row['longest']:>7} {row['distribution']:<9} {row['rounds']:>6} {row['trl_seconds']:>7.2f} "
            f"{row['grouped_seconds']:>7.2f} {row['speedup']:>6.2f} "
            f"({row['speedup_lowest']:.2f}-{row['speedup_highest']:.2f}) "
            f"{row['trl_tokens_per_second']:>9.0f} {row['grouped_tokens_per_second']:>7.0f} "
            f"{row['trl_padding']:>5.0%} {row['grouped_padding']:>5.0%} {row['share_of_limit']:>8.0%} {memory:>11}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiny", action="store_true", help="A tiny model and short rollouts, to rehearse on a CPU.")
    parser.add_argument("--rounds", type=int, default=3, help="Steps of each side and kind.")
    parser.add_argument("--seconds", type=float, default=390, help="Begin no step that would end later than this.")
    parser.add_argument("--beta", type=float, default=0.0, help="KL coefficient; not 0: the reference model runs too.")
    parser.add_argument("--out", type=Path, default=Path("benchmarks/results"), help="Folder for the results.")
    args = parser.parse_args()

    deadline = time.perf_counter() + args.seconds
    torch.manual_seed(0)
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
    path = args.out / f"microbatch-{'tiny-' if args.tiny else ''}{name.lower().replace(' ', '-')}.json"
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
    rollouts = TINY_ROLLOUTS if args.tiny else ROLLOUTS

    # Kernels are chosen and compiled in the first steps: once, before anything is measured.
    run_maximum(min(rollouts), rollouts[min(rollouts)], argparse.Namespace(**vars(args) | {"rounds": 1}), deadline)
    steps = []
    for longest, count in rollouts.items():
        if time.perf_counter() < deadline:
            steps += run_maximum(longest, count, args, deadline)
            rows = summarise(steps)
            path.write_text(json.dumps({"about": about, "rows": rows, "steps": steps}, indent=1) + "\n")
    print(f"{about['model']} on {name}, torch {torch.__version__}, TRL {trl.__version__}")
    print_table(rows)
    print(f"Every step in {path}")


if __name__ == "__main__":
    main()
