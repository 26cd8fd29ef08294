"""Messages between the calling process and the grading server."""

from typing import NamedTuple

from .rules import Case


class Job(NamedTuple):
    """One case to grade. `number` is the caller's; `timeout` in seconds."""

    number: int
    case: Case
    gold_is_readable: bool
    timeout: float


class Result(NamedTuple):
    """Verdict on a job and the seconds it took; `stopped` (and `False`) if a limit or a crash ended it."""

    number: int
    verdict: bool | None
    seconds: float
    stopped: bool
