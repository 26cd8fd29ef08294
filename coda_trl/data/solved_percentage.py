"""Checks the direction of `solved_percentage`, the success rate by which the hard training set is chosen.

The card of the published annotation gives the score as `100 * (1 - successes / 128)`, the CODA paper and public
loaders as `100 * successes / 128`. Read the wrong way round, "solved by fewer than 10%" would silently pick the
easiest problems. So the data decide: problems that look harder must have been solved less often.

How hard a problem looks is judged by words of competition mathematics. On MATH's training problems the share of those
with two or more of the words grows with the level: 3%, 5%, 9%, 12%, 25% (GSM8K: none; AIME: about half). So averages
over a whole data set tell the two directions apart, though single problems would not.
"""

import math
import re
from collections.abc import Sequence
from statistics import mean, pvariance

from .reading import DataError

HARD_BELOW = 10.0  # percent; the paper's hard set

_COMPETITION_WORDS = re.compile(
    r"relatively prime|\bm ?\+ ?n\b|divided by \$?1000|for all|determine|find all|prove that|\\triangle|functions?\b"
    r"|sequence|polynomial|\\[lc]dots|probability|tetrahedron|circum|inscribed|permutation|modulo|distinct|exactly"
    r"|positive integers?|real numbers|smallest|largest|maximum|minimum|satisf",
    re.IGNORECASE,
)


def check_solved_percentage(problems: Sequence[str], solved_percentage: Sequence[float]) -> None:
    """
    Raises a [`DataError`] if the values are not success rates in percent: if one is outside 0..100, if all are within
    0..1 (a fraction), or unless problems that look harder were solved less often, by more than the standard error of
    the difference.
    """
    lowest, highest = min(solved_percentage), max(solved_percentage)
    if not (lowest >= 0 and highest <= 100) or 0 < highest <= 1:
        raise DataError(f"`solved_percentage` spans {lowest:g} to {highest:g}, but must be percentages in 0..100.")
    words = [len({match.lower() for match in _COMPETITION_WORDS.findall(problem)}) for problem in problems]
    hard = [solved for solved, count in zip(solved_percentage, words, strict=True) if count >= 2]
    plain = [solved for solved, count in zip(solved_percentage, words, strict=True) if count == 0]
    seen = f"{len(hard)} of {len(problems)} problems read like competition problems, {len(plain)} like plain ones"
    surplus = standard_error = 0.0
    if hard and plain:
        surplus = mean(hard) - mean(plain)
        standard_error = math.sqrt(pvariance(hard) / len(hard) + pvariance(plain) / len(plain))
        seen += f"; on average it is {mean(hard):.1f} for the former and {mean(plain):.1f} for the latter"
    if surplus > standard_error:
        raise DataError(
            f"`solved_percentage` runs the wrong way: {seen}, but the harder ones must come out lower. It seems to "
            "hold a difficulty (100 minus the success rate): invert it."
        )
    if -surplus <= standard_error:
        raise DataError(
            f"Cannot tell which way `solved_percentage` runs: {seen}, which is no difference beyond chance. Load the "
            "whole data set, not a part of it."
        )
