"""Accuracy and tokens by difficulty: is anything saved on easy problems, or lost on hard ones?"""

from collections.abc import Mapping
from dataclasses import asdict, replace

import numpy as np

from ..analysis.difficulty import BANDS, PERCENTILES, BucketComparison, bucket_names, compare_buckets
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.metrics import accuracy, mean_tokens
from ..evaluation.rounding import format_number
from .comparison import NEEDS, ComparedRuns, View
from .elements import Cell, Plot, Section, Table, difference, number, percent, table_of_rows, tokens
from .main_results import NOISE
from .runs import Run
from .style import draw_estimates, legend, panels


def headline(comparison: ComparedRuns) -> Section:
    """Accuracy and tokens on easy, medium and hard problems, with the change against the reference in words."""
    section = Section("answer", "Easy problems shorter, hard problems kept?", "")
    if not comparison.views:
        section.missing = f"This needs {NEEDS}"
        return section
    sentences = [_sentence(view, run) for view, run in comparison.compared]
    section.text = "\n".join(sentences) or "No second run with samples to compare with."
    section.items = [_band_table(comparison)]
    return section


def _sentence(view: View, run: Run) -> str:
    parts = []
    for band in view.bands:
        result = view.compare(run, band)
        if band == "medium" or not result.num_problems:
            continue
        change, points = result.token_change, result.accuracy_points
        percents = format_number(change.value, 0, signed=True, unit="%")
        spent = f"{percents.lstrip('+−')} {'fewer' if change.value < 0 else 'more'} tokens"
        if change.low is None:
            spent = f"too few to tell about tokens ({percents})"
        elif not change.excludes_zero:
            spent = f"no change in tokens beyond noise ({percents})"
        moved = f"{format_number(points.value, signed=True)} points"
        if points.low is None:
            moved = f"too few to tell about accuracy ({moved})"
        else:
            low, high = (format_number(end, signed=True) for end in (points.low, points.high))
            moved += f", 95% interval {low} to {high}"
            moved = f"accuracy {moved}" if points.excludes_zero else f"no change in accuracy beyond noise ({moved})"
        parts.append(f"on {result.num_problems:,} {band} problems {spent} and {moved}")
    return f"{run.name} against {view.reference.name}: {'; '.join(parts) or 'no easy or hard problems'}."


def _band_table(comparison: ComparedRuns) -> Table:
    compared = bool(comparison.compared)
    rows: list[dict[str, Cell | str]] = []
    fewer_pairs = False
    for band, view, run in comparison.in_bands(*BANDS):
        chosen, parts = view.bands[band], view.parts(run)
        if not (problems := view.num_problems(chosen, run)):
            continue
        row = {"Problems that are": view.describe(band)} | comparison.label(view, run)
        row["Problems"] = number(problems, digits=0)
        row["Accuracy (%)"] = percent(estimate(accuracy(parts).within(chosen)))
        row["Tokens"] = tokens(estimate(mean_tokens(parts).within(chosen)))
        if compared and run is view.reference:
            row |= dict.fromkeys(("Pairs", "Δ accuracy (points)", "Δ tokens"), "")
        elif compared:
            result = view.compare(run, band)
            fewer_pairs |= result.num_problems < max(problems, view.num_problems(chosen, view.reference))
            row["Pairs"] = number(result.num_problems, digits=0)
            row["Δ accuracy (points)"] = difference(result.accuracy_points)
            row["Δ tokens"] = difference(result.token_change, digits=0, unit="%", higher_is_better=None)
        rows.append(row)
    if not fewer_pairs:  # the column would repeat numbers of problems
        for row in rows:
            row.pop("Pairs", None)
    caption = (
        f"{comparison.difficulty} A problem whose rate is near a threshold may count in two groups, each time with "
        f"other samples. {comparison.extent}"
    )
    return table_of_rows("difficulty_bands", "By difficulty", f"{caption} {NOISE}" if compared else caption, rows)


def buckets(comparison: ComparedRuns) -> Section:
    """Token ratio and accuracy difference by percentile of difficulty (Fig. 1a)."""
    section = Section(
        "buckets",
        "Compute by difficulty",
        "Problems of all benchmarks together, sorted as above and cut at the percentiles "
        f"{', '.join(map(str, PERCENTILES))}; the hardest come first. Tied problems are cut at random.",
    )
    results = {}
    for view, run in comparison.compared:
        sorters = [sorter.samples for sorter in view.sorters]
        if found := compare_buckets(run.samples, view.reference.samples, sorted_by=sorters):
            results[run.name] = {bucket.name: bucket for bucket in found}
    if not results:
        section.missing = f"This needs two runs with {NEEDS}"
        return section
    rows = [
        {
            "Percentile": name,
            "Run": run,
            "Problems": number(bucket.num_problems, digits=0),
            "Success (%)": percent(bucket.success_rate),
            "Token ratio": _ratio_cell(bucket.token_ratio),
            "Δ accuracy (points)": difference(bucket.accuracy_points),
        }
        for name in bucket_names()
        for run, found in results.items()
        if (bucket := found.get(name))
    ]
    caption = (
        "Problems: pairs in the bucket; one near a cut may be in two, each time with other samples. Success: rate of "
        "the sorting runs on the samples that did not sort. Token ratio: mean tokens over those of "
        f"{comparison.reference.name}; below 1 the run spends less. Δ accuracy in percentage points. {NOISE} "
        f"{comparison.extent}"
    )
    table = table_of_rows("difficulty_buckets", "Difficulty buckets", caption, rows)
    section.items = [_bucket_plot(comparison, results), table]
    return section


def _ratio_cell(ratio: Estimate) -> Cell:
    noise = ratio.low is not None and ratio.low <= 1 <= ratio.high
    return replace(number(ratio, digits=2), tone="noise" if noise else "")


def _bucket_plot(comparison: ComparedRuns, results: Mapping[str, Mapping[str, BucketComparison]]) -> Plot:
    figure, axes = panels(1, 2, height=3.4)
    names, reference = bucket_names(), comparison.reference.name
    titles = f"tokens / tokens of {reference}", "accuracy difference (points)"
    for panel, title, quantity, level in zip(axes, titles, ("token_ratio", "accuracy_points"), (1, 0), strict=True):
        for offset, (run, found) in enumerate(results.items()):
            x = np.array([names.index(name) for name in found]) + (offset - (len(results) - 1) / 2) * 0.12
            estimates = [vars(bucket)[quantity] for bucket in found.values()]
            draw_estimates(panel, x, estimates, label=run, **comparison.styles[run])
        panel.axhline(level, color="black", linewidth=1)
        panel.set_xticks(range(len(names)), names)
        panel.set(title=title, xlabel="percentile of difficulty (hardest left)")
    axes[0].set_ylim(bottom=0)
    legend(figure, axes[:1])
    caption = (
        "Tokens: below 1 the run spends fewer than the reference. Accuracy: above 0 it is right more often. Bars: 95% "
        f"intervals. {comparison.extent}"
    )
    data = {run: [asdict(bucket) for bucket in found.values()] for run, found in results.items()}
    return Plot("token_ratio", "Tokens and accuracy by difficulty", caption, figure, data)
