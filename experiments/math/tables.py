"""Rebuilds the tables and the pictures of this experiment's pages from `results.jsonl`.

python -m experiments.math.tables
python -m experiments.math.tables --results runs/math/results.jsonl --pages runs/math/page.md    # a copy of the page
"""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from coda_trl.evaluation.bootstrap import Estimate, over_seeds
from coda_trl.evaluation.comparison import benchmark_seed, compare
from coda_trl.report.elements import MISSING, NO_BREAK, Cell, Table, difference, number
from coda_trl.report.render import markdown

from ..files import Row, fill, further, read_results
from ..ladder.claims import counted
from ..runner import ROOT
from .claims import claims_table, verdict_table
from .collapse import COLLAPSE
from .collapse import STEPS as COLLAPSE_STEPS
from .figures import SMOOTH, Pairs, draw_bands, draw_differences, draw_steps
from .measures import (
    BANDS,
    TITLES,
    UNCUT,
    average_accuracy,
    in_percent,
    log_ratio,
    of_bands,
    of_bands_when_trained,
    outcomes_of,
    pairs,
)
from .run import ENOUGH, HERE, RESULTS, SEEDS, STEPS

METHODS = {"start": "Start", "grpo": "GRPO", "coda": "CODA", "vlp": "VLP", "asrr": "ASRR", "linear": "Linear"}
RIVALS = [method for method in METHODS if method not in ("start", "grpo")]
PAGES = (HERE / "README.md", ROOT / "docs/reproduction.md")
SCAN_TITLES = {"gsm8k": "GSM8K", "math3": "MATH 3", "math4": "MATH 4", "math5": "MATH 5"}
SCAN_COLUMNS = {
    "Right (%)": "accuracy",
    "Easy (%)": "easy",
    "All wrong (%)": "all_wrong",
    "Cut off (%)": "cut_off",
    "With code (%)": "code",
}
TRAINING_COLUMNS = {
    "Right (%)": ("reward", 100),
    "Tokens": ("tokens", 1),
    "Tokens, easy": ("easy_tokens", 1),
    "Tokens, hard": ("hard_tokens", 1),
    "Cut off (%)": ("cut_off", 100),
}
PHASE_TITLES = {
    "generation": "Generation",
    "weight_sync": "Weights to vLLM",
    "rewards": "Grading, shaping",
    "update": "Update",
}
COLLAPSE_LABELS = {
    "grpo": "GRPO",
    "coda": "CODA",
    "coda_group": "CODA, scaled by group",
    "ungated": "Ungated penalty",
    "ungated_group": "Ungated penalty, scaled by group",
}
COLLAPSE_COLUMNS = {name: of for name, of in TRAINING_COLUMNS.items() if name != "Cut off (%)"}
COLLAPSE_COLUMNS |= {"Tokens, all wrong": ("all_wrong_tokens", 1)}
WARM = 3  # steps that meet new shapes, start the grader, and run beside the start of another training


def label(row: Row) -> Cell:
    """Name of a run in tables."""
    name = METHODS[row["method"]] + ("" if row["method"] == "start" else f", seed{NO_BREAK}{row['seed']}")
    return Cell(f"{name} ({row['variant']})" if row.get("variant") else name)


def _percent(logs: Estimate) -> Cell:
    return number(in_percent(logs), signed=True, unit="%")


def _right_and_tokens(accuracy: float, tokens: float) -> Cell:
    return Cell(f"{100 * accuracy:.1f}{NO_BREAK}/{NO_BREAK}{tokens:.0f}")


def state(rows: Sequence[Row]) -> dict[str, str]:
    """How many pairs there are, and what else of the design is missing."""
    finished = [row for row in rows if row.get("complete") and not row.get("variant")]
    done = {(row["method"], row["seed"]) for row in finished}
    planned = [(method, seed) for method, seeds in SEEDS.items() for seed in range(seeds)]
    missing = [f"`{method}-{seed}`" for method, seed in planned if (method, seed) not in done]
    found = len(pairs(finished, "coda"))
    verdict = "" if found >= ENOUGH else ": no verdict yet"
    left = f"Not run yet: {', '.join(missing)}." if missing else "All runs are complete."
    return {
        "state": f"{found} of {SEEDS['coda']} pairs of GRPO and CODA are complete{verdict}.\n",
        "missing-math": f"{left}\n",
    }


