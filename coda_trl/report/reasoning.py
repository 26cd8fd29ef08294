"""How answers are reasoned: reflective words (the paper's Table 2) and signs of overthinking (its appendix)."""

import numpy as np

from ..analysis.reflection import REFLECTIVE_TERMS, Reflection
from ..evaluation.bootstrap import estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import Ratio
from .comparison import EASY, HARD, Comparison, pool_samples
from .elements import Cell, Section, Table, number, text
from .main_results import all_benchmarks


def reasoning(comparison: Comparison) -> Section:
    """
    Reflection ratios by benchmark, and restatements and repeated checks on easy problems.

    Args:
        comparison (`Comparison`):
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
    if comparison.bands["easy"]:
        section.items.append(_overthinking_table(comparison))
    else:
        section.text += f" No problem is easy (success rate at least {EASY:.0%}), so overthinking is not counted."
    return section


def _reflection(columns: SampleColumns) -> Reflection:
    reflective = columns.counts["reflective"] == 1
    return Reflection(len(reflective), int(reflective.sum()), int((reflective & (columns.correct == 1)).sum()))


def _reflection_row(columns: SampleColumns) -> list[Cell]:
    counts = _reflection(columns)
    reflective = columns.per_problem(columns.counts["reflective"])
    correct = columns.per_problem((columns.counts["reflective"] == 1) & (columns.correct == 1))
    samples = columns.per_problem(np.ones(len(columns.problem)))
    return [
        number(counts.responses, digits=0),
        number(estimate(Ratio(reflective, samples)), 100, 1),
        number(estimate(Ratio(correct, reflective)), 100, 1),
    ]


def _reflection_table(comparison: Comparison) -> Table:
    rows = []
    for benchmark in all_benchmarks(comparison):
        for run in comparison.sampled:
            if benchmark in run.samples:
                rows.append([text(benchmark), text(run.name), *_reflection_row(run.samples[benchmark])])
    if comparison.bands["hard"]:
        for run in comparison.sampled:
            hard = pool_samples(run, comparison.bands["hard"])
            rows.append([text(f"all hard problems (success ≤ {HARD:.0%})"), text(run.name), *_reflection_row(hard)])
    return Table(
        key="reflection",
        title="Reflective responses",
        caption=f"Reflection ratio: percent of responses with at least one of {len(REFLECTIVE_TERMS)} reflective "
        "terms (whole words, in any case). Correct ratio: percent of these that are correct.",
        header=["Benchmark", "Run", "Responses", "Reflection ratio (%)", "Correct ratio (%)"],
        rows=rows,
    )


def _overthinking_table(comparison: Comparison) -> Table:
    rows = []
    keys = comparison.bands["easy"]
    for run in comparison.sampled:
        columns = pool_samples(run, keys)
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
                text(run.name),
                number(len(columns.problem), digits=0),
                show(restatements, readable, 1, 2),
                show(restatements > 0, readable, 100, 1),
                show(columns.counts["verifications"], samples, 1, 2),
                show(columns.counts["verifications"] > 1, samples, 100, 1),
            ]
        )
    return Table(
        key="overthinking",
        title=f"Overthinking on easy problems (success ≥ {EASY:.0%})",
        caption="Restatements: passages that repeat at least six words of the problem in a row. Checks: forms of "
        "check, verify, re-evaluate, re-examine, confirm. Both per response, and the percent of responses that "
        "restate at all or check more than once.",
        header=["Run", "Responses", "Restatements", "Restating (%)", "Checks", "Checking repeatedly (%)"],
        rows=rows,
    )
