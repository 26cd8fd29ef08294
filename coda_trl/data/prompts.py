r"""Prompts: the wording of the authors' scripts, and the token budget of L1.

One user turn: the question, a blank line, [`INSTRUCTION`]. A letter-choice question lists its options between the two,
and one more sentence asks for a letter.
"""

import random

from datasets import Dataset

from .reading import DataError

INSTRUCTION = r"Let's think step by step and output the final answer within \boxed{}."

Messages = list[dict[str, str]]


def math_prompt(question: str) -> Messages:
    """One user turn that asks a question whose answer is written out."""
    return [{"role": "user", "content": f"{question}\n\n{INSTRUCTION}"}]


def choice_prompt(question: str, labels: list[str], options: list[str]) -> Messages:
    """One user turn that asks a question with lettered options, of which `labels` are the letters."""
    lines = "".join(f"{label}. {option.strip()}\n" for label, option in zip(labels, options, strict=True))
    boxes = [rf"\boxed{{{label}}}" for label in labels]
    letters = f"Please write your final answer in the form of {', '.join(boxes[:-1])}, or {boxes[-1]}."
    return [{"role": "user", "content": f"{question}\n\n{lines}\n\n{INSTRUCTION} {letters}"}]


def missing_box(reader: str, prompt: str | Messages) -> str | None:
    """A warning that `reader` reads a box, if a data set's first prompt asks for none."""
    if "boxed" in str(prompt):
        return None
    return (
        f"{reader} reads the last `\\boxed{{}}` of an answer, but the first prompt asks for none. Unless the model "
        f'writes one anyway, append "{INSTRUCTION}" (`coda_trl.data.INSTRUCTION`) to every prompt.'
    )


def add_length_budget(dataset: Dataset, low: int, high: int, seed: int = 42) -> Dataset:
    """
    Asks for a number of tokens, as L1 does (https://huggingface.co/papers/2503.04697).

    Every prompt ends with `Think for N tokens.`, and column `n_gold` holds N. It is drawn once per row, so all
    rollouts of a group share it.

    Args:
        dataset (`Dataset`):
            Rows with a conversational `prompt`.
        low, high (`int`):
            Range of N, both ends included. The CODA paper uses 128 to 10,000.
        seed (`int`, *optional*, defaults to `42`):
            Seed of the draw.

    Raises:
        ValueError: If the range is empty or starts below 1.
    """
    if not 1 <= low <= high:
        raise ValueError(f"The length budget is {low} to {high} tokens, but must be a range of positive numbers.")
    draw = random.Random(seed)
    budgets = [draw.randint(low, high) for _ in range(len(dataset))]

    def extend(row: dict, index: int) -> dict:
        *turns, last = row["prompt"]
        content = f"{last['content']} Think for {budgets[index]} tokens."
        return {"prompt": [*turns, {**last, "content": content}], "n_gold": budgets[index]}

    return dataset.map(extend, with_indices=True, desc="Length budgets")


def to_plain_text(dataset: Dataset) -> Dataset:
    """
    Turns conversational prompts of one user turn into its text and a newline, for base models without a chat template.

    Args:
        dataset (`Dataset`):
            Rows with a conversational `prompt`.

    Raises:
        DataError: If a prompt has several messages, as plain text cannot tell who says what.
    """

    def flatten(row: dict) -> dict:
        if len(row["prompt"]) != 1:
            roles = ", ".join(message["role"] for message in row["prompt"])
            raise DataError(
                f"A prompt has {len(row['prompt'])} messages ({roles}), but `prompt_format: plain` takes one user "
                "turn. Put everything into that, or use `prompt_format: chat` with a model that has a chat template."
            )
        return {"prompt": row["prompt"][0]["content"] + "\n"}

    return dataset.map(flatten, desc="Plain-text prompts")
