"""How every command of the package ends: without a traceback where whoever started it lost interest."""

import functools
import os
import sys
from collections.abc import Callable
from typing import Any


def command(main: Callable[..., Any]) -> Callable[..., Any]:
    """Lets Control-C and a reader of its output that leaves early (`| head`) end a command in silence."""

    @functools.wraps(main)
    def run(*arguments: Any) -> Any:
        try:
            try:
                return main(*arguments)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it exits
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)

    return run
