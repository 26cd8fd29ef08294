r"""
Grade mathematical answers: bounded in time and memory, and strict about what counts as right.

The rules are in `docs/grading.md`. Importing this package is cheap: computer algebra is loaded in worker processes
only.
"""

from .extract import final_answer, opens_thinking
from .pool import Grade, GradingPool, default_pool

__all__ = ["Grade", "GradingPool", "default_pool", "final_answer", "grade", "opens_thinking"]


def grade(completion: str, gold: str | None) -> bool | None:
    r"""
    Grades one completion.

    The last `\boxed{}` after the end of the reasoning decides. What needs computer algebra runs in a worker of
    [`default_pool`], within two seconds. For many completions use [`GradingPool.grade`].

    Args:
        completion (`str`):
            Text of the model, with or without its reasoning; with `<think>` in front if the prompt
            [`opens_thinking`].
        gold (`str` or `None`):
            Right answer, with or without `\boxed{}`.

    Returns:
        `bool` or `None`: `None` only if the gold cannot be read.

    Example:

    ```python
    >>> from coda_trl.grading import grade

    >>> grade(r"<think>18 * 1.5 = 27</think> The distance is $\boxed{27\text{ miles}}$.", "27")
    True

    ```
    """
    return default_pool().grade([completion], [gold])[0].verdict
