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
    """
    Returns the part of a completion that can hold the final answer.

    Args:
        completion (`str`):
            Text of the model, with or without its reasoning. What the prompt opened ([`opens_thinking`]) has to stand
            in front.

    Returns:
        `str`: what follows the last `</think>` (the whole text if there is none), up to a `<think>` that is
        never closed.
    """
    end = completion.rfind(REASONING_END)
    tail = completion[end + len(REASONING_END) :] if end >= 0 else completion
    reopened = tail.find(REASONING_START)
    return tail if reopened < 0 else tail[:reopened]


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

    Where the end of the text cuts the last box off, there is no answer, even if an earlier box is complete: the model
    was about to say something else, or the same again. A value outside of a box is no answer. `\fbox` counts as
    `\boxed`. Linear in the length of the text.

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
    for start in dict.fromkeys((max(0, last - ENCLOSING_WINDOW), 0)):
        answer, is_cut_off = _last_box(text, start)
        if answer is not None or is_cut_off:
            return None if is_cut_off else answer
    return None


def _last_box(text: str, start: int) -> tuple[str | None, bool]:
    """
    Content of the outermost box that closes last in `text[start:]`, by one pass over its braces, and whether another
    one begins behind it.
    """
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
        answer, answer_end = bare.group(1).rstrip(".,/"), bare.end()
    return answer, any(content is not None and content > answer_end for content in open_braces)
