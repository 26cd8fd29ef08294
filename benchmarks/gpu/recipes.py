r"""
Runs the shipped recipes at their real lengths on random weights, and holds them against the dry run's estimate.

    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 2 --sharding fsdp2 zero3 [--rollouts made-up]
    python benchmarks/gpu/recipes.py --model qwen3-4b --gpus 1 --cpu --tiny                     # a rehearsal

Nothing is downloaded: weights are drawn for the recipe's configuration. The recipe's own file is run, through
`accelerate launch` with the shipped launch file, with its longest completion, prompts, micro-batches, checkpointing,
KL and optimizer; only the number of prompts is cut, to `--micro-batches` a step and process, and flash attention is
replaced by `sdpa` where it is not installed.

Each step has a kind: `full` (every prompt and completion as long as the recipe allows: the most memory), `lognormal`
(the longest completion as long, the mean a seventh of that) and `lognormal-trl` (the same with TRL's micro-batches).
`--rollouts made-up` draws the tokens, so that all but generation is real; `--rollouts generated` generates as the
recipe says (with vLLM, random models run to the limit) and cuts every rollout to its length.

For each process and phase it records seconds and peak memory: what PyTorch allocated and reserved, and what the card
shows. The estimate of the backward pass is compared with the latter. With DeepSpeed the optimizer steps within the
last backward pass. The first step warms up. A run that is out of time stops after a step, and its steps count.
"""

import argparse
import importlib.util
import json
import math
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path

import accelerate
import torch
import transformers
import trl
import yaml
from processes import Command, free_port
from rich.console import Console
from rich.table import Table
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer
from trl import ModelConfig, TrlParser

from coda_trl.dry_run.launch import Launch, planned_config, read_launch
from coda_trl.dry_run.memory import GIB, estimate_memory, model_size
from coda_trl.ladder import CHECKPOINT

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
RECIPES = ROOT / "recipes"
LAUNCH_FILES = {name: RECIPES / "accelerate" / f"{name}.yaml" for name in ("fsdp2", "zero3", "zero2", "ddp")}
LAUNCH_FILES["none"] = RECIPES / "accelerate" / "one_gpu.yaml"
KINDS = ("full", "lognormal", "lognormal-trl")
PAPER_STEPS = 314  # an epoch of DeepScaleR
LAST_STEP = 60  # seconds that a step may take which was begun in time
TINY = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2}
TINY |= {"num_key_value_heads": 1, "head_dim": 16, "vocab_size": 128}


def save_random_model(shape: Path, folder: Path, tiny: bool) -> None:
    """Saves a model of a recipe's configuration with random weights in bfloat16, and the ladder's tokenizer."""
    tokenizer = AutoTokenizer.from_pretrained(CHECKPOINT)
    config = AutoConfig.for_model(**json.loads(shape.read_text()) | (TINY if tiny else {}))
    config.pad_token_id, config.eos_token_id = tokenizer.pad_token_id, tokenizer.eos_token_id
    torch.manual_seed(0)
    with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def recipe_arguments(args: argparse.Namespace, recipe: dict, processes: int, model: Path, output: Path) -> list[str]:
    """Command line of the training: the recipe, and after it what differs."""
    batch = recipe["per_device_train_batch_size"] * args.micro_batches * processes
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
    if args.rollouts == "made-up" or args.cpu:
        changes["use_vllm"] = False
    if args.tiny:
        changes |= {"max_completion_length": 64}
    if args.cpu:
        changes |= {"use_cpu": True, "bf16": False, "dtype": "float32"}
    flags = [text for name, value in changes.items() for text in (f"--{name}", str(value))]
    return ["--config", str(RECIPES / args.model / f"{args.method}.yaml"), *flags]


def start(args: argparse.Namespace, sharding: str, spec: Path) -> Command:
    """Starts the processes."""
    script = [str(HERE / "recipes_worker.py"), str(spec)]
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "benchmarks"), *sys.path[1:]])}
    environment |= {"TRL_EXPERIMENTAL_SILENCE": "1", "TOKENIZERS_PARALLELISM": "false"}
    if not args.cpu:
        command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(LAUNCH_FILES[sharding])]
        command += ["--num_processes", str(args.gpus), "--main_process_port", str(free_port())]
    else:  # `accelerate launch --cpu` starts one process, whatever it is asked for
        environment["ACCELERATE_USE_CPU"] = "true"
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc_per_node={args.gpus}"]
        command += ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]
    return Command([*command, *script], spec.with_suffix(".log"), environment)


