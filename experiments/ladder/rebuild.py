"""Rebuilds every table, every figure and the page from `results.jsonl`, or compares a repetition with it.

python -m experiments.ladder.rebuild                            # tables, figures, docs/reproduction.md
python -m experiments.ladder.rebuild --check                    # compare the committed repetition
python -m experiments.ladder.rebuild --check runs/again.jsonl   # compare runs with other seeds
"""

import argparse
import sys
from pathlib import Path

from matplotlib import rc_context
from rich.console import Console
from rich.markdown import Markdown

from coda_trl.report.elements import Table
from coda_trl.report.render import markdown
from coda_trl.report.style import PLOT_SETTINGS

from ..files import fill, further, read_results
from ..runner import ROOT
from .claims import claims_table, counted
from .figures import FIGURES
from .matrix import SEEDS, START, jobs
from .repetition import (
    ENOUGH,
    VERDICT_COLUMNS,
    counts_table,
    numbers,
    outcome,
    outside_table,
    repeated_claims_table,
)
from .reproduce import HERE, RESULTS
from .results import Results
from .tables import all_tables

TABLES = HERE / "tables.md"
IMAGES = ROOT / "docs/images/reproduction"
PAGE = ROOT / "docs/reproduction.md"


def read(path: Path = RESULTS) -> tuple[Results, Results]:
    """The first runs of a file, and those of the repetition with other seeds."""
    lines = read_results(path)
    return tuple(Results(line for line in lines if line["repetition"] is again) for again in (False, True))


def missing(results: Results) -> list[str]:
    """Runs of the matrix that are not there, with their seeds."""
    lacking: dict[str, list[int]] = {}
    for name, seed in jobs(["main", "ablations"], SEEDS):
        if (1, seed) not in results.runs.get(name, {}):
            lacking.setdefault(name, []).append(seed)
    return [f"{name} (seeds {', '.join(map(str, found))})" for name, found in lacking.items()]


def ladder_tables(results: Results, repetition: Results) -> list[Table]:
    """Every table, in the order of the page."""
    found = numbers(results, repetition)
    repeated = [counts_table(found), outside_table(found), repeated_claims_table(results, repetition)]
    return [claims_table(results), *all_tables(results), *repeated]


def about(results: Results) -> str:
    """A sentence about the trainings there are."""
    trained = [line for line in results.lines if line["method"] != START]
    if not trained:
        return "No run yet.\n"
    seconds = sorted(line["train_seconds"] for line in trained)
    steps, median = trained[0]["shared"]["steps"], seconds[len(seconds) // 2]
    where = sorted({f"{line['device']}, torch {line['versions']['torch']}" for line in trained})
    return (
        f"{len(trained)} trainings of {steps} steps: median {median:.0f} s, {sum(seconds) / 3600:.1f} h in total "
        f"({'; '.join(where)}).\n"
    )


def page_blocks(results: Results, repetition: Results, tables: list[Table]) -> dict[str, str]:
    """What the page shows: tables and figures by key, and sentences about the claims and the runs."""
    lacking, by_key = missing(results), {table.key: table for table in tables}
    figures = {
        f"figure-{name}": f"![{caption.partition('.')[0]}](images/reproduction/{name}.png)\n\n*{caption}*\n"
        for name, (caption, _) in FIGURES.items()
    }
    texts = {
        "verdicts": counted(by_key["claims"]),
        "outcome": f"{outcome(by_key['repetition'], by_key['repeated_claims'])}\n",
        "runs": about(results),
        "runs-again": about(repetition),
        "missing": f"Not run yet: {'; '.join(lacking)}.\n" if lacking else "All runs are complete.\n",
    }
    return {key: markdown(table) for key, table in by_key.items()} | figures | texts


def further_tables(tables: list[Table], page: str) -> str:
    """Those that the page leaves out."""
    return further("The ladder", {table.key: markdown(table) for table in tables}, page)


def build(results: Results, repetition: Results) -> None:
    """Writes the page, its figures, and the tables that it leaves out."""
    tables, page = ladder_tables(results, repetition), PAGE.read_text(encoding="utf-8")
    PAGE.write_text(fill(page, page_blocks(results, repetition, tables)), encoding="utf-8")
    TABLES.write_text(further_tables(tables, page), encoding="utf-8")
    IMAGES.mkdir(parents=True, exist_ok=True)
    with rc_context(PLOT_SETTINGS):
        for name, (_, draw) in FIGURES.items():
            figure = draw(results)
            if figure is not None:
                figure.savefig(IMAGES / f"{name}.png", dpi=160, metadata={"Software": None})


def check(results: Results, repetition: Results, console: Console) -> bool:
    """Compares runs with other seeds with the stated ones, prints the outcome, and returns whether they agree."""
    found = numbers(results, repetition)
    counts, claims = counts_table(found), repeated_claims_table(results, repetition)
    changed = [[row[0], *row[-3:]] for row in claims.rows if row[-3] != row[-2]]
    other = [Table("changed", "Other verdicts", "", ["Claim", *VERDICT_COLUMNS], changed)] if changed else []
    for table in (outside_table(found), *other, counts):
        console.print(Markdown(markdown(table)))
    share = found["inside"].mean()
    console.print(
        f"{outcome(counts, claims)} {'Enough' if share >= ENOUGH else 'Too few'}: {ENOUGH:.0%} must lie inside, which "
        "a fair repetition misses about once in 25 times, since the numbers of a run are correlated.\n"
        "These are prediction intervals for the mean over the new seeds; those of the other tables are for the mean "
        "over all seeds and problems.",
        markup=False,
    )
    return share >= ENOUGH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="Runs (default: %(default)s).")
    parser.add_argument(
        "--check",
        type=Path,
        nargs="?",
        const=RESULTS,
        metavar="FILE",
        help="Compare the runs with other seeds in this file (default: %(const)s) with the results.",
    )
    args, console = parser.parse_args(), Console()
    results, _ = read(args.results)
    if args.check is not None:
        return 0 if check(results, read(args.check)[1], console) else 1
    build(results, read()[1])
    console.print(f"Written: {TABLES}, {IMAGES}, {PAGE}.")
    if lacking := missing(results):
        console.print(f"Not run yet: {'; '.join(lacking)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
