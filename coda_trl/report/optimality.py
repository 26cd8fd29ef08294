"""What tokens are worth: success within a budget, marginal gain, and the best budget for a price, by difficulty."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes

from ..analysis.difficulty import BANDS
from ..analysis.optimality import BudgetCurve, best_budget, best_budgets, budget_curve
from ..evaluation.columns import PARTS
from .comparison import NEEDS, ComparedRuns, View
from .elements import Plot, Section, Table, count, number, percent, table_of_rows
from .seeds import Columns, cells
from .style import legend, panels

Curves = dict[str, list[tuple[View, str, list[BudgetCurve]]]]  # by band, with the name of the run, for every seed

_PER = 1000  # prices are shown in percentage points per this many tokens
_POINTS = 100 * _PER


def optimality(comparison: ComparedRuns) -> Section:
    """Budget curves of every run on easy, medium and hard problems, with best budgets."""
    section = Section(
        "optimality",
        "What tokens are worth",
        "Success within a budget of n tokens, as if every answer were cut off there: read off one run, without "
        "generating again. Problems are sorted as above. With a price λ per token, the best budget n* maximises "
        "Pr(correct | n) − λ n; it moves where the price passes a slope of the curve's concave envelope.",
    )
    curves = _curves(comparison)
    if not curves:
        section.missing = f"This needs {NEEDS}"
        return section
    section.items = [_plot(comparison, curves), _table(comparison, curves)]
    return section


def _curves(comparison: ComparedRuns) -> Curves:
    curves: Curves = {}
    for band, seeds, run in comparison.in_bands(*BANDS):
        found = [_curve(view, run, band) for view in seeds]
        if all(found):
            curves.setdefault(band, []).append((seeds[0], run, found))
    return curves


def _curve(view: View, run: str, band: str) -> BudgetCurve | None:
    columns, chosen = view.columns[run], view.chosen(run, band)
    chosen &= ~np.isnan(columns.correct)
    if not chosen.any():
        return None
    cell = columns.problem * PARTS + columns.part  # cells weigh the same, as in accuracies
    return budget_curve(cell[chosen], columns.correct[chosen], columns.tokens[chosen])


def _mean(curves: Sequence[BudgetCurve]) -> BudgetCurve:
    budgets = np.unique(np.concatenate([curve.budgets for curve in curves]))
    return BudgetCurve(budgets, np.mean([curve.at(budgets) for curve in curves], axis=0))


def _moves(curve: BudgetCurve) -> list[float]:
    """Prices at which the best budget changes."""
    return [price for price, _ in best_budgets(curve)]


def _table(comparison: ComparedRuns, curves: Curves) -> Table:
    every = [price for found in curves.values() for *_, seeds in found for curve in seeds for price in _moves(curve)]
    # A low, a middle and a high price, rounded to one digit.
    picked = np.quantile(every, [0.1, 0.5, 0.9]) if every else []
    columns: Columns = {"Pr (%)": (lambda curve: float(curve.success[-1]), percent)}
    for price in sorted({float(f"{price:.0e}") for price in picked}):
        columns[f"n* at λ = {_POINTS * price:g}"] = (partial(best_budget, price=price), count)
    for title, extreme, digits in (("Highest λ", max, 2), ("Lowest λ", min, 3)):
        outermost = partial(lambda curve, extreme: _POINTS * extreme(_moves(curve), default=np.nan), extreme=extreme)
        columns[title] = (outermost, partial(number, digits=digits))
    rows = [
        {"Difficulty": band} | comparison.label(view, run) | cells(columns, seeds)
        for band, found in curves.items()
        for view, run, seeds in found
    ]
    caption = (
        f"Prices in percentage points of success per {_PER:,} tokens. Pr: success without a limit, in percent. Above "
        "the highest price no token is worth buying; below the lowest the longest useful budget is best. "
        f"{comparison.extent}"
    )
    return table_of_rows("best_budgets", "Best budgets", caption, rows)


def draw_best_budgets(axis: Axes, moves: Sequence[tuple[float, int]], **line: Any) -> None:
    """Draws the best budget by price: each of [`~analysis.best_budgets`] from its price down to the next one."""
    if not moves:
        return
    prices = [_POINTS * price for price, _ in moves]
    # Prices fall, so a budget belongs to the interval from its own price down to the next.
    x, y = [prices[0] * 3, *prices, prices[-1] / 3], [0, 0, *(budget for _, budget in moves)]
    axis.step(x, y, where="pre", **line)


def _plot(comparison: ComparedRuns, curves: Curves) -> Plot:
    figure, axes = panels(3, len(curves), height=2.5)
    data: dict[str, dict] = {band: {} for band in curves}
    for column, (band, of_runs) in enumerate(curves.items()):
        found = [(view, run, _mean(seeds)) for view, run, seeds in of_runs]
        success, gain, best = axes[column :: len(curves)]
        longest = max(curve.budgets[-1] for *_, curve in found)
        shortest = min((curve.budgets[1] for *_, curve in found if len(curve.budgets) > 1), default=1)
        grid = np.unique(np.geomspace(max(1, shortest / 2), max(2, longest), 200).astype(int))
        coarse = np.concatenate([[0], np.unique(np.geomspace(max(1, shortest), max(2, longest), 12).astype(int))])
        for view, run, curve in found:
            line = {name: comparison.styles[run][name] for name in ("color", "linestyle")} | {"linewidth": 1.5}
            success.step(grid, 100 * curve.at(grid), where="post", label=run, **line)
            slopes = _POINTS * curve.marginal_gain(coarse)
            # A logarithmic axis has no 0: the first step begins where that of success does.
            gain.stairs(slopes, [min(grid[0], coarse[1]), *coarse[1:]], baseline=None, **line)
            moves = best_budgets(curve)
            draw_best_budgets(best, moves, **line)
            key = run if len(comparison.views) == 1 else f"{run} ({view.sorted_by})"
            data[band][key] = {
                "budgets": grid.tolist(),
                "success_percent": (100 * curve.at(grid)).tolist(),
                "marginal_gain": {"budgets": coarse.tolist(), "points_per_1000_tokens": slopes.tolist()},
                "best_budgets": [
                    {"price_points_per_1000_tokens": _POINTS * price, "budget": budget} for price, budget in moves
                ],
            }
        sizes = {
            view.num_problems(view.bands[band]) for seeds in comparison.views for view in seeds if band in view.bands
        }
        title = f"{band}: {'–'.join(f'{size:,}' for size in sorted({min(sizes), max(sizes)}))} problems"
        success.set(title=title, ylim=(0, None), xscale="log", xlabel="budget n (tokens)")
        gain.set(xscale="log", xlabel="budget n (tokens)")
        best.set(xscale="log", xlabel="price λ (points per 1,000 tokens)")
    labels = "Pr(correct | n) (%)", "gain (points / 1,000 tokens)", "best budget n* (tokens)"
    for panel, label in zip(axes[:: len(curves)], labels, strict=True):
        panel.set_ylabel(label)
    legend(figure, axes)
    caption = (
        "Pr: success within a budget. Gain: between neighbouring budgets. n*: best budget for a "
        "price; at a step, the longer budget stops being worth its tokens. "
        f"{comparison.extent}"
    )
    return Plot("budget_curves", "Budget curves by difficulty", caption, data, figure)
