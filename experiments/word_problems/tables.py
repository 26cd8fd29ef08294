"""Rebuilds tables and picture of this folder's README from `results.jsonl`. The tables are the ladder's.

python -m experiments.word_problems.tables                                           # from the committed runs
cp experiments/word_problems/README.md runs/word_problems/page.md                    # from yours, in a copy
python -m experiments.word_problems.tables --results runs/word_problems/results.jsonl --page runs/word_problems/page.md
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
from coda_trl.report.elements import Table, difference, number, text
from coda_trl.report.render import markdown
from coda_trl.report.style import PLOT_SETTINGS, legend, panels

from ..claims import CLAIMS, VERDICTS, claims_table
from ..matrix import ALL_RUNGS, RUNS, START
from ..repetition import counts_table, numbers, outside_table
from ..results import Results, over_seeds
from ..runs import Row, read_results
from ..tables import STYLES, accuracy_on, buckets, by_rung, fill, reflection, styles, tokens_on
from .problems import RUNG_NAMES
from .run import HERE, METHODS, RESULTS

README = HERE / "README.md"
# Beside the page.
PICTURE = "results.png"
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


def all_tables(results: Results) -> list[Table]:
    """Every table, in the order of the page."""
    claims = claims_table(results, TESTED, untestable=())
    header = ["On word problems" if title == "On the ladder" else title for title in claims.header]
    return [
        dataclasses.replace(
            claims,
            caption=VERDICTS,
            header=header[:-1],
            rows=[row[:-1] for row in claims.rows],
        ),
        by_rung(results, "accuracy", METHODS, columns=COLUMNS),
        by_rung(results, "tokens", METHODS, columns=COLUMNS),
        buckets(results, ("vlp", "asrr", "coda")),
        dataclasses.replace(
            reflection(results, METHODS),
            caption="Ratio: percent of answers with the marker. Correct: percent of these that are right. The "
            "paper's terms are its 17 reflective words, of which answers here have `wait` and `double-check`; a "
            "second count is a check carried through to its comparison. Mean over seeds, 95% interval over seeds and "
            "problems in brackets.",
        ),
        styles(results, METHODS),
    ]


def in_order(rows: Sequence[Row]) -> list[Row]:
    """Runs method by method."""
    return sorted(rows, key=lambda row: (METHODS.index(row["method"]), row["warm_start"], row["seed"]))


def evaluated_of(rows: Sequence[Row]) -> list[Row]:
    """Those that are evaluated, method by method."""
    return [row for row in in_order(rows) if row["evaluations"]]


def about(rows: Sequence[Row]) -> str:
    """A sentence or two about the runs there are."""
    trained = [row for row in rows if row["method"] != START]
    evaluated = [row for row in trained if row["evaluations"]]
    if not evaluated:
        return "No training yet.\n"
    starts = sorted({row["warm_start"] for row in rows})
    seconds = sorted(row["train_seconds"] for row in evaluated)
    waited = sorted(row["evaluations"][0]["seconds"] for row in rows if row["evaluations"])
    devices = ", ".join(sorted({row["device"] for row in trained}))
    several = f" from {len(starts)} warm starts" if len(starts) > 1 else ""
    text = (
        f"{len(trained)} trainings of {trained[0]['shared']['steps']} steps{several} on {devices}; {len(evaluated)} "
        f"of them evaluated. With others beside, these took {seconds[0]:.0f} to {seconds[-1]:.0f} s to train (median "
        f"{statistics.median(seconds):.0f}), and {waited[0]:.0f} to {waited[-1]:.0f} s to evaluate."
    )
    for start in starts:
        of_start = [row for row in in_order(rows) if row["warm_start"] == start]
        lacking = [f"{RUNS[row['method']].label} seed {row['seed']}" for row in of_start if not row["evaluations"]]
        if of_start[0]["method"] != START:
            lacking.insert(0, "the start")
        if lacking:
            text += f" Not evaluated in warm start {start}: {', '.join(lacking)}."
    return f"{text}\n"


def blocks(rows: Sequence[Row]) -> dict[str, str]:
    """
    What the page shows, by key: `runs`, a sentence about them, what the start and the end of the training look like,
    `trainings` one by one, in `pairs`, and the last warm start as a `repetition` of those before, and `tables`.

    Args:
        rows (`Sequence[dict]`):
            All runs, the start of the first warm start among them.
    """
    return {
        "runs": about(rows),
        "rungs": rungs_of_the_start(rows),
        "rollouts": rollouts(rows),
        "rollout-pairs": markdown(rollout_pairs(rows)),
        "trainings": by_training(rows),
        "pairs": markdown(by_pair(rows)),
        "repetition": repetition(rows),
        "tables": "\n".join(markdown(table) for table in all_tables(Results(evaluated_of(rows)))),
    }


def last_rollouts(rows: Sequence[Row]) -> dict[tuple[str, int, int], pd.Series]:
    """Means over the last steps of every training, evaluated or not, by method, warm start and seed."""
    found = {}
    for row in in_order(rows):
        if row["method"] != START:
            log = pd.DataFrame(row["log"]).set_index("step").reindex(columns=list(LAST_COLUMNS.values()))
            means = log.loc[log.index[-1] - LAST_STEPS + 1 :].mean()
            means["coda/mean_score"] *= 100
            found[row["method"], row["warm_start"], row["seed"]] = means
    return found


def rollouts(rows: Sequence[Row]) -> str:
    """[`last_rollouts`] as a table."""
    evaluated = {(row["method"], row["warm_start"], row["seed"]) for row in evaluated_of(rows)}
    lines = [f"| | Warm start | Seed | {' | '.join(LAST_COLUMNS)} |", "| --- " * (len(LAST_COLUMNS) + 3) + "|"]
    for (name, start, seed), means in last_rollouts(rows).items():
        note = "" if (name, start, seed) in evaluated else " (not evaluated)"
        cells = " | ".join("–" if pd.isna(value) else f"{value:.0f}" for value in means)
        lines.append(f"| {RUNS[name].label} | {start} | {seed}{note} | {cells} |")
    return "\n".join(lines) + "\n"


def rollout_pairs(rows: Sequence[Row]) -> Table:
    """Differences to GRPO of the same warm start and seed in [`last_rollouts`]."""
    means, lines = last_rollouts(rows), []
    for name in [name for name in METHODS if name != "grpo"]:
        of_name = {run[1:]: values for run, values in means.items() if run[0] == name}
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


def by_training(rows: Sequence[Row]) -> str:
    """Accuracy in percent and tokens by rung, of the start and of every training."""
    several = len({row["warm_start"] for row in rows}) > 1
    lines = [f"| | {' | '.join(map(str, ALL_RUNGS))} |", "| --- " * (len(ALL_RUNGS) + 1) + "|"]
    for row in evaluated_of(rows):
        warm_start = f", warm start {row['warm_start']}" if several else ""
        seed = "" if row["method"] == START else f", seed {row['seed']}"
        rungs = row["evaluations"][0]["rungs"].values()
        cells = " | ".join(f"{100 * rung['accuracy']:.0f} / {rung['tokens']:.0f}" for rung in rungs)
        lines.append(f"| {RUNS[row['method']].label}{warm_start}{seed} | {cells} |")
    return "\n".join(lines) + "\n"


def by_pair(rows: Sequence[Row]) -> Table:
    """CODA against GRPO of the same warm start and seed, by rung and on average over these."""
    rungs = {
        (row["method"], row["warm_start"], row["seed"]): pd.DataFrame(row["evaluations"][0]["rungs"]).loc[
            ["accuracy", "tokens"]
        ]
        for row in evaluated_of(rows)
    }
    lines = []
    for (name, start, seed), coda in rungs.items():
        if name == "coda" and ("grpo", start, seed) in rungs:
            coda, grpo = (of.assign(Average=of.mean(axis=1)) for of in (coda, rungs["grpo", start, seed]))
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


def repetition(rows: Sequence[Row]) -> str:
    """The last warm start, held against those before it like a repetition of the ladder's runs."""
    last = max(row["warm_start"] for row in rows)
    first, again = ([row for row in evaluated_of(rows) if (row["warm_start"] == last) is new] for new in (False, True))
    try:
        found = numbers(Results(first), Results(again), COLUMNS)
    except ValueError:
        return "There is no warm start before it of which a method has two seeds.\n"
    return "\n".join(markdown(table) for table in (counts_table(found), outside_table(found)))


