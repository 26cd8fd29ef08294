"""Accuracy and tokens by difficulty: is anything saved on easy problems, or lost on hard ones?"""

from dataclasses import replace
from functools import partial
from operator import attrgetter

from ..analysis.difficulty import BANDS, PERCENTILES, BucketComparison, bucket_names, compare_buckets
from ..evaluation.bootstrap import Estimate
from ..evaluation.comparison import compare_within
from ..evaluation.metrics import accuracy, mean_tokens
from .comparison import NEEDS, ComparedRuns, View
from .elements import Cell, Plot, Section, count, difference, number, percent, table_of_rows, tokens
from .seeds import Columns, average, cells
from .style import draw_estimates, legend, panels

_CHANGES: Columns = {
    "Pairs": (attrgetter("num_problems"), count),
    "Δ accuracy (points)": (attrgetter("accuracy_points"), difference),
    "Δ tokens": (attrgetter("token_change"), partial(difference, digits=0, unit="%", higher_is_better=None)),
}

Results = dict[str, dict[str, list[BucketComparison]]]  # by run and bucket, of every seed


def headline(comparison: ComparedRuns) -> Section:
    """Accuracy and tokens on easy, medium and hard problems, with the change against the reference in words."""
    section = Section("answer", "Easy problems shorter, hard problems kept?", "")
    if not comparison.views:
        section.missing = f"This needs {NEEDS}"
        return section
    said: dict[str, list[str]] = {}  # by run that is compared with the reference
    rows: list[dict[str, Cell | str]] = []
    fewer_pairs = False
    for band, views, run in comparison.in_bands(*BANDS):
        problems = [view.num_problems(view.bands[band], run) for view in views]
        if not any(problems):
            continue
        row = {"Problems that are": views[0].describe(band)} | comparison.label(views[0], run)
        row["Problems"] = count(average(problems))
        row["Accuracy (%)"] = percent(average(view.estimate(accuracy, run, band) for view in views))
        row["Tokens"] = tokens(average(view.estimate(mean_tokens, run, band) for view in views))
        if (reference := views[0].reference) not in (None, run):
            changes = [
                compare_within(view.parts(run), view.parts(reference), view.bands[band], band) for view in views
            ]
            of_reference = [view.num_problems(view.bands[band], reference) for view in views]
            fewer_pairs |= [change.num_problems for change in changes] != list(map(max, problems, of_reference))
            row |= cells(_CHANGES, changes)
            parts, (pairs, points, change) = said.setdefault(run, []), (row[name] for name in _CHANGES)
            if band != "medium" and None not in (points.value, change.value):
                parts.append(f"on {pairs.text} {band} problems {in_words(points, change)}")
        rows.append(row)
    if not fewer_pairs:  # the column would repeat numbers of problems
        for row in rows:
            row.pop("Pairs", None)
    texts = {run: "; ".join(parts) or "no easy or hard problems" for run, parts in said.items()}
    lines = [f"{run} against {comparison.reference.name}: {text}." for run, text in texts.items()]
    section.text = "\n".join(lines) or "No second run with samples to compare with."
    caption = (
        f"{comparison.difficulty} A problem whose rate is near a threshold may count in two groups, each time with "
        f"other samples. {comparison.extent}"
    )
    caption += f" {comparison.noise}" if said else ""
    section.items = [table_of_rows("difficulty_bands", "By difficulty", caption, rows)]
    return section


def in_words(points: Cell, change: Cell) -> str:
    spent = f"{change.text.lstrip('+−')} {'fewer' if change.value < 0 else 'more'} tokens"
    if change.low is None:
        spent = f"too few to tell about tokens ({change.text})"
    elif change.tone == "noise":
        spent = f"no change in tokens beyond noise ({change.text})"
    moved = f"{points.text} points"
    if points.low is None:
        return f"{spent} and too few to tell about accuracy ({moved})"
    moved += f", 95% interval {points.interval.replace(', ', ' to ')}"
    return f"{spent} and " + (f"no change in accuracy beyond noise ({moved})" if points.mark else f"accuracy {moved}")


def buckets(comparison: ComparedRuns) -> Section:
    """Token ratio and accuracy difference by percentile of difficulty (Fig. 1a)."""
    section = Section(
        "buckets",
        "Compute by difficulty",
        "Problems of all benchmarks together, sorted as above and cut at the percentiles "
        f"{', '.join(map(str, PERCENTILES))}; the hardest come first. Tied problems are cut at random.",
    )
    results: Results = {}
    lost: list[str] = []
    for views in comparison.views:
        for run in views[0].others if views[0].reference else ():
            seeds = [_compare(view, run) for view in views]
            for name in bucket_names():
                found = [of[name] for of in seeds if name in of]
                if len(found) == len(seeds):
                    results.setdefault(run, {})[name] = found
                elif found:
                    lost.append(f"{name} {run}")
    if not results:
        section.missing = f"This needs two runs with {NEEDS}"
        return section
    columns: Columns = {
        "Problems": (attrgetter("num_problems"), count),
        "Success (%)": (attrgetter("success_rate"), percent),
        "Token ratio": (attrgetter("token_ratio"), _ratio_cell),
        "Δ accuracy (points)": (attrgetter("accuracy_points"), difference),
    }
    rows = [
        {"Percentile": name, "Run": run} | cells(columns, found[name])
        for name in bucket_names()
        for run, found in results.items()
        if name in found
    ]
    caption = (
        "Problems: pairs in the bucket; one near a cut may be in two, each time with other samples. Success: rate of "
        "the sorting runs on the samples that did not sort. Token ratio: mean tokens over those of "
        f"{comparison.reference.name}; below 1 the run spends less. Δ accuracy in percentage points. "
        f"{comparison.noise} {comparison.extent}"
    )
    if lost:
        caption += f" Not in every seed: {', '.join(lost)}."
    table = table_of_rows("difficulty_buckets", "Difficulty buckets", caption, rows)
    section.items = [_bucket_plot(comparison, results), table]
    return section


def _compare(view: View, run: str) -> dict[str, BucketComparison]:
    mine, theirs, *sorters = (view.runs[name].samples for name in (run, view.reference, *view.sorters))
    return {bucket.name: bucket for bucket in compare_buckets(mine, theirs, sorted_by=sorters)}


def _ratio_cell(ratio: Estimate) -> Cell:
    noise = ratio.low is not None and ratio.low <= 1 <= ratio.high
    return replace(number(ratio, digits=2), tone="noise" if noise else "")


def _bucket_plot(comparison: ComparedRuns, results: Results) -> Plot:
    names, reference = bucket_names(), comparison.reference.name
    titles = {"token_ratio": f"tokens / tokens of {reference}", "accuracy_points": "accuracy difference (points)"}
    data = {run: [average(map(vars, seeds)) for seeds in found.values()] for run, found in results.items()}
    figure, axes = panels(1, 2, height=3.4)
    for panel, (quantity, title), level in zip(axes, titles.items(), (1, 0), strict=True):
        for offset, (run, found) in enumerate(data.items()):
            shift = (offset - (len(data) - 1) / 2) * 0.12
            x = [names.index(bucket["name"]) + shift for bucket in found]
            estimates = [bucket[quantity] for bucket in found]
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
    return Plot("token_ratio", "Tokens and accuracy by difficulty", caption, data, figure)
