"""Writes a report: one self-contained page, and files of tables, figures and numbers."""

import base64
import io
import json
import re
from collections.abc import Iterator, Sequence
from math import isfinite
from pathlib import Path
from typing import Any, TypeVar

from jinja2 import Environment, PackageLoader

from ..evaluation.bootstrap import Estimate
from .elements import NO_BREAK, Cell, Plot, Section, Table
from .latex import latex
from .style import number_axes, stack

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


def remove_files(out: Path) -> None:
    """Removes an earlier report from a folder; its page names its tables and figures."""
    if not (out / PAGE).exists():
        return
    content = (out / PAGE).read_text(encoding="utf-8")
    for model in re.findall(rf'href="([^"/:#]+)/{PAGE}"', content):
        remove_files(out / model)
    stale = [out / PAGE, out / NUMBERS, out / "tables" / "main_results.tex"]
    for kind, key in re.findall(r'id="(title|figure)-([^"]+)"', content):
        folder, endings = ("tables", ("md", "tex")) if kind == "title" else ("figures", ("svg", "png", "pdf"))
        stale += [out / folder / f"{key}.{ending}" for ending in endings]
    for path in stale:
        path.unlink(missing_ok=True)


def write_tables(folder: Path, sections: Sequence[Section], model: str = "") -> None:
    """Writes every table as Markdown and as LaTeX."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in _items(sections, Table):
        (folder / f"{table.key}.md").write_text(markdown(table), encoding="utf-8")
        (folder / f"{table.key}.tex").write_text(latex(table, model), encoding="utf-8")


def write_figures(folder: Path, sections: Sequence[Section]) -> dict[str, bytes]:
    """Writes figures as PNG, SVG and PDF. Returns the SVGs by key, and with stacked panels by `<key>-narrow`."""
    folder.mkdir(parents=True, exist_ok=True)
    images = {}
    for plot in _items(sections, Plot):
        number_axes(plot.canvas)
        plot.canvas.get_layout_engine().set(h_pad=0.08)
        plot.canvas.draw_without_rendering()
        plot.canvas.set_layout_engine("none")  # laid out once is enough for all files
        images[plot.key] = _as_svg(plot)
        (folder / f"{plot.key}.svg").write_bytes(images[plot.key])
        plot.canvas.savefig(folder / f"{plot.key}.pdf", metadata={"CreationDate": None})
        plot.canvas.savefig(folder / f"{plot.key}.png", dpi=160)
        stack(plot.canvas)
        images[f"{plot.key}-narrow"] = _as_svg(plot)
    return images


def _as_svg(plot: Plot) -> bytes:
    buffer = io.BytesIO()
    plot.canvas.savefig(buffer, format="svg", metadata={"Date": None})
    return buffer.getvalue()


def write_numbers(path: Path, sections: Sequence[Section], about: dict[str, Any]) -> None:
    """Writes every number of the report, with `about` as further entries."""
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
    figures = {plot.key: {"title": plot.title, "data": plot.data} for plot in _items(sections, Plot)}
    content = _finite({**about, "tables": tables, "figures": figures})
    path.write_text(json.dumps(content, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def _finite(value: Any) -> Any:
    """The same with dictionaries instead of estimates and `None` instead of NaN and infinity, which JSON lacks."""
    if isinstance(value, Estimate):
        value = vars(value)
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value


def markdown(table: Table) -> str:
    """A table in GitHub's Markdown, intervals in brackets."""
    rows = [table.header, *([_plain(cell) for cell in row] for row in table.rows)]
    first, *others = ("| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows)
    lines = [f"**{table.title}**", "", first, "|" + " --- |" * len(table.header), *others, "", table.caption]
    return "\n".join(lines) + "\n"


def _plain(cell: Cell) -> str:
    mark, interval = (text.replace(" ", NO_BREAK) for text in (cell.mark, cell.interval and f"[{cell.interval}]"))
    return f"{mark}{cell.text} {interval}".rstrip()


def _items(sections: Sequence[Section], kind: type[Item]) -> Iterator[Item]:
    return (item for section in sections for item in section.items if isinstance(item, kind))
