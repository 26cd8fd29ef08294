"""Accuracy and tokens by benchmark: the paper's Table 1 with its difference rows, details, and Fig. 1b."""

import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..evaluation.bootstrap import Estimate, estimate, num_counted, replicates, summarise
from ..evaluation.comparison import Comparison, benchmark_seed, compare, relative_change
from ..evaluation.metrics import (
    Outcomes,
    Ratio,
    accuracy,
    correct_tokens,
    mean_tokens,
    pass_at_k,
    truncated_share,
    unscorable_share,
    wrong_tokens,
)
from .comparison import ComparedRuns
from .elements import MISSING, Cell, Plot, Section, Table, difference, number, percent, text, tokens
from .runs import Run, benchmark_order
from .style import end_at_100, error_bars, legend, panels

Metric = Callable[[Outcomes], Ratio]

_METRICS: dict[str, Metric] = {"accuracy": accuracy, "tokens": mean_tokens}

INTRODUCTION = (
    "Means over the samples of every problem (mean@n), then over problems. Intervals (95%) come from resampling "
    "problems; differences are paired problem by problem."
)
NO_EVALUATION = "No run has an evaluation (samples.jsonl or summary.json)."
NOISE = "≈ marks a difference whose 95% interval holds 0: it may be noise."


def main_results(comparison: ComparedRuns) -> Section:
    """Accuracy, tokens, details and the trade between the first two."""
    section = Section("benchmarks", "Accuracy and tokens by benchmark", INTRODUCTION)
    benchmarks = all_benchmarks(comparison.runs)
    if not benchmarks:
        section.missing = NO_EVALUATION
        return section
    section.items = [
        _table(comparison, benchmarks, "accuracy", "Accuracy (%)"),
        _table(comparison, benchmarks, "tokens", "Tokens per answer"),
        _trade_off(comparison, benchmark_sets(comparison.groups, benchmarks)),
    ]
    if comparison.sampled:
        section.items.append(_details(comparison))
    return section


def all_benchmarks(runs: Iterable[Run]) -> list[str]:
    """Benchmarks that any run has, in the paper's order."""
    return sorted({name for run in runs for name in (*run.samples, *run.summaries)}, key=benchmark_order)


def benchmark_sets(groups: Mapping[str, list[str]], benchmarks: Sequence[str]) -> dict[str, list[str]]:
    """What stands for itself where benchmarks are grouped: the groups, and the benchmarks that are in none."""
    grouped = {name for members in groups.values() for name in members}
    return dict(groups) | {name: [name] for name in benchmarks if name not in grouped}


def benchmark_estimate(run: Run, benchmark: str, metric: str) -> Estimate | None:
    """Accuracy or tokens of a run on a benchmark, from its samples or else its summary; `None` if it has neither."""
    if benchmark in run.samples:
        return estimate(_METRICS[metric](run.outcomes[benchmark]), benchmark_seed(benchmark))
    return run.summaries.get(benchmark, {}).get(metric)


def average_estimate(run: Run, benchmarks: list[str], metric: str) -> Estimate | None:
    """Average over benchmarks, each with the same weight; `None` if the run lacks one."""
    if len(benchmarks) == 1:
        return benchmark_estimate(run, benchmarks[0], metric)
    if not all(benchmark in run.samples for benchmark in benchmarks):
        single = [benchmark_estimate(run, benchmark, metric) for benchmark in benchmarks]
        return None if None in single else Estimate(float(np.mean([result.value for result in single])))
    ratios = {benchmark: _METRICS[metric](run.outcomes[benchmark]) for benchmark in benchmarks}
    value = float(np.mean([ratio.value for ratio in ratios.values()]))
    draws = [replicates(ratio, benchmark_seed(benchmark)) for benchmark, ratio in ratios.items()]
    return summarise(value, np.mean(draws, axis=0), min(map(num_counted, ratios.values())))


def run_difference(run: Run, reference: Run, benchmarks: list[str]) -> Comparison | None:
    """Difference of two runs on a benchmark or on the average of several, paired if both have samples; `None` if one
    of them lacks a benchmark."""
    if all(benchmark in each.samples for benchmark in benchmarks for each in (run, reference)):
        mine, theirs = ({name: each.outcomes[name] for name in benchmarks} for each in (run, reference))
        if all(set(mine[name].problems) & set(theirs[name].problems) for name in benchmarks):
            return compare(mine, theirs)
        return None
    mine, theirs = ([average_estimate(each, benchmarks, name) for name in _METRICS] for each in (run, reference))
    if None in (*mine, *theirs):
        return None
    (change,) = relative_change(np.array([mine[1].value]), np.array([theirs[1].value]))
    return Comparison(Estimate(100 * (mine[0].value - theirs[0].value)), Estimate(float(change)), 0)


