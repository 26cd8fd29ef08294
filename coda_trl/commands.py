"""Ends commands without a traceback when they are interrupted or nobody reads their output any more."""

import functools
import os
import select
import sys
from collections.abc import Callable
from typing import IO, Any


def command(main: Callable[..., Any]) -> Callable[..., Any]:
    """Lets a command end silently on Control-C, or when the reader of its output leaves early (`| head`)."""

    @functools.wraps(main)
    def run(*arguments: Any, **options: Any) -> Any:
        try:
            try:
                return main(*arguments, **options)
            finally:
                sys.stdout.flush()
        except BrokenPipeError:
            if not (_has_no_reader(sys.stdout) or _has_no_reader(sys.stderr)):
                raise  # the pipe of another process, such as a tracker
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # Python flushes once more when it exits
            sys.exit(1)
        except KeyboardInterrupt:
            sys.exit(130)

    return run


def _has_no_reader(stream: IO) -> bool:
    poll = select.poll()
    poll.register(stream, 0)
    return any(event & select.POLLERR for _, event in poll.poll(0))