def run(args: argparse.Namespace, sharding: str, model: Path, work: Path, seconds: float) -> dict:
    """One recipe with one way of sharding. Whatever goes wrong is in the result, with the steps done before."""
    folder = work / sharding
    folder.mkdir()
    recipe = yaml.safe_load((RECIPES / args.model / f"{args.method}.yaml").read_text())
    arguments = recipe_arguments(args, recipe, args.gpus, model, folder)
    spec = {
        "folder": str(folder),
        "arguments": arguments,
        "rollouts": args.rollouts,
        "steps": args.steps,
        "max_prompt_length": 16 if args.tiny else recipe["max_prompt_length"],
        "deadline": time.time() + seconds,
    }
    path = folder / "spec.json"
    path.write_text(json.dumps(spec))
    launch = Launch(args.gpus, "ddp" if args.gpus > 1 else "none") if args.cpu else None
    launch = launch or read_launch(str(LAUNCH_FILES[sharding]), args.gpus)
    planned, model_args, _ = TrlParser((planned_config(launch), ModelConfig)).parse_args_and_config(
        arguments, return_remaining_strings=True
    )
    size = model_size(AutoConfig.from_pretrained(model), model_args)
    estimate = estimate_memory(size, planned, model_args, launch, spec["max_prompt_length"], recipe["gpu_memory"])

    begin = time.perf_counter()
    command = start(args, sharding, path)
    error = None
    try:
        code = command.wait(time.monotonic() + seconds + LAST_STEP)
        if code != 0:
            error = f"exit code {code}"
    except TimeoutError as late:
        error = str(late)
    finally:
        command.stop()
    ranks = [json.loads(file.read_text()) for file in sorted(folder.glob("rank-*.json"))]
    return {
        "recipe": f"{args.model}/{args.method}.yaml",
        "sharding": launch.sharding,
        "processes": args.gpus,
        "micro_batch": recipe["per_device_train_batch_size"],
        "micro_batches": args.micro_batches,
        "recipe_micro_batches": recipe["gradient_accumulation_steps"],
        "recipe_steps": recipe.get("max_steps", PAPER_STEPS),
        "attention": model_args.attn_implementation,
        "rollouts": args.rollouts,
        "seconds": time.perf_counter() - begin,
        "error": error,
        "log": command.log.read_text(errors="replace")[-4000:] if error else None,
        "estimate": {
            "state": estimate.state,
            "generation": estimate.generation,
            "training": estimate.training,
            "generation_peak": estimate.generation_peak,
            "training_peak": estimate.training_peak,
        },
        "ranks": ranks,
    }


def summarise(result: dict) -> list[dict]:
    """
    One row a kind of step: the slowest process counts, and of several steps of a kind the median. The first step of
    all is left out where there is another of its kind.
    """
    rows = []
    ranks = result["ranks"]
    done = min((len(rank["steps"]) for rank in ranks), default=0)
    kinds = [step["kind"] for step in ranks[0]["steps"][:done]] if ranks else []
    for kind in dict.fromkeys(kinds):
        chosen = [number for number, other in enumerate(kinds) if other == kind]
        timed = chosen[1:] if chosen[0] == 0 and len(chosen) > 1 else chosen
        phases = {
            phase: statistics.median(
                max(rank["steps"][number]["phases"][phase]["seconds"] for rank in ranks) for number in timed
            )
            for phase in ranks[0]["steps"][timed[0]]["phases"]
            if phase != "between"
        }
        tokens = statistics.median(
            sum(
                sum(s["lengths"]) + s["prompt_length"] * len(s["lengths"])
                for s in (rank["steps"][n] for rank in ranks)
            )
            for n in timed
        )
        generated = statistics.median(sum(rank["steps"][n]["generated_tokens"] for rank in ranks) for n in timed)
        update = sum(seconds for phase, seconds in phases.items() if phase != "rollout")
        per_micro_batch = (update - phases["optimizer"]) / result["micro_batches"]
        step = per_micro_batch * result["recipe_micro_batches"] + phases["optimizer"]
        peaks = [
            {
                phase: {
                    key: max(rank["steps"][n]["phases"][phase].get(key, 0) for n in chosen)
                    for key in ("allocated", "reserved", "card")
                }
                for phase in phases
            }
            for rank in ranks
        ]
        rows.append(
            {
                "kind": kind,
                "steps": len(timed),
                "seconds": phases,
                "tokens": tokens,
                "update_tokens_per_second": tokens / update,
                "rollout_tokens_per_second": generated / phases["rollout"] if generated else None,
                "peaks": peaks,
                "update_hours": step * result["recipe_steps"] / 3600,
            }
        )
    return rows


