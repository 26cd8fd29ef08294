"""Runs the matrix: trains every method and seed with `recipes/train.py`, evaluates it, writes one summary each.

python benchmarks/word_problems/run_all.py                        # 4 methods x 3 seeds from runs/word_problems/start
python benchmarks/word_problems/run_all.py --tiny                 # a rehearsal on the CPU, without any weights

Stopped and started again, it goes on, like `benchmarks/ladder/reproduce.py`, whose runner it uses.
"""

import argparse
import os
import sys
import threading
import time
from pathlib import Path

from rich.console import Console
from tiny_model import make_tiny_model

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(HERE.parent / "ladder"), str(HERE.parent / "gpu")]

from matrix import RUNS, Run  # noqa: E402
from processes import free_port  # noqa: E402
from reproduce import Runner, Stopped, train_arguments, work_off  # noqa: E402
from summaries import summary_path  # noqa: E402

# Beside the committed summaries, which would be skipped as done.
OUT = ROOT / "runs/word_problems/results"
METHODS = ("start", "grpo", "coda", "vlp", "asrr")
SEEDS = 3
ATTEMPTS = 8
# What the recipes ask for that a CPU does not have, and a size that takes seconds.
TINY = {
    "use_vllm": "false",
    "bf16": "false",
    "max_steps": 2,
    "per_device_train_batch_size": 4,
    "gradient_accumulation_steps": 2,
    "num_generations": 4,
    "max_completion_length": 24,
}


def jobs(seeds: int, first_seed: int = 0) -> list[tuple[str, int]]:
    """
    Pairs of a run and a seed, the most wanted first: the start, GRPO and CODA seed by seed, then whole methods. Where
    time runs out, there are fewer methods rather than fewer seeds.
    """
    chosen = range(first_seed, first_seed + seeds)
    first = [(name, seed) for seed in chosen for name in ("grpo", "coda")]
    return [("start", 0), *first, *((name, seed) for name in ("vlp", "asrr") for seed in chosen)]


class WordProblemsRunner(Runner):
    """
    Starts trainings and evaluations one after the other, and anew where they fail. vLLM measures the memory that is
    free while it starts, and gives up if another process ends or grows in that moment: two that start together fail
    together, and for ever, if both are tried again at once.
    """

    def __init__(self, args: argparse.Namespace):
        super().__init__(args)
        self.turn = threading.Lock()
        self.next_start = time.monotonic()

    def _wait_for_turn(self) -> None:
        with self.turn:
            if self.stop.wait(max(0.0, self.next_start - time.monotonic())):
                raise Stopped
            self.next_start = time.monotonic() + self.args.stagger

    def _call(self, command: list, log: Path) -> None:
        for attempt in range(1, ATTEMPTS + 1):
            self._wait_for_turn()
            try:
                # TRL picks its port from a short list, so that runs beside each other would take the same.
                return super()._call(command, log, MASTER_PORT=str(free_port()))
            except RuntimeError as error:
                if attempt == ATTEMPTS:
                    raise
                print(f"again: {str(error)[-500:]}", file=sys.stderr)

    def training_command(self, run: Run, seed: int, output_dir: Path) -> list:
        arguments = train_arguments(run, seed, output_dir, self.args.use_cpu, "recipes/word_problems")
        own = {"model_name_or_path": self.args.model} | (TINY if self.args.tiny else {})
        for argument, value in (own | self.args.override).items():
            arguments += [f"--{argument}", str(value)]
        return [ROOT / "recipes/train.py", *arguments]

    def evaluation_command(self, name: str, seed: int, work: Path) -> list:
        model = self.args.model if name == "start" else work / "model"
        command = [HERE / "evaluate_model.py", "--name", name, "--seed", seed, "--model", model, "--work", work]
        command += ["--out", self.args.out, "--start", self.args.model]
        return [*command, "--tiny"] if self.args.tiny else command


def _override(text: str) -> tuple[str, str]:
    name, mark, value = text.partition("=")
    if not mark:
        raise argparse.ArgumentTypeError(f"{text!r} is not like learning_rate=1e-5")
    return name, value


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="runs/word_problems/start", help="The warm start (default: %(default)s).")
    parser.add_argument("--only", nargs="+", choices=METHODS, default=METHODS, help="Only these methods.")
    parser.add_argument("--seeds", type=int, default=SEEDS, help="Seeds of a method (default: %(default)s).")
    parser.add_argument("--first_seed", type=int, default=0, help="For a repetition with other seeds (default: 0).")
    parser.add_argument("--jobs", type=int, default=4, help="Runs at a time, 20 GB each (default: %(default)s).")
    parser.add_argument("--stagger", type=float, default=30, help="Seconds between two starts (default: %(default)s).")
    parser.add_argument("--out", type=Path, default=OUT, help="Summaries (default: %(default)s).")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/word_problems/runs", help="Scratch.")
    parser.add_argument("--minutes", type=float, help="End after so many minutes; the same command goes on.")
    parser.add_argument("--bundle", type=Path, help="Pack the summaries into this .tar.gz at the end.")
    parser.add_argument(
        "--override", nargs="+", type=_override, default=[], metavar="NAME=VALUE", help="Over every recipe."
    )
    parser.add_argument("--keep", action="store_true", help="Keep models and logs of finished runs.")
    parser.add_argument("--tiny", action="store_true", help="A rehearsal on the CPU. Numbers mean nothing.")
    args = parser.parse_args(argv)
    args.out, args.work, args.override = args.out.resolve(), args.work.resolve(), dict(args.override)
    args.use_cpu = args.tiny
    if args.tiny:
        if args.out in (OUT, HERE / "results"):
            parser.error("--tiny is a rehearsal: give it another --out, so its numbers are not taken for results.")
        args.model, args.stagger, args.jobs = str(args.work / "random"), 0.0, min(args.jobs, os.cpu_count())
    return args


def main() -> int:
    args = parse()
    wanted = [job for job in jobs(args.seeds, args.first_seed) if job[0] in args.only]
    todo = [job for job in wanted if not summary_path(args.out, *job).exists()]
    if args.tiny:
        make_tiny_model(Path(args.model))
    assert set(METHODS) <= set(RUNS)  # tables name runs as the ladder's do
    return 0 if work_off(WordProblemsRunner(args), todo, Console()) else 1


if __name__ == "__main__":
    sys.exit(main())
