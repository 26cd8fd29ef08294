"""The paper's claims, each put to the runs: a number with its interval, and what follows from it by a fixed rule."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from matrix import EASY_RUNGS, HARD_RUNGS, L1_BUDGETS
from results import ALL_RUNGS, Measured, Results
from tables import accuracy_change, token_change

from coda_trl.evaluation import Estimate
from coda_trl.report.elements import MISSING, Cell, Table, number, text

Rule = Literal["above", "below", "same"]

# Points of accuracy, and percent of tokens, within which two methods count as equal.
SAME_ACCURACY = 1.0
SAME_TOKENS = 5.0


@dataclass(frozen=True)
class Claim:
    """
    A claim as a number.

    Args:
        source (`str`):
            Where the paper makes it.
        text (`str`):
            What it says.
        measure (`str`):
            What the number is.
        estimate (`Callable[[Results], Estimate | None]`):
            The number; `None` without runs.
        rule (`str`):
            `"above"`: more than `bound`. `"below"`: less than `bound`. `"same"`: within `bound` of 0.
        bound (`float`, *optional*, defaults to `0.0`):
            See `rule`.
        file (`str`, *optional*, defaults to `"accuracy"`):
            Table that shows it.
    """

    source: str
    text: str
    measure: str
    estimate: Callable[[Results], Estimate | None]
    rule: Rule
    bound: float = 0.0
    file: str = "accuracy"

    def verdict(self, result: Estimate | None) -> str:
        """
        `holds` if the whole interval agrees with the claim, `holds weakly` if only the number does, else `does not
        hold`. Without runs `not run yet`, and with a single seed, which has no interval, at most `holds weakly`.
        """
        if result is None or np.isnan(result.value):
            return "not run yet"
        low, high = (result.low, result.high) if result.low is not None else (-np.inf, np.inf)
        agrees, surely = {
            "above": (result.value > self.bound, low > self.bound),
            "below": (result.value < self.bound, high < self.bound),
            "same": (abs(result.value) <= self.bound, -self.bound <= low and high <= self.bound),
        }[self.rule]
        return "**holds**" if surely else "holds weakly" if agrees else "does not hold"


def against(function: Callable[..., np.ndarray], run: str, reference: str) -> Callable[[Results], Estimate | None]:
    """The estimate of a difference between two runs."""
    return lambda results: results.estimate(function, run, reference)


def _rise(low: int, high: int, rungs: tuple[int, ...]) -> Callable[[Results], Estimate | None]:
    """What L1's accuracy gains between two budgets."""
    return against(accuracy_change(rungs), f"l1@{high}", f"l1@{low}")


def _hardest_bucket(results: Results) -> Estimate | None:
    """Tokens of CODA over those of GRPO in the hardest tenth, minus 1, in percent."""
    if not results.seeds("coda", "grpo"):
        return None
    hardest = results.buckets("grpo", "coda") == 0

    def more(coda: Measured, grpo: Measured) -> np.ndarray:
        return 100 * (coda.bucket_tokens(hardest) / grpo.bucket_tokens(hardest) - 1)

    return results.estimate(more, "coda", "grpo")


def _l1_at_same_tokens(rungs: tuple[int, ...]) -> Callable[[Results], Estimate | None]:
    """CODA's accuracy minus that of L1 at the number of tokens that CODA spends, read off L1's curve."""

    def lead(coda: Measured, *curve: Measured) -> np.ndarray:
        tokens = np.array([point.tokens(rungs) for point in curve])
        accuracy = np.array([point.accuracy(rungs) for point in curve])
        spent, reached = coda.tokens(rungs), coda.accuracy(rungs)
        order = np.argsort(tokens, axis=0)
        tokens, accuracy = np.take_along_axis(tokens, order, 0), np.take_along_axis(accuracy, order, 0)
        level = [np.interp(spent[i], tokens[:, i], accuracy[:, i]) for i in range(len(spent))]
        return reached - np.array(level)

    return lambda results: results.estimate(lead, "coda", *(f"l1@{budget}" for budget in L1_BUDGETS))


def _gate(name: str, which: str) -> Callable[[Results], Estimate | None]:
    """Mean gate over the last 30 steps."""
    return lambda results: results.logged(name, f"coda/mean_w_{which}")


def _share(marker: str, rungs: tuple[int, ...] = HARD_RUNGS) -> Callable[..., np.ndarray]:
    """Difference in the share of answers with a marker, in points."""
    return lambda run, reference: run.share(marker, rungs) - reference.share(marker, rungs)


