r"""
Runs the shipped recipes at their real lengths on random weights, and holds them against the dry run's estimate.

    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 2 --sharding fsdp2 zero3
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 1 --tiny                   # a rehearsal on the CPU

The recipe's own file runs through `accelerate launch` with the shipped launch file. Rollouts are drawn tokens, not
generated; the number of prompts is cut, to `--micro-batches` a step and process, and flash attention is replaced by
`sdpa` where it is not installed.

Kinds of steps: `full` (every prompt and completion as long as the recipe allows: the most memory), `lognormal` (the
longest completion as long, the mean a seventh of that, or more where rollouts are few), `lognormal-trl` (the same with
TRL's micro-batches).

It records seconds and peak memory of each process and phase. The estimate of the backward pass is compared with what
was allocated and what the card holds besides PyTorch's memory. The first step warms up. A run that is out of time
stops after a step, and its steps count.
"""

import argparse
import importlib.util
import json
import math
import multiprocessing
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import pandas as pd
import yaml
from processes import LAUNCH, train
from transformers import AutoConfig
from trl import ModelConfig, TrlParser

from coda_trl.dry_run.launch import Launch, planned_config, read_launch
from coda_trl.dry_run.memory import GIB, estimate_memory, model_size

sys.path.append(str(Path(__file__).parents[1]))

from model import RECIPES, save_random_model  # noqa: E402
from timing import machine, parser_of, write  # noqa: E402

LAUNCH_FILES = {name: f"{name}.yaml" for name in ("fsdp2", "zero3", "zero2", "ddp")} | {"none": "one_gpu.yaml"}
KINDS = ("full", "lognormal", "lognormal-trl")
MEMORY = ["allocated", "reserved", "card"]
LAST_STEP = 60  # seconds that a step may take which was begun in time


