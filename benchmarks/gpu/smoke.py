r"""
Proves a GPU machine: one command, some ten minutes on two cards.

    python benchmarks/gpu/smoke.py [--cases ddp,fsdp2] [--model qwen3-0.6b] [--out runs/benchmarks] [--cpu]

Runs every case of `cases.py` as real processes, prints a table, and writes one JSON file. The exit code is 0 if no
case failed; a case that lacks a package or a card is skipped, and the table says why. `--cpu` rehearses those that
need no GPU. See the README beside this file.
"""

import argparse
import importlib.metadata
import json
import platform
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path

import torch
from cases import CASES
from model import save_random_model
from records import CheckError
from rich.console import Console
from rich.table import Table
from rich.text import Text
from training import Case, Model, Place

PACKAGES = ("coda-trl", "trl", "torch", "transformers", "accelerate", "peft", "deepspeed", "vllm", "datasets")
MODELS = ("ladder", "qwen3-0.6b")


@dataclass
class Result:
    """
    Outcome of a case.

    Args:
        status (`str`):
            `"passed"`, `"failed"` or `"skipped"`.
        why (`str`, *optional*, defaults to `""`):
            Reason, unless it passed.
        seconds (`float`, *optional*, defaults to `0.0`):
            Time from start to end.
        facts (`dict`, *optional*):
            What the case's function returned.
        log (`dict[str, str]`, *optional*):
            Ends of the log files of a case that failed.
    """

    status: str
    why: str = ""
    seconds: float = 0.0
    facts: dict = field(default_factory=dict)
    log: dict[str, str] = field(default_factory=dict)


def run_case(case: Case, place: Place) -> Result:
    """Runs a case; whatever goes wrong in it becomes its result."""
    begin = time.monotonic()
    try:
        result = Result("passed", facts=case.run(case, place))
    except (CheckError, TimeoutError, RuntimeError) as error:
        result = Result("failed", str(error))
    except Exception as error:  # a bug of this script, or files that are not as they should be: the others run on
        result = Result("failed", f"{type(error).__name__}: {error}", log={"smoke.py": traceback.format_exc()})
    if result.status == "failed":
        result.log |= {
            str(path.relative_to(place.folder)): path.read_text(errors="replace")[-4000:]
            for path in sorted(place.folder.rglob("*.log"))
        }
    result.seconds = round(time.monotonic() - begin, 1)
    return result


def run_cases(cases: dict[str, Case], place: Place, timeout: float, report: Callable[[str, Result], None]) -> None:
    """
    Runs cases one after the other: vLLM measures the free memory, and speeds are those of a machine at rest.

    Args:
        cases (`dict[str, Case]`):
            Cases by name.
        place (`Place`):
            Folder for all of them, all cards, and the model.
        timeout (`float`):
            Seconds for each.
        report (`Callable[[str, Result], None]`):
            Called after every case.
    """
    for name, case in cases.items():
        why = [f"{package} is not installed" for package in case.missing()]
        if place.on_cpu and not case.on_cpu:
            why.append("needs a GPU")
        elif not place.on_cpu and len(place.cards) < case.cards:
            why.append(f"needs {case.cards} GPUs, found {len(place.cards)}")
        here = Place(place.folder / name, place.cards[: case.cards], place.model, time.monotonic() + timeout)
        report(name, Result("skipped", "; ".join(why)) if why else run_case(case, here))


def about(args: argparse.Namespace) -> dict:
    """Versions, cards and settings."""
    installed = {distribution.metadata["Name"] for distribution in importlib.metadata.distributions()}
    cards = [] if args.cpu else [torch.cuda.get_device_properties(card) for card in range(torch.cuda.device_count())]
    return {
        "cards": [card.name for card in cards],
        "card_gib": [card.total_memory / 2**30 for card in cards],
        "cuda": torch.version.cuda,
        "nccl": ".".join(map(str, torch.cuda.nccl.version())) if cards else None,
        "python": platform.python_version(),
        "versions": {name: importlib.metadata.version(name) for name in PACKAGES if name in installed},
        "model": args.model,
    }


def print_table(console: Console, results: dict[str, Result]) -> None:
    table = Table(title="GPU smoke test", title_justify="left")
    for column in ("Case", "What", "Result"):
        table.add_column(column)
    for column in ("Steps", "Tokens/s", "Peak GiB", "Loss", "Reward", "Shaped", "Seconds"):
        table.add_column(column, justify="right")
    colours = {"passed": "green", "failed": "red", "skipped": "yellow"}
    for name, result in results.items():
        facts = result.facts
        cells = [""] * 6
        if facts:
            metrics, peak = facts["metrics"], facts["peak_gib"]
            cells = [
                str(facts["steps"]),
                f"{facts['tokens_per_second']:.0f}",
                "-" if peak is None else f"{peak:.2f}",
                f"{metrics['loss'][-1]:.4f}",
                f"{metrics['reward'][-1]:.3f}",
                f"{facts['shaping']['shaped_share']:.0%}",
            ]
        status = Text(result.status.upper(), colours[result.status])
        table.add_row(name, CASES[name].title, status, *cells, f"{result.seconds:.0f}")
    console.print(table)
    for name, result in results.items():
        if result.why:
            console.print(f"{name}: {result.status}: {result.why}")


def main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=lambda names: names.split(","), default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--model", choices=MODELS, default="ladder", help="qwen3-0.6b: its shape, random weights.")
    parser.add_argument("--out", type=Path, default=Path("runs/benchmarks"), help="Folder for the results.")
    parser.add_argument("--work", type=Path, help="Folder for logs and checkpoints; a temporary one by default.")
    parser.add_argument("--timeout", type=float, default=180, help="Seconds for a case.")
    parser.add_argument("--cpu", action="store_true", help="Rehearse without a GPU.")
    args = parser.parse_args(argv)
    if unknown := set(args.cases) - set(CASES):
        parser.error(f"--cases has {', '.join(sorted(unknown))}, but there are: {', '.join(CASES)}")
    if not args.cpu and not torch.cuda.is_available():
        parser.error("torch sees no GPU. Use --cpu to rehearse.")

    console = Console(width=max(120, Console().width), markup=False, highlight=False)
    facts = about(args)
    hardware = "cpu" if args.cpu else f"{len(facts['cards'])}x-{facts['cards'][0].lower().replace(' ', '-')}"
    path = args.out / f"smoke-{args.model}-{hardware}.json"
    args.out.mkdir(parents=True, exist_ok=True)
    begin, results = time.monotonic(), {}

    def report(name: str, result: Result) -> None:
        results[name] = result
        seconds = round(time.monotonic() - begin, 1)
        console.print(f"{seconds:4.0f} s  {name}: {result.status} {result.why}")
        rows = {case: asdict(found) for case, found in results.items()}
        path.write_text(json.dumps({"about": facts, "seconds": seconds, "cases": rows}, indent=1) + "\n")

    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.work or Path(temporary)).resolve()
        model = Model()
        if args.model == "qwen3-0.6b":
            model = Model(str(folder / "model"), longest=256, reward="parity_reward", learning_rate=1e-5)
            save_random_model("qwen3-0.6b", folder / "model", longest=model.longest)
        place = Place(folder, () if args.cpu else tuple(range(torch.cuda.device_count())), model, deadline=0.0)
        run_cases({name: CASES[name] for name in args.cases}, place, args.timeout, report)
    print_table(console, results)
    console.print(f"Results: {path}")
    return int(any(result.status == "failed" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
