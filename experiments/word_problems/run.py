"""Trains and evaluates every method and seed on word problems, from one warm start.

python -m experiments.word_problems.run                        # 4 methods x 3 seeds from runs/word_problems/start
python -m experiments.word_problems.run --tiny --model MODEL --results FILE  # a rehearsal on the CPU

Stop and restart it at will: finished runs are skipped, others resume.
"""

import argparse
import os
import sys
from pathlib import Path
from typing import Any

from rich.console import Console

from ..matrix import START, Run
from ..runner import Runner, parse, parser_of, train_arguments, with_flags, work_off
from ..runs import Row, summarise_samples
from .demonstrations import rechecks, style_of
from .problems import DATA, TEST

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
METHODS = (START, "grpo", "coda", "vlp", "asrr")
# vLLM on a small part of a card. Its cache is fixed in bytes because trainings beside an evaluation come and go: twice
# what 256 answers of 600 tokens need.
EVALUATION = {"n": 8, "max_tokens": 384, "engine": "vllm", "dtype": "bfloat16"}
EVALUATION |= {"gpu_memory_utilization": 0.12, "kv_cache_memory_bytes": 8 * 2**30}
# What the recipes ask for that a CPU does not have, and sizes that take seconds.
TINY_TRAINING = {
    "use_vllm": "false",
    "bf16": "false",
    "max_steps": 2,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "num_generations": 4,
    "max_completion_length": 24,
}
TINY_EVALUATION = {"n": 2, "max_tokens": 24, "engine": "transformers", "dtype": "float32", "limit": 6}


def jobs(seeds: int, first_seed: int = 0) -> list[tuple[str, int]]:
    """
    Pairs of a run and a seed, the most wanted first: the start, GRPO and CODA seed by seed, then method by method. If
    time runs out, methods are missing rather than seeds.
    """
    chosen = range(first_seed, first_seed + seeds)
    first = [(name, seed) for seed in chosen for name in ("grpo", "coda")]
    return [(START, 0), *first, *((name, seed) for name in ("vlp", "asrr") for seed in chosen)]


class WordProblemsRunner(Runner):
    """
    Several runs on one GPU, which start one after the other, and again where they fail: vLLM measures the memory that
    is free while it starts, and gives up if another process ends or grows in that moment.
    """

    recipes, log_every, attempts = "recipes/word_problems", 4, 8

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.stagger = args.stagger

    def training(self, run: Run, seed: int, output_dir: Path) -> list[str]:
        own = {"model_name_or_path": self.args.model} | (TINY_TRAINING if self.args.tiny else {}) | self.args.override
        return train_arguments(run, seed, output_dir, self.args.use_cpu, self.recipes) + with_flags(own)

    def evaluation(self) -> dict[str, Any]:
        return {"benchmarks": f"custom={DATA / TEST}"} | (TINY_EVALUATION if self.args.tiny else EVALUATION)

    def start_model(self) -> str:
        return self.args.model

    def summarise(self, samples: list[Row]) -> Row:
        return summarise_samples(samples, style_of, rechecks)

    def about(self) -> Row:
        return {"warm_start": self.args.warm_start, "overrides": self.args.override}


def _override(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise argparse.ArgumentTypeError(f"{text!r} is not like learning_rate=1e-5")
    return name, value


def read_command_line(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = parser_of(__doc__, "runs/word_problems", RESULTS)
    parser.add_argument("--model", default="runs/word_problems/start", help="The warm start (default: %(default)s).")
    parser.add_argument("--warm_start", type=int, default=1, help="Its number (default: 1).")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=METHODS, help="Only these methods.")
    parser.add_argument("--seeds", type=int, default=3, help="Seeds of a method (default: %(default)s).")
    parser.add_argument("--jobs", type=int, default=4, help="Runs at a time, 20 GB each (default: %(default)s).")
    parser.add_argument("--stagger", type=float, default=30, help="Seconds between two starts (default: %(default)s).")
    parser.add_argument(
        "--override", nargs="+", type=_override, default=[], metavar="NAME=VALUE", help="Over every recipe."
    )
    args = parse(parser, argv)
    args.override, args.use_cpu = dict(args.override), args.tiny
    if args.tiny:
        args.stagger, args.jobs = 0.0, min(args.jobs, os.cpu_count())
    return args


def main() -> int:
    args = read_command_line()
    wanted = [job for job in jobs(args.seeds, args.first_seed) if job[0] in args.only]
    return 0 if work_off(WordProblemsRunner(args), wanted, Console()) else 1


if __name__ == "__main__":
    sys.exit(main())
