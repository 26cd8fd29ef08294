"""Grade many completions at once, in processes that are bounded in time and memory."""

import os
import signal
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from itertools import islice
from multiprocessing import Pipe
from pathlib import Path

from .extract import final_answer
from .rules import Case, NoAlgebra, judge, prepare

DEFAULT_TIMEOUT = 2.0
_START_SECONDS = 120.0  # the server imports sympy, perhaps from a slow network disk
_SILENCE_SECONDS = 20.0  # beyond the limit of a case: a server that says nothing for so long is replaced
_ATTEMPTS = 3
_START = (
    "import sys; sys.path[:] = sys.argv[5:]; "
    "from coda_trl.grading.server import serve; serve(*map(int, sys.argv[1:5]))"
)
_KNOWN_GOLDS = 65536
_CPU_MAX = Path("/sys/fs/cgroup/cpu.max")  # quota and period in microseconds


@dataclass(frozen=True)
class Grade:
    """
    Result of grading one completion.

    Attributes:
        verdict (`bool` or `None`): right or wrong; `None` if the gold cannot be read.
        answer (`str` or `None`): content of the deciding box, `None` if there is none.
        seconds (`float`): time spent on this gold and answer (once for equal ones in a batch).
        stopped (`bool`): the limit on time or memory was reached, so that the verdict is `False`.
        error (`str` or `None`): what computer algebra raised, so that the verdict is `False`.
    """

    verdict: bool | None
    answer: str | None
    seconds: float
    stopped: bool = False
    error: str | None = None


