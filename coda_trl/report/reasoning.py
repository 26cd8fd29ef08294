"""How answers are reasoned: reflective words (the paper's Table 2) and signs of overthinking (its appendix)."""

from functools import partial

import numpy as np

from ..analysis.difficulty import pool_problems
from ..analysis.reflection import REFLECTIVE_TERMS
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import SHARE, Ratio
from .comparison import NEEDS, ComparedRuns
from .elements import Section, Table, count, number, percent, table_of_rows
from .main_results import all_benchmarks, benchmark_sets, group_note
from .seeds import Columns, cells


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


def _mean(
    columns: SampleColumns,
    values: np.ndarray,
    among: np.ndarray | None = None,
    limits: tuple[float, float] | None = SHARE,
) -> Ratio:
    """Mean over all samples, or over those `among` them."""
    among = np.ones(len(columns.problem)) if among is None else among
    return Ratio(columns.per_problem(values), columns.per_problem(among), limits)


def _correct_ratio(columns: SampleColumns) -> Ratio:
    marked = columns.counts["reflective"] == 1
    return _mean(columns, marked & (columns.correct == 1), marked & ~np.isnan(columns.correct))


def _restatements(columns: SampleColumns, any_counts_once: bool = False) -> Ratio:
    found = columns.counts["restatements"]
    readable, found = ~np.isnan(found), np.nan_to_num(found)
    return _mean(columns, found > 0, readable) if any_counts_once else _mean(columns, found, readable, limits=None)


_SIZES: Columns = {
    "Problems": (lambda columns: len(columns.problems), count),
    "Responses": (lambda columns: len(columns.problem), count),
}
_REFLECTION: Columns = _SIZES | {
    "Reflection ratio (%)": (lambda columns: _mean(columns, columns.counts["reflective"]), percent),
    "Correct ratio (%)": (_correct_ratio, percent),
}
_OVERTHINKING: Columns = _SIZES | {
    "Restatements": (_restatements, partial(number, digits=2)),
    "Restating (%)": (partial(_restatements, any_counts_once=True), percent),
    "Checks": (lambda of: _mean(of, of.counts["verifications"], limits=None), partial(number, digits=2)),
    "Checking repeatedly (%)": (lambda of: _mean(of, of.counts["verifications"] > 1), percent),
}


def _reflection_table(comparison: ComparedRuns) -> Table:
    rows = []
    for title, names in benchmark_sets(comparison.groups, all_benchmarks(comparison.sampled)).items():
        for run in comparison.sampled:
            if run.sampled.issuperset(names):
                seeds = [
                    pool_problems(
                        one.samples, [(name, problem) for name in names for problem in one.samples[name].problems]
                    )
                    for one in run.seeds.values()
                ]
                rows.append({"Benchmark": title, "Run": run.name} | cells(_REFLECTION, seeds))
    for band, views, run in comparison.in_bands("hard"):
        title = f"all {views[0].describe(band).replace(' (', ' problems (', 1)}"
        if len(comparison.views) > 1:
            title = f"{title[:-1]}, of {views[0].sorted_by})"
        row = {"Benchmark": title, "Run": run}
        rows.append(row | cells(_REFLECTION, [view.samples(run, band) for view in views]))
    caption = (
        f"Reflection ratio: percent of responses with at least one of {len(REFLECTIVE_TERMS)} reflective terms (whole "
        "words, in any case). Correct ratio: percent of these that are correct, of those with a verdict. "
    )
    caption += comparison.without_verdict + group_note(comparison.groups, "all their responses together")
    return table_of_rows("reflection", "Reflective responses", caption, rows)


def _overthinking_table(comparison: ComparedRuns) -> Table:
    rows = [
        comparison.label(views[0], run) | cells(_OVERTHINKING, [view.samples(run, band) for view in views])
        for band, views, run in comparison.in_bands("easy")
    ]
    bounds = dict.fromkeys(views[0].describe("easy") for views in comparison.views)
    caption = (
        "Restatements: passages that repeat at least six words of the problem in a row. Checks: forms of check, "
        "verify, re-evaluate, re-examine, confirm. Both per response, and the percent of responses that restate at "
        f"all or check more than once. Problems are sorted as above: {', '.join(bounds)}."
    )
    return table_of_rows("overthinking", "Overthinking on easy problems", caption, rows)
