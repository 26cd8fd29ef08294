"""The paper's claims, each put to the runs as a number. How a number becomes a verdict: `verdicts.py`."""

from collections import Counter
from collections.abc import Callable, Sequence

import numpy as np

from coda_trl.report.elements import MISSING, Cell, Table, number, text

from .matrix import ALL_RUNGS, EASY_RUNGS, HARD_RUNGS, L1_BUDGETS
from .results import Measured, Results, over_seeds
from .tables import accuracy_change, token_change
from .verdicts import HOLDS, NOT, NOT_RUN, NOT_TESTABLE, UNTOLD, WEAKLY, Claim, Quantity, Rule

Rows = Callable[[Results], np.ndarray | None]

# Points of accuracy, and percent of tokens, within which two methods count as equal.
SAME_ACCURACY = 1.0
SAME_TOKENS = 5.0


def against(function: Callable[..., np.ndarray], *runs: str) -> Rows:
    """A number of some runs for every seed, such as the difference between two."""
    return lambda results: results.rows(function, *runs)


def _hardest_bucket(results: Results) -> np.ndarray | None:
    """Tokens of CODA over those of GRPO in the hardest tenth, minus 1, in percent."""

    def more(hardest: np.ndarray, coda: Measured, grpo: Measured) -> np.ndarray:
        return 100 * (coda.bucket_tokens(hardest) / grpo.bucket_tokens(hardest) - 1)

    return results.in_bucket(0, more, "coda", "grpo")


def _l1_at_same_tokens(rungs: tuple[int, ...]) -> Rows:
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


def _lead(rungs: tuple[int, ...], *rivals: str) -> Rows:
    """CODA's accuracy minus that of the best of some others."""

    def points(coda: Measured, *others: Measured) -> np.ndarray:
        best = max((other.accuracy(rungs) for other in others), key=lambda accuracy: accuracy[0])
        return coda.accuracy(rungs) - best

    return lambda results: results.rows(points, "coda", *rivals)


def _shortest(rungs: tuple[int, ...], *rivals: str) -> Rows:
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

_WHERE = {ALL_RUNGS: "average", EASY_RUNGS: "rungs 1 to 3", HARD_RUNGS: "rungs 5 and 6"}
_GRPO = ("coda", "grpo")


def _where(runs: str, rungs: tuple[int, ...]) -> str:
    return f"{runs}, {_WHERE[rungs]}" if runs else _WHERE[rungs]


def _accuracy(
    source: str, words: str, pair: tuple[str, str], rungs: tuple[int, ...], rule: Rule, bound: float = 0.0,
    file: str = "accuracy", runs: str = "",
) -> Claim:  # fmt: skip
    """A claim about the accuracy of one run minus that of another."""
    return Claim(
        source, words, _POINTS, _where(runs, rungs), against(accuracy_change(rungs), *pair), rule, bound, file
    )


def _tokens(
    source: str, words: str, pair: tuple[str, str], rungs: tuple[int, ...], rule: Rule, bound: float = 0.0,
    file: str = "tokens", runs: str = "",
) -> Claim:  # fmt: skip
    """A claim about the tokens of one run against those of another."""
    return Claim(source, words, _PERCENT, _where(runs, rungs), against(token_change(rungs), *pair), rule, bound, file)


def _gate(words: str, method: str, gate: str, rule: Rule, bound: float) -> Claim:
    """A claim about the mean gate over the last 30 steps."""
    key = f"coda/mean_w_{gate}"
    return Claim(
        "§5.2", words, _GATE, f"{gate} gate", lambda results: results.logged(method, key), rule, bound, "gates"
    )


def _share(
    source: str, words: str, quantity: Quantity, marker: str, rival: str, rungs: tuple[int, ...], rule: Rule,
    bound: float = 0.0, file: str = "reflection",
) -> Claim:  # fmt: skip
    """A claim about the share of CODA's answers with a marker minus that of a rival's, in points."""

    def points(run: Measured, reference: Measured) -> np.ndarray:
        return run.share(marker, rungs) - reference.share(marker, rungs)

    where = _where(f"CODA − {rival.upper()}", rungs)
    return Claim(source, words, quantity, where, against(points, "coda", rival), rule, bound, file)


