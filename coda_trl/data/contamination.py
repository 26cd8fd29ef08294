"""Looks for evaluation problems in a training set: the same text, or runs of 13 words in common.

13-grams follow the decontamination of GPT-3 (https://huggingface.co/papers/2005.14165, appendix C). One shared run is
weak evidence in mathematics, where phrases such as "where m and n are relatively prime positive integers. Find m + n"
recur, so problems that share half of their runs are counted separately.
"""

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from datasets import Dataset

from .prompts import INSTRUCTION, Messages

N = 13


@dataclass(frozen=True)
class Overlap:
    """
    Problems of one evaluation set that occur in a training set. The three counts are nested.

    Args:
        problems (`int`):
            Problems of the evaluation set.
        identical (`int`):
            Those whose text, ignoring case, punctuation and spacing, is a training problem.
        half (`int`):
            Those and problems that share half or more of their runs of 13 words with training problems.
        any (`int`):
            Those and problems that share at least one.
        training_rows (`tuple[int, ...]`):
            Training rows that are identical to one of the problems, or share half or more of its runs.
    """

    problems: int
    identical: int
    half: int
    any: int
    training_rows: tuple[int, ...]


def question_text(prompt: str | Messages) -> str:
    """The question in a prompt: its text up to the instruction that all prompts share."""
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return text.rpartition(f"\n\n{INSTRUCTION}")[0] or text


def _traces(prompt: str | Messages) -> tuple[str, set[str]]:
    """The words of a question (runs of letters or digits) as one text, marked by "=", and all runs of 13 of them."""
    words = re.findall(r"[^\W_]+", question_text(prompt).lower())
    return " ".join(["=", *words]), {" ".join(words[start : start + N]) for start in range(len(words) - N + 1)}


def find_overlap(training: Dataset, benchmarks: Mapping[str, Dataset]) -> dict[str, Overlap]:
    """
    Compares a training set with evaluation sets.

    Args:
        training (`Dataset`):
            Rows with a `prompt`.
        benchmarks (`Mapping[str, Dataset]`):
            Evaluation sets by name, rows with a `prompt`.

    Returns:
        `dict[str, Overlap]`: What was found, by name.
    """
    problems = {name: list(map(_traces, rows["prompt"])) for name, rows in benchmarks.items()}
    rows_with = {trace: [] for pairs in problems.values() for text, runs in pairs for trace in (text, *runs)}
    for row, prompt in enumerate(training["prompt"]):
        text, runs = _traces(prompt)
        for trace in rows_with.keys() & {text, *runs}:
            rows_with[trace].append(row)
    return {name: _count(pairs, rows_with) for name, pairs in problems.items()}


def _count(problems: Sequence[tuple[str, set[str]]], rows_with: Mapping[str, list[int]]) -> Overlap:
    identical = half = some = 0
    training_rows = set()
    for text, runs in problems:
        shared = sum(bool(rows_with[run]) for run in runs)
        is_identical = bool(rows_with[text])
        identical += is_identical
        half += is_identical or 0 < len(runs) <= 2 * shared
        some += is_identical or shared > 0
        counts = Counter(row for run in runs for row in rows_with[run])
        training_rows.update(rows_with[text], (row for row, count in counts.items() if 2 * count >= len(runs)))
    return Overlap(len(problems), identical, half, some, tuple(sorted(training_rows)))
