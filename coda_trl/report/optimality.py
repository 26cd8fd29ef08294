"""What tokens are worth: success within a budget, marginal gain, and the best budget for a price, by difficulty."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..analysis.difficulty import BANDS
from ..analysis.optimality import BudgetCurve, best_budget, best_budgets, budget_curve
from ..evaluation.columns import PARTS
from .comparison import NEEDS, ComparedRuns
from .elements import Plot, Section, Table, number, text
from .style import legend, panels

Labels = tuple[str, str]  # who sorted, and the run
Curves = dict[str, dict[Labels, BudgetCurve]]  # by band

_PER = 1000  # prices are shown in percentage points per this many tokens


def optimality(comparison: ComparedRuns) -> Section:
    """Budget curves of every run on easy, medium and hard problems, with best budgets."""
    section = Section(
        "optimality",
        "What tokens are worth",
        "Success within a budget of n tokens, as if every answer were cut off there: read off one run, without "
        "generating again. Problems are sorted as above. With a price λ per token, the best budget n* maximises "
        "Pr(correct | n) − λ n; it moves where the price passes a slope of the curve's concave envelope.",
    )
    curves = {band: found for band in BANDS if (found := dict(_curves(comparison, band)))}
    if not curves:
        section.missing = f"This needs {NEEDS}"
        return section
    prices = _prices(curves)
    section.items = [_plot(comparison, curves), _table(comparison, curves, prices)]
    return section


def _curves(comparison: ComparedRuns, band: str) -> Iterator[tuple[Labels, BudgetCurve]]:
    for _, view, run in comparison.in_band(band):
        columns, chosen = view.columns[run.name], view.chosen(run, band)
        chosen &= ~np.isnan(columns.correct)
        if chosen.any():
            cell = columns.problem * PARTS + columns.part  # which weigh the same, as in accuracies
            curve = budget_curve(cell[chosen], columns.correct[chosen], columns.tokens[chosen])
            yield (view.sorted_by, run.name), curve


def _prices(curves: Curves) -> list[float]:
    """A low, a middle and a high price at which something happens, rounded to one digit."""
    moves = [
        price for band in curves.values() for curve in band.values() for price, _ in best_budgets(curve) if price > 0
    ]
    if not moves:
        return []
    picked = np.quantile(moves, [0.1, 0.5, 0.9])
    return sorted({float(f"{price:.0e}") for price in picked})


def _table(comparison: ComparedRuns, curves: Curves, prices: list[float]) -> Table:
    rows = []
    several = len(comparison.views) > 1
    for band, by_run in curves.items():
        for labels, curve in by_run.items():
            moves = best_budgets(curve)
            rows.append(
                [
                    text(band),
                    *map(text, labels if several else labels[1:]),
                    number(100 * curve.success[-1]),
                    *(number(best_budget(curve, price), digits=0) for price in prices),
                    number(100 * _PER * moves[0][0] if moves else float("nan"), digits=2),
                    number(100 * _PER * moves[-1][0] if moves else float("nan"), digits=3),
                ]
            )
    return Table(
        key="best_budgets",
        title="Best budgets",
        caption=f"Prices in percentage points of success per {_PER:,} tokens. Pr: success without a limit, in "
        "percent. Above the highest price no token is worth buying; below the lowest the longest useful budget is "
        f"best. Sorted are {comparison.extent}",
        header=[
            "Difficulty",
            *(["Sorted by"] if several else []),
            "Run",
            "Pr (%)",
            *(f"n* at λ = {100 * _PER * price:g}" for price in prices),
            "Highest λ",
            "Lowest λ",
        ],
        rows=rows,
    )


def draw_best_budgets(axis: Axes, moves: Sequence[tuple[float, int]], **line: Any) -> None:
    """Draws the best budget by price: each of [`~analysis.best_budgets`] from its price down to the next one."""
    if not moves:
        return
    prices = [100 * _PER * price for price, _ in moves]
    # The prices fall, so that a budget belongs to what lies between its own corner and the next, lower one.
    x, y = [prices[0] * 3, *prices, prices[-1] / 3], [0, 0, *(budget for _, budget in moves)]
    axis.step(x, y, where="pre", **line)


def _plot(comparison: ComparedRuns, curves: Curves) -> Plot:
    figure, axes = panels(3, len(curves), height=2.5)
    prices = "price λ (points per 1,000 tokens)"
    data: dict[str, dict] = {}
    for column, (band, by_run) in enumerate(curves.items()):
        success, gain, best = (axes[row * len(curves) + column] for row in range(3))
        longest = max(curve.budgets[-1] for curve in by_run.values())
        shortest = min((curve.budgets[1] for curve in by_run.values() if len(curve.budgets) > 1), default=1)
        grid = np.unique(np.geomspace(max(1, shortest / 2), max(2, longest), 200).astype(int))
        coarse = np.concatenate([[0], np.unique(np.geomspace(max(1, shortest), max(2, longest), 12).astype(int))])
        for (sorters, name), curve in by_run.items():
            line = comparison.styles[name] | {"marker": "", "linewidth": 1.5}
            success.step(grid, 100 * curve.at(grid), where="post", label=name, **line)
            slopes = 100 * _PER * curve.marginal_gain(coarse)
            # A logarithmic axis has no 0: the first stair begins where that of success does.
            line.pop("marker")
            gain.stairs(slopes, [min(grid[0], coarse[1]), *coarse[1:]], baseline=None, **line)
            moves = best_budgets(curve)
            draw_best_budgets(best, moves, **line)
            key = name if len(comparison.views) == 1 else f"{name} ({sorters})"
            data.setdefault(band, {})[key] = {
                "budgets": grid.tolist(),
                "success_percent": (100 * curve.at(grid)).tolist(),
                "marginal_gain": {"budgets": coarse.tolist(), "points_per_1000_tokens": slopes.tolist()},
                "best_budgets": [
                    {"price_points_per_1000_tokens": 100 * _PER * price, "budget": budget} for price, budget in moves
                ],
            }
        sizes = {view.num_problems(view.bands[band]) for view in comparison.views if band in view.bands}
        success.set_title(f"{band}: {'–'.join(f'{size:,}' for size in sorted({min(sizes), max(sizes)}))} problems")
        success.set_ylim(bottom=0)
        for panel, label in ((success, budgets := "budget n (tokens)"), (gain, budgets), (best, prices)):
            panel.set_xscale("log")
            panel.set_xlabel(label)
    for row, label in enumerate(("Pr(correct | n) (%)", "gain (points / 1,000 tokens)", "best budget n* (tokens)")):
        axes[row * len(curves)].set_ylabel(label)
    legend(figure, axes)
    return Plot(
        key="budget_curves",
        title="Budget curves by difficulty",
        caption="Top: success within a budget. Middle: marginal gain between neighbouring budgets. Bottom: best "
        "budget for a price; where a line steps, the price makes a longer budget not worth its tokens. Sorted are "
        f"{comparison.extent}",
        canvas=figure,
        data=data,
    )
