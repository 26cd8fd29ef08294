"""Waiting for processes that a test started, or that those started."""

import time
from collections.abc import Callable

import psutil


def wait_until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    """Whether the condition is met in time."""
    deadline = time.monotonic() + seconds
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.05)
    return condition()


def has_ended(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
