r"""
Proves a GPU machine: one command, some ten minutes on two cards.

    python benchmarks/gpu/smoke.py [--cases ddp,fsdp2] [--out runs/benchmarks] [--cpu]

Runs every case as real processes, prints a line each, and writes one JSON file. The exit code is 0 if no case failed;
a case that lacks a package or a card is skipped. `--cpu` rehearses those that need no GPU. See the README beside it.
"""

import importlib.util
import json
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from checks import check_learning, check_shaping, read_processes, read_rollouts
from processes import Command, free_port, last_error, serve, serve_command, server_options, train

from coda_trl.evaluation.ladder import MAX_COMPLETION_LENGTH
from coda_trl.ladder import CHECKPOINT

sys.path.append(str(Path(__file__).parents[1]))

from timing import machine, parser_of, write  # noqa: E402

GROUP_SIZE, ROLLOUTS, MICRO_BATCH = 16, 80, 20  # five groups a step: with two processes, the third is half on each
# Seen with vLLM on a CPU, in bfloat16, at the ladder's rate: up to 0.004 with weights that are sent before every step,
# 0.06 to 0.38 with those of the first step.
LOGP_BOUND = 0.05
LAUNCHER_SECONDS = 90  # in which a launcher must end once a process of it was killed
LEARNING_RATE = 3e-4  # moves the policy visibly within a few steps


@dataclass(frozen=True)
class Place:
    """Where a case runs: folder, cards (none on a CPU), end on the monotonic clock."""

    folder: Path
    cards: tuple[int, ...] = ()
    deadline: float = 0.0


def start(case: "Case", place: Place, **options: Any) -> Command:
    """Starts the training of a case, on its first cards, with further options of its config."""
    on_cpu = not place.cards
    vllm = {
        "vllm_gpu_memory_utilization": 0.3,
        "vllm_max_model_length": 32 + MAX_COMPLETION_LENGTH,
        "learning_rate": 10 * LEARNING_RATE,  # so that weights that did not arrive show
    }
    config = {
        "per_device_train_batch_size": MICRO_BATCH,
        "gradient_accumulation_steps": ROLLOUTS // (MICRO_BATCH * case.processes),
        "num_generations": GROUP_SIZE,
        "max_completion_length": MAX_COMPLETION_LENGTH,
        "max_steps": case.steps,
        "learning_rate": LEARNING_RATE,
        "model_init_kwargs": {"dtype": "float32"},
        "bf16": not on_cpu,
        "use_cpu": on_cpu,
        "log_completions": True,
        "num_completions_to_print": 0,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        **(vllm if case.uses_vllm else {}),
        **case.config,
        **options,
    }
    spec = {"folder": str(place.folder), "lora": case.lora, "config": config}
    spec["problems"] = ROLLOUTS // GROUP_SIZE * case.steps
    cards, cache = place.cards[: case.processes], str(place.folder / "vllm")
    return train("worker.py", spec, case.processes, case.launch, cards, VLLM_CACHE_ROOT=cache)


def collect(case: "Case", place: Place) -> dict:
    """Facts of a training that has ended, checked."""
    shaping = check_shaping(place.folder, case.processes, GROUP_SIZE, case.steps)
    metrics = check_learning(place.folder, LOGP_BOUND if case.uses_vllm else None)
    tokens = [sum(seen["lengths"]) for seen in read_rollouts(place.folder, case.processes).values()]
    facts = read_processes(place.folder, case.processes, tokens)
    held = facts["parameters_held"]
    if case.sharded and not max(held) < 0.75 * facts["parameters"]:
        raise RuntimeError(f"not sharded: the processes hold {held} of {facts['parameters']} parameters")
    return {"steps": case.steps, "tokens": tokens, **facts, "shaping": shaping, "metrics": metrics}


def run_training(case: "Case", place: Place) -> dict:
    """One training, from beginning to end."""
    start(case, place).succeed(place.deadline)
    return collect(case, place)


