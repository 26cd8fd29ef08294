"""How answers are reasoned: reflective words (the paper's Table 2) and signs of overthinking (its appendix)."""

import numpy as np

from ..analysis.difficulty import pool_problems
from ..analysis.reflection import REFLECTIVE_TERMS
from ..evaluation.bootstrap import estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import Ratio
from .comparison import ComparedRuns
from .elements import Cell, Section, Table, number, percent, text
from .main_results import all_benchmarks, benchmark_sets, group_note


def reasoning(comparison: ComparedRuns) -> Section:
    """Reflection ratios by benchmark, and restatements and repeated checks on easy problems."""
    section = Section(
        "reasoning",
        "Reasoning patterns",
        "Reflective words mark reconsidering; on hard problems they should survive. Restating the problem and "
        "checking over and over on easy problems is what should go.",
    )
    if not comparison.sampled:
        section.missing = "This needs samples (samples.jsonl)."
        return section
    section.items = [_reflection_table(comparison)]
    table = _overthinking_table(comparison)
    if table.rows:
        section.items.append(table)
    else:
        section.text += " No problem is easy, so overthinking is not counted."
    return section


def _reflection_row(columns: SampleColumns) -> list[Cell]:
    marked = columns.counts["reflective"] == 1
    samples = columns.per_problem(np.ones(len(columns.problem)))
    graded = columns.per_problem(marked & ~np.isnan(columns.correct))
    return [
        number(len(columns.problems), digits=0),
        number(len(columns.problem), digits=0),
        percent(estimate(Ratio(columns.per_problem(marked), samples))),
        percent(estimate(Ratio(columns.per_problem(marked & (columns.correct == 1)), graded))),
    ]


def _reflection_table(comparison: ComparedRuns) -> Table:
    rows = []
    for title, names in benchmark_sets(comparison.groups, all_benchmarks(comparison.sampled)).items():
        for run in comparison.sampled:
            if run.samples.keys() >= set(names):
                keys = [(name, problem) for name in names for problem in run.samples[name].problems]
                rows.append([text(title), text(run.name), *_reflection_row(pool_problems(run.samples, keys))])
    for _, view, run in comparison.in_band("hard"):
        label = f"all {view.describe('hard').replace(' (', ' problems (', 1)}"
        if len(comparison.views) > 1:
            label = f"{label[:-1]}, of {view.sorted_by})"
        hard = view.columns[run.name].take(view.chosen(run, "hard"))
        rows.append([text(label), text(run.name), *_reflection_row(hard)])
    return Table(
        key="reflection",
        title="Reflective responses",
        caption=f"Reflection ratio: percent of responses with at least one of {len(REFLECTIVE_TERMS)} reflective "
        "terms (whole words, in any case). Correct ratio: percent of these that are correct, of those with a verdict. "
        + comparison.without_verdict
        + group_note(comparison.groups, "all their responses together"),
        header=["Benchmark", "Run", "Problems", "Responses", "Reflection ratio (%)", "Correct ratio (%)"],
        rows=rows,
    )


def _overthinking_table(comparison: ComparedRuns) -> Table:
    rows = []
    several = len(comparison.views) > 1
    for _, view, run in comparison.in_band("easy"):
        columns = view.columns[run.name].take(view.chosen(run, "easy"))
        checks, restatements = (columns.counts[name] for name in ("verifications", "restatements"))
        readable, samples = (columns.per_problem(told) for told in (~np.isnan(restatements), np.ones(len(checks))))
        repeated, checked = (
            [estimate(Ratio(columns.per_problem(values), below)) for values in (counts, counts > at_most)]
            for counts, below, at_most in ((np.nan_to_num(restatements), readable, 0), (checks, samples, 1))
        )
        rows.append(
            [
                *map(text, (view.sorted_by, run.name) if several else (run.name,)),
                number(len(columns.problems), digits=0),
                number(len(columns.problem), digits=0),
                *(cell for mean, share in (repeated, checked) for cell in (number(mean, digits=2), percent(share))),
            ]
        )
    bounds = dict.fromkeys(view.describe("easy") for view in comparison.views)
    header = ["Run", "Problems", "Responses", "Restatements", "Restating (%)", "Checks", "Checking repeatedly (%)"]
    return Table(
        key="overthinking",
        title="Overthinking on easy problems",
        caption="Restatements: passages that repeat at least six words of the problem in a row. Checks: forms of "
        "check, verify, re-evaluate, re-examine, confirm. Both per response, and the percent of responses that "
        "restate at all or check more than once. Problems are sorted as above: " + ", ".join(bounds) + ".",
        header=["Sorted by", *header] if several else header,
        rows=rows,
    )
