"""Accuracy and tokens by difficulty: is anything saved on easy problems, or lost on hard ones?"""

from dataclasses import replace
from functools import partial
from typing import Any

from ..analysis.difficulty import BANDS, PERCENTILES, bucket_names, compare_buckets
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.comparison import compare_within
from ..evaluation.metrics import accuracy, mean_tokens
from ..evaluation.rounding import format_number
from .comparison import NEEDS, ComparedRuns, View
from .elements import Cell, Plot, Section, Table, cells, count, difference, number, percent, table_of_rows, tokens
from .seeds import average
from .style import draw_estimates, legend, panels

Results = dict[str, dict[str, dict[str, Any]]]  # numbers by run and bucket

_FORMATS = {
    "Accuracy (%)": percent,
    "Tokens": tokens,
    "Δ accuracy (points)": difference,
    "Δ tokens": partial(difference, digits=0, unit="%", higher_is_better=None),
}


def headline(comparison: ComparedRuns) -> Section:
    """Accuracy and tokens on easy, medium and hard problems, with the change against the reference in words."""
    section = Section("answer", "Easy problems shorter, hard problems kept?", "")
    if not comparison.views:
        section.missing = f"This needs {NEEDS}"
        return section
    table = _band_table(comparison)
    section.text, section.items = answer(table, comparison.reference and comparison.reference.name), [table]
    return section


def answer(table: Table, reference: str | None) -> str:
    """The table by difficulty in words, a line for every run that is compared with the reference."""
    said: dict[str, list[str]] = {}
    for entries in table.rows:
        row = dict(zip(table.header, entries, strict=True))
        band, problems = row["Problems that are"].text.split()[0], row.get("Pairs", row["Problems"]).text
        points, change = (row.get(name, Cell("")) for name in ("Δ accuracy (points)", "Δ tokens"))
        parts = said.setdefault(row["Run"].text, []) if change.text else []
        if band != "medium" and None not in (points.value, change.value):
            parts.append(f"on {problems} {band} problems {_words(points, change)}")
    texts = {name: "; ".join(parts) or "no easy or hard problems" for name, parts in said.items()}
    return (
        "\n".join(f"{name} against {reference}: {text}." for name, text in texts.items())
        or "No second run with samples to compare with."
    )


def _words(points: Cell, change: Cell) -> str:
    spent = f"{change.text.lstrip('+−')} {'fewer' if change.value < 0 else 'more'} tokens"
    if change.low is None:
        spent = f"too few to tell about tokens ({change.text})"
    elif change.tone == "noise":
        spent = f"no change in tokens beyond noise ({change.text})"
    moved = f"{points.text} points"
    if points.low is None:
        return f"{spent} and too few to tell about accuracy ({moved})"
    low, high = (format_number(end, signed=True) for end in (points.low, points.high))
    moved += f", 95% interval {low} to {high}"
    return f"{spent} and " + (f"no change in accuracy beyond noise ({moved})" if points.mark else f"accuracy {moved}")


def _measure(view: View, run: str, band: str) -> dict[str, Any]:
    chosen, parts = view.bands[band], view.parts(run)
    numbers = {
        "Problems": view.num_problems(chosen, run),
        "Accuracy (%)": estimate(accuracy(parts).within(chosen)),
        "Tokens": estimate(mean_tokens(parts).within(chosen)),
    }
    if view.reference not in (None, run):
        result = compare_within(parts, view.parts(view.reference), chosen, band)
        numbers["Pairs"] = result.num_problems
        numbers["Δ accuracy (points)"] = result.accuracy_points
        numbers["Δ tokens"] = result.token_change
    return numbers


def _band_table(comparison: ComparedRuns) -> Table:
    rows: list[dict[str, Cell | str]] = []
    compared = fewer_pairs = False
    for band, seeds, run in comparison.in_bands(*BANDS):
        numbers = average(_measure(view, run, band) for view in seeds)
        if not numbers["Problems"]:
            continue
        if "Pairs" in numbers:
            in_reference = average(view.num_problems(view.bands[band], view.reference) for view in seeds)
            fewer_pairs |= numbers["Pairs"] < max(numbers["Problems"], in_reference)
            compared = True
        label = {"Problems that are": seeds[0].describe(band)} | comparison.label(seeds[0], run)
        rows.append(label | cells(numbers, _FORMATS))
    if not fewer_pairs:  # the column would repeat numbers of problems
        for row in rows:
            row.pop("Pairs", None)
    caption = (
        f"{comparison.difficulty} A problem whose rate is near a threshold may count in two groups, each time with "
        f"other samples. {comparison.extent}"
    )
    caption += f" {comparison.noise}" if compared else ""
    return table_of_rows("difficulty_bands", "By difficulty", caption, rows)


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
    for seeds in comparison.views:
        for run in seeds[0].others if seeds[0].reference else ():
            found = [_compare(view, run) for view in seeds]
            if shared := average(found):
                results[run] = shared
            lost += [
                f"{name} {run}" for name in bucket_names() if name not in shared and any(name in of for of in found)
            ]
    if not results:
        section.missing = f"This needs two runs with {NEEDS}"
        return section
    rows = [
        {
            "Percentile": name,
            "Run": run,
            "Problems": count(bucket["num_problems"]),
            "Success (%)": percent(bucket["success_rate"]),
            "Token ratio": _ratio_cell(bucket["token_ratio"]),
            "Δ accuracy (points)": difference(bucket["accuracy_points"]),
        }
        for name in bucket_names()
        for run, found in results.items()
        if (bucket := found.get(name))
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


def _compare(view: View, run: str) -> dict[str, dict[str, Any]]:
    sorters = [view.runs[name].samples for name in view.sorters]
    found = compare_buckets(view.runs[run].samples, view.runs[view.reference].samples, sorted_by=sorters)
    return {bucket.name: vars(bucket) for bucket in found}


def _ratio_cell(ratio: Estimate) -> Cell:
    noise = ratio.low is not None and ratio.low <= 1 <= ratio.high
    return replace(number(ratio, digits=2), tone="noise" if noise else "")


def _bucket_plot(comparison: ComparedRuns, results: Results) -> Plot:
    names, reference = bucket_names(), comparison.reference.name
    titles = {"token_ratio": f"tokens / tokens of {reference}", "accuracy_points": "accuracy difference (points)"}
    figure, axes = panels(1, 2, height=3.4)
    for panel, (quantity, title), level in zip(axes, titles.items(), (1, 0), strict=True):
        for offset, (run, found) in enumerate(results.items()):
            shift = (offset - (len(results) - 1) / 2) * 0.12
            x = [names.index(name) + shift for name in found]
            estimates = [bucket[quantity] for bucket in found.values()]
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
    data = {run: list(found.values()) for run, found in results.items()}
    return Plot("token_ratio", "Tokens and accuracy by difficulty", caption, data, figure)
