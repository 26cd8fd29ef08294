r"""Golds from worked solutions: the `#### 42` of GSM8K and the last `\boxed{}` of MATH."""

from ..grading import final_answer


def gsm8k_answer(text: str) -> str:
    """Final answer of a GSM8K solution, without commas between thousands; a `ValueError` if there is no `####`."""
    _, mark, answer = text.rpartition("####")
    answer = answer.strip().replace(",", "")
    if not mark or not answer:
        raise ValueError("no answer after '####'")
    return answer


def last_boxed(text: str) -> str:
    r"""Content of the last box of a MATH solution; a `ValueError` if there is none, or its braces do not close."""
    answer = final_answer(text)
    if answer is None:
        raise ValueError(r"no \boxed{} that closes")
    return answer.strip()