def print_result(console: Console, result: dict) -> None:
    title = f"{result['recipe']} on {result['processes']} ({result['sharding']}), rollouts {result['rollouts']}"
    console.rule(title)
    if result["error"]:
        console.print(f"{result['error']}\n{result['log']}", markup=False)
    if not result["rows"]:
        return
    table = Table(
        "Steps", "Phase", title="Seconds of the slowest process, peak memory of each in GiB", title_justify="left"
    )
    for heading in ("seconds", "allocated", "reserved", "card"):
        table.add_column(heading, justify="right")
    for row in result["rows"]:
        for phase, seconds in row["seconds"].items():
            memory = [
                " ".join(f"{peaks[phase][key] / GIB:.1f}" for peaks in row["peaks"])
                for key in ("allocated", "reserved", "card")
            ]
            table.add_row(row["kind"], phase, f"{seconds:.2f}", *memory)
        table.add_section()
    console.print(table)
    for row in result["rows"]:
        generated = row["rollout_tokens_per_second"]
        console.print(
            f"{row['kind']}: {row['update_tokens_per_second']:,.0f} tokens/s in the update"
            + (f", {generated:,.0f} in the rollout" if generated else "")
            + f"; {result['recipe_steps']} steps of {result['recipe_micro_batches']} micro-batches take "
            f"{row['update_hours']:.1f} h without rollouts at this speed"
        )
    peak = max(
        peaks[phase]["card"]
        for row in result["rows"]
        for peaks in row["peaks"]
        for phase in peaks
        if phase != "rollout"
    )
    if peak:
        estimate = result["estimate"]["training_peak"]
        difference = f"{estimate / peak - 1:+.0%}"
        console.print(f"Backward pass: {peak / GIB:.1f} GiB measured, {estimate / GIB:.1f} estimated ({difference})")


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    models = sorted(path.parent.name for path in RECIPES.glob("*/config.json"))
    parser.add_argument("--model", choices=models, required=True, help="Folder of the recipe.")
    parser.add_argument("--method", default="coda", help="Recipe in it.")
    parser.add_argument("--gpus", type=int, required=True, help="Processes, one a GPU.")
    parser.add_argument("--sharding", nargs="+", choices=LAUNCH_FILES, help="Launch files, one run each.")
    parser.add_argument(
        "--rollouts", choices=("made-up", "generated"), default="made-up", help="Where they come from."
    )
    parser.add_argument("--steps", nargs="+", choices=KINDS, help="Kinds of the steps, in order.")
    parser.add_argument("--micro-batches", type=int, default=4, help="Micro-batches a step and process.")
    parser.add_argument("--seconds", type=float, default=600, help="Time of all runs; each gets an equal share.")
    parser.add_argument(
        "--tiny", action="store_true", help="A model of a few thousand parameters, and short rollouts."
    )
    parser.add_argument("--cpu", action="store_true", help="Rehearse on a CPU, without sharding.")
    parser.add_argument("--out", type=Path, default=ROOT / "benchmarks" / "results", help="Folder for the results.")
    args = parser.parse_args(argv)
    args.steps = args.steps or ["lognormal", "full", "lognormal", "lognormal-trl"]
    shardings = args.sharding or ["fsdp2" if args.gpus > 1 else "none"]

    about = {
        "platform": platform.platform(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "transformers": transformers.__version__,
        "accelerate": accelerate.__version__,
        "trl": trl.__version__,
    }
    args.out.mkdir(parents=True, exist_ok=True)
    name = f"recipes-{'tiny-' if args.tiny else ''}{args.model}-{args.gpus}-{args.rollouts}.json"
    console = Console()
    deadline = time.perf_counter() + args.seconds
    results = []
    with tempfile.TemporaryDirectory() as work:
        model = Path(work) / "model"
        console.print("Drawing the weights ...")
        save_random_model(RECIPES / args.model / "config.json", model, args.tiny)
        for place, sharding in enumerate(shardings):
            console.print(f"{sharding} ...")
            seconds = (deadline - time.perf_counter()) / (len(shardings) - place)
            result = run(args, sharding, model, Path(work), seconds)
            result["rows"] = summarise(result)
            results.append(result)
            (args.out / name).write_text(json.dumps({"about": about, "results": results}, indent=1) + "\n")
            print_result(console, result)
    console.print(f"Every step of every process in {args.out / name}")
    return int(any(result["error"] for result in results))


if __name__ == "__main__":
    sys.exit(main())
