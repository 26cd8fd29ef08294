"""Samples of an evaluation, made up, and files of JSON lines."""

import json
from collections.abc import Iterable
from pathlib import Path


def sample(problem: str | int = "p", correct: bool | None = True, tokens: int = 10, **others) -> dict:
    """A line of `samples.jsonl`; its number, `sample`, is among the others."""
    named = {"benchmark": "b", "problem_id": str(problem), "completion": "", "finish_reason": "stop"}
    return named | {"correct": correct, "tokens": tokens} | others


def read_lines(path: Path) -> list[dict]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def write_lines(path: Path, rows: Iterable[dict]) -> Path:
    """Writes the rows, and makes the folder. Returns the path."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path