def run_server(case: "Case", place: Place) -> dict:
    """A training and `vllm serve` on another card, as in `recipes/slurm/one_node_server.slurm`."""
    options = server_options(port := free_port())
    command = serve_command(CHECKPOINT, port, 32 + MAX_COMPLETION_LENGTH)
    command += ["--gpu-memory-utilization", "0.3", "--enforce-eager"]  # eager: starts faster
    with serve(command, place.folder, place.cards[1:]) as server:
        timeout = max(1.0, place.deadline - time.monotonic())
        start(case, place, **options, vllm_server_timeout=timeout).succeed(place.deadline, server)
    return collect(case, place)


def run_killed(case: "Case", place: Place) -> dict:
    """
    `kill -9` of the last process in the middle of a run. The launcher must end by itself and leave no process behind;
    the same command again must resume from the last checkpoint, and see the problems of an uninterrupted run.
    """
    whole, hit = (replace(place, folder=place.folder / name) for name in ("uninterrupted", "killed"))
    with start(case, whole) as uninterrupted, start(case, hit) as victim:
        step = _kill_last_process(case, hit, victim)
        killed = time.monotonic()
        code = victim.wait(min(killed + LAUNCHER_SECONDS, place.deadline))
        launcher_seconds = time.monotonic() - killed
        if code == 0:
            raise RuntimeError("the launcher reports success though a process was killed")
        if left := victim.left_behind():
            raise RuntimeError(f"the launcher ended but left processes behind: {left}")
        if any(hit.folder.glob("process-*.json")):
            raise RuntimeError("the run was over before it was hit")
        start(case, hit).succeed(place.deadline)
        uninterrupted.succeed(place.deadline)
    facts = collect(case, hit)
    collect(case, whole)
    if facts["resumed_from"] is None:
        raise RuntimeError("the restart did not begin from a checkpoint")
    expected, found = (read_rollouts(path.folder, case.processes) for path in (whole, hit))
    for number, seen in expected.items():
        if found[number]["problems"] != seen["problems"]:
            raise RuntimeError(f"step {number} after the restart has problems {found[number]['problems']}")
    same = sum(found[number]["lengths"] == seen["lengths"] for number, seen in expected.items())
    own = {"killed_in_step": step, "launcher_seconds": launcher_seconds, "steps_with_the_same_rollouts": same}
    return facts | own


def _kill_last_process(case: "Case", place: Place, command: Command) -> int:
    """Waits for a step after the first checkpoint, and kills the last process in it. Returns the step."""
    rollouts = place.folder / f"rollouts-{case.processes - 1}.jsonl"
    # Rollouts of this step are there once every process is done with the one before, and with its checkpoint.
    target = case.config["save_steps"] + 2
    while command.poll() is None:
        if time.monotonic() > place.deadline:
            raise RuntimeError("still running at the time limit, not yet hit")
        rows = rollouts.read_text().splitlines() if rollouts.exists() else []
        if len(rows) >= target:
            row = json.loads(rows[target - 1])
            os.kill(row["pid"], signal.SIGKILL)
            return row["step"]
        time.sleep(0.02)
    raise RuntimeError(f"ended before it was hit: {last_error(command.log)}")


@dataclass(frozen=True)
class Case:
    """One thing that is proved: what `run` does, by a file of `recipes/accelerate`, with fields of the config."""

    run: Callable[["Case", Place], dict] = run_training
    launch: str = "one_gpu.yaml"
    processes: int = 1
    servers: int = 0  # further cards
    needs: tuple[str, ...] = ()  # packages
    on_cpu: bool = True
    lora: bool = False
    sharded: bool = False  # every process must hold a part of the parameters only
    steps: int = 5
    config: dict[str, Any] = field(default_factory=dict)

    @property
    def uses_vllm(self) -> bool:
        return self.config.get("use_vllm", False)

    def why_not(self, cards: int) -> str:
        """What it lacks here."""
        lacking = [f"{name} is not installed" for name in self.needs if importlib.util.find_spec(name) is None]
        needed = self.processes + self.servers
        if not cards and not self.on_cpu:
            lacking.append("needs a GPU")
        elif cards and cards < needed:
            lacking.append(f"needs {needed} GPUs, found {cards}")
        return "; ".join(lacking)


