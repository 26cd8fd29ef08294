"""Rebuilds this folder's README, its picture and `tables.md` from `results.jsonl`. The tables are the ladder's.

python -m experiments.word_problems.tables                                           # from the committed runs
cp experiments/word_problems/README.md runs/word_problems/README.md                  # from yours, beside them
python -m experiments.word_problems.tables --folder runs/word_problems
"""

import argparse
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.figure import Figure

from coda_trl.evaluation.bootstrap import over_seeds
from coda_trl.report.elements import MISSING, Cell, Table, difference, number
from coda_trl.report.render import markdown
from coda_trl.report.style import PLOT_SETTINGS, legend, panels

from ..files import Row, fill, further, read_results
from ..ladder.claims import TESTABLE, claims_table, counted
from ..ladder.matrix import ALL_RUNGS, RUNS, START
from ..ladder.repetition import counts_table, numbers, outside_table
from ..ladder.results import Results, value
from ..ladder.tables import STYLES, buckets, by_rung, reflection, styles
from .problems import RUNG_NAMES
from .run import HERE, METHODS

# Steps at the end of a training that its rollouts are averaged over.
LAST_STEPS = 20
# Columns of the tables of rollouts: logged metric, scale and digits of differences.
LAST_COLUMNS = {
    "Accuracy": ("coda/mean_score", 100, 1),
    "Tokens, easy": ("coda/easy/mean_length", 1, 0),
    "Tokens, hard": ("coda/hard/mean_length", 1, 0),
}
# Logged values are means of a step's few prompts, so that the course shows only in means of several.
WINDOW = 5
COLUMNS = {f"{rung} ({RUNG_NAMES[rung]})": (rung,) for rung in ALL_RUNGS} | {"Average": ALL_RUNGS}
# Claims that are about the runs there are here.
TESTED = [claim for claim in TESTABLE if set(claim.runs) <= set(METHODS)]


def all_tables(rows: Sequence[Row]) -> dict[str, Table]:
    """Every table by key: what the evaluations say, what the rollouts say, and the last warm start as a repetition."""
    evaluated = [row for row in rows if row["evaluations"]]
    results = Results(evaluated)
    marker = "answers here have `wait` and `double-check`; a second count is a check"
    tables = [
        claims_table(results, TESTED, "On word problems"),
        by_rung(results, "accuracy", METHODS, COLUMNS),
        by_rung(results, "tokens", METHODS, COLUMNS),
        by_pair(rows),
        rollout_pairs(rows),
        *buckets(results, ("vlp", "asrr", "coda")),
        reflection(results, METHODS, marker),
        styles(results, METHODS),
        by_training(rows),
        rollouts(rows),
    ]
    last = max(row["warm_start"] for row in rows)
    first, again = ([row for row in evaluated if (row["warm_start"] == last) is new] for new in (False, True))
    if first:
        found = numbers(Results(first), Results(again), COLUMNS)
        tables += [counts_table(found), outside_table(found)]
    return {table.key: table for table in tables}


def about(rows: Sequence[Row]) -> str:
    """A sentence or two about the runs there are."""
    trained = [row for row in rows if row["method"] != START]
    evaluated = [row for row in trained if row["evaluations"]]
    seconds = [row["train_seconds"] for row in evaluated]
    waited = [row["evaluations"][0]["seconds"] for row in rows if row["evaluations"]]
    return (
        f"{len(trained)} trainings of {trained[0]['shared']['steps']} steps, warm starts: "
        f"{len({row['warm_start'] for row in rows})}, on {', '.join(sorted({row['device'] for row in trained}))}; "
        f"{len(evaluated)} of them evaluated. With other runs on the same GPU, training took {min(seconds):.0f} to "
        f"{max(seconds):.0f} s (median {statistics.median(seconds):.0f}), evaluation {min(waited):.0f} to "
        f"{max(waited):.0f} s.\n"
    )


