"""The question the project asks: fewer tokens on easy problems, and nothing lost on hard ones?"""

import numpy as np

from ..analysis.difficulty import PERCENTILES, compare_buckets
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.comparison import Comparison as Difference
from ..evaluation.comparison import compare
from ..evaluation.metrics import accuracy, mean_tokens
from .comparison import BANDS, EASY, HARD, Comparison, pool
from .elements import Cell, Plot, Section, Table, difference, number, text, tokens
from .main_results import NOISE
from .runs import Run
from .style import legend, panels, run_styles

_BAND_NAMES = {
    "easy": f"easy (success ≥ {EASY:.0%})",
    "medium": "medium",
    "hard": f"hard (success ≤ {HARD:.0%})",
}


def headline(comparison: Comparison) -> Section:
    """
    Accuracy and tokens on easy, medium and hard problems, and in words what changed against the reference.

    Args:
        comparison (`Comparison`):
            The runs.
    """
    section = Section("answer", "Easy problems shorter, hard problems kept?", "")
    if not comparison.success_rate:
        section.missing = "This needs samples (samples.jsonl) of problems that all evaluated runs have in common."
        return section
    section.text = (
        "\n".join(_sentence(comparison, run) for run in comparison.others if run.samples)
        if (comparison.reference is not None and comparison.reference.samples)
        else "No second run with samples to compare with."
    )
    section.items = [_band_table(comparison)]
    return section


def _band_differences(comparison: Comparison, run: Run) -> dict[str, Difference]:
    return {
        band: compare({band: pool(run, keys)}, {band: pool(comparison.reference, keys)})
        for band, keys in comparison.bands.items()
        if keys
    }


def _sentence(comparison: Comparison, run: Run) -> str:
    parts = []
    for band, result in _band_differences(comparison, run).items():
        if band == "medium":
            continue
        change, points = result.token_change, result.accuracy_points
        spent = f"{abs(change.value):.0f}% {'fewer' if change.value < 0 else 'more'} tokens"
        if change.low is None:
            spent = f"too few to tell about tokens ({change.value:+.0f}%)"
        elif not change.excludes_zero:
            spent = f"no change in tokens beyond noise ({change.value:+.0f}%)"
        span = "" if points.low is None else f", 95% interval {points.low:+.1f} to {points.high:+.1f}"
        moved = f"accuracy {points.value:+.1f} points{span}"
        if points.low is None:
            moved = f"too few to tell about accuracy ({points.value:+.1f} points)"
        elif not points.excludes_zero:
            moved = f"no change in accuracy beyond noise ({points.value:+.1f} points{span})"
        parts.append(f"on {result.num_problems:,} {band} problems {spent} and {moved}".replace("-", "−"))
    return f"{run.name} against {comparison.reference.name}: {'; '.join(parts) or 'no easy or hard problems'}."


def _band_table(comparison: Comparison) -> Table:
    header, rows = ["Problems that are", "Run", "Problems", "Accuracy (%)", "Tokens"], []
    has_reference = comparison.reference is not None and bool(comparison.reference.samples)
    if has_reference:
        header += ["Δ accuracy (points)", "Δ tokens"]
    for band in BANDS:
        keys = comparison.bands[band]
        if not keys:
            continue
        for run in comparison.sampled:
            outcomes = pool(run, keys)
            row = [
                text(_BAND_NAMES[band]),
                text(run.name),
                number(len(keys), digits=0),
                number(estimate(accuracy(outcomes)), 100, 1),
                tokens(estimate(mean_tokens(outcomes))),
            ]
            if has_reference and run is comparison.reference:
                row += [Cell(""), Cell("")]
            elif has_reference:
                result = compare({band: outcomes}, {band: pool(comparison.reference, keys)})
                row += [
                    difference(result.accuracy_points),
                    difference(result.token_change, digits=0, unit="%", higher_is_better=None),
                ]
            rows.append(row)
    return Table(
        key="difficulty_bands",
        title="By difficulty",
        caption=f"Problems of all benchmarks together, sorted by {comparison.difficulty_source}. {NOISE}",
        header=header,
        rows=rows,
    )


