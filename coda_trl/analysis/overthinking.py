"""Overthinking (the paper's appendix): restatements of the problem, and repeated verification.

The paper shows an example; here they are counted, by words alone, so that a reader can check the count.
"""

import re
from collections.abc import Iterator
from itertools import pairwise

WINDOW = 6  # words in a row that make a restatement
_SHORTEST = 3  # words of the shortest problem whose restatement differs from mere use of its numbers

_WORD = re.compile(r"[^\W_]+(?:['’.,][^\W_]+)*")
_HYPHEN = "[-\u2010\u2011 ]?"
_VERIFICATION = re.compile(
    rf"\b(?:(?:(?:re|double|cross){_HYPHEN})?check(?:s|ed|ing)?"
    r"|verif(?:y|ies|ied|ying|ication)"
    rf"|re{_HYPHEN}(?:evaluat(?:e[sd]?|ing|ion)|examin(?:e[sd]?|ing|ation))"
    r"|confirm(?:s|ed|ing)?)\b"
)


def _words(text: str) -> list[str]:
    """Words of a text in lower case, without punctuation; a number with its decimals is one word."""
    return _WORD.findall(text.lower())


class Restatements:
    """
    Counts the passages of a response that repeat its problem word for word.

    A passage is a run of words of the response in which every 6 consecutive words are consecutive in the problem too.
    A problem of 3 to 5 words counts as repeated only as a whole, a shorter one never.

    Example:

    ```python
    >>> from coda_trl.analysis import Restatements
    >>> count = Restatements("How many more wrappers than bottle caps did Danny find at the park?")
    >>> count("I must say how many more wrappers than bottle caps did Danny find. He found 65 - 5 = 60.")
    1

    ```
    """

    def __init__(self, problem: str):
        tokens = _words(problem)
        self.width = min(WINDOW, len(tokens))
        self.windows = set(self._windows(tokens)) if self.width >= _SHORTEST else set()

    def _windows(self, tokens: list[str]) -> Iterator[tuple[str, ...]]:
        return zip(*(tokens[start:] for start in range(self.width)), strict=False)

    def __call__(self, completion: str) -> int:
        """Number of passages of `completion` that repeat the problem."""
        repeated = [window in self.windows for window in self._windows(_words(completion))]
        return sum(here and not before for before, here in pairwise([False, *repeated]))


def count_verifications(completion: str) -> int:
    """
    Number of times a response announces or mentions a check: forms of check, re-check, double-check, cross-check,
    verify, re-evaluate, re-examine and confirm, as whole words.

    Example:

    ```python
    >>> from coda_trl.analysis import count_verifications
    >>> count_verifications("So 60. Let me verify: 65 - 5 = 60. Double-checking: 60.")
    2

    ```
    """
    return sum(1 for _ in _VERIFICATION.finditer(completion.lower()))
