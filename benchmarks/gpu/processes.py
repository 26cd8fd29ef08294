"""Starts commands whose every descendant can be found and ended again, whatever session or parent it moved to."""

import os
import signal
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
MARK = "CODA_SMOKE_COMMAND"  # environment variable that descendants inherit


class Command:
    """
    A running command, its output in a file.

    Args:
        command (`list[str]`):
            Program and arguments.
        log (`Path`):
            File that its output is appended to.
        environment (`dict[str, str]`):
            Variables on top of this process's own.
    """

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]):
        self._mark = uuid.uuid4().hex
        self.log = log
        with log.open("a") as output:
            self._process = subprocess.Popen(
                command,
                stdout=output,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env=os.environ | environment | {MARK: self._mark},
            )

    def poll(self) -> int | None:
        """Exit code, or `None` while the command runs."""
        return self._process.poll()

    def wait(self, deadline: float, watch: Callable[[], str | None] = lambda: None) -> int:
        """
        Waits for the end.

        Args:
            deadline (`float`):
                Time on the monotonic clock after which the command is hanging.
            watch (`Callable`, *optional*):
                Asked twice a second; a text ends the wait.

        Returns:
            `int`: Exit code.

        Raises:
            TimeoutError: If the deadline passes.
            RuntimeError: If `watch` returns a text, with that text.
        """
        while self.poll() is None:
            if time.monotonic() > deadline:
                raise TimeoutError(f"still running at the time limit, see {self.log.name}")
            if (trouble := watch()) is not None:
                raise RuntimeError(trouble)
            time.sleep(0.5)
        return self.poll()

    def processes(self) -> list[psutil.Process]:
        """All living processes of the command."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.AccessDenied, psutil.NoSuchProcess):  # somebody else's, or just gone
                continue
        return found

    def left_behind(self, grace: float = 10.0) -> list[str]:
        """Command lines of the processes that are alive so many seconds after the command ended."""
        _, alive = psutil.wait_procs(self.processes(), timeout=grace)
        return [" ".join(process.cmdline()) for process in alive]

    def stop(self) -> None:
        """Ends all processes that are left."""
        processes = self.processes()
        for process in processes:
            _send(process, signal.SIGTERM)
        _, alive = psutil.wait_procs(processes, timeout=3)
        for process in alive:
            _send(process, signal.SIGKILL)
        psutil.wait_procs(alive, timeout=5)
        self._process.poll()


def _send(process: psutil.Process, signal_number: int) -> None:
    try:
        process.send_signal(signal_number)
    except psutil.NoSuchProcess:
        pass


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


def launch(
    script: list[str], log: Path, processes: int, launch_file: Path | None, environment: dict[str, str]
) -> Command:
    """
    Starts training processes.

    Args:
        script (`list[str]`):
            What each runs, with arguments.
        log (`Path`):
            File for the output of all.
        processes (`int`):
            Number of processes.
        launch_file (`Path`, *optional*):
            File of `recipes/accelerate`; `None` on a CPU.
        environment (`dict[str, str]`):
            Variables on top of this process's own.
    """
    port = str(free_port())  # vLLM in a single process would take the same one for every training
    paths = [str(ROOT), str(ROOT / "benchmarks"), *sys.path[1:]]
    environment = {"PYTHONPATH": os.pathsep.join(paths), "MASTER_PORT": port} | environment
    if launch_file is not None:
        command = [sys.executable, "-m", "accelerate.commands.launch", "--config_file", str(launch_file)]
        command += ["--num_processes", str(processes), "--main_process_port", port]
    else:  # `accelerate launch --cpu` starts one process, whatever it is asked for
        environment["ACCELERATE_USE_CPU"] = "true"
        command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc_per_node={processes}"]
        command += ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]
        if processes == 1:
            command = [sys.executable]
    return Command([*command, *script], log, environment)
