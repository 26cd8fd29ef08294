"""Accuracy and tokens by benchmark: the paper's Table 1 with its difference rows, details, and Fig. 1b."""

import itertools
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial

import numpy as np

from ..evaluation.bootstrap import Estimate
from ..evaluation.comparison import Comparison, benchmark_seed, compare, relative_change
from ..evaluation.metrics import correct_tokens, pass_at_k, truncated_share, unscorable_share, wrong_tokens
from .comparison import ComparedRuns, count_problems
from .elements import MISSING, Cell, Plot, Section, Table, count, difference, number, percent, table_of_rows, tokens
from .runs import METRICS, SeedRun, benchmark_order
from .seeds import Columns, Run, average, cells, pairs
from .style import end_at_100, error_bars, legend, panels

INTRODUCTION = (
    "Means over the samples of every problem (mean@n), then over problems. Intervals (95%) come from resampling "
    "problems; differences are paired problem by problem. If hardly any problem differs from the others, intervals of "
    "shares allow for unseen problems: even if none of P problems fails, the failure rate may be 3/P."
)
NO_EVALUATION = (
    "No run has an evaluation (samples.jsonl or summary.json). Make one with coda-evaluate, and name its folder too: "
    "coda-report NAME=TRAINING NAME=EVALUATION."
)


def main_results(comparison: ComparedRuns) -> Section:
    """Accuracy, tokens, the trade between both, and details."""
    section = Section("benchmarks", "Accuracy and tokens by benchmark", comparison.means or INTRODUCTION)
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
    return sorted({name for run in runs for name in run.benchmarks}, key=benchmark_order)


def benchmark_sets(groups: Mapping[str, list[str]], benchmarks: Sequence[str]) -> dict[str, list[str]]:
    """The groups with their benchmarks, and the other benchmarks one by one."""
    grouped = set(itertools.chain(*groups.values()))
    return dict(groups) | {name: [name] for name in benchmarks if name not in grouped}


def average_name(benchmarks: Collection[str]) -> str:
    """Heading of the average over benchmarks, unless one of them is called that."""
    return "Average" if "Average" not in benchmarks else "Average of all"


def group_note(groups: Mapping[str, list[str]], what: str) -> str:
    """The benchmarks of each group, as a further sentence of a caption."""
    named = "; ".join(f"{name}: {', '.join(members)}" for name, members in groups.items())
    return f" Groups are {what}. {named}." if groups else ""


def join_models(tables: Mapping[str, Table]) -> Table:
    """The same table of several models as one, with the model in a first column."""
    first = next(iter(tables.values()))
    header = list(dict.fromkeys(name for table in tables.values() for name in table.header))
    rows, differences = [], set()
    for model, table in tables.items():
        differences |= {len(rows) + position for position in table.differences}
        named = (dict(zip(table.header, row, strict=True)) for row in table.rows)
        rows += [[Cell(model), *(row.get(name, Cell(MISSING)) for name in header)] for row in named]
    captions = dict.fromkeys(table.caption for table in tables.values())
    captions = captions if len(captions) == 1 else [f"{model}: {table.caption}" for model, table in tables.items()]
    header = ["Model", "Run", *header[1:]]
    return Table(first.key, first.title, " ".join(captions), header, rows, frozenset(differences))


def _difference(run: SeedRun, reference: SeedRun, benchmarks: Sequence[str]) -> Comparison:
    """On one or an average of several benchmarks, paired if both have samples; NaN if nothing is in common."""
    if all(name in each.samples for name in benchmarks for each in (run, reference)):
        mine, theirs = ({name: each.samples[name].outcomes for name in benchmarks} for each in (run, reference))
        if all(set(mine[name].problems) & set(theirs[name].problems) for name in benchmarks):
            try:
                return compare(mine, theirs)
            except ValueError as error:
                raise ValueError(f"{run.name} against {reference.name}: {error}") from error
        return Comparison(Estimate(np.nan), Estimate(np.nan), 0)
    mine, theirs = ([each.estimate(metric, benchmarks).value for metric in METRICS] for each in (run, reference))
    (change,) = relative_change(np.array([mine[1]]), np.array([theirs[1]]))
    return Comparison(Estimate(100 * (mine[0] - theirs[0])), Estimate(float(change)), 0)


def _table(comparison: ComparedRuns, benchmarks: list[str], metric: str, title: str) -> Table:
    sets = {name: [name] for name in benchmarks}
    if len(benchmarks) > 1:
        sets[average_name(benchmarks)] = benchmarks
    runs = [run for run in comparison.runs if run.benchmarks]
    others = [run for run in comparison.others if run in runs and comparison.reference in runs]
    rows: list[dict[str, Cell | str]] = [{"": run.name} for run in runs]
    rows += [{"": f"Δ {run.name}"} for run in others]
    fewer: list[str] = []
    for name, of in sets.items():
        results = [run.estimate(metric, of) for run in runs]
        digits = 0 if any(result.value >= 100 for result in results) else 1
        entries = [percent(each) if metric == "accuracy" else number(each, digits=digits) for each in results]
        for run in others:
            found = []
            for one, other in pairs(run, comparison.reference):
                found.append(_difference(one, other, of))
                sizes = [len(each.samples[name].problems) for each in (one, other) if name in each.samples]
                if 0 < found[-1].num_problems < max(sizes, default=0):
                    fewer.append(f"{one.name} {found[-1].num_problems:,} in {name}")
            change = average(map(vars, found))
            if metric == "accuracy":
                entries.append(difference(change["accuracy_points"]))
            else:
                entries.append(difference(change["token_change"], 0, "%", higher_is_better=False))
        for row, cell in zip(rows, entries, strict=True):
            row[name] = cell
    caption = _caption(comparison, metric, fewer)
    return table_of_rows(metric, title, caption, rows, range(len(runs), len(rows)))


