"""The paper's claims, each put to the runs as a number. How a number becomes a verdict: `verdicts.py`."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np
from matrix import EASY_RUNGS, HARD_RUNGS, L1_BUDGETS
from results import ALL_RUNGS, Measured, Results, over_seeds
from tables import accuracy_change, token_change
from verdicts import HOLDS, NOT, NOT_RUN, NOT_TESTABLE, UNTOLD, WEAKLY, Claim, Quantity

from coda_trl.report.elements import MISSING, Cell, Table, number, text

# Points of accuracy, and percent of tokens, within which two methods count as equal.
SAME_ACCURACY = 1.0
SAME_TOKENS = 5.0


def against(function: Callable[..., np.ndarray], *runs: str) -> Callable[[Results], np.ndarray | None]:
    """A number of some runs for every seed, such as the difference between two."""
    return lambda results: results.rows(function, *runs)


def _rise(low: int, high: int, rungs: tuple[int, ...]) -> Callable[[Results], np.ndarray | None]:
    """What L1's accuracy gains between two budgets."""
    return against(accuracy_change(rungs), f"l1@{high}", f"l1@{low}")


def _hardest_bucket(results: Results) -> np.ndarray | None:
    """Tokens of CODA over those of GRPO in the hardest tenth, minus 1, in percent."""

    def more(hardest: np.ndarray, coda: Measured, grpo: Measured) -> np.ndarray:
        return 100 * (coda.bucket_tokens(hardest) / grpo.bucket_tokens(hardest) - 1)

    return results.in_bucket(0, more, "coda", "grpo")


def _l1_at_same_tokens(rungs: tuple[int, ...]) -> Callable[[Results], np.ndarray | None]:
    """CODA's accuracy minus that of L1 at the number of tokens that CODA spends, read off L1's curve."""

    def lead(coda: Measured, *curve: Measured) -> np.ndarray:
        tokens = np.array([point.tokens(rungs) for point in curve])
        accuracy = np.array([point.accuracy(rungs) for point in curve])
        spent, reached = coda.tokens(rungs), coda.accuracy(rungs)
        order = np.argsort(tokens, axis=0)
        tokens, accuracy = np.take_along_axis(tokens, order, 0), np.take_along_axis(accuracy, order, 0)
        level = [np.interp(spent[i], tokens[:, i], accuracy[:, i]) for i in range(len(spent))]
        return reached - np.array(level)

    return lambda results: results.rows(lead, "coda", *(f"l1@{budget}" for budget in L1_BUDGETS))


def _gate(name: str, which: str) -> Callable[[Results], np.ndarray | None]:
    """Mean gate over the last 30 steps."""
    return lambda results: results.logged(name, f"coda/mean_w_{which}")


def _share(marker: str, rungs: tuple[int, ...] = HARD_RUNGS) -> Callable[..., np.ndarray]:
    """Difference in the share of answers with a marker, in points."""
    return lambda run, reference: run.share(marker, rungs) - reference.share(marker, rungs)


def _correct_share(marker: str) -> Callable[..., np.ndarray]:
    """Difference in the share of right ones among the answers with a marker on hard rungs, in points."""
    return lambda run, reference: run.correct_share(marker, HARD_RUNGS) - reference.correct_share(marker, HARD_RUNGS)


def _lead(rungs: tuple[int, ...], *rivals: str) -> Callable[[Results], np.ndarray | None]:
    """CODA's accuracy minus that of the best of some others."""

    def points(coda: Measured, *others: Measured) -> np.ndarray:
        best = max((other.accuracy(rungs) for other in others), key=lambda accuracy: accuracy[0])
        return coda.accuracy(rungs) - best

    return lambda results: results.rows(points, "coda", *rivals)


def _shortest(rungs: tuple[int, ...], *rivals: str) -> Callable[[Results], np.ndarray | None]:
    """CODA's tokens against those of the method among some others that needs the fewest, in percent."""

    def change(coda: Measured, *others: Measured) -> np.ndarray:
        fewest = min((other.tokens(rungs) for other in others), key=lambda tokens: tokens[0])
        return 100 * (coda.tokens(rungs) / fewest - 1)

    return lambda results: results.rows(change, "coda", *rivals)