def scan_table(scan: Row) -> Table:
    """What the scan found."""
    rows = [
        [Cell(title), *(number(scan["strata"][name][of], 100, 0) for of in SCAN_COLUMNS.values())]
        + [number(scan["strata"][name]["tokens"], digits=0)]
        for name, title in SCAN_TITLES.items()
    ]
    header = ["", *SCAN_COLUMNS, "Tokens"]
    return Table("scan", "The scan of the start", "T = 1, 8 samples a problem.", header, rows)


def _ends(row: Row, columns: Mapping[str, tuple[str, int]], steps: int | None = None) -> list[Cell]:
    """Means of metrics over the first and over the last steps of a training, or of so many of its steps."""
    cells = []
    for name, scale in columns.values():
        values = pd.Series(row["training"]["log"].get(name, [None])[:steps], dtype=float)
        ends = (number(part.mean(), scale, 0).text for part in (values[:SMOOTH], values[-SMOOTH:]))
        cells.append(Cell(MISSING if values.isna().all() else f"{NO_BREAK}→{NO_BREAK}".join(ends)))
    return cells


def trainings_table(rows: Sequence[Row]) -> Table:
    """How each training went."""
    lines = []
    for row in rows:
        training = row["training"]
        line = [label(row), number(training["steps"], digits=0), *_ends(row, TRAINING_COLUMNS)]
        lines.append([*line, number(float(np.median(training["step_seconds"])), digits=1), Cell(row["device"])])
    header = ["", "Steps", *TRAINING_COLUMNS, "Seconds a step", "Card"]
    caption = f"Rollouts of the training: means over the first and over the last {SMOOTH} steps."
    return Table("trainings", "Trainings", caption, header, lines)


def course_table(rows: Sequence[Row]) -> Table:
    """How CODA's rollouts differ from GRPO's over the training."""
    found, lines = pairs(rows, "coda"), []
    for first in range(0, found[0][0]["training"]["steps"], SMOOTH):

        def means(name: str, part: slice = slice(first, first + SMOOTH)) -> np.ndarray:
            logs = [[row["training"]["log"].get(name, [])[part] for row in pair] for pair in found]
            return np.array([[pd.Series(values, dtype=float).mean() for values in pair] for pair in logs])

        logs = [np.log(means(f"{band}_tokens")) for band in ("easy", "hard")]
        points = [means(name) for name in ("reward", "hard_accuracy")]
        tokens, points = ([over_seeds(of[:, 0] - of[:, 1]) for of in each] for each in (logs, points))
        line = [Cell(f"{first + 1} to {first + SMOOTH}"), *map(_percent, tokens)]
        lines.append([*line, *(number(of, 100, signed=True) for of in points)])
    header = ["Steps", "Tokens, easy", "Tokens, hard", "Points, all", "Points, hard"]
    caption = f"CODA's rollouts against GRPO's: means over {len(found)} pairs, 95% t-interval over them."
    return Table("course", "Against GRPO, in tens of steps", caption, header, lines)


def seconds_table(rows: Sequence[Row]) -> Table:
    """Where the time of a step goes, at the beginning and at the end of the training."""
    lines = []
    for row in rows:
        training = row["training"]
        for name, part in (("first ten", slice(WARM, WARM + SMOOTH)), ("last ten", slice(-SMOOTH, None))):
            phases = [training["phase_seconds"].get(phase, [0.0])[part] or [0.0] for phase in PHASE_TITLES]
            means = [float(np.mean(values)) for values in (training["step_seconds"][part], *phases)]
            line = [label(row), Cell(name), number(means[0]), *(number(mean, digits=2) for mean in means[1:])]
            line.append(number(float(np.mean(training["log"]["tokens"][part])), digits=0))
            lines.append([*line, number(row["runs_a_card"], digits=0), number(training["card_gib"], digits=0)])
    header = ["", "Steps", "Seconds", *PHASE_TITLES.values(), "Tokens", "Runs a card", "GiB of the card"]
    caption = "Means of seconds a step. The first ten begin with step 4. GiB: of all runs on the card."
    return Table("seconds", "Seconds of a step", caption, header, lines)