def _caption(comparison: ComparedRuns, metric: str, fewer: Sequence[str]) -> str:
    sentences = ["95% intervals in brackets, where there are samples.", count_problems(comparison.runs)]
    if comparison.reference is not None:
        unit = "percentage points" if metric == "accuracy" else "percent of its tokens"
        sentences = [f"Δ: difference to {comparison.reference.name} in {unit}.", *sentences, comparison.noise]
    if fewer:
        sentences.append(f"A Δ rests on fewer pairs of problems than a run has: {', '.join(fewer)}.")
    if metric == "accuracy":
        sentences.append(comparison.without_verdict)
    evaluated = [run.benchmarks for run in comparison.runs if run.benchmarks]
    if any(names != evaluated[0] for names in evaluated):
        sentences.append(f"{MISSING}: the run lacks the benchmark; an average needs all.")
    if absent := [run.name for run in comparison.runs if not run.benchmarks]:
        sentences.append(f"Not evaluated: {', '.join(absent)}.")
    return " ".join(filter(None, sentences))


def _details(comparison: ComparedRuns) -> Table:
    every = itertools.chain(*(one.samples.values() for run in comparison.sampled for one in run.seeds.values()))
    most = max(int(columns.outcomes.graded.max()) for columns in every)
    tries = [k for k in (1, 2, 4, 8, 16, 32, 64) if k <= most]
    if len(tries) > 4:  # more do not fit on the page
        tries = sorted({1, *tries[::-2]})
    columns: Columns = {
        "Problems": (lambda outcomes: len(outcomes.problems), count),
        "n": (lambda outcomes: float(outcomes.samples.mean()), count),
        **{f"pass@{k}": (partial(pass_at_k, k=k), percent) for k in tries},
        "Tokens, correct": (correct_tokens, tokens),
        "Tokens, wrong": (wrong_tokens, tokens),
        "Truncated": (truncated_share, percent),
        "Unscorable": (unscorable_share, percent),
    }
    rows = []
    for benchmark, run in itertools.product(all_benchmarks(comparison.sampled), comparison.sampled):
        if benchmark in run.sampled:
            seeds = [one.samples[benchmark].outcomes for one in run.seeds.values()]
            numbers = cells(columns, seeds, benchmark_seed(benchmark))
            rows.append({"Benchmark": benchmark, "Run": run.name} | numbers)
    caption = (
        "pass@k: probability that at least one of k samples is correct, in percent, estimated without bias from those "
        "with a verdict. Tokens of correct and of wrong answers. Truncated: percent of answers that ended at the "
        f"token limit. Unscorable: percent without a verdict. {comparison.without_verdict}"
    )
    return table_of_rows("details", "Details", caption, rows)


def _trade_off(comparison: ComparedRuns, sets: Mapping[str, list[str]]) -> Plot:
    columns = min(4, len(sets))
    figure, axes = panels(-(-len(sets) // columns), columns)
    data: dict[str, dict] = {}
    for panel, (title, benchmarks) in zip(axes, sets.items(), strict=False):
        panel.set(title=title, xlabel="tokens per answer")
        curves: dict[str, list[tuple[float, float, str]]] = {}  # over token budgets, as of L1@512
        for run in comparison.runs:
            if not run.benchmarks.issuperset(benchmarks):
                continue
            spent, share = run.estimate("tokens", benchmarks), run.estimate("accuracy", benchmarks)
            family, style = re.sub(r"@\d+$", "", run.name), comparison.styles[run.name]
            bars = {"xerr": error_bars([spent]), "yerr": error_bars([share], 100), "elinewidth": 1}
            point = {"color": style["color"], "fmt": style["marker"], "markersize": 6 if style["marker"] != "*" else 9}
            panel.errorbar(spent.value, 100 * share.value, label=family, **point, **bars)
            if family != run.name:
                curves.setdefault(family, []).append((spent.value, 100 * share.value, run.name))
            data.setdefault(title, {})[run.name] = {"tokens": spent, "accuracy": share}
        for points in curves.values():
            x, y, names = zip(*sorted(points), strict=True)
            panel.plot(x, y, linewidth=1, **comparison.styles[names[0]] | {"marker": ""})
        panel.margins(0.15)
        end_at_100(panel)
    for panel in axes[::columns]:
        panel.set_ylabel("accuracy (%)")
    for panel in axes[len(sets) :]:
        panel.set_visible(False)
    legend(figure, axes)
    caption = (
        "Up and to the left is better. Bars: 95% intervals. Runs named NAME@BUDGET (models given a token budget, such "
        f"as L1) are joined to a curve. {count_problems(comparison.runs)}"
    )
    caption = caption.rstrip() + group_note(comparison.groups, "averages over benchmarks")
    return Plot("accuracy_against_tokens", "Accuracy against tokens", caption, data, figure)
