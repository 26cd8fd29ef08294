"""Tables in LaTeX, for papers."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from .elements import MISSING, Cell, Table

_NEEDS = r"% needs \usepackage{booktabs,graphicx}"
_NAMES = {name: name.upper() for name in ("svamp", "gsm8k", "math500", "amc23", "aime24", "aime25", "gpqa")}
_NAMES["commonsenseqa"] = "CSQA"
# As wide as it is, but no wider than the page.
_FIT = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"


def latex(table: Table) -> str:
    r"""A table in LaTeX, for the packages `booktabs` and `graphicx`; intervals in `\scriptsize`."""
    lines = [
        _NEEDS,
        r"\begin{table}",
        rf"\caption{{{_escape(table.caption)}}}",
        rf"\label{{tab:{table.key}}}",
        r"\smallskip\centering",
        _FIT,
        rf"\begin{{tabular}}{{l{''.join('l' if table.is_words(i) else 'r' for i in range(1, len(table.header)))}}}",
        r"\toprule",
        _row(map(_escape, table.header)),
        r"\midrule",
    ]
    starts = table.groups or [min(table.differences, default=0)]
    for position, row in enumerate(table.rows):
        if position and position in starts:
            lines.append(r"\midrule")
        lines.append(_row(map(_cell, row)))
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}}", r"\end{table}"]) + "\n"


def latex_main_results(
    models: Mapping[str, Sequence[Table]], change_of: str | None = None, intervals: bool = False
) -> str:
    """
    Accuracy and tokens of all models in one table, as the paper's Table 1, for `booktabs` and `graphicx`. `models` has
    the tables of accuracy and of tokens by name of the model, which is shown if there are several. With `intervals`,
    tokens come below accuracies, since both do not fit beside each other.
    """
    headers = [header for tables in models.values() for header in tables[0].header[1:-1]]
    last = [tables[0].header[-1] for tables in models.values()]
    columns = list(dict.fromkeys([*headers, *last]))
    averages = dict.fromkeys(name for name in last if name.startswith("Average"))
    columns = [*(name for name in columns if name not in averages), *averages]
    lines = [_NEEDS, r"\begin{table*}", rf"\caption{{{_escape(_caption(models, change_of, intervals))}}}"]
    lines += [r"\label{tab:main_results}", r"\smallskip\centering"]
    for block in ([0], [1]) if intervals else ([0, 1],):
        width = len(columns) * len(block)
        heads = [rf"\multicolumn{{{len(columns)}}}{{c}}{{{('Accuracy (%)', 'Tokens')[i]}}}" for i in block]
        starts = range(2, width + 2, len(columns))
        lines += [
            *([r"\par\medskip"] if block == [1] else []),
            r"\setlength{\tabcolsep}{4pt}" + _FIT,
            rf"\begin{{tabular}}{{l*{{{width}}}{{r}}}}",
            r"\toprule",
            _row(["", *heads]).replace("(%)", r"(\%)"),
            " ".join(rf"\cmidrule(lr){{{start}-{start + len(columns) - 1}}}" for start in starts),
            _row(["", *(_escape(_NAMES.get(name, name)) for _ in block for name in columns)]),
        ]
        for model, tables in models.items():
            lines.append(r"\midrule")
            if len(models) > 1:
                lines.append(rf"\multicolumn{{{width + 1}}}{{l}}{{\textbf{{{_escape(model)}}}}} \\")
            lines += _main_rows([tables[i] for i in block], columns, change_of, intervals)
        lines += [r"\bottomrule", r"\end{tabular}}"]
    return "\n".join([*lines, r"\end{table*}"]) + "\n"


def _main_rows(
    tables: Sequence[Table], columns: Sequence[str], change_of: str | None, intervals: bool
) -> Iterator[str]:
    for position, rows in enumerate(zip(*(table.rows for table in tables), strict=True)):
        label = rows[0][0].text
        if position in tables[0].differences and change_of is not None and label != f"Δ {change_of}":
            continue
        if position in tables[0].differences and position - 1 not in tables[0].differences | {-1}:
            yield r"\addlinespace"
        named = [dict(zip(table.header, row, strict=True)) for table, row in zip(tables, rows, strict=True)]
        cells = [row.get(column, Cell(MISSING)) for row in named for column in columns]
        # What may be noise cannot be told without intervals.
        shown = (_escape(cell.mark * intervals + _without_commas(cell.text)) for cell in cells)
        yield _row([_escape(label), *shown])
        if intervals:
            spans = (_escape(_without_commas(cell.interval)) for cell in cells)
            yield _row(["", *(rf"\tiny [{span}]" if span else "" for span in spans)])


def _caption(models: Mapping[str, Sequence[Table]], change_of: str | None, intervals: bool) -> str:
    sentences = ["Accuracy (mean@n, in percent) and tokens per answer."]
    if any(table.differences for tables in models.values() for table in tables):
        sentences.append("Δ: change against the reference, of accuracy in percentage points, of tokens in percent.")
    if intervals:
        sentences.append("95% intervals in brackets; ≈ marks a change whose interval holds 0.")
    return " ".join(sentences)


def _without_commas(shown: str) -> str:
    return re.sub(r"(?<=\d),(?=\d)", "", shown)


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
    "λ": r"$\lambda$",
    "·": r"$\cdot$",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "|": r"\textbar{}",
    **{character: rf"\{character}" for character in "%&#_${}"},
}


def _escape(content: str) -> str:
    return re.sub("|".join(map(re.escape, _LATEX)), lambda match: _LATEX[match[0]], content)