def rungs_of_the_start(rows: Sequence[Row]) -> str:
    """What each rung asks for, and how the model fares right after the first warm start."""
    start = next(row for row in rows if row["method"] == START)["evaluations"][0]["rungs"]
    lines = ["| Rung | Steps | Right after the warm start | Tokens |", "| --- " * 4 + "|"]
    for rung in ALL_RUNGS:
        of_rung = start[str(rung)]
        lines.append(f"| {rung} | {RUNG_NAMES[rung]} | {of_rung['accuracy']:.0%} | {of_rung['tokens']:.0f} |")
    return "\n".join(lines) + "\n"


def trained_as(row: Row) -> tuple[str, int, int]:
    """What tells a run from others."""
    return row["method"], row["warm_start"], row["seed"]


def _one_by_one(key: str, title: str, caption: str, header: Sequence[str], cells: dict) -> Table:
    """A row for every run that has cells, method by method."""
    lines = []
    for name, start, seed in sorted(cells, key=lambda run: (METHODS.index(run[0]), *run[1:])):
        lines.append([*map(Cell, [RUNS[name].label, str(start), str(seed), *cells[name, start, seed]])])
    return Table(key, title, caption, ["", "Warm start", "Seed", *header], lines)


def by_training(rows: Sequence[Row]) -> Table:
    """Accuracy and tokens by rung, of the start and of every training."""
    rungs = {trained_as(row): row["evaluations"][0]["rungs"].values() for row in rows if row["evaluations"]}
    cells = {run: [f"{100 * of['accuracy']:.0f} / {of['tokens']:.0f}" for of in found] for run, found in rungs.items()}
    caption = "Accuracy in percent / tokens by rung."
    return _one_by_one("trainings", "Every training", caption, list(map(str, ALL_RUNGS)), cells)


def last_rollouts(rows: Sequence[Row]) -> pd.DataFrame:
    """Means over the last steps of every training, evaluated or not: a column each, indexed by [`trained_as`]."""
    found = {}
    for row in rows:
        if row["method"] != START:
            log = (
                pd.DataFrame(row["log"]).set_index("step").reindex(columns=[key for key, *_ in LAST_COLUMNS.values()])
            )
            means = log.loc[log.index[-1] - LAST_STEPS + 1 :].mean()
            found[trained_as(row)] = means * [scale for _, scale, _ in LAST_COLUMNS.values()]
    return pd.DataFrame(found).T


def rollouts(rows: Sequence[Row]) -> Table:
    """[`last_rollouts`] one by one."""
    evaluated = {trained_as(row) for row in rows if row["evaluations"]}
    cells = {
        run: [*(MISSING if pd.isna(mean) else f"{mean:.0f}" for mean in means), "yes" if run in evaluated else "no"]
        for run, means in last_rollouts(rows).iterrows()
    }
    title = "Rollouts at the end of the training"
    caption = f"Means over the last {LAST_STEPS} steps. Easy and hard as CODA's gates define them."
    return _one_by_one("rollouts", title, caption, [*LAST_COLUMNS, "Evaluated"], cells)


def rollout_pairs(rows: Sequence[Row]) -> Table:
    """Differences to GRPO of the same warm start and seed in [`last_rollouts`]."""
    means, lines = last_rollouts(rows), []
    for name in [
        name for name in METHODS if name != "grpo" and {name, "grpo"} <= set(means.index.get_level_values(0))
    ]:
        mine, theirs = means.loc[name].align(means.loc["grpo"], join="inner", axis=0)
        pairs = (mine - theirs).to_numpy()
        if len(pairs):
            cells: list[Cell] = [Cell(RUNS[name].label), Cell(str(len(pairs)))]
            for (_, _, digits), column in zip(LAST_COLUMNS.values(), pairs.T, strict=True):
                cells.append(difference(over_seeds(column), digits))
            lines.append(cells)
    return Table(
        key="rollout_pairs",
        title="Difference to GRPO of the same warm start and seed",
        caption="Mean over pairs, 95% interval over them in brackets. ≈ marks a difference whose interval holds 0.",
        header=["", "Pairs", *LAST_COLUMNS],
        rows=lines,
    )


