r"""Find the final answer of a completion: the last `\boxed{}` after the end of the reasoning."""

import re

REASONING_START = "<think>"
REASONING_END = "</think>"
PROMPT_END = 16  # tokens at the end of a prompt that hold its `<think>`, however that is cut into tokens
# A box that encloses the last one starts at most this many characters before it (a longer answer is refused anyway).
ENCLOSING_WINDOW = 4096

_TOKEN = re.compile(r"\\\\?(?:boxed|fbox)\s*\{|\\.|[{}]", re.DOTALL)
# `\boxed 27`: TeX would box the `2` only, but the writer meant 27. The end of the formula, the sentence or the line
# has to follow: before a letter or an operator it is only the beginning of an answer, and so it may be at the end of
# the text.
_BARE_BOX = re.compile(r"\\(?:boxed|fbox)\s*(-?\d[\d.,/]*+)(?=\s*(?:[$*.,;]|\\[\])])|\s*\n|\s[A-Za-z]{2})")


def after_reasoning(completion: str) -> str:
    """What follows the last `</think>` (the whole text if there is none), up to a `<think>` that is never closed."""
    return completion.rpartition(REASONING_END)[2].partition(REASONING_START)[0]


def opens_thinking(prompt: str) -> bool:
    r"""
    Whether a prompt ends inside an open `<think>` block, as the chat templates of R1-Distill and Qwen3-Thinking do.

    The completion then has no `<think>` of its own. Grade `"<think>" + completion`: otherwise a box guessed in the
    middle of reasoning that is cut off would be the answer.

    Args:
        prompt (`str`):
            Prompt as the model gets it, after the chat template, or its end.

    Returns:
        `bool`

    Example:

    ```python
    >>> from coda_trl.grading import grade, opens_thinking

    >>> opens_thinking("<|im_start|>assistant\n<think>\n"), opens_thinking("<think>\n\n</think>\n\n")
    (True, False)
    >>> grade("<think>" + r"Perhaps \boxed{7}, but wait", "7")
    False

    ```
    """
    return prompt.rstrip().endswith(REASONING_START)


def final_answer(completion: str) -> str | None:
    r"""
    Returns the content of the last box after the end of the reasoning.

    Where the end of the text cuts the last box off, there is no answer, even if an earlier box is complete. `\fbox`
    counts as `\boxed`. Linear in the length of the text.

    Args:
        completion (`str`):
            Text of the model, with or without its reasoning.

    Returns:
        `str` or `None`: the content of the box, untouched, or `None` if there is no answer.

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
    answer, is_cut_off = _last_box(text, max(0, last - ENCLOSING_WINDOW))
    return _last_box(text, 0)[0] if answer is None and not is_cut_off else answer


def _last_box(text: str, start: int) -> tuple[str | None, bool]:
    """Content of the outermost box that closes last in `text[start:]`, unless another one that begins behind it is cut
    off, and whether that is so; in one pass over the braces."""
    open_braces: list[int] = []  # for every open brace: where the content starts if it is a box, else -1
    answer, answer_end = None, -1
    for token in _TOKEN.finditer(text, start):
        symbol = token.group()
        if symbol == "}" and open_braces:
            content = open_braces.pop()
            if content >= 0:
                answer, answer_end = text[content : token.start()], token.end()
        elif symbol.endswith("{") and symbol != "\\{":
            open_braces.append(token.end() if len(symbol) > 1 else -1)
    for bare in _BARE_BOX.finditer(text, max(start, answer_end)):
        answer, answer_end = bare.group(1).rstrip(".,/"), bare.end()
    is_cut_off = any(content > answer_end for content in open_braces)
    return (None if is_cut_off else answer), is_cut_off
