"""Findings of the checks: errors and warnings."""

from functools import partial
from typing import Literal, NamedTuple


class Finding(NamedTuple):
    """Something to change before the run."""

    # An error: the run cannot work, or is not the method that it claims to be. A warning: it differs from the method
    # or the paper, or could not be checked.
    severity: Literal["error", "warning"]
    setting: str  # named as on the command line
    message: str  # what is wrong, and what to change


error = partial(Finding, "error")
warning = partial(Finding, "warning")
