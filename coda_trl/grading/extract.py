r"""Find the final answer of a completion: the last complete `\boxed{}` after the end of the reasoning."""

import re

REASONING_START = "<think>"
REASONING_END = "</think>"
# A box that encloses the last one starts at most this many characters before it (a longer answer is refused anyway).
ENCLOSING_WINDOW = 4096

_TOKEN = re.compile(r"\\\\?(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
# `\boxed 27`: TeX would box the `2` only, but the writer meant 27. The end of the formula, the sentence or the line
# has to follow: before a letter or an operator it is only the beginning of an answer, and so it may be at the end of
# the text.
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s*(-?\d[\d.,/]*+)(?=\s*(?:[$*.,;]|\\[\])])|\s*\n|\s[A-Za-z]{2})")


def after_reasoning(completion: str) -> str:
    """
    Returns the part of a completion that can hold the final answer.

    Args:
        completion (`str`):
            Text of the model, with or without its reasoning.

    Returns:
        `str`: what follows the last `</think>` (the whole text if there is none), up to a `<think>` that is
        never closed.
    """
    end = completion.rfind(REASONING_END)
    tail = completion[end + len(REASONING_END) :] if end >= 0 else completion
    reopened = tail.find(REASONING_START)
    return tail if reopened < 0 else tail[:reopened]


def final_answer(completion: str) -> str | None:
    r"""
    Returns the content of the last complete box after the end of the reasoning.

    A box that the end of the text cuts off is no answer, and neither is a value outside of a box. `\fbox` counts as
    `\boxed`. Linear in the length of the text, and nearly free where the last box is complete.

    Args:
        completion (`str`):
            Text of the model, with or without its reasoning.

    Returns:
        `str` or `None`: the content of the box, untouched, or `None` if there is no complete box.

    Example:

    ```python
    >>> from coda_trl.grading import final_answer

    >>> final_answer(r"<think>Maybe \boxed{30}?</think> The distance is \boxed{\frac{27}{2}}.")
    '\\frac{27}{2}'

    ```
    """
    text = after_reasoning(completion)
    last = max(text.rfind("\\boxed"), text.rfind("\\fbox"))
    if last < 0:
        return None
    start = max(0, last - ENCLOSING_WINDOW)
    answer = _last_complete_box(text, start)
    if answer is None and start > 0:  # the last box is cut off: look at all of them
        answer = _last_complete_box(text, 0)
    return answer


def _last_complete_box(text: str, start: int) -> str | None:
    """Content of the outermost box that closes last in `text[start:]`, by one pass over its braces."""
    open_braces: list[int | None] = []  # for every open brace: where the content starts if it is a box, else None
    answer = None
    answer_end = -1
    for token in _TOKEN.finditer(text, start):
        symbol = token.group()
        if symbol == "{":
            open_braces.append(None)
        elif symbol == "}":
            content = open_braces.pop() if open_braces else None
            if content is not None:
                answer, answer_end = text[content : token.start()], token.end()
        elif symbol.endswith("{") and len(symbol) > 2:
            open_braces.append(token.end())
    for bare in _BARE_BOX.finditer(text, max(start, answer_end)):
        answer = bare.group(1).rstrip(".,/")
    return answer