def default_workers() -> int:
    """
    CPU cores of this process, at most the quota of its container, divided by the ranks on this machine
    (`LOCAL_WORLD_SIZE`), at least one.
    """
    cores = len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1
    with suppress(OSError, ValueError):  # without a quota there is no file, or it says "max"
        quota, period = map(int, _CPU_MAX.read_text().split())
        cores = min(cores, quota // period)
    return max(1, cores // int(os.environ.get("LOCAL_WORLD_SIZE", "1")))


class GradingPool(AbstractContextManager):
    r"""
    Grades completions with a limit on time and memory for every case.

    What needs no computer algebra is decided in the calling process. The rest goes to worker processes, which are
    started when first needed and live until [`~GradingPool.close`], the end of the `with` block or the end of this
    process, however it ends. Safe to use from any thread (they take turns), inside asyncio, and after a fork (the
    child gets workers of its own).

    Args:
        workers (`int`, *optional*):
            Number of worker processes. Defaults to the CPU cores, at most the quota of the container, divided by
            `LOCAL_WORLD_SIZE`.
        timeout (`float`, *optional*, defaults to `2.0`):
            Seconds that one case may take. A case that takes longer is wrong and `stopped`.
        memory_mb (`int`, *optional*, defaults to `1024`):
            MiB that a worker may take on top of what it starts with.

    Example:

    ```python
    >>> from coda_trl.grading import GradingPool

    >>> with GradingPool(timeout=1.0) as pool:
    ...     grades = pool.grade([r"\boxed{\frac{\sqrt{3}}{3}}", r"\boxed{2}"], [r"\frac{1}{\sqrt{3}}", "3"])
    >>> [grade.verdict for grade in grades]
    [True, False]

    ```
    """

    def __init__(self, workers: int | None = None, timeout: float = DEFAULT_TIMEOUT, memory_mb: int = 1024):
        if workers is not None and workers < 1:
            raise ValueError(f"`workers` is {workers}, but grading needs at least one worker process.")
        if timeout <= 0:
            raise ValueError(f"`timeout` is {timeout}, but a case needs a positive number of seconds.")
        self.workers = workers or default_workers()
        self.timeout = timeout
        self.memory_mb = memory_mb
        self._lock = threading.Lock()
        self._server: _Server | None = None
        self._readable: dict[str, bool] = {}
        _pools.add(self)

    def __exit__(self, *_) -> None:
        self.close()

    def grade(
        self,
        completions: Sequence[str],
        golds: Sequence[str | None],
        options: Sequence[Sequence[str] | None] | None = None,
        again: bool = False,
    ) -> list[Grade]:
        """
        Grades a batch.

        Args:
            completions (`Sequence[str]`), golds (`Sequence[str | None]`):
                Texts of the model, and the gold answer of each.
            options (`Sequence[Sequence[str] | None]`, *optional*):
                Texts of the options of each multiple-choice question, A first. The text of the right one is then
                right, as its letter is.
            again (`bool`, *optional*, defaults to `False`):
                Whether a case that was stopped gets a second try, alone: the first may have met a busy machine.

        Returns:
            `list[Grade]`: in the order of the completions.

        Raises:
            `ValueError`: if the two sequences differ in length.
        """
        if len(completions) != len(golds):
            raise ValueError(f"There are {len(completions)} completions but {len(golds)} golds; each needs its own.")
        answers = list(map(final_answer, completions))
        grades = [Grade(None, answer, 0.0) for answer in answers]
        same: dict[Case, list[int]] = {}  # completions of a group often end in the same answer
        for index, (answer, gold) in enumerate(zip(answers, golds, strict=True)):
            case = prepare(gold, answer, options[index] if options is not None else None)
            if case is not None:
                same.setdefault(case, []).append(index)
        found = dict(self._grades(same))
        for case in [case for case, grade in found.items() if again and grade.stopped]:
            found |= self._grades([case])
        for case, grade in found.items():
            for index in same[case]:
                grades[index] = replace(grade, answer=answers[index])
        return grades

    def close(self) -> None:
        """Ends the worker processes. The pool can be used again afterwards; it then starts new ones."""
        with self._lock:
            self._end_server()

    def _end_server(self) -> None:
        if self._server is not None:
            self._server.end()
            self._server = None

    def _grades(self, cases: Iterable[Case]) -> Iterator[tuple[Case, Grade]]:
        """Judges each case in this process or, if it needs algebra, in a worker."""
        waiting = []
        for case in cases:
            start = time.perf_counter()
            try:
                verdict = judge(case, NoAlgebra(), self._readable.get(case.gold, False))
            except Exception:  # `NeedsAlgebra`, or a fault, such as too deep a nesting, which may end no training
                waiting.append(case)
            else:
                yield case, Grade(verdict, None, time.perf_counter() - start)
        if waiting:
            yield from self._run(waiting)

    def _run(self, cases: list[Case]) -> Iterator[tuple[Case, Grade]]:
        """Sends cases to the server and yields each with its grade, as they come."""
        todo = dict(enumerate(cases))
        with self._lock:
            for _ in range(_ATTEMPTS):
                if self._server is None:
                    self._server = _Server(self.workers, self.memory_mb)
                try:
                    for number, grade in self._server.grade(list(todo.items()), self.timeout):
                        case = todo.pop(number)
                        if not grade.stopped and not grade.error and len(self._readable) < _KNOWN_GOLDS:
                            self._readable[case.gold] = grade.verdict is not None
                        yield case, grade
                    return
                except BaseException as error:
                    self._end_server()
                    if not isinstance(error, EOFError | OSError):  # the server was killed, or hangs
                        raise  # Ctrl-C or a caller who stops: results would have been left in the pipe
        raise RuntimeError(
            f"The grading server was lost {_ATTEMPTS} times with {len(todo)} of {len(cases)} cases left. Usually the "
            "machine is out of memory: give `GradingPool` fewer `workers` or less `memory_mb`."
        )


class _Server:
    """The calling end of `coda_trl.grading.server`."""

    def __init__(self, workers: int, memory_mb: int):
        self.window = 2 * workers  # cases on their way: even a server that hangs lets so few into the pipe
        self.connection, other_end = Pipe()
        descriptor, owner = other_end.fileno(), os.getpid()
        process = subprocess.Popen(
            [sys.executable, "-c", _START, *map(str, [descriptor, workers, memory_mb, owner]), *sys.path],
            stdin=subprocess.DEVNULL,
            stdout=2,  # what a library prints is no output of the caller
            pass_fds=[descriptor],
            start_new_session=True,
        )
        other_end.close()
        self.pid = process.pid
        self.end = weakref.finalize(self, _end, process, owner)
        try:
            ready = self.connection.poll(_START_SECONDS) and self.connection.recv()
        except (EOFError, OSError):
            ready = False
        if not ready:
            self.end()
            raise RuntimeError(
                "The grading server did not start; its own error is above. `import latex2sympy2_extended, pebble` "
                f"must work in {sys.executable}."
            )

    def grade(self, cases: list[tuple[int, Case]], timeout: float) -> Iterator[tuple[int, Grade]]:
        """Yields the number of each case with its grade, in the order in which they are done."""
        waiting = iter(cases)
        for number, case in islice(waiting, self.window):
            self.connection.send((number, case, timeout))
        for _ in cases:
            if not self.connection.poll(timeout + _SILENCE_SECONDS):
                raise EOFError
            yield self.connection.recv()
            for number, case in islice(waiting, 1):
                self.connection.send((number, case, timeout))


def _end(process: subprocess.Popen, owner: int) -> None:
    """Ends the server with its workers, unless this is a fork of the process that it serves."""
    if owner == os.getpid():
        with suppress(ProcessLookupError):  # a script that ignores SIGCHLD, or waits for any child, has reaped it
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


# Those of this process: a fork gets them with workers that serve the parent, and locks that may be held for ever.
_pools: "weakref.WeakSet[GradingPool]" = weakref.WeakSet()
_default: GradingPool | None = None
_default_lock = threading.Lock()  # two threads that ask first must not start two servers


def default_pool() -> GradingPool:
    """The pool of this process that reward functions share, made when first asked for."""
    global _default
    with _default_lock:
        _default = _default or GradingPool()
        return _default


def _after_fork() -> None:
    global _default, _default_lock
    _default, _default_lock = None, threading.Lock()
    for pool in _pools:
        pool._lock, pool._server = threading.Lock(), None


os.register_at_fork(after_in_child=_after_fork)
