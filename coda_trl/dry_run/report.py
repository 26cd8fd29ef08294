"""Prints the report of a dry run."""

import math
import sys

from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..config import CodaGRPOConfig
from .arithmetic import Batch, gate_counts
from .findings import Finding
from .inspection import DataReport
from .launch import Launch
from .memory import GIB, MemoryEstimate, ModelSize


def print_batch(console: Console, args: CodaGRPOConfig, launch: Launch, batch: Batch, data: DataReport) -> None:
    """Completions, prompts, layout of groups, steps, tokens, and when a prompt is easy or hard."""
    table = _table("Batch")
    kind = "" if launch.sharding == "none" else f" ({launch.sharding})"
    table.add_row("Processes", f"{launch.num_processes}{kind}")
    table.add_row(
        "Completions per batch",
        f"{batch.completions:,} = {args.per_device_train_batch_size} per micro-batch x {args.steps_per_generation} "
        f"micro-batches x {launch.num_processes} processes",
    )
    table.add_row("Prompts per batch", f"{batch.prompts:,} x {args.num_generations} completions")
    held = batch.completions // launch.num_processes
    layout = f"each process holds {held / args.num_generations:g} groups"
    if held % args.num_generations:
        layout += ", so some are split between processes (rewards are gathered, so this works)"
    table.add_row("Groups", layout)
    table.add_row("Optimizer steps per batch", f"{batch.updates:g}")
    if data.rows is not None:
        note = " (published size; not loaded here)" if data.published else ""
        table.add_row("Training prompts", f"{data.rows:,}{note}")
        left = data.rows % batch.prompts
        table.add_row("Steps per epoch", f"{batch.steps_per_epoch:,} ({left} prompts left over)")
    if batch.total_steps is not None:
        table.add_row("Total steps", f"{batch.total_steps:,}")
    tokens = batch.completions * args.max_completion_length
    table.add_row("Tokens per batch", f"at most {tokens:,} ({batch.completions:,} x {args.max_completion_length:,})")
    if data.rows is not None:
        table.add_row("Tokens per epoch", f"at most {data.rows // batch.prompts * tokens:,}")
    if args.length_shaping == "coda":
        easy, hard = gate_counts(args.num_generations, args.coda_tau_easy, args.coda_tau_hard)
        of = f"correct of {args.num_generations}"
        table.add_row("A prompt is easy", "never" if easy is None else f"from {easy} {of}")
        table.add_row("A prompt is hard", "never" if hard is None else f"up to {hard} {of}")
    console.print(table)


def print_memory(
    console: Console,
    args: CodaGRPOConfig,
    size: ModelSize,
    memory: MemoryEstimate,
    gpu_memory: float,
    steps: int | None,
) -> None:
    """Memory of one GPU by part, and the checkpoints of so many steps on disk."""
    table = Table("Part", title="Memory of one GPU, in GiB (arithmetic, not a measurement)", title_justify="left")
    table.add_column("Generation", justify="right")
    table.add_column("Backward pass", justify="right")
    for part, amount in memory.state.items():
        table.add_row(part, _gib(amount), _gib(amount))
    for part, amount in memory.generation.items():
        table.add_row(part, _gib(amount), "")
    for part, amount in memory.training.items():
        table.add_row(part, "", _gib(amount))
    table.add_section()
    table.add_row(f"Sum, of {gpu_memory:g}", _gib(memory.generation_peak), _gib(memory.training_peak))
    console.print(table)
    console.print(f"{size.parameters / 1e6:,.0f}M parameters; {size.trainable / 1e6:,.0f}M are trained.")
    at_a_time = ""
    if memory.kv_cache is not None:
        at_a_time = f", so vLLM runs {max(0, int(memory.kv_cache / memory.sequence))} of them at a time"
    console.print(
        f"Keys and values take {size.kv_bytes_per_token / 1024:.0f} KiB per token; {memory.sequence / GIB:.2g} GiB "
        f"per GPU for a sequence of full length{at_a_time}.",
        soft_wrap=not console.is_terminal,
    )
    if args.save_strategy == "steps" and args.save_steps >= 1 and steps is not None:
        kept = min(math.ceil(steps / args.save_steps), args.save_total_limit or sys.maxsize)
        console.print(
            f"On disk the run keeps {kept} checkpoints of {_gib(memory.checkpoint)} GiB. `save_total_limit` keeps "
            "fewer, `save_only_model` smaller ones, from which no run resumes.",
            soft_wrap=not console.is_terminal,
        )


def print_data(console: Console, data: DataReport) -> None:
    """Sizes, prompt lengths, and evaluation problems in the training data."""
    if data.sources:
        table = _table("Training data")
        for name, rows in data.sources.items():
            table.add_row(name, f"{rows:,} rows")
        if data.lengths is not None:
            table.add_row("prompt lengths", data.lengths)
        console.print(table)
    if data.overlaps:
        table = Table("Set", title="Evaluation problems in the training data", title_justify="left")
        for heading in ("Problems", "Identical", "Half of the 13-grams", "Any 13-gram"):
            table.add_column(heading, justify="right")
        for name, overlap in data.overlaps.items():
            table.add_row(name, *map(str, (overlap.problems, overlap.identical, overlap.half, overlap.any)))
        console.print(table)


def print_findings(console: Console, findings: list[Finding]) -> int:
    """What to change, the errors first. Returns the exit status."""
    for finding in sorted(findings, key=lambda finding: finding.severity):
        style = "bold red" if finding.severity == "error" else "yellow"
        line = Text.assemble((finding.severity, style), f" {finding.setting}: {finding.message}")
        console.print(line, soft_wrap=not console.is_terminal)  # unbroken lines in a file
    errors = sum(finding.severity == "error" for finding in findings)
    if errors:
        console.print(f"[bold red]Do not start this run: {errors} error{'s' if errors > 1 else ''}.[/]")
    else:
        console.print("[green]No errors, no warnings.[/]" if not findings else "No errors.")
    return int(errors > 0)


def _table(title: str) -> Table:
    return Table(title=title, title_justify="left", show_header=False)


def _gib(amount: float) -> str:
    return f"{amount / GIB:.1f}"
