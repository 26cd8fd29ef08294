r"""
Reward functions for [`CodaGRPOTrainer`] and TRL's `GRPOTrainer`.

[`accuracy_reward`] and [`choice_reward`] are 0/1 rewards by this project's grader, [`ladder_reward`] is that of the
ladder's problems; the others are TRL's. Recipes name them by the keys of `REWARD_FUNCTIONS`.
"""

import math
import numbers
import time
from collections.abc import Callable
from itertools import repeat

from trl.rewards import accuracy_reward as trl_accuracy
from trl.rewards import get_repetition_penalty_reward, get_soft_overlong_punishment, think_format_reward

from .grading import Grade, default_pool, opens_thinking
from .grading.choice import chosen_letter, gold_letter
from .grading.normalize import normalize
from .ladder import ends_in_sum

LogExtra = Callable[[str, list], None]
LogMetric = Callable[[str, float], None]
Completion = str | list[dict]


def completion_text(completion: Completion) -> str:
    """
    Returns the text of a completion as TRL hands it to reward functions.

    Args:
        completion (`str` or `list[dict]`):
            Plain text, or messages, of which the last has the answer.

    Returns:
        `str`: the text; of a message in parts, the text parts joined; empty for a message without content.
    """
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else None
    if isinstance(content, list):
        return "".join(part["text"] for part in content if part["type"] == "text")
    return content or ""


def accuracy_reward(
    completions: list[Completion],
    solution: list[str | int | float | None],
    log_extra: LogExtra | None = None,
    log_metric: LogMetric | None = None,
    prompts: list[str | list[dict]] | None = None,
    prompt_opens_thinking: list[bool] | None = None,
    **kwargs,
) -> list[float | None]:
    r"""
    1 for a right answer, 0 for a wrong one, `None` where the solution cannot be read.

    The last `\boxed{}` after the end of the reasoning decides; the rules are in `docs/grading.md`. Cases are graded in
    worker processes that all calls of this process share, with a limit of two seconds; one that reaches it is wrong.

    Args:
        completions (`list[str]` or `list[list[dict]]`):
            Completions, as text or as messages.
        solution (`list[str]`):
            Right answer of each, with or without `\boxed{}`; numbers are fine.
        log_extra, log_metric (`Callable`, *optional*):
            Provided by the trainer. They receive the columns `accuracy_reward/solution`, `accuracy_reward/gold_parsed`
            and `accuracy_reward/answer_parsed` of the completions table, and `coda/grading_timeouts` (cases of this
            call that reached a limit; the trainer logs the mean over processes and calls) and `coda/grading_seconds`.
        prompts (`list[str]` or `list[list[dict]]`, *optional*):
            Provided by the trainer.
        prompt_opens_thinking (`list[bool]`, *optional*):
            Whether the chat template ends each prompt inside an open `<think>` block, so that an answer must follow a
            `</think>`. Provided by [`CodaGRPOTrainer`]; for another trainer, make it a column of the data set. Without
            it, plain-text prompts are inspected, and conversations count as closed.
        **kwargs:
            Other columns of the data set, not used.

    Returns:
        `list[float | None]`: one reward for each completion.

    Example:

    ```python
    >>> from coda_trl.rewards import accuracy_reward

    >>> right, unboxed = ([{"role": "assistant", "content": text}] for text in (r"\boxed{\frac{2}{6}}", "1/3"))
    >>> accuracy_reward([right, unboxed], [r"\frac{1}{3}", r"\frac{1}{3}"])
    [1.0, 0.0]

    ```
    """
    start = time.perf_counter()
    golds = list(map(_gold, solution))
    grades = default_pool().grade(_texts(completions, prompts, prompt_opens_thinking), golds)
    if log_extra is not None:
        pairs = zip(grades, golds, strict=True)
        parsed = ["[unparseable]" if grade.verdict is None else normalize(gold) for grade, gold in pairs]
        log_extra("accuracy_reward/solution", list(solution))
        log_extra("accuracy_reward/gold_parsed", parsed)
        log_extra("accuracy_reward/answer_parsed", list(map(_answer_column, grades)))
    if log_metric is not None:
        log_metric("coda/grading_timeouts", float(sum(grade.stopped for grade in grades)))
        log_metric("coda/grading_seconds", time.perf_counter() - start)
    return list(map(_reward, grades))


def _reward(grade: Grade) -> float | None:
    return None if grade.verdict is None else float(grade.verdict)


def _answer_column(grade: Grade) -> str:
    if grade.verdict is None:
        return "[skipped]"
    if grade.answer is None:
        return "[no box]"
    return "[timeout]" if grade.stopped else grade.answer.encode("utf-8", "replace").decode()


def _texts(
    completions: list[Completion],
    prompts: list[str | list[dict]] | None,
    prompt_opens_thinking: list[bool] | None,
) -> list[str]:
    """Texts of completions, each after the `<think>` that its prompt opened, if any."""
    texts = list(map(completion_text, completions))
    opened = prompt_opens_thinking
    if opened is None:  # of messages only the chat template knows
        prompts = prompts or [""] * len(texts)
        opened = [isinstance(prompt, str) and opens_thinking(prompt) for prompt in prompts]
    return [
        f"<think>{text}" if is_open and not _has_reasoning_apart(completion) else text
        for text, completion, is_open in zip(texts, completions, opened, strict=True)
    ]