def rewards_table(rows: Sequence[Row]) -> Table:
    """What CODA's two gates change in the rewards."""
    lines = []
    for row in (row for row in rows if row["method"] in ("grpo", "coda")):
        log = row["training"]["log"]
        means = {
            name: float(np.nanmean(np.array(log[name][SMOOTH:], dtype=float))) if name in log else np.nan
            for name in ("easy_share", "easy_penalty", "hard_share", "hard_bonus", "right_tokens", "wrong_tokens")
        }
        shares = [number(means[name], 100, 0) for name in ("easy_share", "hard_share")]
        paid = [number(means[name], 1000) for name in ("easy_penalty", "hard_bonus")]
        lengths = [number(means[name], digits=0) for name in ("right_tokens", "wrong_tokens")]
        lines.append([label(row), *shares, *paid, *lengths])
    header = ["", "Easy (%)", "Hard (%)", "Easy penalty", "Hard bonus", "Tokens, right", "Tokens, wrong"]
    caption = (
        f"Training, means from step {SMOOTH + 1} on. Shares of prompts; penalty and bonus in thousandths of a reward, "
        "over all answers; tokens of right and of wrong answers, means over groups. Seed 0 did not log them."
    )
    return Table("rewards", "What the gates pay", caption, header, lines)


def collapse_table(rows: Sequence[Row]) -> Table:
    """How the runs of `collapse.py` went, beside those of the matrix."""
    lines = []
    for row in sorted(rows, key=lambda row: (row["seed"], list(COLLAPSE_LABELS).index(row["method"]))):
        steps = min(row["training"]["steps"], COLLAPSE_STEPS)
        name = Cell(f"{COLLAPSE_LABELS[row['method']]}, seed {row['seed']}")
        lines.append([name, number(steps, digits=0), *_ends(row, COLLAPSE_COLUMNS, steps)])
    caption = (
        f"Rollouts of the training: means over the first {SMOOTH} steps and over the last {SMOOTH} of those that are "
        "counted. Seed 0 of GRPO and CODA did not log all-wrong prompts."
    )
    return Table("collapse", "At the beginning → at the end", caption, ["", "Steps", *COLLAPSE_COLUMNS], lines)


def evaluations_table(rows: Sequence[Row]) -> Table:
    """Accuracy and tokens by benchmark."""
    lines = []
    for row in rows:
        found = [row["evaluation"].get(name) for name in TITLES]
        cells = [Cell(MISSING) if of is None else _right_and_tokens(of["accuracy"], of["tokens"]) for of in found]
        code = float(np.mean([of["code"] for of in row["evaluation"].values()]))
        no_box = row["evaluation"].get("commonsenseqa", {}).get("no_box", np.nan)  # the first runs did not keep it
        shares = [number(share, 100) for share in (average_accuracy(row), code, no_box)]
        lines.append([label(row), *cells, *shares])
    caption = "Percent right / tokens of an answer. Averages weigh benchmarks equally."
    header = ["", *TITLES.values(), "Average right", "With code (%)", "CSQA without a box (%)"]
    return Table("evaluations", "By benchmark", caption, header, lines)


def levels_table(rows: Sequence[Row]) -> Table:
    """Accuracy and tokens by level of MATH."""
    lines = []
    for row in (row for row in rows if "math1200" in row["evaluation"]):
        math = row["evaluation"]["math1200"]
        cells = [_right_and_tokens(level["accuracy"], level["tokens"]) for level in math["by_level"].values()]
        lines.append([label(row), *cells, number(math["cut_off"], 100, 0)])
    caption = "MATH test: percent right / tokens, and answers that are cut off at the limit."
    return Table("levels", "By level", caption, ["", "Level 3", "Level 4", "Level 5", "Cut off (%)"], lines)


def bands_table(rows: Sequence[Row], start: Row) -> Table:
    """Accuracy and tokens by difficulty for the start."""
    lines = []
    for row in rows:
        bands = of_bands(row, start).values()
        lines.append([label(row), *(_right_and_tokens(of["correct"].mean(), of["tokens"].mean()) for of in bands)])
    header = ["", *(f"{band} ({len(part):,} problems)" for band, part in of_bands(start, start).items())]
    caption = "By the start's success rate in 8 other samples. Percent right / tokens."
    return Table("bands", "Every run by difficulty", caption, header, lines)