# The correction also logs how far vLLM and the trainer differ.
VLLM = {"use_vllm": True, "vllm_mode": "colocate", "vllm_importance_sampling_mode": "token_truncate"}
GPU_VLLM = {"needs": ("vllm",), "on_cpu": False}
TWO, SHARDED = {"launch": "two_gpus.yaml", "processes": 2}, {"processes": 2, "on_cpu": False}
CASES = {
    "vllm": Case(**GPU_VLLM, config=VLLM),
    "vllm-sleep": Case(**GPU_VLLM, config=VLLM | {"vllm_enable_sleep_mode": True}),
    "server": Case(run_server, servers=1, **GPU_VLLM, config=VLLM | {"vllm_mode": "server"}),
    "kill": Case(run_killed, **TWO, steps=8, config={"save_strategy": "steps", "save_steps": 3}),
    "one-gpu": Case(),
    "ddp": Case(**TWO),
    "fsdp2": Case(launch="fsdp2.yaml", **SHARDED, sharded=True),
    "zero2": Case(launch="zero2.yaml", **SHARDED, needs=("deepspeed",)),
    "zero3": Case(launch="two_gpus_zero3.yaml", **SHARDED, sharded=True, needs=("deepspeed",)),
    "lora": Case(**TWO, lora=True, needs=("peft",)),
}


def run_case(case: Case, place: Place) -> dict:
    """Runs a case; whatever goes wrong in it becomes its result, so that the others run on."""
    if why := case.why_not(len(place.cards)):
        return {"status": "skipped", "why": why, "seconds": 0.0}
    begin = time.monotonic()
    result = {"status": "passed", "why": "", "facts": {}, "log": {}}
    try:
        result["facts"] = case.run(case, replace(place, cards=place.cards[: case.processes + case.servers]))
    except Exception as error:
        known = isinstance(error, RuntimeError)
        logs = {str(path.relative_to(place.folder)): path for path in sorted(place.folder.rglob("*.log"))}
        result |= {
            "status": "failed",
            "why": str(error) if known else f"{type(error).__name__}: {error}",
            "log": ({} if known else {"smoke.py": traceback.format_exc()})
            | {name: path.read_text(errors="replace")[-4000:] for name, path in logs.items()},
        }
    return result | {"seconds": round(time.monotonic() - begin, 1)}


def line(result: dict) -> str:
    """A result in a line."""
    if result["status"] != "passed":
        return f"{result['status'].upper()}: {result['why']}"
    facts = result["facts"]
    peak = f", {facts['peak_gib']:.2f} GiB at most" if facts["peak_gib"] else ""
    return (
        f"PASSED in {result['seconds']:.0f} s: {facts['steps']} steps, {facts['tokens_per_second']:.0f} tokens/s{peak}"
        f", reward {facts['metrics']['reward'][-1]:.3f}, {facts['shaping']['shaped_share']:.0%} shaped"
    )


def main(argv: list[str]) -> int:
    parser = parser_of(__doc__)
    parser.add_argument("--cases", type=lambda names: names.split(","), default=list(CASES), help=", ".join(CASES))
    parser.add_argument("--work", type=Path, help="Folder for logs and checkpoints; a temporary one by default.")
    parser.add_argument("--timeout", type=float, default=180, help="Seconds for a case.")
    parser.add_argument("--cpu", action="store_true", help="Rehearse without a GPU.")
    args = parser.parse_args(argv)
    if unknown := set(args.cases) - set(CASES):
        parser.error(f"--cases has {', '.join(sorted(unknown))}, but there are: {', '.join(CASES)}")
    if not args.cpu and not torch.cuda.is_available():
        parser.error("torch sees no GPU. Use --cpu to rehearse.")
    cards = () if args.cpu else tuple(range(torch.cuda.device_count()))
    about = machine() | {"cards": len(cards), "model": "ladder"}
    name = "smoke-ladder-" + (f"{len(cards)}x-{about['hardware']}" if cards else "cpu")
    begin, results = time.monotonic(), {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = (args.work or Path(temporary)).resolve()
        # One after the other: vLLM measures the free memory, and speeds are those of a machine at rest.
        for case in args.cases:
            place = Place(folder / case, cards, time.monotonic() + args.timeout)
            results[case] = run_case(CASES[case], place)
            print(f"{case:<10} {line(results[case])}", flush=True)
            seconds = round(time.monotonic() - begin, 1)
            path = write(args.out, name, {"about": about, "seconds": seconds, "cases": results})
    print(f"Results: {path}")
    return int(any(result["status"] == "failed" for result in results.values()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
