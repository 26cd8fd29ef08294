"""Tables in LaTeX, for papers."""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .elements import MISSING, Cell, Table

_NAMES = {name: name.upper() for name in ("svamp", "gsm8k", "math500", "amc23", "aime24", "aime25", "gpqa")}
_NAMES["commonsenseqa"] = "CSQA"
# At its natural width, but no wider than the page.
_FIT = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"


def latex(table: Table, model: str = "") -> str:
    r"""A table in LaTeX, for the packages `booktabs` and `graphicx`; intervals in `\scriptsize`. `model` begins its
    label."""
    columns = "".join("l" if table.is_words(i) else "r" for i in range(1, len(table.header)))
    lines = [_row(map(_escape, table.header)), r"\midrule"]
    starts = table.groups or [min(table.differences, default=0)]
    for position, row in enumerate(table.rows):
        if position and position in starts:
            lines.append(r"\midrule")
        lines.append(_row(map(_cell, row)))
    return _float("table", model, table.key, table.caption, [_FIT, *_tabular(columns, lines)])


def _float(kind: str, model: str, key: str, caption: str, lines: Iterable[str]) -> str:
    label = f"{model}-{key}" if model else key
    about = [rf"\caption{{{_escape(caption)}}}", rf"\label{{tab:{label}}}", r"\smallskip\centering"]
    lines = [r"% needs \usepackage{booktabs,graphicx}", rf"\begin{{{kind}}}", *about, *lines, rf"\end{{{kind}}}"]
    return "\n".join(lines) + "\n"


def _tabular(columns: str, lines: Iterable[str]) -> list[str]:
    """A tabular whose first column holds words, inside the open brace of `_FIT`."""
    return [rf"\begin{{tabular}}{{l{columns}}}", r"\toprule", *lines, r"\bottomrule", r"\end{tabular}}"]


def latex_main_results(
    models: Mapping[str, Sequence[Table]], seeds: Sequence[int], model: str, change_of: str | None, intervals: bool
) -> str:
    """
    Accuracy and tokens of all models in one table, as the paper's Table 1, for `booktabs` and `graphicx`. `models` has
    the tables of accuracy and of tokens by name of the model, which is shown if there are several; `seeds` are the
    numbers of seeds that runs have. `model` begins the label. With `intervals`, tokens come below accuracies, as both
    together are too wide.
    """
    headers = [tables[0].header for tables in models.values()]
    names = dict.fromkeys(name for header in headers for name in header[1:])
    averages = {header[-1] for header in headers if header[-1].startswith("Average")}
    columns = sorted(names, key=averages.__contains__)  # averages come last
    frame: list[str] = []
    for block in ([0], [1]) if intervals else ([0, 1],):
        width = len(columns) * len(block)
        titles = [(r"Accuracy (\%)", "Tokens")[part] for part in block]
        lines = [
            _row(["", *(rf"\multicolumn{{{len(columns)}}}{{c}}{{{title}}}" for title in titles)]),
            " ".join(
                rf"\cmidrule(lr){{{start + 2}-{start + 1 + len(columns)}}}" for start in range(0, width, len(columns))
            ),
            _row(["", *(_escape(_NAMES.get(name, name)) for name in len(block) * columns)]),
        ]
        for name, tables in models.items():
            lines.append(r"\midrule")
            if len(models) > 1:
                lines.append(rf"\multicolumn{{{width + 1}}}{{l}}{{\textbf{{{_escape(name)}}}}} \\")
            lines += _main_rows([tables[part] for part in block], columns, change_of, intervals)
        frame += [r"\par\medskip"] if frame else []
        frame += [r"\setlength{\tabcolsep}{4pt}" + _FIT, *_tabular(rf"*{{{width}}}{{r}}", lines)]
    means = f", means over {' and '.join(map(str, seeds))} seeds" if max(seeds) > 1 else ""
    caption = f"Accuracy (mean@n, in percent) and tokens per answer{means}."
    if any(table.differences for tables in models.values() for table in tables):
        caption += " Δ: change against the reference, of accuracy in percentage points, of tokens in percent."
    if intervals:
        over = "seeds (Student's t; where all agree, over problems)" if means else "problems"
        caption += f" 95% intervals over {over} in brackets; ≈ marks a change whose interval holds 0."
    return _float("table*", model, "main_results", caption, frame)


def _main_rows(
    tables: Sequence[Table], columns: Sequence[str], change_of: str | None, intervals: bool
) -> Iterator[str]:
    first = min(tables[0].differences, default=0)
    for position, rows in enumerate(zip(*(table.rows for table in tables), strict=True)):
        label = rows[0][0].text
        if position in tables[0].differences and change_of is not None and label != f"Δ {change_of}":
            continue
        if position and position == first:
            yield r"\addlinespace"
        named = [dict(zip(table.header, row, strict=True)) for table, row in zip(tables, rows, strict=True)]
        cells = [row.get(column, Cell(MISSING)) for row in named for column in columns]
        shown = (cell.mark * intervals + _without_commas(cell.text) for cell in cells)
        yield _row(map(_escape, [label, *shown]))
        if intervals:
            spans = (_escape(_without_commas(cell.interval)) for cell in cells)
            yield _row(["", *(rf"\tiny [{span}]" if span else "" for span in spans)])


def _without_commas(shown: str) -> str:
    return re.sub(r"(?<=\d),(?=\d)", "", shown)  # in thousands


def _row(cells: Iterable[str]) -> str:
    return " & ".join(cells) + r" \\"


def _cell(cell: Cell) -> str:
    interval = rf" {{\scriptsize [{_escape(cell.interval)}]}}" if cell.interval else ""
    return f"{_escape(cell.mark + cell.text)}{interval}"


_LATEX = {
    "\\": r"\textbackslash{}",
    "−": "$-$",
    "–": "--",
    "≈": r"$\approx$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "Δ": r"$\Delta$",
    **{letter: rf"$\{unicodedata.name(letter).split()[-1].lower()}$" for letter in "αβγδεζηθκμνξπρστφχψω"},
    "λ": r"$\lambda$",  # Unicode spells it LAMDA
    "→": r"$\to$",
    "≠": r"$\neq$",
    "<": "$<$",
    ">": "$>$",
    "·": r"$\cdot$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    **{character: rf"\{character}" for character in "%&#_${}"},
}


def _escape(content: str) -> str:
    return re.sub("|".join(map(re.escape, _LATEX)), lambda match: _LATEX[match[0]], content)
