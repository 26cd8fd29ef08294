"""How answers are reasoned: reflective words (the paper's Table 2) and signs of overthinking (its appendix)."""

import numpy as np

from ..analysis.difficulty import pool_problems
from ..analysis.reflection import REFLECTIVE_TERMS
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import SHARE, Ratio
from .comparison import NEEDS, ComparedRuns
from .elements import Cell, Section, Table, number, percent, table_of_rows
from .main_results import all_benchmarks, benchmark_sets, group_note
from .runs import Run


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


def _reflection_row(title: str, run: Run, columns: SampleColumns) -> dict[str, Cell | str]:
    marked = columns.counts["reflective"] == 1
    graded = marked & ~np.isnan(columns.correct)
    return {
        "Benchmark": title,
        "Run": run.name,
        "Problems": number(len(columns.problems), digits=0),
        "Responses": number(len(columns.problem), digits=0),
        "Reflection ratio (%)": percent(_mean(columns, marked)),
        "Correct ratio (%)": percent(_mean(columns, marked & (columns.correct == 1), graded)),
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
    rows = []
    for title, names in benchmark_sets(comparison.groups, all_benchmarks(comparison.sampled)).items():
        for run in comparison.sampled:
            if run.samples.keys() >= set(names):
                keys = [(name, problem) for name in names for problem in run.samples[name].problems]
                rows.append(_reflection_row(title, run, pool_problems(run.samples, keys)))
    for band, view, run in comparison.in_bands("hard"):
        label = f"all {view.describe(band).replace(' (', ' problems (', 1)}"
        if len(comparison.views) > 1:
            label = f"{label[:-1]}, of {view.sorted_by})"
        rows.append(_reflection_row(label, run, view.samples(run, band)))
    caption = (
        f"Reflection ratio: percent of responses with at least one of {len(REFLECTIVE_TERMS)} reflective terms (whole "
        "words, in any case). Correct ratio: percent of these that are correct, of those with a verdict. "
    )
    caption += comparison.without_verdict + group_note(comparison.groups, "all their responses together")
    return table_of_rows("reflection", "Reflective responses", caption, rows)


def _overthinking_table(comparison: ComparedRuns) -> Table:
    rows = []
    for band, view, run in comparison.in_bands("easy"):
        columns = view.samples(run, band)
        checks, restatements = columns.counts["verifications"], columns.counts["restatements"]
        readable, restatements = ~np.isnan(restatements), np.nan_to_num(restatements)
        rows.append(
            comparison.label(view, run)
            | {
                "Problems": number(len(columns.problems), digits=0),
                "Responses": number(len(columns.problem), digits=0),
                "Restatements": number(_mean(columns, restatements, readable, limits=None), digits=2),
                "Restating (%)": percent(_mean(columns, restatements > 0, readable)),
                "Checks": number(_mean(columns, checks, limits=None), digits=2),
                "Checking repeatedly (%)": percent(_mean(columns, checks > 1)),
            }
        )
    bounds = dict.fromkeys(view.describe("easy") for view in comparison.views)
    caption = (
        "Restatements: passages that repeat at least six words of the problem in a row. Checks: forms of check, "
        "verify, re-evaluate, re-examine, confirm. Both per response, and the percent of responses that restate at "
        f"all or check more than once. Problems are sorted as above: {', '.join(bounds)}."
    )
    return table_of_rows("overthinking", "Overthinking on easy problems", caption, rows)
