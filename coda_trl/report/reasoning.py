"""How answers are reasoned: reflective words (the paper's Table 2) and signs of overthinking (its appendix)."""

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ..analysis.difficulty import pool_problems
from ..analysis.reflection import REFLECTIVE_TERMS
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import SHARE, Ratio
from .comparison import NEEDS, ComparedRuns
from .elements import Section, Table, cells, number, percent, table_of_rows
from .main_results import all_benchmarks, benchmark_sets, group_note
from .runs import SeedRun
from .seeds import average

_FORMATS = {
    "Reflection ratio (%)": percent,
    "Correct ratio (%)": percent,
    "Restatements": partial(number, digits=2),
    "Restating (%)": percent,
    "Checks": partial(number, digits=2),
    "Checking repeatedly (%)": percent,
}


def reasoning(comparison: ComparedRuns) -> Section:
    """Reflection ratios by benchmark, and restatements and repeated checks on easy problems."""
    section = Section(
        "reasoning",
        "Reasoning patterns",
        "Reflective words mark reconsideration, which should survive on hard problems. Restatements of the problem "
        "and repeated checks on easy problems should go.",
    )
    if not comparison.sampled:
        section.missing = "This needs samples (samples.jsonl)."
        return section
    section.items = [_reflection_table(comparison)]
    table = _overthinking_table(comparison)
    if table.rows:
        section.items.append(table)
    elif comparison.views:
        section.text += " No problem is easy, so overthinking is not counted."
    else:
        section.text += f" Counting overthinking needs {NEEDS}"
    return section


def _measure_reflection(columns: SampleColumns) -> dict[str, Any]:
    marked = columns.counts["reflective"] == 1
    graded = marked & ~np.isnan(columns.correct)
    return {
        "Problems": len(columns.problems),
        "Responses": len(columns.problem),
        "Reflection ratio (%)": _mean(columns, marked),
        "Correct ratio (%)": _mean(columns, marked & (columns.correct == 1), graded),
    }


def _mean(
    columns: SampleColumns,
    values: np.ndarray,
    among: np.ndarray | None = None,
    limits: tuple[float, float] | None = SHARE,
) -> Estimate:
    """Mean over all samples, or over those `among` them."""
    among = np.ones(len(columns.problem)) if among is None else among
    return estimate(Ratio(columns.per_problem(values), columns.per_problem(among), limits))


def _reflection_table(comparison: ComparedRuns) -> Table:
    found = []
    for title, names in benchmark_sets(comparison.groups, all_benchmarks(comparison.sampled)).items():
        for run in comparison.sampled:
            if run.sampled.issuperset(names):
                found.append((title, run.name, [_pool(one, names) for one in run.seeds.values()]))
    for band, seeds, run in comparison.in_bands("hard"):
        title = f"all {seeds[0].describe(band).replace(' (', ' problems (', 1)}"
        if len(comparison.views) > 1:
            title = f"{title[:-1]}, of {seeds[0].sorted_by})"
        found.append((title, run, [view.samples(run, band) for view in seeds]))
    rows = [
        {"Benchmark": title, "Run": run} | cells(average(map(_measure_reflection, seeds)), _FORMATS)
        for title, run, seeds in found
    ]
    caption = (
        f"Reflection ratio: percent of responses with at least one of {len(REFLECTIVE_TERMS)} reflective terms (whole "
        "words, in any case). Correct ratio: percent of these that are correct, of those with a verdict. "
    )
    caption += comparison.without_verdict + group_note(comparison.groups, "all their responses together")
    return table_of_rows("reflection", "Reflective responses", caption, rows)


def _pool(run: SeedRun, benchmarks: Sequence[str]) -> SampleColumns:
    keys = [(name, problem) for name in benchmarks for problem in run.samples[name].problems]
    return pool_problems(run.samples, keys)


def _measure_overthinking(columns: SampleColumns) -> dict[str, Any]:
    checks, restatements = columns.counts["verifications"], columns.counts["restatements"]
    readable, restatements = ~np.isnan(restatements), np.nan_to_num(restatements)
    return {
        "Problems": len(columns.problems),
        "Responses": len(columns.problem),
        "Restatements": _mean(columns, restatements, readable, limits=None),
        "Restating (%)": _mean(columns, restatements > 0, readable),
        "Checks": _mean(columns, checks, limits=None),
        "Checking repeatedly (%)": _mean(columns, checks > 1),
    }


def _overthinking_table(comparison: ComparedRuns) -> Table:
    rows = []
    for band, seeds, run in comparison.in_bands("easy"):
        numbers = average(_measure_overthinking(view.samples(run, band)) for view in seeds)
        rows.append(comparison.label(seeds[0], run) | cells(numbers, _FORMATS))
    bounds = dict.fromkeys(seeds[0].describe("easy") for seeds in comparison.views)
    caption = (
        "Restatements: passages that repeat at least six words of the problem in a row. Checks: forms of check, "
        "verify, re-evaluate, re-examine, confirm. Both per response, and the percent of responses that restate at "
        f"all or check more than once. Problems are sorted as above: {', '.join(bounds)}."
    )
    return table_of_rows("overthinking", "Overthinking on easy problems", caption, rows)
