"""Runs the matrix: trains every run with `recipes/train.py`, evaluates it, writes one small summary each.

python benchmarks/ladder/reproduce.py                             # everything, one job a core
python benchmarks/ladder/reproduce.py --runs main --seeds 2
python benchmarks/ladder/reproduce.py --minutes 9 --bundle results.tar.gz

It can be stopped at any time, and goes on when it is started again: a run with a summary is skipped, a training goes
on from its last checkpoint, an evaluation from its last answer.
"""

import argparse
import fnmatch
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from matrix import RUNS, SEEDS, Run, jobs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from summaries import summary_path, write_whole

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
# Beside the committed summaries, which would be skipped as done.
OUT = ROOT / "runs/reproduced"
# glibc would hand freed tensors back to the system; on models this small, asking for them again takes longer than
# computing with them.
KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": "8589934592", "MALLOC_TOP_PAD_": "67108864"}
GRACE = 20  # seconds that a process has to end after it was asked to


class Stopped(Exception):
    """Time is up, or somebody pressed Ctrl-C."""


def train_arguments(
    run: Run, seed: int, output_dir: Path, use_cpu: bool, recipes: str = "recipes/ladder"
) -> list[str]:
    """
    Arguments of `recipes/train.py` for a run of the matrix.

    Args:
        run (`Run`):
            The run.
        seed (`int`), output_dir (`Path`), use_cpu (`bool`):
            Of this training.
        recipes (`str`, *optional*, defaults to `"recipes/ladder"`):
            Folder of the recipes.
    """
    arguments = ["--config", f"{recipes}/{run.recipe}.yaml"]
    if run.overlays:
        arguments += ["--overlay", *(f"recipes/ablations/{overlay}.yaml" for overlay in run.overlays)]
    own = {"output_dir": output_dir, "seed": seed, "use_cpu": str(use_cpu).lower(), "save_total_limit": 1}
    for argument, value in (run.overrides | own).items():
        arguments += [f"--{argument}", str(value)]
    return arguments