def recipe_arguments(args: argparse.Namespace, recipe: dict, model: Path, output: Path) -> list[str]:
    """Command line of the training: the recipe, and after it what differs."""
    batch = recipe["per_device_train_batch_size"] * args.micro_batches * args.gpus
    changes = {
        "model_name_or_path": model,
        "output_dir": output,
        "generation_batch_size": batch,
        "gradient_accumulation_steps": args.micro_batches,
        "num_generations": math.gcd(recipe["num_generations"], batch),
        "max_steps": len(args.steps),
        "use_vllm": False,
        "logging_strategy": "no",
        "log_completions": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    if importlib.util.find_spec("flash_attn") is None:
        changes["attn_implementation"] = "sdpa"
    if args.tiny:
        changes |= {"max_completion_length": 64, "use_cpu": True, "bf16": False, "dtype": "float32"}
    flags = [text for name, value in changes.items() for text in (f"--{name}", str(value))]
    return ["--config", str(RECIPES / args.model / f"{args.method}.yaml"), *flags]


def run(args: argparse.Namespace, sharding: str, model: Path, work: Path, seconds: float) -> dict:
    """One recipe with one way of sharding. Whatever goes wrong is in the result, with the steps done before."""
    folder, processes = work / sharding, args.gpus
    recipe = yaml.safe_load((RECIPES / args.model / f"{args.method}.yaml").read_text())
    memory = yaml.safe_load((RECIPES / args.model / "dry_run.yaml").read_text())["gpu_memory"]
    spec = {
        "folder": str(folder),
        "arguments": recipe_arguments(args, recipe, model, folder),
        "steps": args.steps,
        "max_prompt_length": 16 if args.tiny else recipe["max_prompt_length"],
        "deadline": time.time() + seconds,
    }
    if args.tiny:
        launched = Launch(processes, "ddp" if processes > 1 else "none")
    else:
        launched = read_launch(str(LAUNCH / LAUNCH_FILES[sharding]), processes)
    planned, model_args, _ = TrlParser((planned_config(launched), ModelConfig)).parse_args_and_config(
        spec["arguments"], return_remaining_strings=True
    )
    size = model_size(AutoConfig.from_pretrained(model), model_args)
    estimate = estimate_memory(size, planned, model_args, launched, spec["max_prompt_length"], memory)

    begin, error, cards = time.perf_counter(), None, () if args.tiny else range(processes)
    try:
        training = train("recipes_worker.py", spec, processes, LAUNCH_FILES[sharding], cards)
        training.succeed(time.monotonic() + seconds + LAST_STEP)
    except RuntimeError as trouble:
        error = str(trouble)
    result = {
        "recipe": f"{args.model}/{args.method}.yaml",
        "sharding": launched.sharding,
        "processes": processes,
        "micro_batch": recipe["per_device_train_batch_size"],
        "micro_batches": args.micro_batches,
        "attention": model_args.attn_implementation,
        "seconds": time.perf_counter() - begin,
        "error": error,
        "log": training.log.read_text(errors="replace")[-4000:] if error else None,
        "estimate": {name: getattr(estimate, name) for name in ("state", "training", "training_peak")},
        "ranks": [json.loads(file.read_text()) for file in sorted(folder.glob("rank-*.json"))],
    }
    return result | {"rows": summarise(result)}


def summarise(result: dict) -> list[dict]:
    """
    One row a kind of step: the slowest process counts, and of several steps of a kind the median. The first step of
    all is left out where there is another of its kind.
    """
    steps = list(zip(*(rank["steps"] for rank in result["ranks"]), strict=False))  # that all processes did
    rows = []
    for kind in dict.fromkeys(of_ranks[0]["kind"] for of_ranks in steps):
        chosen = [of_ranks for of_ranks in steps if of_ranks[0]["kind"] == kind]
        timed = chosen[1:] if chosen[0] is steps[0] and len(chosen) > 1 else chosen
        phases = [phase for phase in timed[0][0]["phases"] if phase != "between"]
        frame = pd.DataFrame(
            {
                "step": number,
                "tokens": sum(step["lengths"]) + step["prompt_length"] * len(step["lengths"]),
                **{phase: step["phases"][phase]["seconds"] for phase in phases},
            }
            for number, of_ranks in enumerate(timed)
            for step in of_ranks
        ).groupby("step")
        tokens = frame["tokens"].sum().median()
        seconds = frame[phases].max().median().to_dict()
        rows.append(
            {
                "kind": kind,
                "steps": len(timed),
                "seconds": seconds,
                "tokens": tokens,
                "update_tokens_per_second": tokens / sum(seconds.values()),
                "peaks": [
                    {
                        phase: {key: max(s["phases"][phase].get(key, 0) for s in rank) for key in MEMORY}
                        for phase in phases
                    }
                    for rank in zip(*chosen, strict=True)
                ],
            }
        )
    return rows


def print_result(result: dict) -> None:
    """Seconds, speed and memory of a run, and how far the estimate of its memory is off."""
    print(f"\n{result['recipe']} on {result['processes']} ({result['sharding']})")
    if result["error"]:
        print(f"{result['error']}\n{result['log']}")
    for row in result["rows"]:
        seconds = ", ".join(f"{phase} {value:.2f} s" for phase, value in row["seconds"].items())
        print(f"{row['kind']}: {seconds}; {row['update_tokens_per_second']:,.0f} tokens/s")
    if not result["rows"] or not result["rows"][0]["peaks"][0]["optimizer"]["card"]:  # no step, or no GPU
        return
    needed, held = map(max, zip(*(peak_memory(row["peaks"]) for row in result["rows"]), strict=True))
    estimate = result["estimate"]["training_peak"]
    print(
        f"Backward pass: {needed / GIB:.1f} GiB measured, {estimate / GIB:.1f} estimated "
        f"({estimate / needed - 1:+.0%}); {held / GIB:.1f} with what PyTorch keeps for later"
    )


def peak_memory(peaks: list[dict]) -> tuple[int, int]:
    """
    Bytes of the fullest card in the update: what had to fit, and what PyTorch held besides.

    What CUDA and NCCL take is what a card shows beyond PyTorch's memory. It is the same on every card; where one shows
    more, other programs run there.
    """
    needed, held = 0, 0
    for phase in peaks[0]:
        besides = min(process[phase]["card"] - process[phase]["reserved"] for process in peaks)
        needed = max(needed, besides + max(process[phase]["allocated"] for process in peaks))
        held = max(held, besides + max(process[phase]["reserved"] for process in peaks))
    return needed, held


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    models = sorted(path.parent.name for path in RECIPES.glob("*/config.json"))
    parser.add_argument("--model", choices=models, required=True, help="Folder of the recipe.")
    parser.add_argument("--method", default="coda", help="Recipe in it.")
    parser.add_argument("--gpus", type=int, required=True, help="Cards, a process each.")
    parser.add_argument("--sharding", nargs="+", choices=LAUNCH_FILES, help="Launch files, one run each.")
    parser.add_argument(
        "--steps", nargs="+", choices=KINDS, default=["lognormal", "full", "lognormal", "lognormal-trl"]
    )
    parser.add_argument("--micro-batches", type=int, default=4, help="Micro-batches per step and process.")
    parser.add_argument("--seconds", type=float, default=600, help="Time of all runs; each gets an equal share.")
    parser.add_argument("--tiny", action="store_true", help="Rehearse on a CPU: a tiny model, short, not sharded.")
    args = parser.parse_args(argv)
    args.sharding = args.sharding or ["fsdp2" if args.gpus > 1 else "none"]
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    name = "-".join(["recipes", *(["tiny"] if args.tiny else []), args.model, *args.sharding, str(args.gpus)])
    deadline, results = time.perf_counter() + args.seconds, []
    with tempfile.TemporaryDirectory() as work:
        model = Path(work) / "model"
        # In a process of its own, with which the memory that it took of the first card goes.
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
            about = process.submit(machine).result()
            process.submit(save_random_model, args.model, model, tiny=args.tiny).result()
        for place, sharding in enumerate(args.sharding):
            seconds = (deadline - time.perf_counter()) / (len(args.sharding) - place)
            results.append(run(args, sharding, model, Path(work), seconds))
            path = write(args.out, name, {"about": about, "results": results})
            print_result(results[-1])
    print(f"Every step of every process in {path}")
    return int(any(result["error"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
