"""The design's tests and the paper's claims, each put to the pairs as a number.

`claims.csv` has a line for each, as the ladder's (its `claims.py` has the rule); `problems` are `all` (weighing
benchmarks equally), a benchmark, a band of difficulty, or those that the start `never` solves in its sorting samples.
Intervals are over pairs of one seed, those of tokens by the log of the ratio.
"""

import csv
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from coda_trl.evaluation.bootstrap import Estimate, over_seeds
from coda_trl.report.elements import MISSING, Cell, Table, number

from ..files import Row
from ..ladder.claims import HOLDS, MEASURES, NOT_RUN, WEAK_CONFIDENCE, Claim
from .measures import TITLES, in_percent, of_bands, pairs
from .run import HERE

DESIGN = "design"  # the source of what the verdict depends on


@dataclass(frozen=True)
class PairsClaim(Claim):
    """A claim about pairs, on some problems."""

    problems: str

    def difference(self, run: Row, reference: Row, start: Row) -> float:
        """Points of accuracy, or log of the ratio of tokens."""
        means = [self._mean(row, start) for row in (run, reference)]
        return float(np.log(means[0] / means[1]) if self.is_of_tokens else 100 * (means[0] - means[1]))

    @property
    def is_of_tokens(self) -> bool:
        return self.measure is MEASURES["tokens"]

    def _mean(self, row: Row, start: Row) -> float:
        if self.problems in ("all", *TITLES):
            names = TITLES if self.problems == "all" else [self.problems]
            column = "tokens" if self.is_of_tokens else "accuracy"
            return float(np.mean([row["evaluation"][name][column] for name in names]))
        bands = of_bands(row, start)
        hard = bands["hard"]
        chosen = hard[hard["rate"] == 0] if self.problems == "never" else bands[self.problems]
        return float(chosen["tokens" if self.is_of_tokens else "correct"].mean())

    def estimate(self, rows: Sequence[Row], start: Row, confidence: float = 0.95) -> Estimate | None:
        """Mean over pairs, in points or percent, with its interval; nothing where there is no pair."""
        values = [self.difference(*pair, start) for pair in pairs(rows, *self.runs)]
        if not values:
            return None
        found = over_seeds(values, confidence)
        return in_percent(found) if self.is_of_tokens else found


def _read(line: dict[str, str]) -> PairsClaim:
    measure, runs, bound = MEASURES[line["measure"]], line["runs"].split(), float(line["bound"])
    where, rule, problems = line["where"], line["rule"], line["problems"]
    return PairsClaim(line["source"], line["claim"], measure, where, runs, (), rule, bound, problems)


with open(HERE / "claims.csv", encoding="utf-8") as _file:
    CLAIMS = [_read(line) for line in csv.DictReader(_file)]


def _lines(rows: Sequence[Row], start: Row, claims: Sequence[PairsClaim]) -> list[tuple[PairsClaim, str, Cell]]:
    """Claims with what the rule says, and with their numbers."""
    lines = []
    for claim in claims:
        sure, likely = (claim.estimate(rows, start, confidence) for confidence in (0.95, WEAK_CONFIDENCE))
        verdict = NOT_RUN if sure is None else claim.judge(sure, likely)
        lines.append((claim, verdict, Cell(MISSING) if sure is None else number(sure, signed=True)))
    return lines


def verdict_table(rows: Sequence[Row], start: Row) -> Table:
    """The precondition and the design's tests: passed if all of the interval is where the design wants it."""
    lines = [
        [Cell(claim.text), Cell(claim.number), found, Cell("**passed**" if verdict == HOLDS else "**failed**")]
        for claim, verdict, found in _lines(rows, start, [claim for claim in CLAIMS if claim.source == DESIGN])
    ]
    caption = f"Mean over {len(pairs(rows, 'coda'))} pairs, 95% t-interval over them."
    return Table(
        "verdict", "The design's tests", caption, ["", "Number, and where it passes", "Found", "Verdict"], lines
    )


def claims_table(rows: Sequence[Row], start: Row) -> Table:
    """The paper's claims that this experiment can test."""
    lines = [
        [*map(Cell, (claim.source, claim.text, verdict, claim.number)), found]
        for claim, verdict, found in _lines(rows, start, [claim for claim in CLAIMS if claim.source != DESIGN])
    ]
    header = ["Paper", "Claim", "Here", "Number", "Value"]
    return Table("claims-math", "Claims on a model of 1.5B", "Verdicts: as on the ladder.", header, lines)
