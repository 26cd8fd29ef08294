"""Rebuilds tables and picture of this folder's README from the runs' summaries. The tables are the ladder's.

python benchmarks/word_problems/build_tables.py                                      # from the committed summaries
cp benchmarks/word_problems/README.md runs/word_problems/page.md                     # from yours, in a copy
python benchmarks/word_problems/build_tables.py --results runs/word_problems/results --page runs/word_problems/page.md

`--results` takes several folders, each of another warm start.
"""

import argparse
import dataclasses
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from evaluate_model import UNEVALUATED
from figure_of_runs import by_rung_and_step
from matplotlib import rc_context
from problems import RUNG_NAMES

from coda_trl.evaluation.bootstrap import NUM_RESAMPLES
from coda_trl.report.elements import Table, difference, number, text
from coda_trl.report.render import markdown
from coda_trl.report.style import PLOT_SETTINGS

HERE = Path(__file__).resolve().parent
sys.path.append(str(HERE.parent / "ladder"))

from claims import CLAIMS, VERDICTS, claims_table  # noqa: E402
from matrix import RUNS  # noqa: E402
from rebuild import fill  # noqa: E402
from repetition import counts_table, numbers, outside_table  # noqa: E402
from repetitions import Repetitions  # noqa: E402
from results import ALL_RUNGS, Results, over_seeds  # noqa: E402
from run_all import METHODS  # noqa: E402
from tables import buckets, by_rung, reflection, styles  # noqa: E402

README = HERE / "README.md"
# A folder for every warm start.
RESULTS = sorted((HERE / "results").iterdir())
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
# What an evaluation says of a rung.
MEANS = ("accuracy", "tokens")
FIRST_ATTEMPT, SECOND_ATTEMPT = HERE / "first_attempt", HERE / "second_attempt"
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


def contents_of(*folders: Path) -> list[dict]:
    """Summaries in the order of the tables."""
    found = [json.loads(path.read_text()) for folder in folders for path in folder.glob("*-seed*.json")]
    return sorted(found, key=lambda content: (METHODS.index(content["name"]), content["seed"]))


def in_order(folders: Sequence[Path], *below: str) -> list[tuple[int, dict]]:
    """Summaries of all warm starts with the number of theirs, method by method."""
    numbered = [
        (number, content)
        for number, folder in enumerate(folders, start=1)
        for content in contents_of(folder, *(folder / name for name in below))
    ]
    return sorted(numbered, key=lambda pair: METHODS.index(pair[1]["name"]))


def about(folders: Sequence[Path]) -> str:
    """A sentence or two about the runs there are."""
    contents = [content for folder in folders for content in contents_of(folder, folder / UNEVALUATED)]
    trained = [content for content in contents if content["recipe"]]
    evaluated = [content for content in trained if content["evaluations"]]
    if not evaluated:
        return "No training yet.\n"
    seconds = sorted(content["train_seconds"] for content in evaluated)
    waited = sorted(content["evaluations"][0]["seconds"] for content in contents if content["evaluations"])
    devices = ", ".join(sorted({content["device"] for content in trained}))
    starts = f" from {len(folders)} warm starts" if len(folders) > 1 else ""
    text = (
        f"{len(trained)} trainings of {trained[0]['shared']['steps']} steps{starts} on {devices}; {len(evaluated)} of "
        f"them evaluated. With others beside, these took {seconds[0]:.0f} to {seconds[-1]:.0f} s to train (median "
        f"{statistics.median(seconds):.0f}), and {waited[0]:.0f} to {waited[-1]:.0f} s to evaluate."
    )
    for folder in folders:
        lacking = [f"{RUNS[run['name']].label} seed {run['seed']}" for run in contents_of(folder / UNEVALUATED)]
        if not (folder / "start-seed0.json").exists():
            lacking.insert(0, "the start")
        if lacking:
            text += f" Not evaluated in `{folder.name}`: {', '.join(lacking)}."
    return f"{text}\n"


def blocks(folders: Sequence[Path]) -> dict[str, str]:
    """
    What the page shows, by key: `runs`, a sentence about them, what the start and the end of the training look like,
    `trainings` one by one, in `pairs`, and the last as a `repetition` of those before, `tables`, and what is known
    from the attempts.

    Args:
        folders (`Sequence[Path]`):
            Summaries of every warm start, in the first that of the start itself among them.
    """
    return {
        "runs": about(folders),
        "rungs": rungs_of_the_start(folders[0]),
        "rollouts": rollouts(folders),
        "rollout-pairs": markdown(rollout_pairs(folders)),
        "trainings": by_training(folders),
        "pairs": markdown(by_pair(folders)),
        "repetition": repetition(folders),
        "tables": "\n".join(markdown(table) for table in all_tables(Repetitions(*([folder] for folder in folders)))),
        "first-attempt": by_training([FIRST_ATTEMPT]),
        "second-attempt": second_attempt(),
    }