class Runner:
    """
    Runs jobs as processes of their own. Another testbed overrides the two commands.

    Args:
        args (`argparse.Namespace`):
            Command line, see [`parse`].
    """

    def __init__(self, args: argparse.Namespace):
        self.args = args
        self.stop = threading.Event()
        self.environment = os.environ | KEEP_MEMORY | {"OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
        if args.use_cpu:
            self.environment["CUDA_VISIBLE_DEVICES"] = ""

    def run(self, name: str, seed: int) -> None:
        """Trains and evaluates one run, as far as that is not done yet."""
        work = self.args.work / f"{name}-seed{seed}"
        work.mkdir(parents=True, exist_ok=True)
        if RUNS[name].recipe is not None and not (work / "train.json").exists():
            self._train(RUNS[name], seed, work)
        self._call(self.evaluation_command(name, seed, work), work / "log.txt")
        if not self.args.keep:
            shutil.rmtree(work)

    def training_command(self, run: Run, seed: int, output_dir: Path) -> list:
        """Script and arguments of a training."""
        command = [ROOT / "recipes/train.py", *train_arguments(run, seed, output_dir, self.args.use_cpu)]
        return [*command, "--max_steps", 2, "--logging_steps", 1] if self.args.tiny else command

    def evaluation_command(self, name: str, seed: int, work: Path) -> list:
        """Script and arguments of an evaluation."""
        command = [HERE / "evaluate_run.py", "--name", name, "--seed", seed, "--work", work, "--out", self.args.out]
        return [*command, "--n", 2, "--limit", 30] if self.args.tiny else command

    def _train(self, run: Run, seed: int, work: Path) -> None:
        start = time.monotonic()
        seconds = work / "seconds.txt"  # of earlier sittings
        try:
            self._call(self.training_command(run, seed, work / "model"), work / "log.txt")
        finally:
            earlier = float(seconds.read_text()) if seconds.exists() else 0.0
            write_whole(seconds, f"{earlier + time.monotonic() - start:.1f}")
        write_whole(work / "train.json", json.dumps({"seconds": float(seconds.read_text())}))

    def _call(self, command: list, log: Path, **environment: str) -> None:
        if self.stop.is_set():
            raise Stopped
        with open(log, "a") as file:
            # In a session of its own: Ctrl-C reaches this script alone, which then ends its processes in its own way.
            process = subprocess.Popen(
                [sys.executable, *map(str, command)],
                cwd=ROOT,
                stdout=file,
                stderr=file,
                env=self.environment | environment,
                start_new_session=True,
            )
        while process.poll() is None:
            if self.stop.wait(0.2):
                process.send_signal(signal.SIGINT)
                try:
                    process.wait(GRACE)
                except subprocess.TimeoutExpired:
                    os.killpg(process.pid, signal.SIGKILL)  # with its own processes
                    process.wait()
                raise Stopped
        if process.returncode:
            raise RuntimeError(f"{' '.join(map(str, command))}\n{log.read_text()[-3000:]}")


def parse(argv: list[str] | None = None) -> argparse.Namespace:
    """Reads the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", default="main,ablations", help="main, ablations, or both (default: %(default)s).")
    parser.add_argument(
        "--only", nargs="+", default=["*"], metavar="NAME", help="Only runs of these names (* fits all)."
    )
    parser.add_argument("--seeds", type=int, default=SEEDS, help="Seeds of the main runs (default: %(default)s).")
    parser.add_argument("--first_seed", type=int, default=0, help="For a repetition with other seeds (default: 0).")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="Runs at a time (default: all cores).")
    parser.add_argument(
        "--shard", default="0/1", metavar="I/N", help="The I-th of N parts of the work (default: 0/1)."
    )
    parser.add_argument("--out", type=Path, default=OUT, help="Summaries (default: %(default)s).")
    parser.add_argument("--work", type=Path, default=ROOT / "runs/reproduce", help="Scratch (default: %(default)s).")
    parser.add_argument("--minutes", type=float, help="End after so many minutes; the same command goes on.")
    parser.add_argument("--bundle", type=Path, help="Pack the summaries into this .tar.gz at the end.")
    parser.add_argument("--use_cpu", type=lambda text: text.lower() != "false", default=True, metavar="true|false")
    parser.add_argument("--keep", action="store_true", help="Keep models and logs of finished runs.")
    parser.add_argument("--tiny", action="store_true", help="A rehearsal: 2 steps, 30 problems. Numbers mean nothing.")
    args = parser.parse_args(argv)
    args.out, args.work = args.out.resolve(), args.work.resolve()
    if args.tiny and args.out in (OUT, HERE / "results"):
        parser.error("--tiny is a rehearsal: give it another --out, so that its numbers are not taken for results.")
    if not re.fullmatch(r"\d+/\d+", args.shard) or not set(args.runs.split(",")) <= {"main", "ablations"}:
        parser.error(f"--shard is {args.shard!r} and --runs {args.runs!r}, but must be like 0/2 and main,ablations.")
    return args


def select(args: argparse.Namespace) -> list[tuple[str, int]]:
    """The jobs that the command line asks for and that have no summary yet."""
    part, parts = map(int, args.shard.split("/"))
    wanted = jobs(args.runs.split(","), args.seeds, args.first_seed)
    wanted = [job for job in wanted if any(fnmatch.fnmatch(job[0], pattern) for pattern in args.only)]
    return [job for job in wanted[part::parts] if not summary_path(args.out, *job).exists()]


def bundle(out: Path, path: Path) -> None:
    """Packs all summaries into one file."""
    with tarfile.open(path, "w:gz") as archive:
        for summary in sorted(out.rglob("*.json")):
            archive.add(summary, str(summary.relative_to(out)))


def work_off(runner: Runner, todo: list[tuple[str, int]], console: Console) -> bool:
    """Runs jobs side by side, with a progress bar, until all are done or time is up. Whether none failed."""
    args = runner.args
    done, failed = 0, 0
    # Before the first process is started: it would inherit that interrupts are ignored, as in a shell's background.
    for sent in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if sent != signal.SIGHUP or signal.getsignal(sent) is not signal.SIG_IGN:  # `nohup`
            signal.signal(sent, lambda *_: runner.stop.set())
    console.print(f"{len(todo)} runs to do, {args.jobs} at a time.")
    if args.minutes is not None:
        timer = threading.Timer(60 * args.minutes, runner.stop.set)
        timer.daemon = True
        timer.start()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ThreadPoolExecutor(args.jobs) as pool, Progress(*columns, console=console) as progress:
        bar = progress.add_task("Runs", total=len(todo))
        futures = {pool.submit(runner.run, *job): job for job in todo}
        for future in as_completed(futures):
            name, seed = futures[future]
            error = future.exception()
            if error is None:
                done += 1
                progress.update(bar, advance=1)
                progress.console.print(f"done: {name}, seed {seed}")
            elif not isinstance(error, Stopped):
                failed += 1
                progress.console.print(f"failed: {name}, seed {seed}\n{error}", markup=False)
    if args.bundle is not None:
        bundle(args.out, args.bundle)
    console.print(f"{done} of {len(todo)} done, {failed} failed. The same command does the rest.")
    return not failed


def main() -> int:
    args = parse()
    return 0 if work_off(Runner(args), select(args), Console()) else 1


if __name__ == "__main__":
    sys.exit(main())
