r"""Golds from worked solutions: the `#### 42` of GSM8K and the last `\boxed{}` of MATH."""


def gsm8k_answer(text: str) -> str:
    """
    Final answer of a GSM8K solution, thousands separators dropped.

    Raises:
        ValueError: If nothing follows a `####`.

    Example:

    ```python
    >>> from coda_trl.data.answers import gsm8k_answer

    >>> gsm8k_answer("He earns 35,000 * 2 = 70,000.\\n#### 70,000")
    '70000'

    ```
    """
    _, mark, answer = text.rpartition("####")
    answer = answer.strip().replace(",", "")
    if not mark or not answer:
        raise ValueError("no answer after '####'")
    return answer


def last_boxed(text: str) -> str:
    r"""
    Content of the last `\boxed{...}` (or `\fbox{...}`, or `\boxed 2`) of a MATH solution.

    Raises:
        ValueError: If there is none, or its braces do not close.

    Example:

    ```python
    >>> from coda_trl.data.answers import last_boxed

    >>> last_boxed(r"So it is $\boxed{1}$, or rather $\boxed{\frac{1}{2}}$.")
    '\\frac{1}{2}'

    ```
    """
    start = max(text.rfind(r"\boxed"), text.rfind(r"\fbox"))
    if start < 0:
        raise ValueError(r"no \boxed{}")
    rest = text[start:].removeprefix(r"\boxed").removeprefix(r"\fbox").lstrip()
    if not rest.startswith("{"):
        return rest.split("$")[0].strip()
    depth = 0
    for end, character in enumerate(rest):
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return rest[1:end].strip()
    raise ValueError(r"a \boxed{} that does not close")
