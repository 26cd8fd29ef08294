"""Detects an unreachable hub once, instead of six times per file."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from huggingface_hub import close_session, constants, get_session
from huggingface_hub.errors import OfflineModeIsEnabled

PATIENCE = 5.0  # seconds


@contextmanager
def ask_the_hub_once() -> Iterator[None]:
    """
    Checks once, before the first download, that the hub answers. If it does not, files come from the cache alone, as
    with `HF_HUB_OFFLINE=1`. (`huggingface_hub` asks six times for each file, and waits 23 seconds in between.)
    """
    client = get_session()
    answers: list[Exception | None] = []

    def look_once(request: Any) -> None:
        if not answers:
            answers.append(None)  # the question itself comes here too
            try:
                client.head(constants.ENDPOINT, timeout=PATIENCE)
            except Exception as problem:  # of httpx, or, from huggingface_hub 2 on, of httpx2
                answers[0] = problem
        if answers[0] is not None:
            raise OfflineModeIsEnabled(f"{constants.ENDPOINT} cannot be reached: {answers[0]}.")

    client.event_hooks = client.event_hooks | {"request": [*client.event_hooks["request"], look_once]}
    try:
        yield
    finally:
        close_session()  # the next session is one without the hook
