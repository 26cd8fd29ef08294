r"""
Runs the shipped recipes at their real lengths on random weights, and holds them against the dry run's estimate.

    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 2 --sharding fsdp2 zero3                # made-up rollouts
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 8 --rollouts generated --longest 2048   # vLLM colocated
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 8 --server 4 --rollouts generated       # 4 serve, 4 train
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 1 --cpu --tiny                          # a rehearsal

Nothing is downloaded: weights are drawn for the recipe's configuration. The recipe's own file is run, through
`accelerate launch` with the shipped launch file, with its longest completion, prompts, micro-batches, checkpointing,
KL and optimizer; only the number of prompts is cut, to `--micro-batches` a step and process, and flash attention is
replaced by `sdpa` where it is not installed.

Each step has a kind: `full` (every completion, and every made-up prompt, as long as the recipe allows: the most
memory), `lognormal` (the longest completion as long, the mean a seventh of that, or more where rollouts are few) and
`lognormal-trl` (the same with TRL's micro-batches). `--rollouts made-up` draws the tokens, so that all but generation
is real; `--rollouts generated` generates as the recipe says, and cuts every rollout to its length, or fills it up with
drawn tokens.

A random model hardly ever ends a text, so that a generated step is as many tokens in a row as the recipe allows,
minutes. `--longest N` stops generation after N of them. Rollouts are filled up, so that the update is complete,
and vLLM's memory is still set apart for texts of full length; but tokens/s of the rollouts are those of short texts,
more than a run at full length has.

With `--server N` the last N cards run `vllm serve` and the others train, with the settings of the overlay
`recipes/slurm/server_4_gpus.yaml` and the flags of `recipes/slurm/one_node_server.slurm`. The phase `weight transfer`
is the way of the weights to vLLM, the same server or not.

For each process and phase it records seconds and peak memory: what PyTorch allocated and reserved, and what the card
shows; of the server's cards, what they show. The estimate of the backward pass is compared with what was allocated and
what the card holds besides PyTorch's memory: freed memory that PyTorch keeps is given back before a card is full. (The
dry run does not estimate a server's cards: vLLM takes the share that it is told to.) With DeepSpeed the optimizer
steps within the last backward pass. The first step warms up. A run that is out of time stops after a step, and its
steps count.
"""

import argparse
import importlib.util
import json
import math
import multiprocessing
import platform
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import accelerate
import torch
import transformers
import trl
import yaml
from model import RECIPES, save_random_model
from processes import Command, free_port, launch
from recipes_report import print_result, summarise
from rich.console import Console
from server import MeasuredServer, serve_command
from transformers import AutoConfig
from trl import ModelConfig, TrlParser

from coda_trl.dry_run.launch import Launch, planned_config, read_launch
from coda_trl.dry_run.memory import estimate_memory, model_size

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
LAUNCH_FILES = {name: RECIPES / "accelerate" / f"{name}.yaml" for name in ("fsdp2", "zero3", "zero2", "ddp")}
LAUNCH_FILES["none"] = RECIPES / "accelerate" / "one_gpu.yaml"
SERVER_OVERLAY = RECIPES / "slurm" / "server_4_gpus.yaml"
KINDS = ("full", "lognormal", "lognormal-trl")
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
    if args.rollouts == "made-up" or (args.cpu and not args.server):
        changes["use_vllm"] = False
    if args.server:
        changes |= {"vllm_server_host": "127.0.0.1", "vllm_server_port": port, "vllm_group_port": free_port()}
    if args.tiny:
        changes |= {"max_completion_length": 64}
    if args.cpu:
        changes |= {"use_cpu": True, "bf16": False, "dtype": "float32"}
    flags = [text for name, value in (overlay | changes).items() for text in (f"--{name}", str(value))]
    return ["--config", str(RECIPES / args.model / f"{args.method}.yaml"), *flags]


