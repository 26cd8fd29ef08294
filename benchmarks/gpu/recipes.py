r"""
Runs the shipped recipes at their real lengths on random weights, and holds them against the dry run's estimate.

    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 2 --sharding fsdp2 zero3                # made-up rollouts
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 8 --rollouts generated --longest 2048   # vLLM colocated
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 8 --server 4 --rollouts generated       # 4 serve, 4 train
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 1 --tiny                          # a rehearsal on the CPU

The recipe's own file runs through `accelerate launch` with the shipped launch file; only the number of prompts is cut,
to `--micro-batches` a step and process, and flash attention is replaced by `sdpa` where it is not installed.

Kinds of steps: `full` (every completion, and every made-up prompt, as long as the recipe allows: the most memory),
`lognormal` (the longest completion as long, the mean a seventh of that, or more where rollouts are few),
`lognormal-trl` (the same with TRL's micro-batches). `--rollouts made-up` draws the tokens; `generated` generates as
the recipe says, and cuts every rollout to its length, or fills it up with drawn tokens. `--longest N` stops generation
after N tokens: the update is complete all the same, but tokens/s of the rollouts are those of short texts. With
`--server N` the last N cards run `vllm serve`, as in `recipes/slurm/one_node_server.slurm`, and the others train.

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
from contextlib import nullcontext
from pathlib import Path

import pandas as pd
import yaml
from processes import LAUNCH, free_port, serve, serve_command, server_options, train
from transformers import AutoConfig
from trl import ModelConfig, TrlParser

from coda_trl.dry_run.launch import Launch, planned_config, read_launch
from coda_trl.dry_run.memory import GIB, estimate_memory, model_size

sys.path.append(str(Path(__file__).parents[1]))

from model import RECIPES, save_random_model  # noqa: E402
from timing import machine, parser_of, write  # noqa: E402

LAUNCH_FILES = {name: f"{name}.yaml" for name in ("fsdp2", "zero3", "zero2", "ddp")} | {"none": "one_gpu.yaml"}
SERVER_OVERLAY = RECIPES / "slurm" / "server_4_gpus.yaml"
KINDS = ("full", "lognormal", "lognormal-trl")
GENERATION = ("rollout", "weight transfer")  # phases in which vLLM's share counts
MEMORY = ["allocated", "reserved", "card"]
PAPER_STEPS = 314  # an epoch of DeepScaleR
LAST_STEP = 60  # seconds that a step may take which was begun in time


def recipe_arguments(
    args: argparse.Namespace, recipe: dict, overlay: dict, model: Path, output: Path, port: int
) -> list[str]:
    """Command line of the training: the recipe, and after it what differs. `port` is the server's."""
    batch = recipe["per_device_train_batch_size"] * args.micro_batches * (args.gpus - args.server)
    changes = {
        "model_name_or_path": model,
        "output_dir": output,
        "generation_batch_size": batch,
        "gradient_accumulation_steps": args.micro_batches,
        "num_generations": math.gcd(recipe["num_generations"], batch),
        "max_steps": len(args.steps),
        "logging_strategy": "no",
        "log_completions": False,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
    }
    if importlib.util.find_spec("flash_attn") is None:
        changes["attn_implementation"] = "sdpa"
    if args.rollouts == "made-up" or (args.tiny and not args.server):
        changes["use_vllm"] = False
    if args.server:
        changes |= server_options(port)
    if args.tiny:
        changes |= {"max_completion_length": 64, "use_cpu": True, "bf16": False, "dtype": "float32"}
    flags = [text for name, value in (overlay | changes).items() for text in (f"--{name}", str(value))]
    return ["--config", str(RECIPES / args.model / f"{args.method}.yaml"), *flags]


def run(args: argparse.Namespace, sharding: str, model: Path, work: Path, seconds: float) -> dict:
    """One recipe with one way of sharding. Whatever goes wrong is in the result, with the steps done before."""
    folder, processes, port = work / sharding, args.gpus - args.server, free_port()
    recipe = yaml.safe_load((RECIPES / args.model / f"{args.method}.yaml").read_text())
    memory = yaml.safe_load((RECIPES / args.model / "dry_run.yaml").read_text())["gpu_memory"]
    overlay = yaml.safe_load(SERVER_OVERLAY.read_text()) if args.server else {}
    spec = {
        "folder": str(folder),
        "arguments": recipe_arguments(args, recipe, overlay, model, folder, port),
        "rollouts": args.rollouts,
        "longest": args.longest,
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

    begin, error, cards = time.perf_counter(), None, () if args.tiny else range(args.gpus)
    command = serve_command(str(model), port, recipe.get("vllm_max_model_length"), args.server)
    try:
        with serve(command, folder, cards[processes:]) if args.server else nullcontext() as server:
            training = train("recipes_worker.py", spec, processes, LAUNCH_FILES[sharding], cards[:processes])
            training.succeed(time.monotonic() + seconds + LAST_STEP, server)
    except RuntimeError as trouble:
        error = str(trouble)
    estimated = ("state", "generation", "training", "generation_peak", "training_peak")
    result = {
        "recipe": f"{args.model}/{args.method}.yaml",
        "sharding": launched.sharding,
        "processes": processes,
        "servers": args.server,
        "micro_batch": recipe["per_device_train_batch_size"],
        "micro_batches": args.micro_batches,
        # All of the recipe's batch by the cards that train here.
        "recipe_micro_batches": recipe["generation_batch_size"] // (recipe["per_device_train_batch_size"] * processes),
        "recipe_steps": recipe.get("max_steps", PAPER_STEPS),
        "attention": model_args.attn_implementation,
        "rollouts": args.rollouts,
        "longest": args.longest,
        "seconds": time.perf_counter() - begin,
        "error": error,
        "log": training.log.read_text(errors="replace")[-4000:] if error else None,
        "estimate": {name: getattr(estimate, name) for name in estimated},
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
                "generated": step["generated_tokens"],
                **{phase: step["phases"][phase]["seconds"] for phase in phases},
            }
            for number, of_ranks in enumerate(timed)
            for step in of_ranks
        ).groupby("step")
        tokens, generated = frame[["tokens", "generated"]].sum().median()
        seconds = frame[phases].max().median().to_dict()
        update = sum(value for phase, value in seconds.items() if phase not in GENERATION)
        per_micro_batch = (update - seconds["optimizer"]) / result["micro_batches"]
        step_seconds = per_micro_batch * result["recipe_micro_batches"] + seconds["optimizer"]
        rows.append(
            {
                "kind": kind,
                "steps": len(timed),
                "seconds": seconds,
                "tokens": tokens,
                "update_tokens_per_second": tokens / update,
                "rollout_tokens_per_second": generated / seconds["rollout"] if generated else None,
                "peaks": [
                    {
                        phase: {key: max(s["phases"][phase].get(key, 0) for s in rank) for key in MEMORY}
                        for phase in phases
                    }
                    for rank in zip(*chosen, strict=True)
                ],
                "update_hours": step_seconds * result["recipe_steps"] / 3600,
            }
        )
    return rows


