"""Writes a report: one self-contained page, and files of tables, figures and numbers."""

import base64
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader

from .elements import Cell, Plot, Section, Table
from .latex import latex
from .runs import Run
from .style import number_axes

Item = TypeVar("Item", Table, Plot)

PAGE, NUMBERS = "index.html", "tables.json"


def write_page(path: Path, images: dict[str, bytes], **content: Any) -> None:
    """Writes the HTML page. Figures (SVG, by key) are embedded, so it needs no other file and no network."""
    environment = Environment(
        loader=PackageLoader("coda_trl.report"), autoescape=True, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters["svg"] = lambda key: f"data:image/svg+xml;base64,{base64.b64encode(images[key]).decode()}"
    environment.tests["plot"] = lambda item: isinstance(item, Plot)
    path.write_text(environment.get_template("report.html.j2").render(**content), encoding="utf-8")


def write_tables(folder: Path, sections: Sequence[Section]) -> None:
    """Writes every table as Markdown and as LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in _items(sections, Table):
        (folder / f"{table.key}.md").write_text(markdown(table), encoding="utf-8")
        (folder / f"{table.key}.tex").write_text(latex(table), encoding="utf-8")


def write_figures(folder: Path, sections: Sequence[Section]) -> dict[str, bytes]:
    """Writes every figure as PNG, SVG and PDF. Returns the SVG files by key."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {}
    for plot in _items(sections, Plot):
        number_axes(plot.canvas)
        plot.canvas.get_layout_engine().set(h_pad=0.08)
        plot.canvas.draw_without_rendering()
        plot.canvas.set_layout_engine("none")  # laid out once is enough for all files
        path = folder / plot.key
        plot.canvas.savefig(path.with_suffix(".svg"), metadata={"Date": None})
        plot.canvas.savefig(path.with_suffix(".pdf"), metadata={"CreationDate": None})
        plot.canvas.savefig(path.with_suffix(".png"), dpi=160)
        images[plot.key] = path.with_suffix(".svg").read_bytes()
    return images


def write_numbers(path: Path, sections: Sequence[Section], reference: str | None, runs: Sequence[Run]) -> None:
    """Writes every number of the tables, and what is missing of the runs."""
    tables = {
        table.key: {
            "title": table.title,
            "columns": list(table.header),
            "rows": [
                [{"text": cell.text, "value": cell.value, "low": cell.low, "high": cell.high} for cell in row]
                for row in table.rows
            ],
        }
        for table in _items(sections, Table)
    }
    content = {"reference": reference, "missing": {run.name: run.missing for run in runs}, "tables": tables}
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def markdown(table: Table) -> str:
    """A table in GitHub's Markdown, intervals in brackets."""
    rows = [table.header, *([_plain(cell) for cell in row] for row in table.rows)]
    first, *others = ("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)
    lines = [f"**{table.title}**", "", first, "|" + " --- |" * len(table.header), *others, "", table.caption]
    return "\n".join(lines) + "\n"


def _plain(cell: Cell) -> str:
    interval = f" [{cell.interval}]" if cell.interval else ""
    return f"{cell.mark}{cell.text}{interval}"


def _items(sections: Sequence[Section], kind: type[Item]) -> Iterator[Item]:
    return (item for section in sections for item in section.items if isinstance(item, kind))
