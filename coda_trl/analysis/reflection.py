"""Reflective words (Table 2 of the paper): how often a response reconsiders, and how often that ends well."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

# The paper's 17 terms, in its order.
REFLECTIVE_TERMS = (
    "re-check", "re-evaluate", "re-examine", "re-think",
    "recheck", "reevaluate", "reexamine", "reevaluation", "rethink",
    "verify", "check again", "think again", "try again", "double-check", "double check",
    "wait", "yet",
)  # fmt: skip


def compile_terms(terms: Sequence[str]) -> re.Pattern[str]:
    r"""
    One pattern for a list of terms.

    A term matches as a whole word: the characters beside it are not letters, digits or underscores. So `wait` is found
    in "Wait, no" and "wait-list", not in "waiting" or "await", and `verify` not in "verifying". Case does not matter,
    a space matches any white space (a line break too), and a hyphen also matches the typographic hyphens U+2010 and
    U+2011.

    Args:
        terms (`Sequence[str]`):
            Words or phrases in lower case.

    Returns:
        `re.Pattern[str]`: Pattern for lower-cased text.

    Example:

    ```python
    >>> from coda_trl.analysis import compile_terms
    >>> pattern = compile_terms(["check again", "wait"])
    >>> bool(pattern.search("let me check\nagain")), bool(pattern.search("waiting"))
    (True, False)

    ```
    """
    # Longest first, so that "check again" is not found as a shorter term it begins with.
    alternatives = (re.escape(term) for term in sorted(terms, key=len, reverse=True))
    joined = "|".join(term.replace(r"\ ", r"\s+").replace(r"\-", "[-\u2010\u2011]") for term in alternatives)
    return re.compile(rf"\b(?:{joined})\b")


_REFLECTIVE = compile_terms(REFLECTIVE_TERMS)


def is_reflective(completion: str) -> bool:
    """
    Whether a response holds at least one of the 17 reflective terms, matched as in [`compile_terms`].

    Args:
        completion (`str`):
            The response.

    Example:

    ```python
    >>> from coda_trl.analysis import is_reflective
    >>> is_reflective("Wait, that is not right."), is_reflective("The answer is awaited.")
    (True, False)

    ```
    """
    return _REFLECTIVE.search(completion.lower()) is not None


@dataclass(frozen=True)
class Reflection:
    """
    The two ratios of the paper's Table 2.

    Args:
        responses (`int`):
            Number of responses, N.
        reflective (`int`):
            Responses with a reflective term, N_ref.
        graded_reflective (`int`):
            Those with a verdict among these.
        correct_reflective (`int`):
            Correct ones among these, N_ref+.
    """

    responses: int
    reflective: int
    graded_reflective: int
    correct_reflective: int

    @property
    def ratio(self) -> float:
        """N_ref / N, in [0, 1]; NaN without responses."""
        return self.reflective / self.responses if self.responses else float("nan")

    @property
    def correct_ratio(self) -> float:
        """N_ref+ / N_ref over those with a verdict, in [0, 1]; NaN without any."""
        return self.correct_reflective / self.graded_reflective if self.graded_reflective else float("nan")


def reflection(completions: Sequence[str], correct: Sequence[bool | None]) -> Reflection:
    """
    Counts reflective responses.

    Args:
        completions (`Sequence[str]`):
            Responses.
        correct (`Sequence[bool | None]`):
            Verdicts; a response without one (`None`) counts for the reflection ratio alone.

    Returns:
        `Reflection`: The counts.

    Example:

    ```python
    >>> from coda_trl.analysis import reflection
    >>> result = reflection(["Wait, 5.", "Let me verify: 6.", "7."], [True, False, True])
    >>> round(result.ratio, 3), result.correct_ratio
    (0.667, 0.5)

    ```
    """
    verdicts = [verdict for text, verdict in zip(completions, correct, strict=True) if is_reflective(text)]
    return Reflection(len(completions), len(verdicts), len(verdicts) - verdicts.count(None), verdicts.count(True))
