"""Fills in the tables of docs/paper-and-code.md, performance.md and scaling.md, between their marks.

python docs/tables.py
"""

import json
import sys
from pathlib import Path

import torch
import yaml
from pictures import GROUP
from transformers import AutoConfig

from coda_trl.dry_run import read_plan
from coda_trl.dry_run.launch import planned_config, read_launch
from coda_trl.dry_run.memory import GIB, estimate_memory, model_size
from coda_trl.shaping import shape_rewards
from coda_trl.train import parse

DOCS = Path(__file__).parent
ROOT = DOCS.parent
sys.path.append(str(ROOT / "benchmarks/gpu"))

from recipes import peak_memory  # noqa: E402

# What docs/scaling.md gives on the command line to train a large model on one GPU.
ONE_GPU_LORA = (
    "--generation_batch_size 256 --gradient_accumulation_steps 256 --dtype bfloat16 --use_peft --lora_r 32 "
    "--lora_alpha 64 --lora_dropout 0 --lora_target_modules all-linear --learning_rate 2e-5 "
    "--vllm_tensor_parallel_size 1 --vllm_gpu_memory_utilization 0.5"
)
MEMORY_ROWS = (
    ("qwen3-0.6b", "one_gpu", 1),
    ("qwen3-8b", "one_gpu", 1, ONE_GPU_LORA),
    ("qwen3-14b", "one_gpu", 1, ONE_GPU_LORA),
    ("qwen3-4b", "zero2", 8),
    ("qwen3-4b", "fsdp2", 8),
    ("qwen3-8b", "zero3", 4),
    ("qwen3-8b", "zero3", 8),
    ("qwen3-8b", "fsdp2", 8),
    ("qwen3-14b", "zero3", 8),
    ("qwen3-14b", "zero3", 16),
)


def length_stats_table(groups: int = 20_000) -> str:
    """What `length_stats` changes: the mean term of a right answer in random groups, by side and by length."""
    lines = [
        "| Right answers | Wrong ones are | Term, `group` | Term, `correct` |",
        "| --- | --- | --- | --- |",
    ]
    torch.manual_seed(0)
    for counts in ((13, 15), (1, 3)):
        for factors in ((1.0, 1.0), (1.5, 3.0)):
            right = torch.randint(counts[0], counts[1] + 1, (groups, 1))
            rewards = (torch.arange(GROUP) < right).float()
            lengths = torch.exp(7 + 0.5 * torch.randn(groups, GROUP))
            longer = factors[0] + (factors[1] - factors[0]) * torch.rand(groups, GROUP)
            lengths = torch.where(rewards == 1, lengths, lengths * longer).round()
            group, correct = (
                shape_rewards(rewards.flatten(), lengths.flatten(), GROUP, length_stats=stats).delta
                for stats in ("group", "correct")
            )
            means = [delta[rewards.flatten() == 1].mean() for delta in (group, correct)]
            longer_by = "as long" if factors[0] == factors[1] else "1.5 to 3 times as long"
            lines.append(
                f"| {counts[0]} to {counts[1]} of {GROUP} | {longer_by} | {means[0]:+.3f} | {means[1]:+.3f} |"
            )
    return "\n".join(lines)