def _reflective_right(run: Measured, reference: Measured) -> np.ndarray:
    """Difference in the share of right ones among the reflective answers on hard rungs, in points."""
    return run.correct_share("reflective", HARD_RUNGS) - reference.correct_share("reflective", HARD_RUNGS)


CLAIMS = (
    _accuracy(
        "§4.2", "Training improves on the start: GRPO", ("grpo", "start"), ALL_RUNGS, "above", runs="GRPO − start"
    ),
    _accuracy(
        "§4.2", "Training improves on the start: CODA", ("coda", "start"), ALL_RUNGS, "above", runs="CODA − start"
    ),
    _accuracy(
        "§4.2", "CODA matches or beats GRPO on average", _GRPO, ALL_RUNGS, "above", -SAME_ACCURACY, runs="CODA − GRPO"
    ),
    _tokens("§4.2", "… with fewer tokens", _GRPO, ALL_RUNGS, "below"),
    _tokens("abstract", "On easy tasks CODA needs over 60% fewer tokens", _GRPO, EASY_RUNGS, "below", -60.0),
    _accuracy("abstract", "… and keeps accuracy there", _GRPO, EASY_RUNGS, "above", -SAME_ACCURACY),
    _accuracy("§4.2", "On hard tasks accuracy is kept", _GRPO, HARD_RUNGS, "above", -SAME_ACCURACY),
    _tokens("§4.2", "… with a similar token budget", _GRPO, HARD_RUNGS, "same", SAME_TOKENS),
    Claim(
        "§4.2", "CODA needs the fewest tokens of all on the easiest", _PERCENT, "CODA against the shortest, rung 1",
        _shortest((1,), "grpo", "vlp", "asrr"), "below", file="tokens",
    ),
    Claim(
        "Fig. 1a", "The hardest problems get more tokens than from GRPO", _PERCENT, "hardest tenth", _hardest_bucket,
        "above", file="buckets",
    ),
    _accuracy("§4.2", "VLP loses accuracy on hard tasks", ("vlp", "grpo"), HARD_RUNGS, "below", runs="VLP − GRPO"),
    _accuracy("§4.2", "ASRR loses accuracy on hard tasks", ("asrr", "grpo"), HARD_RUNGS, "below", runs="ASRR − GRPO"),
    Claim(
        "§4.2", "CODA beats both length penalties on hard tasks", _POINTS, "CODA − the better one, rungs 5 and 6",
        _lead(HARD_RUNGS, "vlp", "asrr"), "above",
    ),
    Claim(
        "§4.2", "CODA is the most accurate of all on average", _POINTS, "CODA − best of the others, average",
        _lead(ALL_RUNGS, "grpo", "vlp", "asrr"), "above",
    ),
    Claim(
        "Fig. 1b", "Easy tasks saturate: a larger budget gains little", _POINTS, "L1 at 42 − at 9, rungs 1 to 3",
        against(accuracy_change(EASY_RUNGS), "l1@42", "l1@9"), "same", 2.0, "l1_budgets",
    ),
    Claim(
        "Fig. 1b", "Hard tasks gain from a larger budget", _POINTS, "L1 at 42 − at 18, rungs 5 and 6",
        against(accuracy_change(HARD_RUNGS), "l1@42", "l1@18"), "above", file="l1_budgets",
    ),
    Claim(
        "Fig. 1b", "CODA is above L1's curve: easy tasks", _POINTS, "CODA − L1 at CODA's tokens, rungs 1 to 3",
        _l1_at_same_tokens(EASY_RUNGS), "above", file="l1_budgets",
    ),
    Claim(
        "Fig. 1b", "CODA is above L1's curve: hard tasks", _POINTS, "CODA − L1 at CODA's tokens, rungs 5 and 6",
        _l1_at_same_tokens(HARD_RUNGS), "above", file="l1_budgets",
    ),
    _gate("Easy training: the easy gate dominates", "coda-easy", "easy", "above", 0.5),
    _gate("… and the hard gate stays near zero", "coda-easy", "hard", "below", 0.05),
    _gate("Hard training: the hard gate is active", "coda-hard", "hard", "above", 0.05),
    _gate("… and the easy gate is kept down", "coda-hard", "easy", "below", 0.5),
    _accuracy(
        "§5.2", "After easy training: easy accuracy as with GRPO", ("coda-easy", "grpo-easy"), EASY_RUNGS, "above",
        -SAME_ACCURACY, "shifts",
    ),
    _tokens("§5.2", "… at lower cost", ("coda-easy", "grpo-easy"), EASY_RUNGS, "below", file="shifts"),
    _accuracy(
        "§5.2", "After hard training: hard accuracy as with GRPO", ("coda-hard", "grpo-hard"), HARD_RUNGS, "above",
        -SAME_ACCURACY, "shifts",
    ),
    _tokens(
        "§5.2", "… and depth is kept", ("coda-hard", "grpo-hard"), HARD_RUNGS, "above", -SAME_TOKENS, "shifts"
    ),
    _tokens(
        "§5.3", "A moderate α saves tokens on easy tasks", ("coda", "coda-alpha-0.0"), EASY_RUNGS, "below",
        file="alpha", runs="α = 0.2 against 0",
    ),
    _accuracy(
        "§5.3", "… without a loss of accuracy", ("coda", "coda-alpha-0.0"), ALL_RUNGS, "above", -SAME_ACCURACY,
        "alpha", "α = 0.2 against 0",
    ),
    _accuracy(
        "§5.3", "α = 0.4 costs accuracy", ("coda-alpha-0.4", "coda"), ALL_RUNGS, "below", file="alpha",
        runs="α = 0.4 against 0.2",
    ),
    _tokens(
        "§5.3", "A bonus on wrong answers makes answers longer", ("coda-incorrect-bonus", "coda"), HARD_RUNGS, "above",
        file="incorrect_bonus",
    ),
    _accuracy(
        "§5.3", "… without better accuracy", ("coda-incorrect-bonus", "coda"), HARD_RUNGS, "below", SAME_ACCURACY,
        "incorrect_bonus",
    ),
    _accuracy(
        "App. E", "β hardly matters between 0.1 and 0.4", ("coda-beta-0.4", "coda-beta-0.1"), ALL_RUNGS, "same",
        SAME_ACCURACY, "beta", "β = 0.4 against 0.1",
    ),
    _tokens(
        "App. E", "β = 0 shortens hard answers", ("coda-beta-0.0", "coda"), HARD_RUNGS, "below", file="beta",
        runs="β = 0 against 0.2",
    ),
    _accuracy(
        "App. E", "… and costs accuracy", ("coda-beta-0.0", "coda"), HARD_RUNGS, "below", file="beta",
        runs="β = 0 against 0.2",
    ),
    _tokens(
        "App. E", "A higher easy threshold saves less", ("coda-tau-easy-0.9", "coda"), EASY_RUNGS, "above",
        file="thresholds", runs="τ easy 0.9 against 0.75",
    ),
    _share(
        "App. F", "On easy tasks redundant checks go", _CHECKS, "rechecks", "grpo", EASY_RUNGS, "below", file="styles"
    ),
    _share(
        "App. F", "… and so do restatements of the problem", _RESTATED, "verbose", "grpo", EASY_RUNGS, "below",
        file="styles",
    ),
    _share(
        "Table 2", "CODA reflects on hard tasks as often as GRPO", _REFLECTION, "reflective", "grpo", HARD_RUNGS,
        "same", 5.0,
    ),
    Claim(
        "Table 2", "… and as successfully", _RIGHT, "CODA − GRPO, rungs 5 and 6",
        against(_reflective_right, "coda", "grpo"), "above", -2.0, "reflection",
    ),
    _share("Table 2", "CODA reflects more often than VLP", _REFLECTION, "reflective", "vlp", HARD_RUNGS, "above"),
    _share("Table 2", "CODA reflects more often than ASRR", _REFLECTION, "reflective", "asrr", HARD_RUNGS, "above"),
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
        caption=f"{VERDICTS} File: the table in `experiments/ladder/tables` that shows it (`gates`: the training logs "
        "in `results.jsonl`).",
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