def _correct_share(marker: str) -> Callable[..., np.ndarray]:
    """Difference in the share of right ones among the answers with a marker on hard rungs, in points."""
    return lambda run, reference: run.correct_share(marker, HARD_RUNGS) - reference.correct_share(marker, HARD_RUNGS)


def _lead(rungs: tuple[int, ...], *rivals: str) -> Callable[[Results], Estimate | None]:
    """CODA's accuracy minus that of the best of some others."""

    def points(coda: Measured, *others: Measured) -> np.ndarray:
        best = max((other.accuracy(rungs) for other in others), key=lambda accuracy: accuracy[0])
        return coda.accuracy(rungs) - best

    return lambda results: results.estimate(points, "coda", *rivals)


def _shortest(rungs: tuple[int, ...], *rivals: str) -> Callable[[Results], Estimate | None]:
    """CODA's tokens against those of the method among some others that needs the fewest, in percent."""

    def change(coda: Measured, *others: Measured) -> np.ndarray:
        fewest = min((other.tokens(rungs) for other in others), key=lambda tokens: tokens[0])
        return 100 * (coda.tokens(rungs) / fewest - 1)

    return lambda results: results.estimate(change, "coda", *rivals)


_POINTS, _PERCENT = "Δ accuracy (points)", "Δ tokens (%)"