def memory_table() -> str:
    """What the dry run estimates for the recipes of the paper, in GiB per GPU."""
    lines = [
        "| Model | GPUs | Sharding | Peak, generation | Peak, backward |",
        "| --- | --- | --- | --- | --- |",
    ]
    for model, launch_file, processes, *flags in MEMORY_ROWS:
        launch = read_launch(f"{ROOT}/recipes/accelerate/{launch_file}.yaml", processes)
        recipe = yaml.safe_load((ROOT / "recipes" / model / "coda.yaml").read_text())
        steps = recipe["generation_batch_size"] // (recipe["per_device_train_batch_size"] * launch.num_processes)
        argv = ["--config", f"{ROOT}/recipes/{model}/coda.yaml", "--gradient_accumulation_steps", str(steps)]
        argv += " ".join(flags).split()
        gpu_memory = int(read_plan(argv).gpu_memory)
        _, data_args, _, args, model_args = parse(argv, planned_config(launch))
        config = AutoConfig.for_model(**json.loads((ROOT / "recipes" / model / "config.json").read_text()))
        memory = estimate_memory(
            model_size(config, model_args), args, model_args, launch, data_args.max_prompt_length, gpu_memory
        )
        cells = " | ".join(f"{peak / GIB:.1f}" for peak in (memory.generation_peak, memory.training_peak))
        name = f"{model}, LoRA" if model_args.use_peft else model
        lines.append(f"| {name} | {launch.num_processes} x {gpu_memory} | `{launch_file}` | {cells} |")
    return "\n".join(lines)


def measured_tables(folder: Path = ROOT / "benchmarks" / "results") -> tuple[str, str]:
    """Memory and time of the recipes as `benchmarks/gpu/recipes.py` measured them, one row a run."""
    memory = [
        "| Model | GPUs | Sharding | Estimate | Measured | Held |",
        "| --- " * 6 + "|",
    ]
    time = [
        "| Model | GPUs | Sharding | Tokens/s | with TRL's micro-batches |",
        "| --- " * 5 + "|",
    ]
    for path in sorted(folder.glob("recipes-qwen3-*.json")):
        for result in json.loads(path.read_text())["results"]:
            model = result["recipe"].partition("/")[0]
            head = f"| {model} | {result['processes']} {result['ranks'][0]['card']} | `{result['sharding']}` "
            rows = {row["kind"]: row for row in result["rows"]}
            sizes = result["estimate"]["training_peak"], *peak_memory(rows["full"]["peaks"])
            memory.append(head + "".join(f"| {size / GIB:.1f} " for size in sizes) + "|")
            speeds = (rows[kind]["update_tokens_per_second"] for kind in ("lognormal", "lognormal-trl"))
            time.append(head + "".join(f"| {speed:,.0f} " for speed in speeds) + "|")
    return "\n".join(memory), "\n".join(time)


def microbatch_table(path: Path = ROOT / "benchmarks/results/microbatch-nvidia-h200.json") -> str:
    """A step with TRL's micro-batches and with ours, as `benchmarks/microbatch.py` measured it."""
    names = {"equal": "equal", "lognormal": "log-normal", "bimodal": "bimodal"}
    lines = [
        "| Longest | Lengths | Rounds | TRL | Grouped | Times as fast | Padding TRL, grouped | Of the limit |",
        "| --- " * 8 + "|",
    ]
    for row in json.loads(path.read_text())["rows"]:
        speed = f"{row['speedup']:.2f} [{row['speedup_lowest']:.2f}, {row['speedup_highest']:.2f}]"
        lines.append(
            f"| {row['longest']:,} | {names[row['distribution']]} | {row['rounds']} | {row['trl_seconds']:.2f} s "
            f"| {row['grouped_seconds']:.2f} s | {speed} | {row['trl_padding']:.0%}, {row['grouped_padding']:.0%} "
            f"| {row['share_of_limit']:.0%} |"
        )
    return "\n".join(lines)


def fill_in(page: Path, mark: str, text: str) -> None:
    """Puts a text between the marks of a page."""
    before, begin, rest = page.read_text().partition(f"<!-- begin {mark} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    page.write_text(before + begin + text + "\n" + end + after)


def tables() -> list[tuple[str, str, str]]:
    """Page, mark and text of every table."""
    memory, time = measured_tables()
    return [
        ("scaling.md", "memory", memory_table()),
        ("scaling.md", "measured memory", memory),
        ("scaling.md", "measured time", time),
        ("paper-and-code.md", "length stats", length_stats_table()),
        ("performance.md", "micro-batches", microbatch_table()),
    ]


if __name__ == "__main__":
    for page, mark, text in tables():
        fill_in(DOCS / page, mark, text)
