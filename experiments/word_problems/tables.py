"""Rebuilds this folder's README, its picture and `tables.md` from `results.jsonl`. The tables are the ladder's.

python -m experiments.word_problems.tables                                           # from the committed runs
cp experiments/word_problems/README.md runs/word_problems/README.md                  # from yours, beside them
python -m experiments.word_problems.tables --folder runs/word_problems
"""

import argparse
import dataclasses
import statistics
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from coda_trl.evaluation.bootstrap import NUM_RESAMPLES
from coda_trl.report.elements import MISSING, Table, difference, number, text
from coda_trl.report.render import markdown
from coda_trl.report.style import PLOT_SETTINGS, legend, panels

from ..claims import CLAIMS, VERDICTS, claims_table
from ..matrix import ALL_RUNGS, RUNS, START
from ..repetition import counts_table, numbers, outside_table
from ..results import Results, over_seeds
from ..runs import Row, read_results
from ..tables import STYLES, accuracy_on, buckets, by_rung, fill, reflection, styles, tokens_on
from .problems import RUNG_NAMES
from .run import HERE, METHODS

# Steps at the end of a training that its rollouts are averaged over.
LAST_STEPS = 20
LAST_COLUMNS = {
    "Accuracy": "coda/mean_score",
    "Tokens, easy": "coda/easy/mean_length",
    "Tokens, hard": "coda/hard/mean_length",
}
LAST_DIGITS = (1, 0, 0)
# Logged values are means of a step's few prompts, so that the course shows only in means of several.
WINDOW = 5
COLUMNS = {f"{rung} ({RUNG_NAMES[rung]})": (rung,) for rung in ALL_RUNGS} | {"Average": ALL_RUNGS}
# Claims that are about the runs there are here, by the table that shows them.
TESTED = [claim for claim in CLAIMS if claim.file in ("accuracy", "tokens", "buckets", "styles", "reflection")]