def last_rollouts(folders: Sequence[Path]) -> dict[tuple[str, int, int], pd.Series]:
    """Means over the last steps of every training, evaluated or not, by method, warm start and seed."""
    rows = {}
    for start, content in in_order(folders, UNEVALUATED):
        if content["recipe"]:
            log = pd.DataFrame(content["log"]).set_index("step").reindex(columns=list(LAST_COLUMNS.values()))
            means = log.loc[log.index[-1] - LAST_STEPS + 1 :].mean()
            means["coda/mean_score"] *= 100
            rows[content["name"], start, content["seed"]] = means
    return rows


def rollouts(folders: Sequence[Path]) -> str:
    """[`last_rollouts`] as a table."""
    evaluated = {(content["name"], start, content["seed"]) for start, content in in_order(folders)}
    lines = [f"| | Warm start | Seed | {' | '.join(LAST_COLUMNS)} |", "| --- " * (len(LAST_COLUMNS) + 3) + "|"]
    for (name, start, seed), means in last_rollouts(folders).items():
        note = "" if (name, start, seed) in evaluated else " (not evaluated)"
        cells = " | ".join("–" if pd.isna(value) else f"{value:.0f}" for value in means)
        lines.append(f"| {RUNS[name].label} | {start} | {seed}{note} | {cells} |")
    return "\n".join(lines) + "\n"


def rollout_pairs(folders: Sequence[Path]) -> Table:
    """Differences to GRPO of the same warm start and seed in [`last_rollouts`]."""
    means, rows = last_rollouts(folders), []
    for name in [name for name in METHODS if name != "grpo"]:
        of_name = {run[1:]: values for run, values in means.items() if run[0] == name}
        pairs = pd.DataFrame([of_name[pair] - means["grpo", *pair] for pair in of_name if ("grpo", *pair) in means])
        if len(pairs):
            # There are no problems to resample.
            found = [over_seeds(np.tile(pairs[[column]], 1 + NUM_RESAMPLES)) for column in pairs]
            cells = [difference(estimate, digits) for estimate, digits in zip(found, LAST_DIGITS, strict=True)]
            rows.append([text(RUNS[name].label), text(str(len(pairs))), *cells])
    return Table(
        key="rollout_pairs",
        title="Difference to GRPO of the same warm start and seed",
        caption="Mean over pairs, 95% interval over them in brackets. ≈ marks a difference whose interval holds 0.",
        header=["", "Pairs", *LAST_COLUMNS],
        rows=rows,
    )


def by_training(folders: Sequence[Path]) -> str:
    """Accuracy in percent and tokens by rung, of the start and of every training."""
    lines = [f"| | {' | '.join(map(str, ALL_RUNGS))} |", "| --- " * (len(ALL_RUNGS) + 1) + "|"]
    for start, content in in_order(folders):
        rungs = content["evaluations"][0]["rungs"].values()
        warm_start = f", warm start {start}" if len(folders) > 1 else ""
        seed = f", seed {content['seed']}" if content["recipe"] else ""
        cells = " | ".join(f"{100 * rung['accuracy']:.0f} / {rung['tokens']:.0f}" for rung in rungs)
        lines.append(f"| {RUNS[content['name']].label}{warm_start}{seed} | {cells} |")
    return "\n".join(lines) + "\n"


def by_pair(folders: Sequence[Path]) -> Table:
    """CODA against GRPO of the same warm start and seed, by rung and on average over these."""
    rungs = {
        (content["name"], start, content["seed"]): pd.DataFrame(content["evaluations"][0]["rungs"]).loc[list(MEANS)]
        for start, content in in_order(folders)
    }
    rows = []
    for (name, start, seed), coda in rungs.items():
        if name == "coda" and ("grpo", start, seed) in rungs:
            coda, grpo = (of.assign(Average=of.mean(axis=1)) for of in (coda, rungs["grpo", start, seed]))
            points = [number(value, signed=True).text for value in 100 * (coda - grpo).loc["accuracy"]]
            ratio = (coda / grpo).loc["tokens"]
            percent = [number(value, digits=0, signed=True, unit="%").text for value in 100 * (ratio - 1)]
            cells = [text(f"{accuracy} / {tokens}") for accuracy, tokens in zip(points, percent, strict=True)]
            rows.append([text(str(start)), text(str(seed)), *cells])
    return Table(
        key="pairs",
        title="CODA against GRPO of the same warm start and seed",
        caption="Points of accuracy / percent of tokens.",
        header=["Warm start", "Seed", *(f"Rung {rung}" for rung in ALL_RUNGS), "Average"],
        rows=rows,
    )


