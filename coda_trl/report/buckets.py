"""The project's question: fewer tokens on easy problems, nothing lost on hard ones?"""

import itertools

import numpy as np

from ..analysis.difficulty import BANDS, EASY, HARD, PERCENTILES, bucket_names, compare_buckets
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.comparison import Comparison, compare_within
from ..evaluation.metrics import accuracy, mean_tokens
from ..evaluation.rounding import format_number
from .comparison import NEEDS, ComparedRuns, View
from .elements import Cell, Plot, Section, Table, difference, number, text, tokens
from .main_results import NOISE
from .runs import Run
from .style import legend, panels, run_styles

_BAND_NAMES = {
    "easy": f"easy (success ≥ {EASY:.0%})",
    "medium": "medium",
    "hard": f"hard (success ≤ {HARD:.0%})",
}


def headline(comparison: ComparedRuns) -> Section:
    """
    Accuracy and tokens on easy, medium and hard problems, and in words what changed against the reference.

    Args:
        comparison (`ComparedRuns`):
            The runs.
    """
    section = Section("answer", "Easy problems shorter, hard problems kept?", "")
    if not comparison.views:
        section.missing = f"This needs {NEEDS}"
        return section
    sentences = [_sentence(view, run) for view, run in _compared(comparison)]
    section.text = "\n".join(sentences) or "No second run with samples to compare with."
    section.items = [_band_table(comparison)]
    return section


def _compared(comparison: ComparedRuns) -> list[tuple[View, Run]]:
    return [(view, run) for view in comparison.views if view.reference for run in view.others]


def _compare(view: View, run: Run, band: str) -> Comparison:
    return compare_within(view.parts(run), view.parts(view.reference), view.bands[band], band)


def _sentence(view: View, run: Run) -> str:
    parts = []
    for band in view.bands:
        result = _compare(view, run, band)
        if band == "medium" or not result.num_problems:
            continue
        change, points = result.token_change, result.accuracy_points
        percent = format_number(change.value, 0, signed=True, unit="%")
        value, *ends = (
            end if end is None else format_number(end, signed=True) for end in (points.value, points.low, points.high)
        )
        spent = f"{percent.lstrip('+−')} {'fewer' if change.value < 0 else 'more'} tokens"
        if change.low is None:
            spent = f"too few to tell about tokens ({percent})"
        elif not change.excludes_zero:
            spent = f"no change in tokens beyond noise ({percent})"
        if points.low is None:
            moved = f"too few to tell about accuracy ({value} points)"
        else:
            moved = f"{value} points, 95% interval {' to '.join(ends)}"
            moved = f"accuracy {moved}" if points.excludes_zero else f"no change in accuracy beyond noise ({moved})"
        parts.append(f"on {result.num_problems:,} {band} problems {spent} and {moved}")
    return f"{run.name} against {view.reference.name}: {'; '.join(parts) or 'no easy or hard problems'}."


def _band_table(comparison: ComparedRuns) -> Table:
    several, compared = len(comparison.views) > 1, bool(_compared(comparison))
    rows, fewer_pairs = [], False
    for band, view in itertools.product(BANDS, comparison.views):
        for run in view.runs:
            if band not in view.bands or not (problems := view.num_problems(view.bands[band], run)):
                continue
            chosen, parts = view.bands[band], view.parts(run)
            row = [text(_BAND_NAMES[band])]
            if several:
                row.append(text(view.sorted_by))
            row += [
                text(run.name),
                number(problems, digits=0),
                number(estimate(accuracy(parts).within(chosen)), 100, 1),
                tokens(estimate(mean_tokens(parts).within(chosen))),
            ]
            if compared and run is view.reference:
                row += [Cell("")] * 3
            elif compared:
                result = _compare(view, run, band)
                fewer_pairs |= result.num_problems < max(problems, view.num_problems(chosen, view.reference))
                row += [
                    number(result.num_problems, digits=0),
                    difference(result.accuracy_points),
                    difference(result.token_change, digits=0, unit="%", higher_is_better=None),
                ]
            rows.append(row)
    header = ["Problems that are", *(["Sorted by"] if several else []), "Run", "Problems", "Accuracy (%)", "Tokens"]
    header += ["Pairs", "Δ accuracy (points)", "Δ tokens"] if compared else []
    if compared and not fewer_pairs:  # the number of pairs is worth a column only where it is smaller
        pairs = header.index("Pairs")
        header, *rows = ([*row[:pairs], *row[pairs + 1 :]] for row in (header, *rows))
    return Table(
        key="difficulty_bands",
        title="By difficulty",
        caption=" ".join(
            [
                comparison.difficulty,
                "A problem whose rate is near a threshold may count in two groups, each time with other samples.",
                f"Sorted are {comparison.extent}",
                *([NOISE] if compared else []),
            ]
        ),
        header=header,
        rows=rows,
    )


def buckets(comparison: ComparedRuns) -> Section:
    """
    Token ratio and accuracy difference by percentile of difficulty (Fig. 1a).

    Args:
        comparison (`ComparedRuns`):
            The runs.
    """
    section = Section(
        "buckets",
        "Compute by difficulty",
        "Problems of all benchmarks together, sorted as above and cut at the percentiles "
        f"{', '.join(map(str, PERCENTILES))}; the hardest come first. Tied problems are cut at random.",
    )
    reference, results = comparison.reference, {}
    for view, run in _compared(comparison):
        sorters = [sorter.samples for sorter in view.sorters]
        if found := compare_buckets(run.samples, reference.samples, sorted_by=sorters):
            results[run.name] = found
    if not results:
        section.missing = f"This needs two runs with {NEEDS}"
        return section
    rows = [
        [
            text(bucket.name),
            text(run),
            number(bucket.num_problems, digits=0),
            number(100 * bucket.success_rate),
            _ratio_cell(bucket.token_ratio),
            difference(bucket.accuracy_points),
        ]
        for name in bucket_names()
        for run, found in results.items()
        for bucket in found
        if bucket.name == name
    ]
    section.items = [
        _bucket_plot(comparison, results),
        Table(
            key="difficulty_buckets",
            title="Difficulty buckets",
            caption="Problems: pairs in the bucket; one near a cut may be in two, each time with other samples. "
            "Success: rate of the sorting runs on the samples that did not sort. "
            f"Token ratio: mean tokens over those of {reference.name}; below 1 the run spends less. Δ "
            f"accuracy in percentage points. {NOISE} Sorted are {comparison.extent}",
            header=["Percentile", "Run", "Problems", "Success (%)", "Token ratio", "Δ accuracy (points)"],
            rows=rows,
        ),
    ]
    return section


def _ratio_cell(ratio: Estimate) -> Cell:
    cell = number(ratio, digits=2)
    noise = ratio.low is not None and ratio.low <= 1 <= ratio.high
    return Cell(cell.text, cell.interval, cell.value, cell.low, cell.high, "noise" if noise else "")


def _bucket_plot(comparison: ComparedRuns, results: dict) -> Plot:
    figure, axes = panels(1, 2, height=3.4)
    styles = run_styles([run.name for run in comparison.runs], comparison.reference.name)
    data: dict[str, list] = {}
    names = bucket_names()
    for offset, (name, found) in enumerate(results.items()):
        x = np.array([names.index(bucket.name) for bucket in found]) + (offset - (len(results) - 1) / 2) * 0.12
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
        f"Bars: 95% intervals. Sorted are {comparison.extent}",
        canvas=figure,
        data=data,
    )
