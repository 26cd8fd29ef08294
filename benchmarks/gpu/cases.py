"""The smoke cases."""

import json
import os
import signal
import time
from dataclasses import replace

from processes import Command, free_port
from records import CheckError, read_rollouts
from server import Server, serve_command
from training import Case, Place, collect, last_error, run_training, start, wait

LAUNCHER_SECONDS = 90  # in which a launcher must end once a process of it was killed


def run_server(case: Case, place: Place) -> dict:
    """`vllm serve` on the second card, training on the first, as in `recipes/slurm/one_node_server.slurm`."""
    port = free_port()
    place.folder.mkdir(parents=True, exist_ok=True)
    command = serve_command(place.model.path, port, 32 + place.model.longest)
    command += ["--gpu-memory-utilization", "0.3", "--enforce-eager"]  # eager: starts faster
    server = Server(command, place.folder / "server.log", place.cards[1:])

    options = {"vllm_server_host": "127.0.0.1", "vllm_server_port": port, "vllm_group_port": free_port()}
    options["vllm_server_timeout"] = max(1.0, place.deadline - time.monotonic())
    case = replace(case, config=case.config | options)
    try:
        wait(start(case, place, cards=place.cards[:1]), place, server.watch)
    finally:
        server.stop()
    return collect(case, place)


def run_killed(case: Case, place: Place) -> dict:
    """
    `kill -9` of the last process in the middle of a run.

    The launcher must end by itself and leave no process behind; the same command again must resume from the last
    checkpoint, and see the problems that a run without interruption sees.
    """
    whole = replace(place, folder=place.folder / "uninterrupted")
    hit = replace(place, folder=place.folder / "killed")
    uninterrupted = start(case, whole)
    try:
        victim = start(case, hit)
        try:
            step = _kill_last_process(case, hit, victim)
            killed = time.monotonic()
            code = victim.wait(min(killed + LAUNCHER_SECONDS, place.deadline))
            launcher_seconds = time.monotonic() - killed
            left = victim.left_behind()
        finally:
            victim.stop()
        if code == 0:
            raise CheckError("the launcher reports success though a process was killed")
        if left:
            raise CheckError(f"the launcher ended but left processes behind: {left}")
        for path in hit.folder.glob("process-*.json"):
            raise CheckError(f"{path.name} is there: the run was over before it was hit")
        wait(start(case, hit), hit)
        wait(uninterrupted, whole)
    finally:
        uninterrupted.stop()

    facts = collect(case, hit)
    collect(case, whole)
    if facts["resumed_from"] is None:
        raise CheckError("the restart did not begin from a checkpoint")
    expected, found = (read_rollouts(path.folder, case.processes) for path in (whole, hit))
    for number, seen in expected.items():
        if found[number]["problems"] != seen["problems"]:
            raise CheckError(f"step {number} after the restart has problems {found[number]['problems']}")
    same = sum(found[number]["lengths"] == seen["lengths"] for number, seen in expected.items())
    return facts | {
        "killed_in_step": step,
        "launcher_seconds": launcher_seconds,
        "steps_with_the_same_rollouts": same,
    }


def _kill_last_process(case: Case, place: Place, command: Command) -> int:
    """Waits for a step after the first checkpoint, and kills the last process in it. Returns the step."""
    rollouts = place.folder / f"rollouts-{case.processes - 1}.jsonl"
    # Rollouts of this step are there once every process is done with the one before, and with its checkpoint.
    target = case.config["save_steps"] + 2
    while True:
        if command.poll() is not None:
            raise CheckError(f"ended before it was hit: {last_error(command.log)}")
        if time.monotonic() > place.deadline:
            raise TimeoutError("still running at the time limit, not yet hit")
        rows = rollouts.read_text().splitlines() if rollouts.exists() else []
        if len(rows) >= target:
            row = json.loads(rows[target - 1])
            os.kill(row["pid"], signal.SIGKILL)
            return row["step"]
        time.sleep(0.02)


VLLM = {
    "use_vllm": True,
    "vllm_mode": "colocate",
    "vllm_importance_sampling_mode": "token_truncate",  # the correction also logs how far vLLM and the trainer differ
}

CASES = {
    "vllm": Case(
        "vLLM in the training process",
        run_training,
        needs=("vllm",),
        on_cpu=False,
        config=VLLM,
    ),
    "vllm-sleep": Case(
        "vLLM that sleeps during the update",
        run_training,
        needs=("vllm",),
        on_cpu=False,
        config=VLLM | {"vllm_enable_sleep_mode": True},
    ),
    "server": Case(
        "vllm serve on a card of its own",
        run_server,
        cards=2,
        needs=("vllm",),
        on_cpu=False,
        config=VLLM | {"vllm_mode": "server"},
    ),
    "kill": Case(
        "kill -9 of a process, and restart",
        run_killed,
        cards=2,
        launch="two_gpus.yaml",
        processes=2,
        steps=8,
        config={"save_strategy": "steps", "save_steps": 3},
    ),
    "one-gpu": Case("one process, generate", run_training),
    "ddp": Case("DDP", run_training, cards=2, launch="two_gpus.yaml", processes=2),
    "fsdp2": Case("FSDP2", run_training, cards=2, launch="fsdp2.yaml", processes=2, on_cpu=False, sharded=True),
    "zero2": Case(
        "DeepSpeed ZeRO-2", run_training, cards=2, launch="zero2.yaml", processes=2, needs=("deepspeed",), on_cpu=False
    ),
    "zero3": Case(
        "DeepSpeed ZeRO-3",
        run_training,
        cards=2,
        launch="two_gpus_zero3.yaml",
        processes=2,
        needs=("deepspeed",),
        on_cpu=False,
        sharded=True,
    ),
    "lora": Case("LoRA, DDP", run_training, cards=2, launch="two_gpus.yaml", processes=2, needs=("peft",), lora=True),
}