def all_tables(rows: Sequence[Row]) -> dict[str, Table]:
    """Every table by key: what the evaluations say, what the rollouts say, and the last warm start as a repetition."""
    evaluated = [row for row in rows if row["evaluations"]]
    results = Results(evaluated)
    claims = claims_table(results, TESTED, untestable=())
    header = ["On word problems" if title == "On the ladder" else title for title in claims.header]
    tables = [
        dataclasses.replace(claims, caption=VERDICTS, header=header[:-1], rows=[row[:-1] for row in claims.rows]),
        by_rung(results, "accuracy", METHODS, columns=COLUMNS),
        by_rung(results, "tokens", METHODS, columns=COLUMNS),
        by_pair(rows),
        rollout_pairs(rows),
        buckets(results, ("vlp", "asrr", "coda")),
        dataclasses.replace(
            reflection(results, METHODS),
            caption="Ratio: percent of answers with the marker. Correct: percent of these that are right. The "
            "paper's terms are its 17 reflective words, of which answers here have `wait` and `double-check`; a "
            "second count is a check carried through to its comparison. Mean over seeds, 95% interval over seeds and "
            "problems in brackets.",
        ),
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
    seconds = sorted(row["train_seconds"] for row in evaluated)
    waited = sorted(row["evaluations"][0]["seconds"] for row in rows if row["evaluations"])
    return (
        f"{len(trained)} trainings of {trained[0]['shared']['steps']} steps, warm starts: "
        f"{len({row['warm_start'] for row in rows})}, on {', '.join(sorted({row['device'] for row in trained}))}; "
        f"{len(evaluated)} of them evaluated. With others beside, these took {seconds[0]:.0f} to {seconds[-1]:.0f} s "
        f"to train (median {statistics.median(seconds):.0f}), and {waited[0]:.0f} to {waited[-1]:.0f} s to evaluate.\n"
    )


def trained_as(row: Row) -> tuple[str, int, int]:
    """What tells a run from others."""
    return row["method"], row["warm_start"], row["seed"]


def last_rollouts(rows: Sequence[Row]) -> dict[tuple[str, int, int], pd.Series]:
    """Means over the last steps of every training, evaluated or not."""
    found = {}
    for row in rows:
        if row["method"] != START:
            log = pd.DataFrame(row["log"]).set_index("step").reindex(columns=list(LAST_COLUMNS.values()))
            means = log.loc[log.index[-1] - LAST_STEPS + 1 :].mean()
            means["coda/mean_score"] *= 100
            found[trained_as(row)] = means
    return found


def _one_by_one(rows: Sequence[Row], key: str, title: str, caption: str, header: list[str], cells: dict) -> Table:
    """A row for every run that has cells, method by method."""
    ordered = sorted(cells, key=lambda run: (METHODS.index(run[0]), *run[1:]))
    named = [[text(RUNS[name].label), text(str(start)), text(str(seed))] for name, start, seed in ordered]
    lines = [[*words, *map(text, cells[run])] for words, run in zip(named, ordered, strict=True)]
    return Table(key, title, caption, ["", "Warm start", "Seed", *header], lines)


def rollouts(rows: Sequence[Row]) -> Table:
    """[`last_rollouts`] one by one."""
    evaluated = {trained_as(row) for row in rows if row["evaluations"]}
    cells = {
        run: [*(MISSING if pd.isna(mean) else f"{mean:.0f}" for mean in means), "yes" if run in evaluated else "no"]
        for run, means in last_rollouts(rows).items()
    }
    title = "Rollouts at the end of the training"
    caption = f"Means over the last {LAST_STEPS} steps. Easy and hard as CODA's gates define them."
    return _one_by_one(rows, "rollouts", title, caption, [*LAST_COLUMNS, "Evaluated"], cells)


def by_training(rows: Sequence[Row]) -> Table:
    """Accuracy and tokens by rung, of the start and of every training."""
    cells = {
        trained_as(row): [
            f"{100 * rung['accuracy']:.0f} / {rung['tokens']:.0f}" for rung in row["evaluations"][0]["rungs"].values()
        ]
        for row in rows
        if row["evaluations"]
    }
    caption = "Accuracy in percent / tokens by rung."
    return _one_by_one(rows, "trainings", "Every training", caption, list(map(str, ALL_RUNGS)), cells)


def rollout_pairs(rows: Sequence[Row]) -> Table:
    """Differences to GRPO of the same warm start and seed in [`last_rollouts`]."""
    means, lines = last_rollouts(rows), []
    for name in METHODS:
        of_name = {run[1:]: values for run, values in means.items() if run[0] == name != "grpo"}
        pairs = pd.DataFrame([of_name[pair] - means["grpo", *pair] for pair in of_name if ("grpo", *pair) in means])
        if len(pairs):
            # There are no problems to resample.
            found = [over_seeds(np.tile(pairs[[column]], 1 + NUM_RESAMPLES)) for column in pairs]
            cells = [difference(estimate, digits) for estimate, digits in zip(found, LAST_DIGITS, strict=True)]
            lines.append([text(RUNS[name].label), text(str(len(pairs))), *cells])
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
            points = [number(value, signed=True).text for value in 100 * (coda - grpo).loc["accuracy"]]
            ratio = (coda / grpo).loc["tokens"]
            percent = [number(value, digits=0, signed=True, unit="%").text for value in 100 * (ratio - 1)]
            cells = [text(f"{accuracy} / {tokens}") for accuracy, tokens in zip(points, percent, strict=True)]
            lines.append([text(str(start)), text(str(seed)), *cells])
    return Table(
        key="pairs",
        title="CODA against GRPO of the same warm start and seed",
        caption="Points of accuracy / percent of tokens.",
        header=["Warm start", "Seed", *(f"Rung {rung}" for rung in ALL_RUNGS), "Average"],
        rows=lines,
    )


def rungs_of_the_start(rows: Sequence[Row]) -> str:
    """What each rung asks for, and how the model fares right after the first warm start."""
    start = next(row for row in rows if row["method"] == START)["evaluations"][0]["rungs"]
    lines = ["| Rung | Steps | Right after the warm start | Tokens |", "| --- " * 4 + "|"]
    for rung in ALL_RUNGS:
        of_rung = start[str(rung)]
        lines.append(f"| {rung} | {RUNG_NAMES[rung]} | {of_rung['accuracy']:.0%} | {of_rung['tokens']:.0f} |")
    return "\n".join(lines) + "\n"


def _draw(axis: Axes, x: list, rows: np.ndarray, name: str) -> None:
    for index, row in enumerate(rows):
        axis.plot(
            x, row, label=RUNS[name].label if index == 0 else None, markersize=4, linewidth=1.1, alpha=0.8,
            markevery=max(1, len(x) // 8), **STYLES[name],
        )  # fmt: skip


def by_rung_and_step(evaluated: Results, trained: Results) -> Figure:
    """Tokens and accuracy by rung after the training, and tokens of easy and hard prompts during it."""
    figure, axes = panels(2, 2, width=9.0, height=3.0)
    for name in METHODS:
        for axis, function in zip(axes[:2], (tokens_on, accuracy_on), strict=True):
            columns = [evaluated.rows(function((rung,)), name) for rung in ALL_RUNGS]
            if columns[0] is not None:
                _draw(axis, list(ALL_RUNGS), np.stack([column[:, 0] for column in columns], axis=1), name)
        for axis, key in zip(axes[2:], ("coda/easy/mean_length", "coda/hard/mean_length"), strict=True):
            found = trained.log(name, key)
            if found is not None:
                steps, values = found
                smooth = pd.DataFrame(values.T).rolling(WINDOW, min_periods=1).mean()
                _draw(axis, list(steps), smooth.to_numpy().T, name)
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
    blocks = {"runs": about(rows), "rungs": rungs_of_the_start(rows)}
    blocks |= {key: markdown(table) for key, table in tables.items()}
    further = [blocks[key] for key in tables if f"<!-- begin {key} -->" not in page]
    title = "# Word problems: further tables\n\nMade by `python -m experiments.word_problems.tables`.\n"
    return {"README.md": fill(page, blocks), "tables.md": "\n".join([title, *further])}


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
        figure.savefig(folder / "results.png", dpi=110, metadata={"Software": None})
    print(f"Written to {folder}.")


if __name__ == "__main__":
    main()
