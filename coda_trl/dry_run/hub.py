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
    Looks whether the hub answers before the first file is fetched from it. If it does not, every file is looked for in
    the cache alone, as with `HF_HUB_OFFLINE=1`. (`huggingface_hub` asks six times for each file, with waits of 23
    seconds in all in between.)

    Nothing is asked where nothing is fetched.
    """
    client = get_session()
    hooks = client.event_hooks
    client.event_hooks = hooks | {"request": [*hooks["request"], _FirstLook(client)]}
    try:
        yield
    finally:
        close_session()  # the next session is one without the hook


class _FirstLook:
    def __init__(self, client: Any):  # of httpx, or, from huggingface_hub 2 on, of httpx2
        self.client = client
        self.looked = False
        self.problem: Exception | None = None

    def __call__(self, request: Any) -> None:
        if not self.looked:
            self.looked = True
            try:
                self.client.head(constants.ENDPOINT, timeout=PATIENCE)
            except Exception as problem:  # of either package
                self.problem = problem
        if self.problem is not None:
            raise OfflineModeIsEnabled(f"{constants.ENDPOINT} cannot be reached: {self.problem}.")
