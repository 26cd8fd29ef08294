"""Writes a report on one or more runs: accuracy, tokens, and where the tokens went.

python recipes/report.py GRPO=runs/grpo CODA=runs/coda CODA=runs/coda-eval --reference GRPO --out report

Without a clone of the repository, `coda-report` is `python recipes/report.py`.
"""

import argparse
import sys
from inspect import signature
from pathlib import Path
from typing import Any

from ..commands import command
from ..help_texts import help_texts
from .page import build_report
from .render import PAGE


def read_group(spec: str) -> tuple[str, list[str]]:
    """Name and benchmarks of a group."""
    name, _, members = spec.partition("=")
    if not name or not all(members.split(",")):
        raise ValueError(f"--group {spec!r}: give a name and its benchmarks, such as AIME=aime24,aime25")
    return name, members.split(",")


# What argparse is told of options that do not take one value.
OTHERS: dict[str, dict[str, Any]] = {
    "difficulty_run": {"action": "append", "metavar": "NAME"},
    "benchmarks": {"nargs": "+", "metavar": "NAME"},
    "groups": {"action": "append", "metavar": "NAME=BENCHMARK,..."},
    "intervals": {"action": "store_true"},
}


@command
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        argument_default=argparse.SUPPRESS,  # the defaults of `build_report`
    )
    texts, parameters = help_texts(build_report.__doc__), signature(build_report).parameters
    parser.add_argument("runs", nargs="+", metavar="[NAME=]FOLDER", help=texts["runs"])
    for name in list(parameters)[1:]:
        flag, default = "--group" if name == "groups" else f"--{name}", parameters[name].default
        shown = f" (default: {default})" if isinstance(default, str) else ""
        parser.add_argument(flag, dest=name, help=texts[name] + shown, **OTHERS.get(name, {}))
    options = vars(parser.parse_args())
    runs: dict[str, list[str]] = {}
    for spec in options.pop("runs"):
        name, separator, folder = spec.partition("=")
        if not separator or Path(spec).is_dir():  # a folder with = in its name
            name, folder = Path(spec).resolve().name, spec
        runs.setdefault(name, []).append(folder)
    replaced = (Path(options.get("out", parameters["out"].default)) / PAGE).exists()
    try:
        groups = dict(map(read_group, options.pop("groups", [])))
        page = build_report(runs, groups=groups, **options)
    except (OSError, ValueError) as problem:  # a file that cannot be read, or a name that is not there
        sys.exit(f"error: {' '.join(str(problem).split())}")
    print(f"Report{', in place of the earlier one' if replaced else ''}: {page.resolve().as_uri()}")


if __name__ == "__main__":
    main()