def rungs_of_the_start(rows: Sequence[Row]) -> str:
    """What each rung asks for, and how the model fares right after the first warm start."""
    start = evaluated_of(rows)[0]["evaluations"][0]["rungs"]
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
    """
    Tokens and accuracy by rung after the training, and tokens of easy and hard prompts during it.

    Args:
        evaluated (`Results`):
            Runs with evaluations.
        trained (`Results`):
            The same, and those of which there are only logs.
    """
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


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS, help="Runs (default: %(default)s).")
    parser.add_argument("--page", type=Path, default=README, help="Page to fill (default: %(default)s).")
    args = parser.parse_args()
    rows = read_results(args.results)
    if not any(row["method"] == START for row in rows):
        parser.error(f"the start is not in {args.results}: `python -m experiments.word_problems.run` evaluates it")
    page = fill(args.page.read_text(encoding="utf-8"), blocks(rows))
    if args.results != RESULTS:
        page = f"**Tables and picture are of {args.results}, the text is about the published runs.**\n\n{page}"
    with rc_context(PLOT_SETTINGS):
        figure = by_rung_and_step(Results(evaluated_of(rows)), Results(rows))
        figure.savefig(args.page.parent / PICTURE, dpi=110, metadata={"Software": None})
    args.page.write_text(page, encoding="utf-8")
    print(f"Written to {args.page}.")


if __name__ == "__main__":
    main()
