"""Looks for evaluation problems in a training set: the same text, or runs of 13 words in common.

13-grams follow the decontamination of GPT-3 (https://huggingface.co/papers/2005.14165, appendix C). One shared run is
weak evidence in mathematics, where phrases such as "where m and n are relatively prime positive integers. Find m + n"
recur; so problems that share half of their runs are counted apart.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from datasets import Dataset

from .prompts import INSTRUCTION

N = 13


@dataclass(frozen=True)
class Overlap:
    """
    Problems of one evaluation set that occur in a training set. The three counts are nested.

    Args:
        problems (`int`):
            Problems of the evaluation set.
        identical (`int`):
            Those whose whole text, less case, punctuation and spacing, is a training problem.
        half (`int`):
            Those, or half or more of whose runs of 13 words occur in training problems.
        any (`int`):
            Those, or with at least one run of 13 words that does.
        training_rows (`tuple[int, ...]`):
            Training rows that are identical to one of the problems, or share half or more of its runs.
    """

    problems: int
    identical: int
    half: int
    any: int
    training_rows: tuple[int, ...]


def question_text(prompt: str | list[dict[str, str]]) -> str:
    """The question in a prompt: its text up to the instruction, which all prompts have in common."""
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return text.rpartition(f"\n\n{INSTRUCTION}")[0] or text


def words(text: str) -> tuple[str, ...]:
    """Words of a text in lower case: runs of letters or digits, whatever spacing and LaTeX marks are between."""
    return tuple(re.findall(r"[^\W_]+", text.lower()))


def _runs(tokens: tuple[str, ...]) -> set[tuple[str, ...]]:
    return {tokens[start : start + N] for start in range(len(tokens) - N + 1)}


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

    Example:

    ```python
    >>> from datasets import Dataset
    >>> from coda_trl.data import find_overlap, math_prompt

    >>> training = Dataset.from_list([{"prompt": math_prompt("What is  $2 + 2$?")}])
    >>> test = Dataset.from_list([{"prompt": math_prompt("what is $2+2$")}, {"prompt": math_prompt("What is $3$?")}])
    >>> find_overlap(training, {"test": test})
    {'test': Overlap(problems=2, identical=1, half=1, any=1, training_rows=(0,))}

    ```
    """
    problems = {name: [words(question_text(prompt)) for prompt in rows["prompt"]] for name, rows in benchmarks.items()}
    whole = defaultdict(list)  # training rows by text, for the texts that evaluation sets have
    holders = defaultdict(list)  # training rows by run, likewise
    for tokens in (tokens for rows in problems.values() for tokens in rows):
        whole[tokens] = []
        for run in _runs(tokens):
            holders[run] = []
    for row, prompt in enumerate(training["prompt"]):
        tokens = words(question_text(prompt))
        if tokens in whole:
            whole[tokens].append(row)
        for run in _runs(tokens) & holders.keys():
            holders[run].append(row)
    return {name: _count(rows, whole, holders) for name, rows in problems.items()}


def _count(problems: Iterable[tuple[str, ...]], whole: Mapping, holders: Mapping) -> Overlap:
    total = identical = half = any_run = 0
    training_rows = set()
    for tokens in problems:
        total += 1
        runs = _runs(tokens)
        shared = sum(bool(holders[run]) for run in runs)
        is_identical, is_half = bool(whole[tokens]), bool(runs) and 2 * shared >= len(runs)
        identical += is_identical
        half += is_identical or is_half
        any_run += is_identical or shared > 0
        training_rows.update(whole[tokens])
        if is_half:
            counts = defaultdict(int)
            for row in (row for run in runs for row in holders[run]):
                counts[row] += 1
            training_rows.update(row for row, count in counts.items() if 2 * count >= len(runs))
    return Overlap(total, identical, half, any_run, tuple(sorted(training_rows)))
