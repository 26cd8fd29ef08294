"""Tables in LaTeX, for papers."""

import re
from collections.abc import Iterable

from .elements import Cell, Table

# As wide as it is, but no wider than the page.
_FIT = r"\resizebox{\ifdim\width>\textwidth\textwidth\else\width\fi}{!}{%"


def latex(table: Table) -> str:
    r"""A table in LaTeX, for the packages `booktabs` and `graphicx`; intervals in `\scriptsize`."""
    columns = "".join("l" if table.is_words(i) else "r" for i in range(1, len(table.header)))
    lines = [_row(map(_escape, table.header)), r"\midrule"]
    starts = table.groups or [min(table.differences, default=0)]
    for position, row in enumerate(table.rows):
        if position and position in starts:
            lines.append(r"\midrule")
        lines.append(_row(map(_cell, row)))
    return "\n".join(
        [
            r"% needs \usepackage{booktabs,graphicx}",
            r"\begin{table}",
            rf"\caption{{{_escape(table.caption)}}}",
            rf"\label{{tab:{table.key}}}",
            r"\smallskip\centering",
            _FIT,
            rf"\begin{{tabular}}{{l{columns}}}",
            r"\toprule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}}",
            r"\end{table}",
            "",
        ]
    )


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