def _has_reasoning_apart(completion: Completion) -> bool:
    """Whether the tokenizer has moved the reasoning out of the text, as it does for tool calls in TRL."""
    return not isinstance(completion, str) and any(
        completion[-1].get(key) for key in ("reasoning_content", "thinking")
    )


def trl_accuracy_reward(
    completions: list[Completion], solution: list[str | int | float | None], **kwargs
) -> list[float | None]:
    r"""
    TRL's `accuracy_reward`, with solutions put into a box if they have none, as TRL misreads most bare ones.

    For comparison with runs of plain TRL. It has no time limit off the main thread; prefer [`accuracy_reward`], which
    takes the same arguments.

    Example:

    ```python
    >>> from coda_trl.rewards import trl_accuracy_reward

    >>> trl_accuracy_reward([r"\boxed{72}", r"\boxed{27}"], ["72", "72"])
    [1.0, 0.0]

    ```
    """
    boxed = [gold if "\\boxed" in str(gold) else rf"\boxed{{{gold}}}" for gold in solution]
    messages = [[{"content": completion_text(completion)}] for completion in completions]
    rewards = trl_accuracy(messages, boxed, **kwargs)
    return [None if gold is None else reward for gold, reward in zip(solution, rewards, strict=True)]


def choice_reward(
    completions: list[Completion],
    solution: list[str | None],
    options: list[list[str]] | None = None,
    log_extra: LogExtra | None = None,
    prompts: list[str | list[dict]] | None = None,
    prompt_opens_thinking: list[bool] | None = None,
    **kwargs,
) -> list[float | None]:
    r"""
    Multiple choice: 1 if the last box names the right option, 0 if not, `None` where the solution is no letter.

    `B`, `b`, `(B)`, `B.`, `\text{B}` and `B. bookstore` all name option B. With `options`, so does its exact text,
    unless another option reads the same.

    Args:
        completions, solution:
            As in [`accuracy_reward`]; a solution is the letter of the right option.
        options (`list[list[str]]`, *optional*):
            Texts of the options of each question, A first.
        log_extra, prompts, prompt_opens_thinking (*optional*):
            As in [`accuracy_reward`]; the columns are `choice_reward/solution` and `choice_reward/answer_parsed`.
        **kwargs:
            Other columns of the data set, not used.

    Returns:
        `list[float | None]`: one reward for each completion.

    Example:

    ```python
    >>> from coda_trl.rewards import choice_reward

    >>> choice_reward([r"\boxed{\text{(B)}}", r"\boxed{bookstore}", r"\boxed{B or C}"], ["B", "B", "B"])
    [1.0, 0.0, 0.0]
    >>> choice_reward([r"\boxed{bookstore}"], ["B"], options=[["bank", "bookstore"]])
    [1.0]

    ```
    """
    golds = [gold if gold is not None and gold_letter(normalize(gold)) else None for gold in map(_gold, solution)]
    grades = default_pool().grade(_texts(completions, prompts, prompt_opens_thinking), golds, options=options)
    if log_extra is not None:
        letters = map(chosen_letter, [normalize(grade.answer or "") for grade in grades], options or repeat(None))
        log_extra("choice_reward/solution", list(solution))
        log_extra("choice_reward/answer_parsed", [letter or "[no option]" for letter in letters])
    return list(map(_reward, grades))


def ladder_reward(completions: list[Completion], solution: list[str], **kwargs) -> list[float]:
    """
    1 where a completion of a problem of the ladder ends in the right sum, else 0.

    Args:
        completions, solution:
            As in [`accuracy_reward`]; a solution is the sum in digits.
        **kwargs:
            Other columns of the data set, not used.

    Example:

    ```python
    >>> from coda_trl.rewards import ladder_reward

    >>> ladder_reward(["7 +7 14 +1 15 ans 15", "ans 16"], ["15", "15"])
    [1.0, 0.0]

    ```
    """
    return [
        float(ends_in_sum(completion_text(completion), answer))
        for completion, answer in zip(completions, solution, strict=True)
    ]


def _gold(value: object) -> str | None:
    """A gold as text; `None` for what cannot be one: missing values, NaN, lists, dictionaries."""
    if isinstance(value, str):
        return value
    is_number = isinstance(value, numbers.Real) and not isinstance(value, bool)
    return str(value) if is_number and math.isfinite(value) else None


READ_A_BOX: dict[str, Callable] = {
    "accuracy_reward": accuracy_reward,
    "choice_reward": choice_reward,
    "trl_accuracy_reward": trl_accuracy_reward,
}
JUDGE_CORRECTNESS = READ_A_BOX | {"ladder_reward": ladder_reward}
REWARD_FUNCTIONS = JUDGE_CORRECTNESS | {
    "think_format_reward": think_format_reward,
    # these two make a reward function from their arguments
    "get_soft_overlong_punishment": get_soft_overlong_punishment,
    "get_repetition_penalty_reward": get_repetition_penalty_reward,
}