_POINTS = Quantity("Δ accuracy (points)", SAME_ACCURACY)
_PERCENT = Quantity("Δ tokens (%)", SAME_TOKENS)
_CHECKS = Quantity("Δ second counts (points)", 5.0)
_RESTATED = Quantity("Δ restating answers (points)", 5.0)
_REFLECTION = Quantity("Δ reflection ratio (points)", 5.0)
_RIGHT = Quantity("Δ correct ratio (points)", 2.0)
_GATE = Quantity("mean gate, last 30 steps", 0.05, digits=2, resolution=0.05)

CLAIMS = (
    Claim(
        "§4.2", "Training improves on the start: GRPO", _POINTS, "GRPO − start, average",
        against(accuracy_change(ALL_RUNGS), "grpo", "start"), "above",
    ),
    Claim(
        "§4.2", "Training improves on the start: CODA", _POINTS, "CODA − start, average",
        against(accuracy_change(ALL_RUNGS), "coda", "start"), "above",
    ),
    Claim(
        "§4.2", "CODA matches or beats GRPO on average", _POINTS, "CODA − GRPO, average",
        against(accuracy_change(ALL_RUNGS), "coda", "grpo"), "above", -SAME_ACCURACY,
    ),
    Claim(
        "§4.2", "… with fewer tokens", _PERCENT, "average",
        against(token_change(ALL_RUNGS), "coda", "grpo"), "below", file="tokens",
    ),
    Claim(
        "abstract", "On easy tasks CODA needs over 60% fewer tokens", _PERCENT, "rungs 1 to 3",
        against(token_change(EASY_RUNGS), "coda", "grpo"), "below", -60.0, "tokens",
    ),
    Claim(
        "abstract", "… and keeps accuracy there", _POINTS, "rungs 1 to 3",
        against(accuracy_change(EASY_RUNGS), "coda", "grpo"), "above", -SAME_ACCURACY,
    ),
    Claim(
        "§4.2", "On hard tasks accuracy is kept", _POINTS, "rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "coda", "grpo"), "above", -SAME_ACCURACY,
    ),
    Claim(
        "§4.2", "… with a similar token budget", _PERCENT, "rungs 5 and 6",
        against(token_change(HARD_RUNGS), "coda", "grpo"), "same", SAME_TOKENS, "tokens",
    ),
    Claim(
        "§4.2", "CODA needs the fewest tokens of all on the easiest", _PERCENT, "CODA against the shortest, rung 1",
        _shortest((1,), "grpo", "vlp", "asrr"), "below", file="tokens",
    ),
    Claim(
        "Fig. 1a", "The hardest problems get more tokens than from GRPO", _PERCENT, "hardest tenth",
        _hardest_bucket, "above", file="buckets",
    ),
    Claim(
        "§4.2", "VLP loses accuracy on hard tasks", _POINTS, "VLP − GRPO, rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "vlp", "grpo"), "below",
    ),
    Claim(
        "§4.2", "ASRR loses accuracy on hard tasks", _POINTS, "ASRR − GRPO, rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "asrr", "grpo"), "below",
    ),
    Claim(
        "§4.2", "CODA beats both length penalties on hard tasks", _POINTS, "CODA − the better one, rungs 5 and 6",
        _lead(HARD_RUNGS, "vlp", "asrr"), "above",
    ),
    Claim(
        "§4.2", "CODA is the most accurate of all on average", _POINTS, "CODA − best of the others, average",
        _lead(ALL_RUNGS, "grpo", "vlp", "asrr"), "above",
    ),
    Claim(
        "Fig. 1b", "Easy tasks saturate: a larger budget gains little",
        _POINTS, "L1 at 42 − at 9, rungs 1 to 3",
        _rise(9, 42, EASY_RUNGS), "same", 2.0, "l1_budgets",
    ),
    Claim(
        "Fig. 1b", "Hard tasks gain from a larger budget", _POINTS, "L1 at 42 − at 18, rungs 5 and 6",
        _rise(18, 42, HARD_RUNGS), "above", file="l1_budgets",
    ),
    Claim(
        "Fig. 1b", "CODA is above L1's curve: easy tasks", _POINTS, "CODA − L1 at CODA's tokens, rungs 1 to 3",
        _l1_at_same_tokens(EASY_RUNGS), "above", file="l1_budgets",
    ),
    Claim(
        "Fig. 1b", "CODA is above L1's curve: hard tasks", _POINTS, "CODA − L1 at CODA's tokens, rungs 5 and 6",
        _l1_at_same_tokens(HARD_RUNGS), "above", file="l1_budgets",
    ),
    Claim(
        "§5.2", "Easy training: the easy gate dominates", _GATE, "easy gate",
        _gate("coda-easy", "easy"), "above", 0.5, "gates",
    ),
    Claim(
        "§5.2", "… and the hard gate stays near zero", _GATE, "hard gate",
        _gate("coda-easy", "hard"), "below", 0.05, "gates",
    ),
    Claim(
        "§5.2", "Hard training: the hard gate is active", _GATE, "hard gate",
        _gate("coda-hard", "hard"), "above", 0.05, "gates",
    ),
    Claim(
        "§5.2", "… and the easy gate is kept down", _GATE, "easy gate",
        _gate("coda-hard", "easy"), "below", 0.5, "gates",
    ),
    Claim(
        "§5.2", "After easy training: easy accuracy as with GRPO",
        _POINTS, "rungs 1 to 3",
        against(accuracy_change(EASY_RUNGS), "coda-easy", "grpo-easy"), "above", -SAME_ACCURACY, "shifts",
    ),
    Claim(
        "§5.2", "… at lower cost", _PERCENT, "rungs 1 to 3",
        against(token_change(EASY_RUNGS), "coda-easy", "grpo-easy"), "below", file="shifts",
    ),
    Claim(
        "§5.2", "After hard training: hard accuracy as with GRPO",
        _POINTS, "rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "coda-hard", "grpo-hard"), "above", -SAME_ACCURACY, "shifts",
    ),
    Claim(
        "§5.2", "… and depth is kept", _PERCENT, "rungs 5 and 6",
        against(token_change(HARD_RUNGS), "coda-hard", "grpo-hard"), "above", -SAME_TOKENS, "shifts",
    ),
    Claim(
        "§5.3", "A moderate α saves tokens on easy tasks", _PERCENT, "α = 0.2 against 0, rungs 1 to 3",
        against(token_change(EASY_RUNGS), "coda", "coda-alpha-0.0"), "below", file="alpha",
    ),
    Claim(
        "§5.3", "… without a loss of accuracy", _POINTS, "α = 0.2 against 0, average",
        against(accuracy_change(ALL_RUNGS), "coda", "coda-alpha-0.0"), "above", -SAME_ACCURACY, "alpha",
    ),
    Claim(
        "§5.3", "α = 0.4 costs accuracy", _POINTS, "α = 0.4 against 0.2, average",
        against(accuracy_change(ALL_RUNGS), "coda-alpha-0.4", "coda"), "below", file="alpha",
    ),
    Claim(
        "§5.3", "A bonus on wrong answers makes answers longer", _PERCENT, "rungs 5 and 6",
        against(token_change(HARD_RUNGS), "coda-incorrect-bonus", "coda"), "above", file="incorrect_bonus",
    ),
    Claim(
        "§5.3", "… without better accuracy", _POINTS, "rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "coda-incorrect-bonus", "coda"), "below", SAME_ACCURACY,
        "incorrect_bonus",
    ),
    Claim(
        "App. E", "β hardly matters between 0.1 and 0.4",
        _POINTS, "β = 0.4 against 0.1, average",
        against(accuracy_change(ALL_RUNGS), "coda-beta-0.4", "coda-beta-0.1"), "same", SAME_ACCURACY, "beta",
    ),
    Claim(
        "App. E", "β = 0 shortens hard answers", _PERCENT, "β = 0 against 0.2, rungs 5 and 6",
        against(token_change(HARD_RUNGS), "coda-beta-0.0", "coda"), "below", file="beta",
    ),
    Claim(
        "App. E", "… and costs accuracy", _POINTS, "β = 0 against 0.2, rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "coda-beta-0.0", "coda"), "below", file="beta",
    ),
    Claim(
        "App. E", "A higher easy threshold saves less", _PERCENT, "τ easy 0.9 against 0.75, rungs 1 to 3",
        against(token_change(EASY_RUNGS), "coda-tau-easy-0.9", "coda"), "above", file="thresholds",
    ),
    Claim(
        "App. F", "On easy tasks redundant checks go", _CHECKS, "CODA − GRPO, rungs 1 to 3",
        against(_share("rechecks", EASY_RUNGS), "coda", "grpo"), "below", file="styles",
    ),
    Claim(
        "App. F", "… and so do restatements of the problem", _RESTATED, "CODA − GRPO, rungs 1 to 3",
        against(_share("verbose", EASY_RUNGS), "coda", "grpo"), "below", file="styles",
    ),
    Claim(
        "Table 2", "CODA reflects on hard tasks as often as GRPO", _REFLECTION, "CODA − GRPO, rungs 5 and 6",
        against(_share("reflective"), "coda", "grpo"), "same", 5.0, "reflection",
    ),
    Claim(
        "Table 2", "… and as successfully", _RIGHT, "CODA − GRPO, rungs 5 and 6",
        against(_correct_share("reflective"), "coda", "grpo"), "above", -2.0, "reflection",
    ),
    Claim(
        "Table 2", "CODA reflects more often than VLP", _REFLECTION, "CODA − VLP, rungs 5 and 6",
        against(_share("reflective"), "coda", "vlp"), "above", file="reflection",
    ),
    Claim(
        "Table 2", "CODA reflects more often than ASRR", _REFLECTION, "CODA − ASRR, rungs 5 and 6",
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


# What the verdicts mean, for whatever shows them; the page says the same in more words.
VERDICTS = (
    "Holds: the whole 95% interval agrees with the claim, in the form given under Number. Holds weakly: only the 80% "
    "interval does. Does not hold: the whole 95% interval contradicts the claim or, where it claims a difference, "
    f"lies within what counts as none ({SAME_ACCURACY:g} point of accuracy, {SAME_TOKENS:g}% of tokens, 5 points of a "
    "share of answers). Cannot be told: none of these; claim and contrary are both compatible with the runs."
)


def claims_table(
    results: Results, claims: Sequence[Claim] = CLAIMS, untestable: Sequence[tuple[str, str, str]] = UNTESTABLE
) -> Table:
    """Every claim with its number, 95% interval and verdict."""
    rows = []
    for claim in claims:
        found = claim.rows(results)
        shown = (
            Cell(MISSING)
            if found is None
            else number(over_seeds(found), digits=claim.quantity.digits, signed="Δ" in claim.quantity.label)
        )
        words = (claim.source, claim.text, claim.verdict(found), claim.measure)
        rows.append([*map(text, words), shown, text(claim.file)])
    for source, words, reason in untestable:
        rows.append([text(source), text(words), text(NOT_TESTABLE), text(reason), Cell(MISSING), Cell("")])
    return Table(
        key="claims",
        title="Claim by claim",
        caption=f"{VERDICTS} File: the table in `benchmarks/ladder/tables` that shows it (`gates`: the training logs "
        "in the summaries).",
        header=["Paper", "Claim", "On the ladder", "Number", "Value", "File"],
        rows=rows,
    )


def counted(table: Table) -> str:
    """One sentence with the number of claims for every verdict, from the claims' table."""
    found = Counter(row[2].text for row in table.rows)
    words = {
        HOLDS: "hold",
        WEAKLY: "hold weakly",
        NOT: "do not hold",
        UNTOLD: "cannot be told",
        NOT_TESTABLE: "cannot be tested here",
        NOT_RUN: "wait for their runs",
    }
    parts = [f"{found[verdict]} {said}" for verdict, said in words.items() if found[verdict]]
    return f"Of {len(table.rows)} claims {', '.join(parts)}.\n"