CLAIMS = (
    Claim(
        "§4.2", "Training improves on the start: GRPO", f"{_POINTS}, GRPO − start, average",
        against(accuracy_change(ALL_RUNGS), "grpo", "start"), "above",
    ),
    Claim(
        "§4.2", "Training improves on the start: CODA", f"{_POINTS}, CODA − start, average",
        against(accuracy_change(ALL_RUNGS), "coda", "start"), "above",
    ),
    Claim(
        "§4.2", "CODA matches or beats GRPO on average", f"{_POINTS}, CODA − GRPO, average, above −{SAME_ACCURACY:g}",
        against(accuracy_change(ALL_RUNGS), "coda", "grpo"), "above", -SAME_ACCURACY,
    ),
    Claim(
        "§4.2", "… with fewer tokens", f"{_PERCENT}, average",
        against(token_change(ALL_RUNGS), "coda", "grpo"), "below", file="tokens",
    ),
    Claim(
        "abstract", "On easy tasks CODA needs over 60% fewer tokens", f"{_PERCENT}, rungs 1 to 3, below −60",
        against(token_change(EASY_RUNGS), "coda", "grpo"), "below", -60.0, "tokens",
    ),
    Claim(
        "abstract", "… and keeps accuracy there", f"{_POINTS}, rungs 1 to 3, above −{SAME_ACCURACY:g}",
        against(accuracy_change(EASY_RUNGS), "coda", "grpo"), "above", -SAME_ACCURACY,
    ),
    Claim(
        "§4.2", "On hard tasks accuracy is kept", f"{_POINTS}, rungs 5 and 6, above −{SAME_ACCURACY:g}",
        against(accuracy_change(HARD_RUNGS), "coda", "grpo"), "above", -SAME_ACCURACY,
    ),
    Claim(
        "§4.2", "… with a similar token budget", f"{_PERCENT}, rungs 5 and 6, within ±{SAME_TOKENS:g}",
        against(token_change(HARD_RUNGS), "coda", "grpo"), "same", SAME_TOKENS, "tokens",
    ),
    Claim(
        "§4.2", "CODA needs the fewest tokens of all on the easiest", f"{_PERCENT}, CODA against the shortest, rung 1",
        _shortest((1,), "grpo", "vlp", "asrr"), "below", file="tokens",
    ),
    Claim(
        "Fig. 1a", "The hardest problems get more tokens than from GRPO", f"{_PERCENT}, hardest tenth",
        _hardest_bucket, "above", file="buckets",
    ),
    Claim(
        "§4.2", "VLP loses accuracy on hard tasks", f"{_POINTS}, VLP − GRPO, rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "vlp", "grpo"), "below",
    ),
    Claim(
        "§4.2", "ASRR loses accuracy on hard tasks", f"{_POINTS}, ASRR − GRPO, rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "asrr", "grpo"), "below",
    ),
    Claim(
        "§4.2", "CODA beats both length penalties on hard tasks", f"{_POINTS}, CODA − the better one, rungs 5 and 6",
        _lead(HARD_RUNGS, "vlp", "asrr"), "above",
    ),
    Claim(
        "§4.2", "CODA is the most accurate of all on average", f"{_POINTS}, CODA − best of the others, average",
        _lead(ALL_RUNGS, "grpo", "vlp", "asrr"), "above",
    ),
    Claim(
        "Fig. 1b", "Easy tasks saturate: a larger budget gains little",
        f"{_POINTS}, L1 at 42 − at 9, rungs 1 to 3, within ±2",
        _rise(9, 42, EASY_RUNGS), "same", 2.0, "l1_budgets",
    ),
    Claim(
        "Fig. 1b", "Hard tasks gain from a larger budget", f"{_POINTS}, L1 at 42 − at 18, rungs 5 and 6",
        _rise(18, 42, HARD_RUNGS), "above", file="l1_budgets",
    ),
    Claim(
        "Fig. 1b", "CODA is above L1's curve: easy tasks", f"{_POINTS}, CODA − L1 at CODA's tokens, rungs 1 to 3",
        _l1_at_same_tokens(EASY_RUNGS), "above", file="l1_budgets",
    ),
    Claim(
        "Fig. 1b", "CODA is above L1's curve: hard tasks", f"{_POINTS}, CODA − L1 at CODA's tokens, rungs 5 and 6",
        _l1_at_same_tokens(HARD_RUNGS), "above", file="l1_budgets",
    ),
    Claim(
        "§5.2", "Easy training: the easy gate dominates", "mean easy gate at the end, above 0.5",
        _gate("coda-easy", "easy"), "above", 0.5, "gates",
    ),
    Claim(
        "§5.2", "… and the hard gate stays near zero", "mean hard gate at the end, below 0.05",
        _gate("coda-easy", "hard"), "below", 0.05, "gates",
    ),
    Claim(
        "§5.2", "Hard training: the hard gate is active", "mean hard gate at the end, above 0.05",
        _gate("coda-hard", "hard"), "above", 0.05, "gates",
    ),
    Claim(
        "§5.2", "… and the easy gate is kept down", "mean easy gate at the end, below 0.5",
        _gate("coda-hard", "easy"), "below", 0.5, "gates",
    ),
    Claim(
        "§5.2", "After easy training: easy accuracy as with GRPO",
        f"{_POINTS}, rungs 1 to 3, above −{SAME_ACCURACY:g}",
        against(accuracy_change(EASY_RUNGS), "coda-easy", "grpo-easy"), "above", -SAME_ACCURACY, "shifts",
    ),
    Claim(
        "§5.2", "… at lower cost", f"{_PERCENT}, rungs 1 to 3",
        against(token_change(EASY_RUNGS), "coda-easy", "grpo-easy"), "below", file="shifts",
    ),
    Claim(
        "§5.2", "After hard training: hard accuracy as with GRPO",
        f"{_POINTS}, rungs 5 and 6, above −{SAME_ACCURACY:g}",
        against(accuracy_change(HARD_RUNGS), "coda-hard", "grpo-hard"), "above", -SAME_ACCURACY, "shifts",
    ),
    Claim(
        "§5.2", "… and depth is kept", f"{_PERCENT}, rungs 5 and 6, above −{SAME_TOKENS:g}",
        against(token_change(HARD_RUNGS), "coda-hard", "grpo-hard"), "above", -SAME_TOKENS, "shifts",
    ),
    Claim(
        "§5.3", "A moderate α saves tokens on easy tasks", f"{_PERCENT}, α = 0.2 against 0, rungs 1 to 3",
        against(token_change(EASY_RUNGS), "coda", "coda-alpha-0.0"), "below", file="alpha",
    ),
    Claim(
        "§5.3", "… without a loss of accuracy", f"{_POINTS}, α = 0.2 against 0, average, above −{SAME_ACCURACY:g}",
        against(accuracy_change(ALL_RUNGS), "coda", "coda-alpha-0.0"), "above", -SAME_ACCURACY, "alpha",
    ),
    Claim(
        "§5.3", "α = 0.4 costs accuracy", f"{_POINTS}, α = 0.4 against 0.2, average",
        against(accuracy_change(ALL_RUNGS), "coda-alpha-0.4", "coda"), "below", file="alpha",
    ),
    Claim(
        "§5.3", "A bonus on wrong answers makes answers longer", f"{_PERCENT}, rungs 5 and 6",
        against(token_change(HARD_RUNGS), "coda-incorrect-bonus", "coda"), "above", file="incorrect_bonus",
    ),
    Claim(
        "§5.3", "… without better accuracy", f"{_POINTS}, rungs 5 and 6, below +{SAME_ACCURACY:g}",
        against(accuracy_change(HARD_RUNGS), "coda-incorrect-bonus", "coda"), "below", SAME_ACCURACY,
        "incorrect_bonus",
    ),
    Claim(
        "App. E", "β hardly matters between 0.1 and 0.4",
        f"{_POINTS}, β = 0.4 against 0.1, average, within ±{SAME_ACCURACY:g}",
        against(accuracy_change(ALL_RUNGS), "coda-beta-0.4", "coda-beta-0.1"), "same", SAME_ACCURACY, "beta",
    ),
    Claim(
        "App. E", "β = 0 shortens hard answers", f"{_PERCENT}, β = 0 against 0.2, rungs 5 and 6",
        against(token_change(HARD_RUNGS), "coda-beta-0.0", "coda"), "below", file="beta",
    ),
    Claim(
        "App. E", "… and costs accuracy", f"{_POINTS}, β = 0 against 0.2, rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "coda-beta-0.0", "coda"), "below", file="beta",
    ),
    Claim(
        "App. E", "A higher easy threshold saves less", f"{_PERCENT}, τ easy 0.9 against 0.75, rungs 1 to 3",
        against(token_change(EASY_RUNGS), "coda-tau-easy-0.9", "coda"), "above", file="thresholds",
    ),
    Claim(
        "App. F", "On easy tasks redundant checks go", "Δ second counts (points), CODA − GRPO, rungs 1 to 3",
        against(_share("rechecks", EASY_RUNGS), "coda", "grpo"), "below", file="styles",
    ),
    Claim(
        "App. F", "… and so do restatements of the problem", "Δ restating answers (points), CODA − GRPO, rungs 1 to 3",
        against(_share("verbose", EASY_RUNGS), "coda", "grpo"), "below", file="styles",
    ),
    Claim(
        "Table 2", "CODA reflects on hard tasks as often as GRPO", "Δ reflection ratio (points), within ±5",
        against(_share("reflective"), "coda", "grpo"), "same", 5.0, "reflection",
    ),
    Claim(
        "Table 2", "… and as successfully", "Δ correct ratio (points), above −2",
        against(_correct_share("reflective"), "coda", "grpo"), "above", -2.0, "reflection",
    ),
    Claim(
        "Table 2", "CODA reflects more often than VLP", "Δ reflection ratio (points)",
        against(_share("reflective"), "coda", "vlp"), "above", file="reflection",
    ),
    Claim(
        "Table 2", "CODA reflects more often than ASRR", "Δ reflection ratio (points)",
        against(_share("reflective"), "coda", "asrr"), "above", file="reflection",
    ),
)  # fmt: skip

