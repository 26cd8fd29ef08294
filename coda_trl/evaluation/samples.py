"""The sample file: one JSON object per line, one line per generated answer.

The file is the interface between generation and analysis, so the report takes answers that other tools generated.
Further fields than [`REQUIRED_FIELDS`] (prompt, seed, gold, difficulty rung, ...) are kept.
"""

import fcntl
import json
import os
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import NoneType
from typing import Any

# What an evaluation writes.
SAMPLES_FILE, SUMMARY_FILE = "samples.jsonl", "summary.json"

REQUIRED_FIELDS = {
    "benchmark": (str,),
    "problem_id": (str, int),
    "sample": (int,),
    "completion": (str,),
    "tokens": (int,),
    "finish_reason": (str, NoneType),
    "correct": (bool, NoneType),
}


def read_samples(path: str | os.PathLike) -> Iterator[dict[str, Any]]:
    """
    Reads a sample file line by line: all fields of every sample, `problem_id` as a string. A truncated last line is
    left out. Raises a `ValueError` if a line is no sample.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                sample = json.loads(line)
            except ValueError as error:
                if not line.endswith(b"\n"):
                    return
                raise ValueError(f"{path}, line {number}: not a JSON object ({error})") from error
            _check(sample, f"{path}, line {number}")
            sample["problem_id"] = str(sample["problem_id"])
            yield sample


def _check(sample: Any, where: str) -> None:
    if not isinstance(sample, dict):
        raise ValueError(f"{where}: expected a JSON object, got {type(sample).__name__}")
    for field, types in REQUIRED_FIELDS.items():
        if field not in sample:
            raise ValueError(f"{where}: field `{field}` is missing; every sample needs {', '.join(REQUIRED_FIELDS)}")
        value = sample[field]
        # `True` is an `int` to Python, but neither a count nor an identifier.
        if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
            names = " or ".join("null" if kind is NoneType else kind.__name__ for kind in types)
            raise ValueError(f"{where}: field `{field}` must be {names}, got {value!r}")
    if sample["tokens"] < 0:
        raise ValueError(f"{where}: field `tokens` must be at least 0, got {sample['tokens']}")


def question_of(problem: Mapping[str, Any]) -> int:
    """Checksum of prompt and solution, which detects a different problem under the same id."""
    return zlib.crc32(json.dumps([problem.get("prompt"), problem.get("solution")], sort_keys=True).encode())


def was_stopped(sample: Mapping[str, Any]) -> bool:
    """Whether grading ended at its limit on time or memory, so that the sample counts as wrong."""
    return bool(sample.get("stopped"))


class SampleWriter:
    """
    Appends samples to a file, and knows which ones it holds already.

    A killed process leaves at most one incomplete last line, which the next writer removes.

    Args:
        path (`str` or `os.PathLike`):
            Sample file; created, with its folder, if it does not exist.

    Attributes:
        done (`dict[tuple[str, str], set[int]]`):
            Sample numbers in the file, by benchmark and problem id.
        questions (`dict[tuple[str, str], int]`):
            What was asked ([`question_of`]) in the samples that hold a prompt, by benchmark and problem id.

    Raises:
        BlockingIOError: If another process is writing to the file.
        ValueError: If the file holds a line that is not a sample, or one sample twice.
    """

    def __init__(self, path: str | os.PathLike):
        self.path = Path(path)
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self._file = open(self.path, "ab")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            self._file.close()
            raise BlockingIOError(f"another process is writing to {self.path}; wait for it or end it") from error
        self.done: dict[tuple[str, str], set[int]] = {}
        self.questions: dict[tuple[str, str], int] = {}
        try:
            self._drop_incomplete_line()
            for sample in read_samples(self.path):
                self._note(sample)
        except ValueError:
            self._file.close()  # and with it the lock, which a notebook would keep along with the traceback
            raise

    def _drop_incomplete_line(self) -> None:
        with open(self.path, "rb+") as file:
            for last in deque(file, maxlen=1):
                if not last.endswith(b"\n"):
                    file.truncate(file.seek(-len(last), os.SEEK_END))

    def _note(self, sample: dict[str, Any]) -> None:
        key = sample["benchmark"], sample["problem_id"]
        numbers = self.done.setdefault(key, set())
        if sample["sample"] in numbers:
            raise ValueError(
                f"{self.path}: sample {sample['sample']} of problem {sample['problem_id']!r} in benchmark "
                f"{sample['benchmark']!r} is there twice"
            )
        numbers.add(sample["sample"])
        if "prompt" in sample:
            self.questions.setdefault(key, question_of(sample))

    def write(self, samples: Iterable[dict[str, Any]]) -> None:
        """Appends samples with the required fields and any others that JSON can hold."""
        samples = list(samples)
        for sample in samples:
            self._note(sample)
        # ASCII escapes, because a completion may hold a lone surrogate, which UTF-8 cannot.
        self._file.write("".join(json.dumps(sample) + "\n" for sample in samples).encode("ascii"))
        self._file.flush()

    def __enter__(self) -> "SampleWriter":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
