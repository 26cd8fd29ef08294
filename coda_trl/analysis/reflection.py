"""Reflective words (Table 2 of the paper): how often a response reconsiders, and how often that ends well."""

import re

# The paper's 17 terms, in its order.
REFLECTIVE_TERMS = (
    "re-check", "re-evaluate", "re-examine", "re-think",
    "recheck", "reevaluate", "reexamine", "reevaluation", "rethink",
    "verify", "check again", "think again", "try again", "double-check", "double check",
    "wait", "yet",
)  # fmt: skip


_REFLECTIVE = re.compile(rf"\b(?:{'|'.join(REFLECTIVE_TERMS)})\b".replace(" ", r"\s+").replace("-", "[-\u2010\u2011]"))


def is_reflective(completion: str) -> bool:
    """
    Whether a response contains at least one of the paper's 17 reflective terms.

    Terms match whole words: `wait` is found in "Wait, no" and "wait-list", not in "waiting". Case and the kind of
    white space and hyphen do not matter. `yet` counts in any sense, as in the paper.

    Example:

    ```python
    >>> from coda_trl.analysis import is_reflective
    >>> is_reflective("Wait, that is not right."), is_reflective("The answer is awaited.")
    (True, False)

    ```
    """
    return _REFLECTIVE.search(completion.lower()) is not None
