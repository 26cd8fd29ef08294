"""Starts commands and ends them with every descendant, whatever session or parent it moved to."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
LAUNCH = ROOT / "recipes" / "accelerate"
MARK = "CODA_SMOKE_COMMAND"  # environment variable that descendants inherit


class Command:
    """A running command, its output appended to the file `log`, with `environment` on top of this process's own."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]):
        self._mark, self.log = uuid.uuid4().hex, log
        with log.open("a") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | environment | {MARK: self._mark},
            )

    def __enter__(self) -> "Command":
        return self

    def __exit__(self, *exception) -> None:
        self.stop()

    def poll(self) -> int | None:
        """Exit code, or `None` while the command runs."""
        return self._process.poll()

    def wait(self, deadline: float, beside: "Command | None" = None) -> int:
        """The exit code. A `RuntimeError` past the deadline (monotonic clock), or if the server `beside` it ends."""
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise RuntimeError(f"still running at the time limit, see {self.log.name}")
            if beside is not None and beside.poll() is not None:
                raise RuntimeError(f"the server ended: {last_error(beside.log)}")
            time.sleep(0.5)
        return self.poll()

    def succeed(self, deadline: float, beside: "Command | None" = None) -> None:
        """Waits for a command that must succeed, and ends what it leaves behind."""
        with self:
            if code := self.wait(deadline, beside):
                raise RuntimeError(f"exit code {code}: {last_error(self.log)}")

    def processes(self) -> list[psutil.Process]:
        """All living processes of the command."""
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.AccessDenied, psutil.NoSuchProcess):  # somebody else's, or just gone
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    def left_behind(self, grace: float = 10.0) -> list[str]:
        """Command lines of the processes that are alive so many seconds after the command ended."""
        _, alive = psutil.wait_procs(self.processes(), timeout=grace)
        return [" ".join(process.cmdline()) for process in alive]

    def stop(self) -> None:
        """Ends all remaining processes."""
        alive = self.processes()
        for number, seconds in ((signal.SIGTERM, 3), (signal.SIGKILL, 5)):
            for process in alive:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.send_signal(number)
            _, alive = psutil.wait_procs(alive, timeout=seconds)
        self._process.poll()


def last_error(log: Path) -> str:
    """The last line of a log that names an exception, or else its last line."""
    lines = [line.strip() for line in log.read_text(errors="replace").splitlines() if line.strip()]
    errors = [line for line in lines if "Error" in line and "ChildFailedError" not in line]
    return (errors or lines or ["no output"])[-1][:300]


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def _visible(cards: Sequence[int]) -> dict[str, str]:
    """The variable that leaves a command these of our cards alone; on a CPU there are none to choose."""
    if not cards:
        return {}
    ours = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(max(cards) + 1)))
    return {"CUDA_VISIBLE_DEVICES": ",".join(ours.split(",")[card] for card in cards)}


def train(
    script: str, spec: dict, processes: int, launch_file: str, cards: Sequence[int], **environment: str
) -> Command:
    """
    Starts a script of this folder in training processes, by `accelerate launch` with a file of `recipes/accelerate`
    (on a CPU, without cards: by torchrun). It reads its `spec.json` from the folder that the specification names.
    """
    folder = Path(spec["folder"])
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "spec.json").write_text(json.dumps(spec, indent=1))
    port = str(free_port())  # vLLM in a single process would take the same one for every training
    paths = [str(ROOT), str(ROOT / "benchmarks"), *sys.path[1:]]
    environment |= {"PYTHONPATH": os.pathsep.join(paths), "MASTER_PORT": port, "TOKENIZERS_PARALLELISM": "false"}
    environment |= {"TRL_EXPERIMENTAL_SILENCE": "1"} | _visible(cards)
    if cards:
        command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(LAUNCH / launch_file)]
        command += ["--num_processes", str(processes), "--main_process_port", port]
    else:  # on a CPU `accelerate launch` starts one process, whatever it is asked for
        environment["ACCELERATE_USE_CPU"] = "true"
        command = [sys.executable]
        if processes > 1:
            command += ["-m", "torch.distributed.run", "--nnodes=1", f"--nproc_per_node={processes}"]
            command += ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]
    command += [str(Path(__file__).with_name(script)), str(folder / "spec.json")]
    return Command(command, folder / "train.log", environment)


def serve_command(model: str, port: int, max_model_length: int, tensor_parallel: int = 1) -> list[str]:
    """`vllm serve` as in `recipes/slurm/one_node_server.slurm`."""
    command = [sys.executable, "-m", "vllm.entrypoints.cli.main", "serve", model, "--port", str(port)]
    command += ["--max-model-len", str(max_model_length), "--tensor-parallel-size", str(tensor_parallel)]
    # What TRL needs: weights come in over NCCL, log-probabilities go out.
    command += ["--weight-transfer-config", '{"backend": "nccl"}', "--logprobs-mode", "processed_logprobs"]
    return [*command, "--max-logprobs", "-1"]


def serve(command: list[str], folder: Path, cards: Sequence[int]) -> Command:
    """Starts [`serve_command`] on cards of its own."""
    folder.mkdir(parents=True, exist_ok=True)
    return Command(command, folder / "server.log", {"VLLM_SERVER_DEV_MODE": "1"} | _visible(cards))


def server_options(port: int) -> dict:
    """What a training must know of a server."""
    return {"vllm_server_host": "127.0.0.1", "vllm_server_port": port, "vllm_group_port": free_port()}
