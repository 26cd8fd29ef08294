"""
The process between a trainer and the workers.

Workers are forked from here and not from the trainer: forking a process that uses CUDA or threads is unsafe, and new
Python workers would run the user's script again. This process has the parser imported and warm, so that a worker that
had to be killed is replaced within milliseconds. It leads a process group; whoever ends it ends the group.
"""

import gc
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from concurrent.futures import Future, TimeoutError
from concurrent.futures.process import BrokenProcessPool
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from pebble import CONSTS, ProcessExpired, ProcessPool

from . import algebra
from .pool import Grade
from .rules import Case, judge

TASKS_PER_WORKER = 2000  # the caches of the parser grow with every new expression
WORKING_SHARE = 0.9  # of the time limit; the rest is for ending and replacing a worker that reaches it
CPU_SLACK = 5.0  # seconds of CPU time beyond the limit after which the kernel ends a worker that nobody else can end
ATTEMPTS = 3  # at a case whose worker dies
_WARM_UP = [  # the parser learns every construct at its first occurrence, which takes ten times as long
    r"-\frac{3\sqrt{2}}{5} + 2\pi - \frac{(a+b)^{2}}{2ab} + \sqrt[3]{4} \cdot \log_{2} 8 + \ln 3",
    r"|x - 1| + e^{x} + 3! + 2^{n - 1}",
    r"\begin{pmatrix} 1 & -2 \\ 3 & \frac{4}{5} \end{pmatrix}",
    r"y = 2 \sin 2x \cos x - \tan(x)",
    r"F_{n} = \sum_{k=0}^{n-1} F_{k} F_{n-k-1}",
]


def grade_case(case: Case, timeout: float) -> Grade:
    """Runs in a worker."""
    limit = int(time.process_time() + timeout + CPU_SLACK) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    start = time.monotonic()
    verdict, error = False, None
    try:
        verdict = judge(case, algebra)
    except MemoryError:  # a limit
        raise
    except Exception as fault:
        error = repr(fault)
    return Grade(verdict, None, time.monotonic() - start, error=error)


def start_worker(memory_bytes: int, output: Connection) -> None:
    """Runs once in every worker."""
    output.close()  # or the caller would not see the server die while a case hangs
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a Python handler would wait for the end of a long C call
    if sys.platform == "linux":  # elsewhere the kernel does not keep to this limit
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


class Server:
    """Grades cases in a pool of workers, each within its memory, and sends their grades to `output` as they come."""

    def __init__(self, output: Connection, workers: int, memory_mb: int):
        self.output = output
        self.lock = threading.Lock()
        self.pool = ProcessPool(
            max_workers=workers,
            max_tasks=TASKS_PER_WORKER,
            initializer=start_worker,
            initargs=(memory_mb * 2**20, output),
            context=multiprocessing.get_context("fork"),
        )

    def submit(self, number: int, case: Case, timeout: float, attempt: int = 1) -> None:
        try:
            future = self.pool.schedule(grade_case, args=(case, timeout), timeout=WORKING_SHARE * timeout)
        except RuntimeError:  # the pool is broken
            _end_group()
        future.add_done_callback(partial(self._finish, number, case, timeout, attempt))

    def _finish(self, number: int, case: Case, timeout: float, attempt: int, future: Future) -> None:
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            # A worker was killed while none worked, which ends all waiting cases so; the caller sends them to a new
            # server.
            _end_group()
        elif isinstance(error, ProcessExpired) and attempt < ATTEMPTS:  # perhaps killed from outside
            self.submit(number, case, timeout, attempt + 1)
        else:
            seconds = timeout if isinstance(error, TimeoutError) else 0.0
            with self.lock:
                self.output.send((number, Grade(False, None, seconds, stopped=True) if error else future.result()))


def _end_group() -> None:
    os.killpg(0, signal.SIGKILL)


def _watch_parent(parent: int) -> None:
    """The connection may stay open in other children of a trainer that died."""
    while os.getppid() == parent:
        time.sleep(0.5)
    _end_group()


def serve(descriptor: int, workers: int, memory_mb: int, parent: int) -> None:
    """Says `"ready"`, grades what [`pool`] sends, and ends this process group when the connection ends."""
    threading.Thread(target=_watch_parent, args=(parent,), daemon=True).start()
    for text in _WARM_UP:
        algebra.equal(text, text + " + 0")
    gc.freeze()  # forked workers share what is loaded
    CONSTS.sleep_unit = 0.02  # how often the pool looks for workers over their time; this process has no other pool
    connection = Connection(descriptor)
    server = Server(connection, workers, memory_mb)
    connection.send("ready")
    try:
        while True:
            server.submit(*connection.recv())
    except (EOFError, OSError):
        _end_group()
