"""The data sets: where each comes from, which columns it has, and how a row becomes a prompt and a gold answer.

Most are a line of the table at the end. A data set has one or more schemas, as copies of it differ; the first whose
columns all exist is used.
"""

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from datasets import Dataset

from ..ladder import make_dataset
from .answers import gsm8k_answer, last_boxed
from .math_levels import MATH500_LEVEL1, is_level1, text_hash
from .prompts import Messages, choice_prompt, math_prompt
from .reading import Row
from .solved_percentage import HARD_BELOW, check_solved_percentage

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Schema:
    """One form of the rows: the columns that are read, and how they become prompt and gold, or a `ValueError`."""

    columns: tuple[str, ...]
    build: Callable[[Row], tuple[Messages, str]]


@dataclass(frozen=True)
class Source:
    """A data set: where it is, in which forms, and which of its rows are meant."""

    hub: str | None  # id on the hub; `None` if it is always read from a file
    schemas: tuple[Schema, ...]
    configs: tuple[str | None, ...] = (None,)  # those of the hub that make it up, each with all `splits`
    splits: tuple[str, ...] = ("train",)
    select: Callable[[list[Row]], list[Row]] | None = None  # chooses among the raw rows
    is_benchmark: bool = False  # an evaluation set, of which every row must have a gold
    rows: int | None = None  # published number of selected rows, for planning without the data
    generate: Callable[[int], Dataset] | None = None  # makes rows, `N` of them for `NAME=N`


def _gold(answer: str | int | float) -> str:
    if isinstance(answer, bool) or not isinstance(answer, str | int | float) or answer != answer:  # NaN
        raise ValueError(f"the gold is {answer!r}, but must be text or a number")
    return str(answer)


def _text(question: str, answer: str, extract: Callable[[str], str] = _gold) -> Schema:
    """A question in one column and its gold in another."""

    def build(row: Row) -> tuple[Messages, str]:
        if not isinstance(row[question], str):
            raise ValueError(f"the question is {row[question]!r}, but must be text")
        return math_prompt(row[question]), extract(row[answer])

    return Schema((question, answer), build)


def _commonsenseqa(row: Row) -> tuple[Messages, str]:
    labels, answer = row["choices"]["label"], row["answerKey"]
    if answer not in labels:
        raise ValueError(f"the answer {answer!r} is not among the options {', '.join(labels)}")
    return choice_prompt(row["question"], labels, row["choices"]["text"]), answer


def _gpqa_by_index(row: Row) -> tuple[Messages, str]:
    labels = [chr(ord("A") + index) for index in range(len(row["options"]))]
    if not 0 <= row["answer"] < len(labels):
        raise ValueError(f"the answer {row['answer']!r} is not an index into {len(labels)} options")
    return choice_prompt(row["Question"], labels, row["options"]), labels[row["answer"]]


_GPQA_WRONG = ("Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3")


def _gpqa_original(row: Row) -> tuple[Messages, str]:
    # The right option comes first in this copy. The shuffle depends on the question alone, not on the order or number
    # of rows.
    options = [row["Correct Answer"], *(row[column] for column in _GPQA_WRONG)]
    order = list(range(len(options)))
    random.Random(row["Question"]).shuffle(order)
    return choice_prompt(row["Question"], list("ABCD"), [options[i] for i in order]), "ABCD"[order.index(0)]


def custom_schema(prompt: str = "prompt", solution: str = "solution") -> Schema:
    """Your own data set, with the prompt (text or messages) in one column and the gold in another."""

    def build(row: Row) -> tuple[Messages, str]:
        messages = row[prompt]
        if isinstance(messages, str):
            messages = [{"role": "user", "content": messages}]
        if not (isinstance(messages, list) and messages and all({"role", "content"} <= {*turn} for turn in messages)):
            raise ValueError(f"the prompt is {messages!r:.80}, but must be text or messages with `role` and `content`")
        # Another order of names would be another type.
        return [{"role": turn["role"], "content": turn["content"], **turn} for turn in messages], _gold(row[solution])

    return Schema((prompt, solution), build)