def differences_tables(rows: Sequence[Row]) -> list[Table]:
    """Differences to GRPO of the same seed by benchmark, with intervals over problems: of accuracy, and of tokens."""
    points, tokens = [], []
    for run, reference in (pair for method in RIVALS for pair in pairs(rows, method)):
        found = [
            compare(*({name: outcomes_of(row, name) for name in names} for row in (run, reference)))
            for names in [*([name] for name in TITLES), list(TITLES)]
        ]
        points.append([label(run), *(difference(of.accuracy_points) for of in found)])
        tokens.append([label(run), *(difference(of.token_change, 0, "%") for of in found)])
    header = ["", *TITLES.values(), "Average"]
    caption = (
        "Against GRPO of the same seed. Brackets: 95% over problems; another seed would differ by more. ≈: holds 0."
    )
    return [
        Table("differences", "Points of accuracy, by benchmark", caption, header, points),
        Table("token-differences", "Tokens, by benchmark", caption, header, tokens),
    ]


def by_difficulty(rows: Sequence[Row], start: Row) -> Pairs:
    """Of the pairs of every method: its run, and its differences to GRPO of the same seed."""
    found: Pairs = {}
    for run, reference in (pair for method in RIVALS for pair in pairs(rows, method)):
        mine, theirs = of_bands(run, start), of_bands(reference, start)
        points = [mine[band]["correct"].mean() - theirs[band]["correct"].mean() for band in BANDS]
        points += [average_accuracy(run, names) - average_accuracy(reference, names) for names in (TITLES, UNCUT)]
        tokens = [[of[band]["tokens"].to_numpy() for of in (mine, theirs)] for band in BANDS]
        logs = [log_ratio(*of, benchmark_seed(band)) for of, band in zip(tokens, BANDS, strict=True)]
        found.setdefault(METHODS[run["method"]], []).append((run, points, logs))
    return found


def _mean(values: Sequence[float]) -> Estimate:
    """Mean over pairs; an interval of two would be too wide to say anything."""
    return over_seeds(values) if len(values) > 2 else Estimate(float(np.mean(values)))


def pairs_tables(found: Pairs, rows: Sequence[Row]) -> list[Table]:
    """Differences to GRPO by difficulty: means of every method, and tokens and points of every pair."""
    overview, by_points, by_tokens = [], [], []
    for method, runs in found.items():
        for run, points, logs in runs:
            by_points.append([label(run), *(number(of, 100, signed=True) for of in points)])
            by_tokens.append([label(run), *map(_percent, logs)])
        parts = {f"{method}, {len(runs)} pairs": runs}
        if method == METHODS["coda"] and len(runs) > SEEDS["vlp"]:
            parts[f"{method}, seeds 0 to {SEEDS['vlp'] - 1}"] = runs[: SEEDS["vlp"]]
        for name, part in parts.items() if len(runs) > 1 else ():
            means = [_mean(of) for of in zip(*(points for _, points, _ in part), strict=True)]
            points = [number(mean, 100, signed=True) for mean in means]
            logs = zip(*(logs for *_, logs in part), strict=True)
            tokens = [_percent(_mean([log.value for log in of])) for of in logs]
            overview.append([Cell(name), tokens[0], tokens[2], points[0], *points[2:4]])
            by_points.append([Cell(name), *points])
            by_tokens.append([Cell(name), *tokens])
    same_seed = "Against GRPO of the same seed"
    of_means = (
        f"{same_seed}: means over pairs. Points: of accuracy. Brackets: 95% over pairs (Student's t), from three on. "
        f"Seeds 0 to {SEEDS['vlp'] - 1}: those that the other methods have."
    )
    of_tokens = (
        f"{same_seed}. Brackets: 95%, of several pairs over these (Student's t), from three on, of one pair over "
        "problems; another seed would differ by more."
    )
    cut_off = max(of["cut_off"] for row in rows for name, of in row["evaluation"].items() if name in UNCUT)
    of_points = (
        f"{same_seed}; benchmarks weigh equally. Rarely cut off (at most {100 * cut_off:.0f}% of a run's answers): "
        f"{', '.join(map(TITLES.get, UNCUT))}. Brackets: 95% over pairs (Student's t), from three on."
    )
    averages = ["six benchmarks", "rarely cut off"]
    of_overview = ["Tokens, easy", "Tokens, hard", "Points, easy", "Points, hard", "Points, six benchmarks"]
    return [
        Table("overview", "All methods against GRPO", of_means, ["", *of_overview], overview),
        Table("token-pairs", "Tokens, by difficulty", of_tokens, ["", *BANDS], by_tokens),
        Table("pairs", "Points of accuracy, by difficulty", of_points, ["", *BANDS, *averages], by_points),
    ]