def _table(comparison: ComparedRuns, benchmarks: list[str], metric: str, title: str) -> Table:
    sets: Mapping[str, list[str]] = {name: [name] for name in benchmarks}
    if len(benchmarks) > 1:
        sets = {**sets, average_name(benchmarks): benchmarks}
    results = [[average_estimate(run, names, metric) for names in sets.values()] for run in comparison.runs]
    if metric == "accuracy":
        show = [percent] * len(sets)
    else:
        show = [partial(number, digits=token_digits(column)) for column in zip(*results, strict=True)]
    rows = [
        [text(run.name), *(_or_missing(make, result) for make, result in zip(show, row, strict=True))]
        for run, row in zip(comparison.runs, results, strict=True)
    ]
    marked, fewer = range(len(rows), len(rows) + len(comparison.others)), []
    for run in comparison.others:
        differences = [run_difference(run, comparison.reference, names) for names in sets.values()]
        fewer += _fewer_pairs(run, comparison.reference, dict(zip(sets, differences, strict=True)))
        rows.append([text(f"Δ {run.name}"), *(_or_missing(_CHANGES[metric], result) for result in differences)])
    return Table(
        key=metric,
        title=title,
        caption=_caption(comparison, metric, fewer),
        header=["", *sets],
        rows=rows,
        differences=frozenset(marked),
    )


def group_note(groups: Mapping[str, list[str]], what: str) -> str:
    """Which benchmarks are in the groups that a figure or table shows, as a further sentence."""
    named = "; ".join(f"{name}: {', '.join(members)}" for name, members in groups.items())
    return f" Groups are {what}. {named}." if groups else ""


def average_name(benchmarks: Collection[str]) -> str:
    """Heading of the average over benchmarks, unless one of them is called that."""
    return "Average" if "Average" not in benchmarks else "Average of all"


def join_models(tables: Mapping[str, Table]) -> Table:
    """The same table of several models as one, with the model in a first column."""
    first = next(iter(tables.values()))
    header = list(dict.fromkeys(name for table in tables.values() for name in table.header))
    rows, differences = [], set()
    for model, table in tables.items():
        for position, row in enumerate(table.rows):
            if position in table.differences:
                differences.add(len(rows))
            cells = dict(zip(table.header, row, strict=True))
            rows.append([text(model), *(cells.get(name, Cell(MISSING)) for name in header)])
    captions = dict.fromkeys(table.caption for table in tables.values())
    captions = captions if len(captions) == 1 else [f"{model}: {table.caption}" for model, table in tables.items()]
    header = ["Model", "Run", *header[1:]]
    return Table(first.key, first.title, " ".join(captions), header, rows, frozenset(differences))


def token_digits(column: Iterable[Estimate | None]) -> int:
    """Digits after the point for a column of token numbers: one if all are below 100."""
    return 1 if all(result is None or not result.value >= 100 for result in column) else 0


def _or_missing(make: Callable[[Any], Cell], result: Any) -> Cell:
    return Cell(MISSING) if result is None else make(result)


_CHANGES: dict[str, Callable[[Comparison], Cell]] = {
    "accuracy": lambda result: difference(result.accuracy_points),
    "tokens": lambda result: difference(result.token_change, digits=0, unit="%", higher_is_better=False),
}


def _fewer_pairs(run: Run, reference: Run, differences: Mapping[str, Comparison | None]) -> list[str]:
    """Differences that rest on fewer problems than either run has."""
    found = []
    for benchmark, result in differences.items():
        sides = [each.outcomes[benchmark].problems for each in (run, reference) if benchmark in each.outcomes]
        if result is not None and len(sides) == 2 and result.num_problems < max(map(len, sides)):
            found.append(f"{run.name} {result.num_problems:,} in {benchmark}")
    return found


def _problems(comparison: ComparedRuns) -> str:
    """How many problems the numbers of each benchmark rest on."""
    by_run = {
        run.name: ", ".join(f"{name} ({len(outcomes.problems):,})" for name, outcomes in run.outcomes.items())
        for run in comparison.sampled
    }
    if len(set(by_run.values())) > 1:
        return f"Problems: {'; '.join(f'{name}: {counts}' for name, counts in by_run.items())}."
    return f"Problems: {next(iter(by_run.values()))}." if by_run else ""


