"""The experiments' files: a `results.jsonl` with a line per run, and pages that are filled from it.

A line is small enough to be committed, and enough to rebuild every table and figure: what was run, `device`,
`versions`, the training's `log`, and what the evaluation found by problem. Counts by problem are one string of
integers, in the order of the problems.
"""

import json
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

Row = dict[str, Any]

_recording = threading.Lock()


def read_results(path: Path) -> list[Row]:
    """All runs of a results file; none if there is no file."""
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.exists() else []


def key_of(row: Row) -> tuple:
    """What tells one run from another."""
    return tuple(row.get(name) for name in ("method", "seed", "variant", "warm_start"))


def record(path: Path, row: Row) -> None:
    """Puts a run into a results file, in the place of an earlier record of it. For threads, not for processes."""
    with _recording:
        rows = [*(other for other in read_results(path) if key_of(other) != key_of(row)), row]
        path.parent.mkdir(parents=True, exist_ok=True)
        # In one step, so that a process that is ended, or a full disk, leaves the old file or the new.
        partial = path.with_suffix(".partial")
        partial.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
        partial.replace(path)


def fill(page: str, blocks: Mapping[str, str]) -> str:
    """Puts text by key between `<!-- begin KEY -->` and `<!-- end -->` of a page; what has no text stays."""
    mark = r"(<!-- begin (.+?) -->\n)(.*?)(<!-- end -->)"
    return re.sub(mark, lambda match: f"{match[1]}{blocks.get(match[2], match[3])}{match[4]}", page, flags=re.DOTALL)


def further(title: str, tables: Mapping[str, str], page: str) -> str:
    """A page of the tables, by key, that another one leaves out."""
    left_out = [table for key, table in tables.items() if f"<!-- begin {key} -->" not in page]
    return "\n".join([f"# {title}: further tables\n", *left_out])