def start(args: argparse.Namespace, sharding: str, spec: Path) -> Command:
    """Starts the training's processes."""
    processes = args.gpus - args.server
    environment = {"TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if args.server and not args.cpu:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, range(processes)))
    launch_file = None if args.cpu else LAUNCH_FILES[sharding]
    script = [str(HERE / "recipes_worker.py"), str(spec)]
    return launch(script, spec.with_suffix(".log"), processes, launch_file, environment)


def run(args: argparse.Namespace, sharding: str, model: Path, work: Path, seconds: float) -> dict:
    """One recipe with one way of sharding. Whatever goes wrong is in the result, with the steps done before."""
    folder = work / sharding
    folder.mkdir()
    processes = args.gpus - args.server
    recipe = yaml.safe_load((RECIPES / args.model / f"{args.method}.yaml").read_text())
    overlay = yaml.safe_load(SERVER_OVERLAY.read_text()) if args.server else {}
    port = free_port()
    arguments = recipe_arguments(args, recipe, overlay, model, folder, port)
    spec = {
        "folder": str(folder),
        "arguments": arguments,
        "rollouts": args.rollouts,
        "longest": args.longest,
        "steps": args.steps,
        "max_prompt_length": 16 if args.tiny else recipe["max_prompt_length"],
        "deadline": time.time() + seconds,
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    launch = Launch(processes, "ddp" if processes > 1 else "none") if args.cpu else None
    launch = launch or read_launch(str(LAUNCH_FILES[sharding]), processes)
    planned, model_args, _ = TrlParser((planned_config(launch), ModelConfig)).parse_args_and_config(
        arguments, return_remaining_strings=True
    )
    size = model_size(AutoConfig.from_pretrained(model), model_args)
    estimate = estimate_memory(size, planned, model_args, launch, spec["max_prompt_length"], recipe["gpu_memory"])

    begin = time.perf_counter()
    server = None
    if args.server:
        command = serve_command(str(model), port, recipe["vllm_max_model_length"], args.server)
        cards = () if args.cpu else range(processes, args.gpus)
        server = MeasuredServer(command, folder / "server.log", cards)
    training = start(args, sharding, path)
    error = None
    try:
        watch = [server.watch] if server else []
        code = training.wait(time.monotonic() + seconds + LAST_STEP, *watch)
        if code != 0:
            error = f"exit code {code}"
    except (TimeoutError, RuntimeError) as trouble:
        error = str(trouble)
    finally:
        training.stop()
        if server:
            server.stop()
    ranks = [json.loads(file.read_text()) for file in sorted(folder.glob("rank-*.json"))]
    return {
        "recipe": f"{args.model}/{args.method}.yaml",
        "sharding": launch.sharding,
        "processes": processes,
        **({"server": {"cards": args.server, "card_peaks": server.peaks}} if server else {}),
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
        "estimate": {
            "state": estimate.state,
            "generation": estimate.generation,
            "training": estimate.training,
            "generation_peak": estimate.generation_peak,
            "training_peak": estimate.training_peak,
        },
        "ranks": ranks,
    }


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = sorted(path.parent.name for path in RECIPES.glob("*/config.json"))
    parser.add_argument("--model", choices=models, required=True, help="Folder of the recipe.")
    parser.add_argument("--method", default="coda", help="Recipe in it.")
    parser.add_argument("--gpus", type=int, required=True, help="Cards, a process each, the server's included.")
    parser.add_argument("--sharding", nargs="+", choices=LAUNCH_FILES, help="Launch files, one run each.")
    parser.add_argument(
        "--rollouts", choices=("made-up", "generated"), default="made-up", help="Where they come from."
    )
    parser.add_argument("--server", type=int, default=0, help="Cards of them that run `vllm serve`, the last ones.")
    parser.add_argument("--longest", type=int, help="Longest generated completion, in place of the recipe's.")
    parser.add_argument("--steps", nargs="+", choices=KINDS, help="Kinds of the steps, in order.")
    parser.add_argument("--micro-batches", type=int, default=4, help="Micro-batches a step and process.")
    parser.add_argument("--seconds", type=float, default=600, help="Time of all runs; each gets an equal share.")
    parser.add_argument(
        "--tiny", action="store_true", help="A model of a few thousand parameters, and short rollouts."
    )
    parser.add_argument("--cpu", action="store_true", help="Rehearse on a CPU, without sharding.")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), help="Folder for the results.")
    args = parser.parse_args(argv)
    args.steps = args.steps or ["lognormal", "full", "lognormal", "lognormal-trl"]
    if args.rollouts == "made-up" and (args.server or args.longest):
        parser.error("--server and --longest are for generated rollouts. Add `--rollouts generated`.")
    if args.server >= args.gpus:
        parser.error(f"--server {args.server} leaves none of the {args.gpus} cards (--gpus) to train.")
    args.sharding = args.sharding or ["fsdp2" if args.gpus - args.server > 1 else "none"]
    return args


def main(argv: list[str] | None = None) -> int:
    args = parse_arguments(argv)

    about = {
        "platform": f"{platform.system()} {platform.machine()}",
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
        "accelerate": accelerate.__version__,
        "trl": trl.__version__,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    cards = f"{args.gpus - args.server}+{args.server}" if args.server else args.gpus
    name = "-".join(
        ["recipes", *(["tiny"] if args.tiny else []), args.model, *args.sharding, str(cards), args.rollouts]
    )
    results_file = args.out / f"{name}.json"
    console = Console()
    deadline = time.perf_counter() + args.seconds
    results = []
    with tempfile.TemporaryDirectory() as work:
        model = Path(work) / "model"
        console.print("Drawing the weights ...")
        if args.cpu:
            save_random_model(args.model, model, tiny=args.tiny)
        else:  # in a process of its own, with which the memory that it took of the first card goes
            with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as process:
                process.submit(save_random_model, args.model, model, tiny=args.tiny).result()
        for place, sharding in enumerate(args.sharding):
            console.print(f"{sharding} ...")
            seconds = (deadline - time.perf_counter()) / (len(args.sharding) - place)
            result = run(args, sharding, model, Path(work), seconds)
            result["rows"] = summarise(result)
            results.append(result)
            results_file.write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")
            print_result(console, result)
    console.print(f"Every step of every process in {results_file}")
    return int(any(result["error"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