def _caption(comparison: ComparedRuns, metric: str, fewer: list[str]) -> str:
    sentences = ["95% intervals in brackets, where there are samples.", _problems(comparison)]
    if comparison.reference is not None:
        unit = "percentage points" if metric == "accuracy" else "percent of its tokens"
        sentences = [f"Δ: difference to {comparison.reference.name} in {unit}.", *sentences, NOISE]
    if fewer:
        sentences.append(f"Pairs of problems that a Δ rests on, where fewer than a run has: {', '.join(fewer)}.")
    if metric == "accuracy":
        sentences.append(comparison.without_verdict)
    return " ".join(filter(None, sentences))


def _details(comparison: ComparedRuns) -> Table:
    most = max(int(outcomes.graded.max()) for run in comparison.sampled for outcomes in run.outcomes.values())
    tries = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= most]
    if len(tries) > 4:  # more do not fit on the page
        tries = sorted({1, *tries[::-2]})
    rows = []
    for benchmark, run in itertools.product(all_benchmarks(comparison.sampled), comparison.sampled):
        if benchmark not in run.samples:
            continue
        outcomes, seed = run.outcomes[benchmark], benchmark_seed(benchmark)
        problems, samples = len(outcomes.problems), outcomes.samples.sum()
        lengths = correct_tokens(outcomes), wrong_tokens(outcomes)
        shares = truncated_share(outcomes), unscorable_share(outcomes)
        rows.append(
            [
                text(benchmark),
                text(run.name),
                number(problems, digits=0),
                number(samples / problems, digits=0),
                *(percent(estimate(pass_at_k(outcomes, k), seed)) for k in tries),
                *(tokens(estimate(ratio, seed)) for ratio in lengths),
                *(percent(estimate(ratio, seed)) for ratio in shares),
            ]
        )
    ends = ["Tokens, correct", "Tokens, wrong", "Truncated", "Unscorable"]
    return Table(
        key="details",
        title="Details",
        caption="pass@k: probability that at least one of k samples is correct, in percent, estimated without bias "
        "from those with a verdict. Tokens of correct and of wrong answers. Truncated: percent of answers that ended "
        "at the token limit. "
        "Unscorable: percent without a verdict. " + comparison.without_verdict,
        header=["Benchmark", "Run", "Problems", "n", *(f"pass@{k}" for k in tries), *ends],
        rows=rows,
    )


def _trade_off(comparison: ComparedRuns, sets: Mapping[str, list[str]]) -> Plot:
    columns = min(4, len(sets))
    figure, axes = panels(-(-len(sets) // columns), columns)
    data: dict[str, dict] = {}
    for panel, (title, benchmarks) in zip(axes, sets.items(), strict=False):
        panel.set_title(title)
        panel.set_xlabel("tokens per answer")
        curves: dict[str, list[tuple[float, float]]] = {}
        for run in comparison.runs:
            spent, share = (average_estimate(run, benchmarks, metric) for metric in ("tokens", "accuracy"))
            if spent is None or share is None:
                continue
            family, style = run.name.partition("@")[0] if run.budget else run.name, comparison.styles[run.name]
            panel.errorbar(
                spent.value,
                100 * share.value,
                xerr=error_bars([spent]),
                yerr=error_bars([share], 100),
                fmt=style["marker"],
                color=style["color"],
                markersize=6 if style["marker"] != "*" else 9,
                elinewidth=1,
                label=family,
            )
            if run.budget:
                curves.setdefault(family, []).append((spent.value, 100 * share.value, run.name))
            data.setdefault(title, {})[run.name] = {"tokens": vars(spent), "accuracy": vars(share)}
        for points in curves.values():  # budget-conditioned runs: one curve over their budgets
            x, y, names = zip(*sorted(points), strict=True)
            panel.plot(x, y, linewidth=1, **comparison.styles[names[0]] | {"marker": ""})
        panel.margins(0.15)
        end_at_100(panel)
    for panel in axes[::columns]:
        panel.set_ylabel("accuracy (%)")
    for panel in axes[len(sets) :]:
        panel.set_visible(False)
    legend(figure, axes)
    return Plot(
        key="accuracy_against_tokens",
        title="Accuracy against tokens",
        caption="Up and to the left is better. Bars: 95% intervals. Runs named NAME@BUDGET (models given a "
        f"token budget, such as L1) are joined to a curve. {_problems(comparison)}".rstrip()
        + group_note(comparison.groups, "averages over benchmarks"),
        canvas=figure,
        data=data,
    )
