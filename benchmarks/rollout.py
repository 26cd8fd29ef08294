r"""
Rollout speed of the engines that TRL offers inside the training process: transformers' `generate`, its continuous
batching, and vLLM in colocate mode.

    python benchmarks/rollout.py [--tiny] [--engines generate continuous vllm] [--out runs/benchmarks]

What is timed is the trainer's own generation step, from prompts to completion tokens. The model has the shape of
Qwen3-0.6B and random weights; so many tokens end a text that a completion is about a quarter of the longest (lengths
follow a geometric distribution). `--tiny` rehearses on a CPU. Every engine runs in a process of its own, once to warm
up and then `--rounds` times, or until its share of `--seconds` is used up. An engine that fails is left out.
"""

import multiprocessing
import os
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor

import torch
from datasets import Dataset
from model import save_random_model
from timing import machine, parser_of, trainer_options, wait_for_card, write

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

PROMPT_LENGTH = 128
GENERATIONS = 8
ENGINES = {
    "generate": {},
    "continuous": {"use_transformers_continuous_batching": True},
    "vllm": {"use_vllm": True, "vllm_mode": "colocate", "vllm_gpu_memory_utilization": 0.4},
}


def draw_prompts(count: int) -> list[str]:
    """So many prompts of 128 numbers."""
    generator = torch.Generator().manual_seed(0)
    numbers = torch.randint(0, 100, (count, PROMPT_LENGTH), generator=generator).tolist()
    return [" ".join(map(str, row)) for row in numbers]


def run_engine(engine: str, folder: str, longest: int, rollouts: int, rounds: int, seconds: float) -> list[dict]:
    """A row a generation step, the first of which warms up."""
    deadline, cuda = time.perf_counter() + seconds, torch.cuda.is_available()
    trainer = CodaGRPOTrainer(
        folder,
        lambda completions, **kwargs: [0.0] * len(completions),
        CodaGRPOConfig(
            "runs/rollout",
            per_device_train_batch_size=rollouts,
            num_generations=GENERATIONS,
            max_completion_length=longest,
            vllm_max_model_length=PROMPT_LENGTH + longest,
            model_init_kwargs={"dtype": "bfloat16" if cuda else "float32"},
            **trainer_options(),
            **ENGINES[engine],
        ),
        Dataset.from_dict({"prompt": ["1"] * rollouts}),
    )
    prompts = [prompt for prompt in draw_prompts(rollouts // GENERATIONS) for _ in range(GENERATIONS)]
    rows = []
    for number in range(1 + rounds):
        if cuda:
            torch.cuda.reset_peak_memory_stats()
        wait_for_card()
        start = time.perf_counter()
        lengths = list(map(len, trainer._generate(prompts)[1]))
        took = time.perf_counter() - start
        peak = torch.cuda.max_memory_allocated() if cuda else None  # of this process, vLLM's included
        row = {"engine": engine, "warm_up": number == 0, "seconds": took, "tokens": sum(lengths)}
        rows.append(row | {"longest": max(lengths), "peak_memory": peak})
        if time.perf_counter() + took > deadline:
            break
    return rows


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("--tiny", action="store_true", help="A tiny model and short completions.")
    parser.add_argument("--engines", nargs="+", choices=ENGINES, default=list(ENGINES), help="Engines to run.")
    parser.add_argument("--rollouts", type=int, default=256, help="Completions per step, a multiple of 8.")
    parser.add_argument("--longest", type=int, default=1024, help="Longest completion in tokens.")
    parser.add_argument("--rounds", type=int, default=3, help="Timed steps of each engine.")
    parser.add_argument("--seconds", type=float, default=600, help="Time of all engines, in equal shares.")
    args = parser.parse_args()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # with more cards in sight, Trainer wants to be launched
    if args.tiny:
        args.rollouts, args.longest = 32, 64
    about = machine() | {"model": f"random {'tiny Qwen3' if args.tiny else 'Qwen3-0.6B'}"}
    about["settings"] = {"rollouts": args.rollouts, "longest": args.longest, "prompt_length": PROMPT_LENGTH}
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        save_random_model("qwen3-0.6b", folder, args.longest, args.tiny)
        for engine in args.engines:
            sizes = args.longest, args.rollouts, args.rounds, args.seconds / len(args.engines)
            try:
                with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                    rows += process.submit(run_engine, engine, folder, *sizes).result()
            except Exception as error:
                print(f"{engine} failed and is left out: {error}")
                continue
            speeds = [row["tokens"] / row["seconds"] for row in rows if row["engine"] == engine]
            timed = speeds[1:] or speeds
            note = "" if speeds[1:] else ", warming up"
            print(
                f"{engine:<11} {statistics.median(timed):>8.0f} tokens/s ({min(timed):.0f} to {max(timed):.0f}){note}"
            )
            name = f"rollout-{'tiny-' if args.tiny else ''}{about['hardware']}"
            write(args.out, name, {"about": about, "rows": rows})


if __name__ == "__main__":
    main()