def repetition(folders: Sequence[Path]) -> str:
    """The last warm start, held against those before it like a repetition of the ladder's runs."""
    *first, last = ([folder] for folder in folders)
    try:
        found = numbers(Repetitions(*first), Repetitions(last), COLUMNS)
    except ValueError:
        return "There is no warm start before it of which a method has two seeds.\n"
    return "\n".join(markdown(table) for table in (counts_table(found), outside_table(found)))


def rungs_of_the_start(folder: Path) -> str:
    """What each rung asks for, and how the model fares right after the warm start."""
    start = json.loads((folder / "start-seed0.json").read_text())["evaluations"][0]["rungs"]
    lines = ["| Rung | Steps | Right after the warm start | Tokens |", "| --- " * 4 + "|"]
    for rung in ALL_RUNGS:
        of_rung = start[str(rung)]
        lines.append(f"| {rung} | {RUNG_NAMES[rung]} | {of_rung['accuracy']:.0%} | {of_rung['tokens']:.0f} |")
    return "\n".join(lines) + "\n"


def second_attempt() -> str:
    """Rollouts of the runs of [`SECOND_ATTEMPT`] in the same steps: means over seeds, and the range of these."""
    trained = [content for content in contents_of(SECOND_ATTEMPT) if content["recipe"]]
    columns = {"Accuracy": "coda/mean_score", "Tokens": "coda/mean_response_length"}
    columns |= {"Tokens, easy": "coda/easy/mean_length", "Tokens, hard": "coda/hard/mean_length"}
    logs = {(run["name"], run["seed"]): pd.DataFrame(run["log"]).set_index("step") for run in trained}
    common = min(log.index[-1] for log in logs.values())
    lines = [f"| Steps | | {' | '.join(columns)} |", "| --- " * (len(columns) + 2) + "|"]
    for first, last in ((1, 20), (21, 40), (common - 19, common)):
        means = pd.DataFrame({run: log.loc[first:last, list(columns.values())].mean() for run, log in logs.items()}).T
        means["coda/mean_score"] *= 100
        grpo, coda = means.loc["grpo"], means.loc["coda"]
        for label, seeds in {"GRPO": grpo, "CODA": coda, "CODA - GRPO, same seed": coda - grpo}.items():
            cells = [
                f"{round(seeds[key].mean())} [{round(seeds[key].min())}, {round(seeds[key].max())}]" for key in seeds
            ]
            lines.append(f"| {first} to {last} | {label} | {' | '.join(cells)} |")
    seconds = statistics.median(run["step_seconds"] for run in trained)
    return "\n".join(lines) + f"\n\nA step took {seconds:.1f} s (median), with the five other runs beside.\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, nargs="+", default=RESULTS, help="Summaries of each warm start.")
    parser.add_argument("--page", type=Path, default=README, help="Page to fill (default: %(default)s).")
    args = parser.parse_args()
    if not (args.results[0] / "start-seed0.json").is_file():
        parser.error(f"there is no summary of the start in {args.results[0]}: run_all.py makes that first")
    page = fill(args.page.read_text(encoding="utf-8"), blocks(args.results))
    if args.results != RESULTS:
        names = ", ".join(map(str, args.results))
        page = f"**Tables and picture are of {names}, the text is about the published runs.**\n\n{page}"
    with rc_context(PLOT_SETTINGS):
        evaluated = Repetitions(*([folder] for folder in args.results))
        trained = Repetitions(*([folder, folder / UNEVALUATED] for folder in args.results))
        figure = by_rung_and_step(evaluated, trained)
        figure.savefig(args.page.parent / PICTURE, dpi=110, metadata={"Software": None})
    args.page.write_text(page, encoding="utf-8")
    print(f"Written to {args.page}.")


if __name__ == "__main__":
    main()
