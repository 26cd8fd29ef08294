"""
The process between a trainer and the workers.

Workers are forked from here and not from the trainer: forking a process that uses CUDA or threads is unsafe, and new
Python workers would run the user's script again. This process has math-verify imported and warm, so that a worker that
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
from multiprocessing.connection import Connection
from pathlib import Path

from pebble import CONSTS, ProcessExpired, ProcessPool

from . import algebra
from .pool import Job, Result
from .rules import judge

TASKS_PER_WORKER = 2000  # the caches of the parser grow with every new expression
WORKING_SHARE = 0.9  # of the time limit; the rest is for ending and replacing a worker that reaches it
CPU_SLACK = 5.0  # seconds of CPU time beyond the limit after which the kernel ends a worker that nobody else can end
ATTEMPTS = 3  # at a case whose worker dies
_WARM_UP = (  # the parser learns every construct at its first occurrence, which takes ten times as long
    r"-\frac{3\sqrt{2}}{5} + 2\pi \cdot \sqrt[3]{4} + \log_{2} 8 + \ln 3",
    r"|x - 1| + e^{x} + 3! + 2^{n - 1} - \frac{(a+b)^{2}}{2ab} + 2 \sin 2x \cos x - \tan(x)",
    r"\begin{pmatrix} 1 & -2 \\ 3 & \frac{4}{5} \end{pmatrix}",
    r"y = 2x + 3",
    r"F_{n} = \sum_{k=0}^{n-1} F_{k} F_{n-k-1}",
)


def grade_job(job: Job) -> tuple[bool | None, float]:
    """Runs in a worker."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    limit = int(used.ru_utime + used.ru_stime + job.timeout + CPU_SLACK) + 1
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.getrlimit(resource.RLIMIT_CPU)[1]))
    start = time.monotonic()
    return judge(job.case, algebra, job.gold_is_readable), time.monotonic() - start


def start_worker(memory_bytes: int) -> None:
    """Runs once in every worker."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a Python handler would wait for the end of a long C call
    if sys.platform == "linux":  # elsewhere the kernel does not keep to this limit
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        limit = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.getrlimit(resource.RLIMIT_AS)[1]))


class Server:
    """Grades jobs in a pool of workers, each within its memory, and sends results to `output` as they come."""

    def __init__(self, output: Connection, workers: int, memory_mb: int):
        self.output = output
        self.lock = threading.Lock()
        self.pool = ProcessPool(
            max_workers=workers,
            max_tasks=TASKS_PER_WORKER,
            initializer=start_worker,
            initargs=(memory_mb * 2**20,),
            context=multiprocessing.get_context("fork"),
        )

    def submit(self, job: Job, attempt: int = 1) -> None:
        try:
            future = self.pool.schedule(grade_job, args=(job,), timeout=WORKING_SHARE * job.timeout)
        except RuntimeError:  # the pool is broken
            _end_group()
        future.add_done_callback(lambda done: self._finish(job, done, attempt))

    def _finish(self, job: Job, future: Future, attempt: int) -> None:
        error = future.exception()
        if isinstance(error, BrokenProcessPool):
            # A worker was killed while none worked, which ends all waiting cases so; the caller sends them to a new
            # server.
            _end_group()
        elif isinstance(error, ProcessExpired) and attempt < ATTEMPTS:  # perhaps killed from outside
            self.submit(job, attempt + 1)
        else:
            seconds = job.timeout if isinstance(error, TimeoutError) else 0.0
            result = Result(False, seconds, stopped=True) if error else Result(*future.result())
            with self.lock:
                self.output.send((job.number, result))


def _end_group() -> None:
    os.killpg(0, signal.SIGKILL)


def _watch_parent(parent: int) -> None:
    """The connection may stay open in other children of a trainer that died."""
    while os.getppid() == parent:
        time.sleep(0.5)
    _end_group()


def serve(descriptor: int, workers: int, memory_mb: int, parent: int) -> None:
    """Says `"ready"`, grades each [`Job`] that comes, and ends this process group when the connection ends."""
    signal.signal(signal.SIGTERM, lambda *_: _end_group())
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
            server.submit(connection.recv())
    except (EOFError, OSError, KeyboardInterrupt):
        _end_group()