UNTESTABLE = (
    ("§4.2", "The pattern is the same for 4B, 8B and 14B models", "one model size"),
    ("§4.2", "Gains carry over to other domains (CSQA, GPQA)", "there is one domain"),
    (
        "Fig. 1b",
        "CODA spends near the optimum of accuracy against cost on real tasks",
        "the ladder's costs are its own",
    ),
    ("limitations", "A longer context would help on hard problems", "48 tokens hold every way to write a sum down"),
)


def claims_table(
    results: Results, claims: Sequence[Claim] = CLAIMS, untestable: Sequence[tuple[str, str, str]] = UNTESTABLE
) -> Table:
    """Every claim with its number, interval and verdict."""
    rows = []
    for claim in claims:
        result = claim.estimate(results)
        shown = (
            Cell(MISSING) if result is None else number(result, digits=2 if claim.file == "gates" else 1, signed=True)
        )
        rows.append(
            [
                text(claim.source),
                text(claim.text),
                text(claim.verdict(result)),
                text(claim.measure),
                shown,
                text(claim.file),
            ]
        )
    for source, words, reason in untestable:
        rows.append([text(source), text(words), text("cannot be tested here"), text(reason), Cell(MISSING), Cell("")])
    return Table(
        key="claims",
        title="Claim by claim",
        caption="Holds: the whole 95% interval agrees with the claim, in the form given under Number. Holds weakly: "
        "the number does, the interval does not exclude the contrary. Does not hold: the number disagrees. File: the "
        "table in `benchmarks/ladder/tables` that shows it (`gates`: the training logs in the summaries).",
        header=["Paper", "Claim", "On the ladder", "Number", "Value", "File"],
        rows=rows,
    )
