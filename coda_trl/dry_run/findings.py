"""Findings of the checks: errors and warnings."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class Finding:
    """
    Something to change before the run.

    Args:
        severity (`str`):
            `"error"`: the run cannot work, or not as the method it claims to be. `"warning"`: it works, but differs
            from the method or the paper, or could not be checked here.
        setting (`str`):
            What it is about, named as on the command line.
        message (`str`):
            What is wrong, and what to change.
    """

    severity: Literal["error", "warning"]
    setting: str
    message: str


def error(setting: str, message: str) -> Finding:
    """A finding of severity `"error"`."""
    return Finding("error", setting, message)


def warning(setting: str, message: str) -> Finding:
    """A finding of severity `"warning"`."""
    return Finding("warning", setting, message)
