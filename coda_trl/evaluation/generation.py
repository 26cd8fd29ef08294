"""Requests and results of an engine, the same for every engine."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class SamplingSettings:
    """
    How answers are sampled.

    Args:
        temperature (`float`, *optional*, defaults to `0.6`):
            Sampling temperature; 0 decodes greedily.
        top_p (`float`, *optional*, defaults to `0.95`):
            Nucleus: tokens are drawn from the smallest set that holds this probability.
        max_tokens (`int`, *optional*, defaults to `16384`):
            Limit on generated tokens.
    """

    temperature: float = 0.6
    top_p: float = 0.95
    max_tokens: int = 16384


@dataclass(frozen=True)
class Request:
    """
    Some samples of one problem.

    Args:
        benchmark (`str`):
            Name of the benchmark.
        problem_id (`str`):
            Id of the problem in it.
        prompt_ids (`tuple[int, ...]`):
            Token ids of the prompt.
        first_sample (`int`):
            Number of the first sample wanted.
        num_samples (`int`):
            How many samples are wanted, numbered onwards from the first.
        seed (`int`):
            Seed of the problem; sample `i` is drawn with `seed + i`.
        opens_thinking (`bool`, *optional*, defaults to `False`):
            Whether the prompt ends inside an open `<think>` block.
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
    One generated answer.

    Args:
        request ([`Request`]):
            What it answers.
        sample (`int`):
            Number of the sample.
        text (`str`):
            Completion without special tokens.
        tokens (`int`):
            Generated tokens, the end-of-sequence token included.
        finish_reason (`str`):
            `"stop"` at an end-of-sequence token, `"length"` at the token limit.
    """

    request: Request
    sample: int
    text: str
    tokens: int
    finish_reason: str

    @property
    def seed(self) -> int:
        """Seed that the sample was drawn with."""
        return self.request.seed + self.sample


class Engine(Protocol):
    """Anything that answers requests."""

    name: str

    def generate(self, requests: Sequence[Request]) -> Iterator[list[Generation]]:
        """
        Answers requests, in whatever order suits the engine.

        Args:
            requests (`Sequence[Request]`):
                Samples wanted.

        Yields:
            `list[Generation]`: Answers as they become ready, every sample of every request once.
        """
        ...