def print_result(result: dict) -> None:
    """Seconds, speed and memory of a run, and how far the estimate of its memory is off."""
    print(
        f"\n{result['recipe']} on {result['processes']} ({result['sharding']}), rollouts {result['rollouts']}"
        + (f", {result['servers']} more serve" if result["servers"] else "")
    )
    if result["error"]:
        print(f"{result['error']}\n{result['log']}")
    for row in result["rows"]:
        seconds = ", ".join(f"{phase} {value:.2f} s" for phase, value in row["seconds"].items())
        generated = row["rollout_tokens_per_second"]
        print(
            f"{row['kind']}: {seconds}; {row['update_tokens_per_second']:,.0f} tokens/s in the update"
            + (f", {generated:,.0f} in the rollout" if generated else "")
            + f"; {result['recipe_steps']} steps of {result['recipe_micro_batches']} micro-batches take "
            f"{row['update_hours']:.1f} h without rollouts at this speed"
        )
    if not result["rows"] or not result["rows"][0]["peaks"][0]["rollout"]["card"]:  # no step, or no GPU
        return
    # Beside a server nothing but the state counts in generation.
    generates = result["rollouts"] == "generated" and not result["servers"]
    for moment, title in ({"training": "Backward pass"} | ({"generation": "Generation"} if generates else {})).items():
        needed, held = map(max, zip(*(peak_memory(row["peaks"], moment) for row in result["rows"]), strict=True))
        estimate = result["estimate"][f"{moment}_peak"]
        print(
            f"{title}: {needed / GIB:.1f} GiB measured, {estimate / GIB:.1f} estimated "
            f"({estimate / needed - 1:+.0%}); {held / GIB:.1f} with what PyTorch keeps for later"
        )


def peak_memory(peaks: list[dict], moment: str) -> tuple[int, int]:
    """
    Bytes of the fullest card in `"generation"` or `"training"`: what had to fit, and what PyTorch held besides.

    What CUDA, NCCL and vLLM take is what a card shows beyond PyTorch's memory. It is the same on every card; where one
    shows more, other programs run there.
    """
    needed, held = 0, 0
    for phase in peaks[0]:
        if (phase in GENERATION) == (moment == "generation"):
            besides = min(process[phase]["card"] - process[phase]["reserved"] for process in peaks)
            needed = max(needed, besides + max(process[phase]["allocated"] for process in peaks))
            held = max(held, besides + max(process[phase]["reserved"] for process in peaks))
    return needed, held


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = parser_of(__doc__)
    models = sorted(path.parent.name for path in RECIPES.glob("*/config.json"))
    parser.add_argument("--model", choices=models, required=True, help="Folder of the recipe.")
    parser.add_argument("--method", default="coda", help="Recipe in it.")
    parser.add_argument("--gpus", type=int, required=True, help="Cards, a process each, the server's included.")
    parser.add_argument("--sharding", nargs="+", choices=LAUNCH_FILES, help="Launch files, one run each.")
    parser.add_argument("--rollouts", choices=("made-up", "generated"), default="made-up")
    parser.add_argument("--server", type=int, default=0, help="Cards of them that run `vllm serve`, the last ones.")
    parser.add_argument("--longest", type=int, help="Longest generated completion, in place of the recipe's.")
    parser.add_argument(
        "--steps", nargs="+", choices=KINDS, default=["lognormal", "full", "lognormal", "lognormal-trl"]
    )
    parser.add_argument("--micro-batches", type=int, default=4, help="Micro-batches a step and process.")
    parser.add_argument("--seconds", type=float, default=600, help="Time of all runs; each gets an equal share.")
    parser.add_argument("--tiny", action="store_true", help="Rehearse on a CPU: a tiny model, short, not sharded.")
    args = parser.parse_args(argv)
    if args.rollouts == "made-up" and (args.server or args.longest):
        parser.error("--server and --longest are for generated rollouts. Add `--rollouts generated`.")
    if args.server >= args.gpus:
        parser.error(f"--server {args.server} leaves none of the {args.gpus} cards (--gpus) to train.")
    args.sharding = args.sharding or ["fsdp2" if args.gpus - args.server > 1 else "none"]
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)
    cards = f"{args.gpus - args.server}+{args.server}" if args.server else str(args.gpus)
    name = "-".join(["recipes", *(["tiny"] if args.tiny else []), args.model, *args.sharding, cards, args.rollouts])
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