def _math_level1(rows: list[Row]) -> list[Row]:
    column = "level" if "level" in rows[0] else "difficulty"
    level1 = [row for row in rows if is_level1(row[column])]
    kept = [row for row in level1 if text_hash(row["problem"]) not in MATH500_LEVEL1]
    logger.info(
        "MATH level 1: %s of %s problems; %s of them left out because they are in MATH500.",
        f"{len(level1):,}", f"{len(rows):,}", len(level1) - len(kept),
    )  # fmt: skip
    return kept


def _hard_problems(rows: list[Row]) -> list[Row]:
    solved = [float(row["solved_percentage"]) for row in rows]
    check_solved_percentage([row["problem"] for row in rows], solved)
    hard = [row for row, percentage in zip(rows, solved, strict=True) if percentage < HARD_BELOW]
    logger.info(
        "Hard problems: %s of %s were solved in fewer than %g%% of the attempts (paper: 13.1K of 40.3K).",
        f"{len(hard):,}", f"{len(rows):,}", HARD_BELOW,
    )  # fmt: skip
    return hard


def _benchmark(hub: str, *schemas: Schema, configs: tuple[str | None, ...] = (None,), split: str = "test") -> Source:
    return Source(hub, schemas, configs, splits=(split,), is_benchmark=True)


_GSM8K = _text("question", "answer", gsm8k_answer)
_MATH_SUBJECTS = (
    "algebra counting_and_probability geometry intermediate_algebra number_theory prealgebra precalculus".split()
)

SOURCES: dict[str, Source] = {
    # Training
    "deepscaler": Source("agentica-org/DeepScaleR-Preview-Dataset", (_text("problem", "answer"),), rows=40_315),
    "deepscaler_hard": Source(
        "lime-nlp/DeepScaleR_Difficulty",
        (Schema(("problem", "ground_truth", "solved_percentage"), _text("problem", "ground_truth").build),),
        configs=("Difficulty Score",),
        select=_hard_problems,
    ),
    "gsm8k_train": Source("openai/gsm8k", (_GSM8K,), configs=("main",), rows=7_473),
    "math_level1": Source(
        "EleutherAI/hendrycks_math",
        (_text("problem", "answer"), _text("problem", "solution", last_boxed)),
        configs=tuple(_MATH_SUBJECTS),
        splits=("train", "test"),
        select=_math_level1,
        rows=958,  # 564 + 437, less the 43 of MATH500
    ),
    "ladder": Source(None, (), generate=make_dataset, rows=10_000),
    # The lower half alone, all rungs alike, and the top alone: the paper's extreme training sets on the ladder.
    "ladder_easy": Source(None, (), generate=partial(make_dataset, rung_shares={1: 1, 2: 1, 3: 1}), rows=10_000),
    "ladder_hard": Source(None, (), generate=partial(make_dataset, rung_shares={6: 1}), rows=10_000),
    "custom": Source(None, (custom_schema(),)),
    # Evaluation
    "svamp": _benchmark("ChilleD/SVAMP", _text("question_concat", "Answer")),
    "gsm8k": _benchmark("openai/gsm8k", _GSM8K, configs=("main",)),
    "math500": _benchmark("HuggingFaceH4/MATH-500", _text("problem", "answer")),
    "amc23": _benchmark("math-ai/amc23", _text("question", "answer")),
    "aime24": _benchmark(
        "Maxwell-Jia/AIME_2024", _text("Problem", "Answer"), _text("problem", "answer"), split="train"
    ),
    "aime25": _benchmark(
        "opencompass/AIME2025",
        _text("question", "answer"),
        _text("problem", "answer"),
        configs=("AIME2025-I", "AIME2025-II"),
    ),
    "commonsenseqa": _benchmark(
        "tau/commonsense_qa",
        Schema(("question", "choices", "answerKey"), _commonsenseqa),
        split="validation",  # the test split has no answers; the authors use validation as well
    ),
    "gpqa": _benchmark(
        "Idavidrein/gpqa",  # gated: accept its terms on the hub first
        Schema(("Question", "options", "answer"), _gpqa_by_index),
        Schema(("Question", "Correct Answer", *_GPQA_WRONG), _gpqa_original),
        configs=("gpqa_diamond",),
        split="train",
    ),
}

BENCHMARKS = tuple(name for name, source in SOURCES.items() if source.is_benchmark)

# What the paper calls its training sets.
TRAINING_SETS = {"mixed": ("deepscaler",), "easy": ("gsm8k_train", "math_level1"), "hard": ("deepscaler_hard",)}
