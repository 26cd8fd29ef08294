"""Requests and results of an engine, the same for every engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class SamplingSettings:
    """How answers are sampled; temperature 0 decodes greedily."""

    temperature: float
    top_p: float
    max_tokens: int


@dataclass(frozen=True)
class Request:
    """
    Samples `first_sample` onwards of one problem. Sample `i` is drawn with `seed + i`; `opens_thinking` says that the
    prompt ends inside an open `<think>` block.
    """

    benchmark: str
    problem_id: str
    prompt_ids: tuple[int, ...]
    first_sample: int
    num_samples: int
    seed: int
    opens_thinking: bool = False


@dataclass(frozen=True)
class Generation:
    """
    One generated answer: `text` without special tokens, `tokens` with the end-of-sequence token, and `finish_reason`
    `"stop"` there or `"length"` at the token limit.
    """

    request: Request
    sample: int
    text: str
    tokens: int
    finish_reason: str


class Engine(Protocol):
    """Anything that answers requests."""

    def generate(self, requests: Sequence[Request]) -> Iterator[list[Generation]]:
        """Yields answers as they become ready, in any order: every sample of every request once."""
        ...
