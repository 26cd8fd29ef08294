"""Does the model stop overthinking easy prompts without losing the hard ones? Answered on a laptop, in minutes.

Trains GRPO and CODA on the ladder from the same checkpoint, with the same seed and steps, side by side; evaluates both
and the start on every rung; prints the table, draws the plot, and writes the report page.

python recipes/quickstart.py
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryFile

import torch
import yaml
from matplotlib import rc_context
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.table import Table

from coda_trl.evaluation import format_number
from coda_trl.evaluation.ladder import evaluate_ladder
from coda_trl.ladder import CHECKPOINT, RUNGS
from coda_trl.progress import hide_bars
from coda_trl.report import build_report
from coda_trl.report.style import PLOT_SETTINGS, legend, panels, run_styles

ROOT = Path(__file__).parent.parent
OUT = Path("runs/quickstart")
METHODS = {"grpo": "GRPO", "coda": "CODA"}
GRACE = 20  # seconds that a training has to end in
EASY_RUNGS = (1, 2, 3)
# glibc would hand freed tensors back to the system; on models this small, asking for them again takes longer than
# computing with them.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}


def steps_to_make(method: str) -> int:
    """As its recipe says."""
    return yaml.safe_load((ROOT / f"recipes/ladder/{method}.yaml").read_text())["max_steps"]


def start_training(method: str) -> subprocess.Popen:
    """Starts one run with its recipe, as a user would; its output goes to a log."""
    command = [sys.executable, "recipes/train.py", "--config", f"recipes/ladder/{method}.yaml"]
    command += ["--output_dir", str((OUT / method).resolve())]
    if torch.cuda.is_available():
        command += ["--use_cpu", "false"]
    threads = str(max(1, (os.cpu_count() or 1) // len(METHODS)))
    with open(OUT / f"{method}.log", "w") as log:
        return subprocess.Popen(
            command, cwd=ROOT, stdout=log, stderr=log, env=os.environ | KEEP_MEMORY | {"OMP_NUM_THREADS": threads}
        )


def read_step(log: str) -> int:
    """The last step that a training has logged."""
    return max(map(int, re.findall(r"^step (\d+)/", log, re.MULTILINE)), default=0)


def train() -> None:
    """Trains all methods at the same time. Run again after a stop, it resumes from the last checkpoints."""
    # Or the trainings would continue; and in a shell's background they would inherit that Ctrl-C is ignored.
    endings = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # `nohup`
        endings.append(signal.SIGHUP)
    for ending in endings:
        signal.signal(ending, signal.default_int_handler)
    processes: dict[str, subprocess.Popen] = {}
    step = TextColumn("step"), MofNCompleteColumn()
    columns = (TextColumn("{task.description}"), BarColumn(), *step, TimeElapsedColumn(), TimeRemainingColumn())
    try:
        for method in METHODS:
            processes[method] = start_training(method)
        with Progress(*columns) as progress:
            tasks = {
                method: progress.add_task(f"Training {label}", total=steps_to_make(method))
                for method, label in METHODS.items()
            }
            while any(process.poll() is None for process in processes.values()):
                for method, task in tasks.items():
                    progress.update(task, completed=read_step((OUT / f"{method}.log").read_text()))
                time.sleep(0.5)
            for method, task in tasks.items():
                if processes[method].returncode == 0:  # it may have been finished before
                    progress.update(task, completed=progress.tasks[task].total)
    except KeyboardInterrupt:
        for ending in endings:
            signal.signal(ending, signal.SIG_IGN)
        for process in processes.values():  # a terminal's Ctrl-C has reached them, a signal to this process has not
            process.send_signal(signal.SIGINT)
        for process in processes.values():
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                process.kill()
        sys.exit("Stopped. The same command resumes from the last checkpoints.")
    for method, process in processes.items():
        if process.returncode != 0:
            log = OUT / f"{method}.log"
            sys.exit(f"Training {METHODS[method]} failed. The end of {log}:\n{log.read_text()[-2000:]}")


def show(rungs: list[dict], console: Console) -> None:
    """Prints accuracy and tokens per rung."""
    table = Table(title="Accuracy and tokens by numbers to add; diff.: CODA against GRPO")
    accuracy = ("acc. %\nstart", "\nGRPO", "\nCODA", "points\ndiff.")
    tokens = ("tokens\nstart", "\nGRPO", "\nCODA", "\ndiff.")
    for heading in ("\nrung", "to\nadd", *accuracy, *tokens):
        table.add_column(heading, justify="right")
    for row in rungs:
        start, grpo, coda = row["start"], row["grpo"], row["coda"]
        table.add_row(
            str(row["rung"]),
            str(RUNGS[row["rung"]]),
            *(format_number(100 * run["accuracy"]) for run in (start, grpo, coda)),
            format_number(100 * (coda["accuracy"] - grpo["accuracy"]), signed=True),
            *(format_number(run["tokens"]) for run in (start, grpo, coda)),
            format_number(100 * (coda["tokens"] / grpo["tokens"] - 1), 0, signed=True, unit="%"),
        )
    console.print(table)


def plot(rungs: list[dict], path: Path) -> None:
    """Draws tokens and accuracy per rung."""
    labels = METHODS | {"start": "Start"}
    styles = run_styles(list(labels.values()), reference="GRPO")  # those of the report
    with rc_context(PLOT_SETTINGS):
        figure, (tokens, accuracy) = panels(1, 2, width=9.0, height=3.4)
        numbers = [str(RUNGS[row["rung"]]) for row in rungs]
        for run, label in labels.items():
            tokens.plot(numbers, [row[run]["tokens"] for row in rungs], label=label, **styles[label])
            accuracy.plot(numbers, [100 * row[run]["accuracy"] for row in rungs], **styles[label])
        tokens.set(title="Tokens of an answer", xlabel="numbers to add (difficulty)", ylim=(0, None))
        accuracy.set(title="Accuracy (%)", xlabel="numbers to add (difficulty)", ylim=(0, 103))
        legend(figure, [tokens])
        figure.savefig(path, dpi=150)


def main() -> None:
    console, start = Console(), time.perf_counter()
    try:
        OUT.mkdir(parents=True, exist_ok=True)
        TemporaryFile(dir=OUT).close()
    except OSError as problem:
        sys.exit(f"The quickstart cannot write to {OUT.resolve()}: {problem}.")
    console.print(f"Training {' and '.join(METHODS.values())} side by side; their logs: {OUT}/*.log")
    train()
    hide_bars()  # of loading a small model
    models = {"start": CHECKPOINT} | {method: str(OUT / method) for method in METHODS}
    console.print("Evaluating start, GRPO and CODA: 600 problems, 8 answers each, temperature 0.6.")
    results = {name: evaluate_ladder(model, str(OUT / f"{name}-eval")) for name, model in models.items()}
    rungs = [
        {"rung": rows[0]["rung"], "samples": rows[0]["samples"]} | dict(zip(results, rows, strict=True))
        for rows in zip(*results.values(), strict=True)
    ]
    page = build_report(
        {METHODS[m]: [OUT / m, OUT / f"{m}-eval"] for m in METHODS} | {"Start": OUT / "start-eval"},
        reference="GRPO",
        out=OUT / "report",
        title="Quickstart: GRPO and CODA on the arithmetic ladder",
        difficulty_run="Start",  # it favours neither training
    )
    plot(rungs, OUT / "tokens_per_rung.png")
    seconds = time.perf_counter() - start
    (OUT / "rungs.json").write_text(json.dumps({"seconds": round(seconds, 1), "rungs": rungs}, indent=2) + "\n")

    show(rungs, console)
    easy = [row for row in rungs if row["rung"] in EASY_RUNGS]
    saved = 1 - sum(row["coda"]["tokens"] for row in easy) / sum(row["grpo"]["tokens"] for row in easy)
    console.print(
        f"Easy rungs {EASY_RUNGS[0]} to {EASY_RUNGS[-1]}: {format_number(100 * saved, 0)}% fewer tokens than GRPO."
    )
    console.print("The report counts problems as easy by how often the start solves them: many of rungs 4 and 5 too.")
    console.print(f"Report: {page}\nPlot: {OUT / 'tokens_per_rung.png'}\nNumbers: {OUT / 'rungs.json'}")
    console.print(f"{seconds:.0f} s in all.")
    if Path(sys.prefix) == ROOT / ".venv":  # `make quickstart`
        console.print("For the commands of the documentation: source .venv/bin/activate")


if __name__ == "__main__":
    main()
