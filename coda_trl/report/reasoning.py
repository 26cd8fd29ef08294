"""How answers are reasoned: reflective words (the paper's Table 2) and signs of overthinking (its appendix)."""

from collections.abc import Iterator

import numpy as np

from ..analysis.difficulty import EASY, HARD, pool_problems
from ..analysis.reflection import REFLECTIVE_TERMS
from ..evaluation.bootstrap import estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import Ratio
from .comparison import ComparedRuns, View, without_verdict
from .elements import Cell, Section, Table, number, text
from .main_results import all_benchmarks, benchmark_sets, group_note
from .runs import Run


def reasoning(comparison: ComparedRuns) -> Section:
    """
    Reflection ratios by benchmark, and restatements and repeated checks on easy problems.

    Args:
        comparison (`ComparedRuns`):
            The runs.
    """
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
        section.text += f" No problem is easy (success rate at least {EASY:.0%}), so overthinking is not counted."
    return section


def _reflection_row(columns: SampleColumns) -> list[Cell]:
    marked = columns.counts["reflective"] == 1
    samples = columns.per_problem(np.ones(len(columns.problem)))
    graded = columns.per_problem(marked & ~np.isnan(columns.correct))
    return [
        number(len(columns.problems), digits=0),
        number(len(columns.problem), digits=0),
        number(estimate(Ratio(columns.per_problem(marked), samples)), 100, 1),
        number(estimate(Ratio(columns.per_problem(marked & (columns.correct == 1)), graded)), 100, 1),
    ]


def _sorted_samples(comparison: ComparedRuns, band: str) -> Iterator[tuple[View, Run, SampleColumns]]:
    for view in comparison.views:
        for run in view.runs if band in view.bands else ():
            yield view, run, view.columns[run.name].take(view.chosen(run, band))


def _reflection_table(comparison: ComparedRuns) -> Table:
    rows = []
    for title, names in benchmark_sets(comparison.groups, all_benchmarks(comparison.sampled)).items():
        for run in comparison.sampled:
            if run.samples.keys() >= set(names):
                keys = [(name, problem) for name in names for problem in run.samples[name].problems]
                rows.append([text(title), text(run.name), *_reflection_row(pool_problems(run.samples, keys))])
    for view, run, hard in _sorted_samples(comparison, "hard"):
        of = f", of {view.sorted_by}" if len(comparison.views) > 1 else ""
        label = f"all hard problems (success ≤ {HARD:.0%}{of})"
        rows.append([text(label), text(run.name), *_reflection_row(hard)])
    return Table(
        key="reflection",
        title="Reflective responses",
        caption=f"Reflection ratio: percent of responses with at least one of {len(REFLECTIVE_TERMS)} reflective "
        "terms (whole words, in any case). Correct ratio: percent of these that are correct, of those with a verdict. "
        + without_verdict(comparison.sampled)
        + group_note(comparison.groups, "all their responses together"),
        header=["Benchmark", "Run", "Problems", "Responses", "Reflection ratio (%)", "Correct ratio (%)"],
        rows=rows,
    )


def _overthinking_table(comparison: ComparedRuns) -> Table:
    rows = []
    several = len(comparison.views) > 1
    for view, run, columns in _sorted_samples(comparison, "easy"):
        samples = columns.per_problem(np.ones(len(columns.problem)))
        told = ~np.isnan(columns.counts["restatements"])
        restatements = np.where(told, columns.counts["restatements"], 0)

        def show(
            values: np.ndarray, below: np.ndarray, scale: float, digits: int, columns: SampleColumns = columns
        ) -> Cell:
            return number(estimate(Ratio(columns.per_problem(values), below)), scale, digits)

        readable = columns.per_problem(told)
        rows.append(
            [
                *map(text, (view.sorted_by, run.name) if several else (run.name,)),
                number(len(columns.problems), digits=0),
                number(len(columns.problem), digits=0),
                show(restatements, readable, 1, 2),
                show(restatements > 0, readable, 100, 1),
                show(columns.counts["verifications"], samples, 1, 2),
                show(columns.counts["verifications"] > 1, samples, 100, 1),
            ]
        )
    header = ["Run", "Problems", "Responses", "Restatements", "Restating (%)", "Checks", "Checking repeatedly (%)"]
    return Table(
        key="overthinking",
        title=f"Overthinking on easy problems (success ≥ {EASY:.0%})",
        caption="Restatements: passages that repeat at least six words of the problem in a row. Checks: forms of "
        "check, verify, re-evaluate, re-examine, confirm. Both per response, and the percent of responses that "
        "restate at all or check more than once. Problems are sorted as above.",
        header=["Sorted by", *header] if several else header,
        rows=rows,
    )
