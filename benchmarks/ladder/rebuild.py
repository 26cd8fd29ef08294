"""Rebuilds every table, every figure and the page from the committed summaries, or holds a repetition against them.

python benchmarks/ladder/rebuild.py                       # tables, figures, docs/reproduction.md
python benchmarks/ladder/rebuild.py --check FOLDER        # do the summaries in FOLDER fall inside the intervals?
"""

import argparse
import re
import sys
from pathlib import Path

from claims import claims_table
from figures import FIGURES
from matplotlib import rc_context
from matrix import RUNS, SEEDS
from results import Results, new_run
from rich.console import Console
from rich.progress import track
from rich.table import Table as Screen
from tables import BY_RUNG, METHODS, accuracy_on, all_tables, tokens_on

from coda_trl.report.elements import Section, Table
from coda_trl.report.render import markdown, write_numbers
from coda_trl.report.style import PLOT_SETTINGS

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
RESULTS = HERE / "results"
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


def page_blocks(results: Results, tables: list[Table]) -> dict[str, str]:
    """What the page shows: tables by key, and `missing` and `runs`, sentences about the runs there are."""
    missing = results.missing(SEEDS)
    lacking = f"Not run yet: {'; '.join(missing)}." if missing else "Every run of the matrix is there."
    summaries = [summary for seeds in results.summaries.values() for summary in seeds.values()]
    trained = [summary.content for summary in summaries if RUNS[summary.name].recipe is not None]
    about = "No run yet."
    if trained:
        seconds = sorted(content["train_seconds"] for content in trained)
        devices = sorted({content["device"] for content in trained})
        steps, median = trained[0]["shared"]["steps"], seconds[len(seconds) // 2]
        about = (
            f"{len(trained)} trainings of {steps} steps, {median:.0f} s each (median; "
            f"{sum(seconds) / 3600:.1f} h together; {', '.join(devices)})."
        )
    figures = {
        f"figure-{name}": f"![{draw.__doc__.splitlines()[0]}](images/reproduction/{name}.png)\n"
        if (IMAGES / f"{name}.png").exists()
        else "No picture yet.\n"
        for name, draw in FIGURES.items()
    }
    texts = {"missing": f"{lacking}\n", "runs": f"{about}\n"}
    return {table.key: markdown(table) for table in tables} | figures | texts


def build(results: Results) -> None:
    """Writes tables (Markdown, JSON), figures (PNG) and the page."""
    tables = [claims_table(results), *all_tables(results)]
    TABLES.mkdir(exist_ok=True)
    for table in tables:
        (TABLES / f"{table.key}.md").write_text(markdown(table), encoding="utf-8")
    about = {"missing": results.missing(SEEDS)}
    write_numbers(TABLES / "tables.json", [Section("ladder", "Ladder", "", list(tables))], about)
    IMAGES.mkdir(parents=True, exist_ok=True)
    with rc_context(PLOT_SETTINGS):
        for name, draw in track(FIGURES.items(), description="Figures"):
            figure = draw(results)
            if figure is not None:
                figure.savefig(IMAGES / f"{name}.png", dpi=110, metadata={"Software": None})
    PAGE.write_text(fill(PAGE.read_text(encoding="utf-8"), page_blocks(results, tables)), encoding="utf-8")


def check(results: Results, repetition: Results, console: Console) -> float:
    """
    Holds runs with other seeds against the stated intervals, prints what lies outside, and returns the share inside.

    The intervals are those for the mean of as many new runs as there are, see [`new_run`].
    """
    screen = Screen(title="Outside")
    for heading in ("run", "number", "rung", "new", "stated"):
        screen.add_column(heading)
    inside = total = 0
    for name in METHODS[1:]:
        for metric, function in (("accuracy", accuracy_on), ("tokens", tokens_on)):
            for column, rungs in BY_RUNG.items():
                stated, new = (each.rows(function(rungs), name) for each in (results, repetition))
                if stated is None or new is None or len(stated) < 2:
                    continue
                value, expected = float(new[:, 0].mean()), new_run(stated, runs=len(new))
                total += 1
                if expected.low <= value <= expected.high:
                    inside += 1
                else:
                    span = f"{expected.low:.2f} to {expected.high:.2f}"
                    screen.add_row(RUNS[name].label, metric, column, f"{value:.2f}", span)
    if not total:
        raise SystemExit("The two folders have no run in common (of which the first has at least two seeds).")
    if screen.rows:
        console.print(screen)
    console.print(f"{inside} of {total} numbers inside their 95% interval ({inside / total:.0%}).")
    return inside / total


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="Summaries (default: %(default)s).")
    parser.add_argument("--check", type=Path, metavar="FOLDER", help="Summaries of a repetition with other seeds.")
    args, console = parser.parse_args(), Console()
    results = Results(args.results)
    if args.check is not None:
        # One in twenty is expected outside, and the numbers of one run go together; fewer than this is no accident.
        return 0 if check(results, Results(args.check), console) >= 0.85 else 1
    build(results)
    missing = results.missing(SEEDS)
    console.print(f"Written: {TABLES}, {IMAGES}, {PAGE}.")
    if missing:
        console.print(f"Not run yet: {'; '.join(missing)}.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
