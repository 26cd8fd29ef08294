"""Writes a report on one or more runs: accuracy, tokens, and where the tokens went.

python recipes/report.py GRPO=runs/grpo CODA=runs/coda CODA=runs/coda-eval --reference GRPO --out report

Without a clone of the repository, `coda-report` is `python recipes/report.py`.
"""

import argparse
import sys
from pathlib import Path

from .page import build_report


def read_group(spec: str) -> tuple[str, list[str]]:
    """Name and benchmarks of a group."""
    name, _, members = spec.partition("=")
    if not name or not all(members.split(",")):
        raise ValueError(f"--group {spec!r}: give a name and its benchmarks, such as AIME=aime24,aime25")
    return name, members.split(",")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "runs",
        nargs="+",
        metavar="[NAME=]FOLDER",
        help="Evaluation folder, training folder, or both in one. Folders of one name belong to one run; the name "
        "defaults to the folder's. Models told a token budget go by NAME@BUDGET, checkpoints by "
        "NAME@checkpoint-STEP, runs of several models by MODEL/NAME.",
    )
    parser.add_argument("--reference", metavar="NAME", help="Run to compare with (default: the first of several).")
    parser.add_argument("--out", default="report", metavar="DIR", help="Folder to write (default: %(default)s).")
    parser.add_argument("--title", default="Reasoning length by difficulty", help="Heading of the page.")
    parser.add_argument(
        "--split_by",
        default="rung",
        metavar="FIELD",
        help="Field of the samples that splits a benchmark into columns (default: %(default)s).",
    )
    parser.add_argument(
        "--difficulty_run",
        metavar="NAME",
        action="append",
        default=[],
        help="Run whose success rate says how difficult a problem is, such as the start of all trainings; may be "
        "given several times (default: the two runs of each comparison).",
    )
    parser.add_argument("--benchmarks", nargs="+", default=[], metavar="NAME", help="Only these (default: all).")
    parser.add_argument(
        "--group",
        action="append",
        default=[],
        metavar="NAME=BENCHMARK,...",
        help="Benchmarks that plots and reflective responses show as one, such as AIME=aime24,aime25.",
    )
    parser.add_argument("--change_of", metavar="NAME", help="Only run whose Δ is in main_results.tex (default: all).")
    parser.add_argument("--intervals", action="store_true", help="Put intervals into main_results.tex.")
    parser.add_argument("--tables_json", action="store_true", help="Write every number shown to DIR/tables.json.")
    options = vars(parser.parse_args())
    runs: dict[str, list[str]] = {}
    for spec in options.pop("runs"):
        name, separator, folder = spec.partition("=")
        if not separator:
            name, folder = Path(spec).resolve().name, spec
        runs.setdefault(name, []).append(folder)
    try:
        page = build_report(runs, groups=dict(map(read_group, options.pop("group"))), **options)
    except (OSError, ValueError) as problem:  # a file that cannot be read, or a name that is not there
        sys.exit(f"error: {' '.join(str(problem).split())}")
    print(f"Report: {page.resolve().as_uri()}")


if __name__ == "__main__":
    main()