def by_pair(rows: Sequence[Row]) -> Table:
    """CODA against GRPO of the same warm start and seed, by rung and on average over these."""
    rungs = {
        trained_as(row): pd.DataFrame(row["evaluations"][0]["rungs"]).loc[["accuracy", "tokens"]]
        for row in rows
        if row["evaluations"]
    }
    lines = []
    for name, start, seed in sorted(rungs):
        if name == "coda" and ("grpo", start, seed) in rungs:
            runs = (rungs[method, start, seed] for method in ("coda", "grpo"))
            coda, grpo = (of.assign(Average=of.mean(axis=1)) for of in runs)
            points, percent = 100 * (coda - grpo).loc["accuracy"], 100 * ((coda / grpo).loc["tokens"] - 1)
            cells = [
                Cell(f"{number(a, signed=True).text} / {number(b, digits=0, signed=True, unit='%').text}")
                for a, b in zip(points, percent, strict=True)
            ]
            lines.append([Cell(str(start)), Cell(str(seed)), *cells])
    return Table(
        key="pairs",
        title="CODA against GRPO of the same warm start and seed",
        caption="Points of accuracy / percent of tokens.",
        header=["Warm start", "Seed", *(f"Rung {rung}" for rung in ALL_RUNGS), "Average"],
        rows=lines,
    )


def by_rung_and_step(evaluated: Results, trained: Results) -> Figure:
    """Tokens and accuracy by rung after the training, and tokens of easy and hard prompts during it."""
    figure, axes = panels(2, 2, width=7.0, height=2.8)
    for name in METHODS:
        lines = []
        for column in ("tokens", "correct"):
            found = [evaluated.rows(value(column, (rung,)), name) for rung in ALL_RUNGS]
            lines.append(None if found[0] is None else (list(ALL_RUNGS), np.array(found)[:, :, 0]))
        for key in ("coda/easy/mean_length", "coda/hard/mean_length"):
            found = trained.log(name, key)
            if found is not None:
                smooth = pd.DataFrame(found[1].T).rolling(WINDOW, min_periods=1).mean()
                found = list(found[0]), smooth.to_numpy()
            lines.append(found)
        for axis, line in zip(axes, lines, strict=True):
            if line is not None:
                x, seeds = line
                style = STYLES[name] | {"markersize": 4, "linewidth": 1.1, "alpha": 0.8}
                drawn = axis.plot(x, seeds, markevery=max(1, len(x) // 8), **style)
                drawn[0].set_label(RUNS[name].label)
    titles = ("Tokens of an answer", "Accuracy (%)", "Tokens, easy prompts", "Tokens, hard prompts")
    for axis, title, label in zip(axes, titles, ("rung", "rung", "step", "step"), strict=True):
        axis.set_title(title)
        axis.set_xlabel(label)
        axis.set_ylim(0, 103 if "%" in title else None)
    legend(figure, axes)
    return figure


def pages(rows: Sequence[Row], page: str) -> dict[str, str]:
    """The README, filled, and `tables.md` with the tables that it leaves out."""
    tables = all_tables(rows)
    blocks = {"runs": about(rows), "rungs": rungs_of_the_start(rows), "verdicts": counted(tables["claims"])}
    shown = {key: markdown(table) for key, table in tables.items()}
    return {"README.md": fill(page, blocks | shown), "tables.md": further("Word problems", shown, page)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--folder", type=Path, default=HERE, help="With results.jsonl and a README.md to fill.")
    folder = parser.parse_args().folder
    rows = read_results(folder / "results.jsonl")
    if not any(row["method"] == START for row in rows):
        parser.error(f"the start is not in {folder / 'results.jsonl'}: `python -m experiments.word_problems.run`")
    for name, page in pages(rows, (folder / "README.md").read_text(encoding="utf-8")).items():
        (folder / name).write_text(page, encoding="utf-8")
    with rc_context(PLOT_SETTINGS):
        figure = by_rung_and_step(Results(row for row in rows if row["evaluations"]), Results(rows))
        figure.savefig(folder / "results.png", dpi=150, metadata={"Software": None})
    print(f"Written to {folder}.")


if __name__ == "__main__":
    main()
