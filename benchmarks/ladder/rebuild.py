"""Rebuilds every table, every figure and the page from the committed summaries, or holds a repetition against them.

python benchmarks/ladder/rebuild.py                       # tables, figures, docs/reproduction.md
python benchmarks/ladder/rebuild.py --check               # hold the committed repetition against the intervals
python benchmarks/ladder/rebuild.py --check FOLDER        # hold the summaries in FOLDER against them
"""

import argparse
import re
import sys
from pathlib import Path

from claims import claims_table, counted
from figures import FIGURES
from matplotlib import rc_context
from matrix import RUNS, SEEDS
from repetition import (
    ENOUGH,
    VERDICT_COLUMNS,
    counts_table,
    numbers,
    outcome,
    outside_table,
    repeated_claims_table,
    share_inside,
)
from results import Results
from rich.console import Console
from rich.markup import escape
from rich.progress import track
from rich.table import Table as Screen
from tables import all_tables

from coda_trl.report.elements import Section, Table
from coda_trl.report.render import markdown, write_numbers
from coda_trl.report.style import PLOT_SETTINGS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results"
REPETITION = HERE / "repetition"
TABLES = HERE / "tables"
IMAGES = ROOT / "docs/images/reproduction"
PAGE = ROOT / "docs/reproduction.md"

_BLOCK = re.compile(r"(<!-- begin (\S+) -->\n).*?(<!-- end -->)", re.DOTALL)


def fill(page: str, blocks: dict[str, str]) -> str:
    """
    Puts what was computed into a page.

    Args:
        page (`str`):
            Markdown with `<!-- begin KEY -->` and `<!-- end -->` around what is replaced.
        blocks (`dict[str, str]`):
            Text by key.

    Raises:
        KeyError: If the page asks for something that there is not.
    """
    return _BLOCK.sub(lambda match: f"{match[1]}{blocks[match[2]]}{match[3]}", page)


def ladder_tables(results: Results, repetition: Results) -> list[Table]:
    """Every table, in the order of the page."""
    found, both = numbers(results, repetition), Results(*results.folders, *repetition.folders)
    repeated = [counts_table(found), outside_table(found), repeated_claims_table(results, repetition, both)]
    return [claims_table(results), *all_tables(results), *repeated]


def about(results: Results) -> str:
    """A sentence about the trainings there are."""
    summaries = [summary for seeds in results.summaries.values() for summary in seeds.values()]
    trained = [summary.content for summary in summaries if RUNS[summary.name].recipe is not None]
    if not trained:
        return "No run yet.\n"
    seconds = sorted(content["train_seconds"] for content in trained)
    steps, median = trained[0]["shared"]["steps"], seconds[len(seconds) // 2]
    where = sorted({f"{content['device']}, torch {content['versions']['torch']}" for content in trained})
    return (
        f"{len(trained)} trainings of {steps} steps, {median:.0f} s each (median; {sum(seconds) / 3600:.1f} h "
        f"together; {'; '.join(where)}).\n"
    )


def page_blocks(results: Results, repetition: Results, tables: list[Table]) -> dict[str, str]:
    """What the page shows: tables and figures by key, and sentences about the claims and the runs."""
    missing = results.missing(SEEDS)
    lacking = f"Not run yet: {'; '.join(missing)}.\n" if missing else "Every run of the matrix is there.\n"
    figures = {
        f"figure-{name}": f"![{draw.__doc__.splitlines()[0]}](images/reproduction/{name}.png)\n"
        if (IMAGES / f"{name}.png").exists()
        else "No picture yet.\n"
        for name, draw in FIGURES.items()
    }
    by_key = {table.key: table for table in tables}
    texts = {
        "verdicts": counted(by_key["claims"]),
        "outcome": f"{outcome(by_key['repetition'], by_key['repeated_claims'])}\n",
        "runs": about(results),
        "runs-again": about(repetition),
        "missing": lacking,
    }
    return {key: markdown(table) for key, table in by_key.items()} | figures | texts


def build(results: Results, repetition: Results) -> None:
    """Writes tables (Markdown, JSON), figures (PNG) and the page."""
    tables = ladder_tables(results, repetition)
    TABLES.mkdir(exist_ok=True)
    for table in tables:
        (TABLES / f"{table.key}.md").write_text(markdown(table), encoding="utf-8")
    missing = {"missing": results.missing(SEEDS)}
    write_numbers(TABLES / "tables.json", [Section("ladder", "Ladder", "", list(tables))], missing)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with rc_context(PLOT_SETTINGS):
        for name, draw in track(FIGURES.items(), description="Figures"):
            figure = draw(results)
            if figure is not None:
                figure.savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Software": None})
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), page_blocks(results, repetition, tables)), encoding="utf-8")


def show(table: Table, console: Console) -> None:
    """Prints a table."""
    screen = Screen(title=table.title, caption=table.caption or None)
    for heading in table.header:
        screen.add_column(heading)
    for row in table.rows:
        cells = (f"{cell.text} [{cell.interval}]" if cell.interval else cell.text for cell in row)
        screen.add_row(*(escape(cell.replace("**", "")) for cell in cells))
    console.print(screen)


def check(results: Results, repetition: Results, console: Console) -> bool:
    """Holds runs with other seeds against the stated ones, prints the outcome, and returns whether they agree."""
    found = numbers(results, repetition)
    counts = counts_table(found)
    claims = repeated_claims_table(results, repetition, Results(*results.folders, *repetition.folders))
    changed = [[row[0], *row[-3:]] for row in claims.rows if row[-3] != row[-2]]
    shown = [outside_table(found), counts]
    if changed:
        shown.insert(1, Table("changed", "Other verdicts", "", ["Claim", *VERDICT_COLUMNS], changed))
    for table in shown:
        show(table, console)
    share = share_inside(found)
    console.print(
        f"{outcome(counts, claims)} {'Enough' if share >= ENOUGH else 'Too few'}: {ENOUGH:.0%} must lie inside, which "
        "a fair repetition misses about once in 25 times, since the numbers of a run go together.\n"
        "These intervals are for the mean over so many seeds as are new. Those of the other tables are for another "
        "thing, the mean over all seeds and problems that there could be.",
        markup=False,
    )
    return share >= ENOUGH


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="Summaries (default: %(default)s).")
    parser.add_argument(
        "--check",
        type=Path,
        nargs="?",
        const=REPETITION,
        metavar="FOLDER",
        help="Hold the summaries of a repetition with other seeds against the results (default: %(const)s).",
    )
    args, console = parser.parse_args(), Console()
    results = Results(args.results)
    if args.check is not None:
        return 0 if check(results, Results(args.check), console) else 1
    build(results, Results(REPETITION))
    missing = results.missing(SEEDS)
    console.print(f"Written: {TABLES}, {IMAGES}, {PAGE}.")
    if missing:
        console.print(f"Not run yet: {'; '.join(missing)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