def buckets(comparison: Comparison) -> Section:
    """
    Token ratio and accuracy difference by percentile of difficulty (Fig. 1a).

    Args:
        comparison (`Comparison`):
            The runs.
    """
    section = Section(
        "buckets",
        "Compute by difficulty",
        f"Problems of all benchmarks together, sorted by {comparison.difficulty_source} and cut at the percentiles "
        f"{', '.join(map(str, PERCENTILES))}; the hardest come first. Tied problems are cut at random.",
    )
    reference = comparison.reference
    others = [run for run in comparison.others if run.samples]
    if not comparison.success_rate or reference is None or not reference.samples or not others:
        section.missing = "This needs samples (samples.jsonl) of two runs on the same problems."
        return section
    results = {run.name: compare_buckets(run.outcomes, reference.outcomes, comparison.success_rate) for run in others}
    first = next(iter(results.values()))
    rows = []
    for position, bucket in enumerate(first):
        row = [text(bucket.name), number(bucket.num_problems, digits=0), number(100 * bucket.success_rate)]
        for run in others:
            result = results[run.name][position]
            row += [
                _ratio_cell(result.token_ratio),
                difference(result.accuracy_points),
            ]
        rows.append(row)
    section.items = [
        _bucket_plot(comparison, results),
        Table(
            key="difficulty_buckets",
            title="Difficulty buckets",
            caption=f"Token ratio: mean tokens over those of {reference.name}; below 1 the run spends less. Δ "
            f"accuracy in percentage points. {NOISE}",
            header=[
                "Percentile",
                "Problems",
                "Success (%)",
                *(column for run in others for column in (f"{run.name}: token ratio", f"{run.name}: Δ accuracy")),
            ],
            rows=rows,
        ),
    ]
    return section


def _ratio_cell(ratio: Estimate) -> Cell:
    cell = number(ratio, digits=2)
    noise = ratio.low is not None and ratio.low <= 1 <= ratio.high
    return Cell(cell.text, cell.interval, cell.value, cell.low, cell.high, "noise" if noise else "")


def _bucket_plot(comparison: Comparison, results: dict) -> Plot:
    figure, axes = panels(1, 2, height=3.4)
    styles = run_styles([run.name for run in comparison.runs], comparison.reference.name)
    data: dict[str, list] = {}
    for offset, (name, found) in enumerate(results.items()):
        x = np.arange(len(found)) + (offset - (len(results) - 1) / 2) * 0.12
        for panel, quantity in zip(axes, ("token_ratio", "accuracy_points"), strict=True):
            values = [getattr(bucket, quantity) for bucket in found]
            y = np.array([value.value for value in values])
            low, high = (
                np.array([y[i] if value_end is None else value_end for i, value_end in enumerate(ends)])
                for ends in zip(*((value.low, value.high) for value in values), strict=True)
            )
            panel.errorbar(
                x, y, yerr=np.maximum(0, [y - low, high - y]), label=name, capsize=2, markersize=5, **styles[name]
            )
        data[name] = [
            {
                "bucket": bucket.name,
                "problems": bucket.num_problems,
                "success_rate": bucket.success_rate,
                "token_ratio": vars(bucket.token_ratio),
                "accuracy_points": vars(bucket.accuracy_points),
            }
            for bucket in found
        ]
    names = [bucket.name for bucket in next(iter(results.values()))]
    for panel, title, level in zip(
        axes, (f"tokens / tokens of {comparison.reference.name}", "accuracy difference (points)"), (1, 0), strict=True
    ):
        panel.axhline(level, color="black", linewidth=1)
        panel.set_xticks(range(len(names)), names)
        panel.set_xlabel("percentile of difficulty (hardest left)")
        panel.set_title(title)
    axes[0].set_ylim(bottom=0)
    legend(figure, axes[:1])
    return Plot(
        key="token_ratio",
        title="Tokens and accuracy by difficulty",
        caption="Left: below 1 the run spends fewer tokens than the reference. Right: above 0 it is more accurate. "
        "Bars: 95% intervals.",
        canvas=figure,
        data=data,
    )