def trained_bands_table(rows: Sequence[Row]) -> Table:
    """CODA against GRPO by difficulty for the trained models, of each pair by the success rates of the other pairs."""
    found = pairs(rows, "coda")
    values = []
    for pair in found:
        others = [row for other in found if other is not pair for row in other]
        mine, theirs = (of_bands_when_trained(row, others) for row in pair)
        means = np.array([[of[band][["tokens", "correct"]].mean() for band in BANDS] for of in (mine, theirs)])
        logs, points = np.log(means[0, :, 0] / means[1, :, 0]), means[0, :, 1] - means[1, :, 1]
        values.append([logs, points, [len(mine[band]) for band in BANDS]])
    logs, points, problems = np.moveaxis(np.array(values), 0, -1)
    lines = [
        [Cell("Tokens"), *(_percent(over_seeds(of)) for of in logs)],
        [Cell("Points of accuracy"), *(number(over_seeds(of), 100, signed=True) for of in points)],
        [Cell("Problems"), *(number(float(of.mean()), digits=0) for of in problems)],
    ]
    caption = (
        "CODA against GRPO, not planned: of each pair by the success rate, at least 75% and at most 25%, of the other "
        f"pairs' runs. Means over {len(found)} pairs, 95% t-interval over them."
    )
    return Table("trained-bands", "By difficulty for the trained models", caption, ["", *BANDS], lines)


def as_designed(rows: Sequence[Row]) -> list[Row]:
    """Without variants, which are only in tables of single runs."""
    return [row for row in rows if not row.get("variant")]


def build(results: Sequence[Row], folder: Path) -> dict[str, str]:
    """All parts of the page, by marker; draws its pictures into the folder."""
    rows = sorted(
        (row for row in results if row["method"] in METHODS),
        key=lambda row: (list(METHODS).index(row["method"]), row["seed"]),
    )
    trained = [row for row in rows if "training" in row]
    evaluated = [row for row in rows if row.get("evaluation")]
    start = next((row for row in rows if row["method"] == "start" and row.get("sorting")), None)
    tables = [scan_table(row) for row in results if row["method"] == "scan"]
    if trained:
        shown = ("reward", "easy_tokens", "hard_tokens")
        draw_steps(as_designed(trained), METHODS, shown, STEPS, folder / "training.png", means=True)
        tables += [trainings_table(trained), rewards_table(trained), seconds_table(trained)]
    if pairs(trained, "coda"):
        tables.append(course_table(trained))
    collapse = [
        row for row in as_designed(results) if row["method"] in COLLAPSE_LABELS and row["seed"] < SEEDS["ungated"]
    ]
    if any(row["method"] in COLLAPSE for row in collapse):
        shown = ("reward", "tokens", "all_wrong_tokens")
        drawn = [row for row in collapse if row["method"] != "grpo"]
        draw_steps(drawn, COLLAPSE_LABELS, shown, COLLAPSE_STEPS, folder / "collapse.png", means=False)
        tables.append(collapse_table(collapse))
    if evaluated:
        tables += [evaluations_table(evaluated), levels_table(evaluated), *differences_tables(evaluated)]
    if len(pairs(evaluated, "coda")) > 1:
        tables.append(trained_bands_table(evaluated))
    if start is not None:
        tables.append(bands_table(evaluated, start))
        if found := by_difficulty(evaluated, start):
            tables += pairs_tables(found, evaluated)
            draw_differences(found, folder / "against-grpo.png")
        claims = claims_table(evaluated, start)
        tables += [verdict_table(evaluated, start), claims]
        drawn = [row for row in as_designed(evaluated) if row["method"] in ("start", "grpo", "coda")]
        draw_bands([(METHODS[row["method"]], of_bands(row, start)) for row in drawn], folder / "by-difficulty.png")
    parts = state(results) | {table.key: markdown(table) for table in tables}
    if start is not None:
        parts["verdicts-math"] = counted(claims)
    return parts


def further_tables(parts: Mapping[str, str], pages: Sequence[Path]) -> str:
    """Those that the pages leave out."""
    return further("GSM8K and MATH", parts, "".join(page.read_text() for page in pages))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=RESULTS)
    parser.add_argument("--pages", type=Path, nargs="+", default=PAGES, help="Pictures go beside the first.")
    args = parser.parse_args()
    parts = build(read_results(args.results), args.pages[0].parent)
    for page in args.pages:
        page.write_text(fill(page.read_text(), parts))
    args.pages[0].with_name("tables.md").write_text(further_tables(parts, args.pages))


if __name__ == "__main__":
    main()
