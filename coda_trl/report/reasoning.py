"""How answers are reasoned: reflective words (the paper's Table 2) and signs of overthinking (its appendix)."""

from collections.abc import Sequence

import numpy as np

from ..analysis.difficulty import pool_problems
from ..analysis.reflection import REFLECTIVE_TERMS
from ..evaluation.bootstrap import Estimate, estimate
from ..evaluation.columns import SampleColumns
from ..evaluation.metrics import SHARE, Ratio
from .comparison import NEEDS, ComparedRuns
from .elements import Cell, Section, Table, number, percent, table_of_rows
from .main_results import all_benchmarks, benchmark_sets, group_note
from .runs import SeedRun
from .seeds import Run, average


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


def _sizes(of_seeds: Sequence[SampleColumns]) -> dict[str, Cell]:
    return {
        "Problems": number(average(len(columns.problems) for columns in of_seeds), digits=0),
        "Responses": number(average(len(columns.problem) for columns in of_seeds), digits=0),
    }


def _reflection_row(title: str, run: Run, of_seeds: Sequence[SampleColumns]) -> dict[str, Cell | str]:
    marked = [(columns, columns.counts["reflective"] == 1) for columns in of_seeds]
    right = average(_mean(of, on & (of.correct == 1), on & ~np.isnan(of.correct)) for of, on in marked)
    return {
        "Benchmark": title,
        "Run": run.name,
        **_sizes(of_seeds),
        "Reflection ratio (%)": percent(average(_mean(*each) for each in marked)),
        "Correct ratio (%)": percent(right),
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
            if run.sampled.issuperset(names):
                of_seeds = [_pool(one, names) for one in run.seeds.values()]
                rows.append(_reflection_row(title, run, of_seeds))
    for band, view, run in comparison.in_bands("hard"):
        label = f"all {view.describe(band).replace(' (', ' problems (', 1)}"
        if len(comparison.views) > 1:
            label = f"{label[:-1]}, of {view.sorted_by})"
        rows.append(_reflection_row(label, run, [seed.samples(run.name, band) for seed in view.seeds]))
    caption = (
        f"Reflection ratio: percent of responses with at least one of {len(REFLECTIVE_TERMS)} reflective terms (whole "
        "words, in any case). Correct ratio: percent of these that are correct, of those with a verdict. "
    )
    caption += comparison.without_verdict + group_note(comparison.groups, "all their responses together")
    return table_of_rows("reflection", "Reflective responses", caption, rows)


def _pool(run: SeedRun, benchmarks: Sequence[str]) -> SampleColumns:
    keys = [(name, problem) for name in benchmarks for problem in run.samples[name].problems]
    return pool_problems(run.samples, keys)


def _count_overthinking(columns: SampleColumns) -> tuple[Estimate, ...]:
    checks, restatements = columns.counts["verifications"], columns.counts["restatements"]
    readable, restatements = ~np.isnan(restatements), np.nan_to_num(restatements)
    return (
        _mean(columns, restatements, readable, limits=None),
        _mean(columns, restatements > 0, readable),
        _mean(columns, checks, limits=None),
        _mean(columns, checks > 1),
    )


def _overthinking_table(comparison: ComparedRuns) -> Table:
    rows = []
    for band, view, run in comparison.in_bands("easy"):
        of_seeds = [seed.samples(run.name, band) for seed in view.seeds]
        restated, restating, checks, checking = zip(*map(_count_overthinking, of_seeds), strict=True)
        rows.append(
            comparison.label(view, run)
            | _sizes(of_seeds)
            | {
                "Restatements": number(average(restated), digits=2),
                "Restating (%)": percent(average(restating)),
                "Checks": number(average(checks), digits=2),
                "Checking repeatedly (%)": percent(average(checking)),
            }
        )
    bounds = dict.fromkeys(view.describe("easy") for view in comparison.views)
    caption = (
        "Restatements: passages that repeat at least six words of the problem in a row. Checks: forms of check, "
        "verify, re-evaluate, re-examine, confirm. Both per response, and the percent of responses that restate at "
        f"all or check more than once. Problems are sorted as above: {', '.join(bounds)}."
    )
    return table_of_rows("overthinking", "Overthinking on easy problems", caption, rows)
