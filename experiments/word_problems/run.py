"""Trains and evaluates every method and seed on word problems, from one warm start.

python -m experiments.word_problems.run                        # 4 methods x 3 seeds from runs/word_problems/start
python -m experiments.word_problems.run --tiny --model MODEL --results FILE  # a rehearsal on the CPU

Stop and restart it at will: finished runs are skipped, others resume.
"""

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from ..ladder.matrix import START
from ..ladder.summaries import summarise_samples
from ..ladder.testbed import Testbed, add_runs
from ..runner import ROOT, TINY_TRAINING, parse, parser_of
from .demonstrations import rechecks, style_of
from .problems import DATA, TEST

HERE = Path(__file__).resolve().parent
RESULTS = HERE / "results.jsonl"
WORK = ROOT / "runs/word_problems"
METHODS = (START, "grpo", "coda", "vlp", "asrr")
# vLLM on a small part of a card. Its cache is fixed in bytes because trainings beside an evaluation come and go: twice
# what 256 answers of 600 tokens need.
EVALUATION = {"n": 8, "max_tokens": 384, "engine": "vllm", "dtype": "bfloat16"}
EVALUATION |= {"gpu_memory_utilization": 0.12, "kv_cache_memory_bytes": 8 * 2**30}
TINY_EVALUATION = {"n": 2, "max_tokens": 24, "engine": "transformers", "dtype": "float32", "limit": 6}


def jobs(seeds: int, first_seed: int = 0) -> list[tuple[str, int]]:
    """
    Pairs of a run and a seed, the most wanted first: the start, GRPO and CODA seed by seed, then method by method. If
    time runs out, methods are missing rather than seeds.
    """
    chosen = range(first_seed, first_seed + seeds)
    first = [(name, seed) for seed in chosen for name in ("grpo", "coda")]
    return [(START, 0), *first, *((name, seed) for name in ("vlp", "asrr") for seed in chosen)]


def word_problems(args: argparse.Namespace) -> Testbed:
    """
    Several runs on one GPU, which start one after the other, and again where they fail: vLLM measures the memory that
    is free while it starts, and gives up if another process ends or grows in that moment.
    """
    return Testbed(
        args,
        recipes="recipes/word_problems",
        model=args.model,
        training={"model_name_or_path": args.model} | (TINY_TRAINING | {"max_steps": 2} if args.tiny else {}),
        evaluation={"benchmarks": f"custom={DATA / TEST}"} | (TINY_EVALUATION if args.tiny else EVALUATION),
        summarise=partial(summarise_samples, style_of=style_of, rechecks=rechecks),
        log_every=4,
        about={"warm_start": args.warm_start},
        use_cpu=args.tiny,
        attempts=8,
        gap=0.0 if args.tiny else 30.0,
    )


def read_command_line(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = parser_of(__doc__, WORK / "results.jsonl", WORK / "work", committed=RESULTS)
    parser.add_argument("--model", default="runs/word_problems/start", help="The warm start (default: %(default)s).")
    parser.add_argument("--warm_start", type=int, default=1, help="Its number (default: 1).")
    add_runs(parser, 3, 4)
    args = parse(parser, argv)
    args.jobs = min(args.jobs, os.cpu_count()) if args.tiny else args.jobs
    return args


def main() -> int:
    args = read_command_line()
    return word_problems(args).do(jobs(args.seeds, args.first_seed))


if __name__ == "__main__":
    sys.exit(main())
