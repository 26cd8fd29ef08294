"""Rebuilds the tables and the picture of this experiment's README from `results.jsonl`.

python -m experiments.math.tables
python -m experiments.math.tables --results runs/math/results.jsonl --page runs/math/page.md    # a copy of the page
"""

import argparse
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from statistics import NormalDist

import numpy as np
from matplotlib import rc_context

from coda_trl.evaluation.bootstrap import Estimate, replicates, summarise
from coda_trl.evaluation.comparison import benchmark_seed, compare
from coda_trl.evaluation.metrics import Outcomes, Ratio
from coda_trl.report.elements import MISSING, Cell, Table, number, text
from coda_trl.report.render import markdown
from coda_trl.report.style import PLOT_SETTINGS, legend, panels, run_styles

from ..runs import Row, read_results
from .collapse import COLLAPSE
from .collapse import STEPS as COLLAPSE_STEPS
from .data import BENCHMARKS
from .results import counts_of
from .run import HERE, MOST, SORTING, WARM

METHODS = {"start": "Start", "grpo": "GRPO", "coda": "CODA", "vlp": "VLP", "asrr": "ASRR", "linear": "Linear"}
TITLES = {
    "gsm8k": "GSM8K",
    "math1200": "MATH",
    "math500": "MATH500",
    "svamp": "SVAMP",
    "commonsenseqa": "CSQA",
    "amc23": "AMC23",
}
PICTURE, COLLAPSE_PICTURE = "training.png", "collapse.png"
SHOWN = {"reward": "right (%)", "easy_tokens": "tokens, easy prompts", "hard_tokens": "tokens, hard prompts"}
COLLAPSE_LABELS = {
    "coda": "CODA",
    "coda_group": "CODA, scaled by group",
    "ungated": "ungated penalty",
    "ungated_group": "ungated penalty, scaled by group",
}
COLLAPSE_SHOWN = {"reward": "right (%)", "tokens": "tokens", "all_wrong_tokens": "tokens, all-wrong prompts"}
# Right answers of the start's sorting samples: at least 75% and at most 25%.
BANDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "easy": lambda correct: correct >= 0.75 * SORTING,
    "medium": lambda correct: (correct > 0.25 * SORTING) & (correct < 0.75 * SORTING),
    "hard": lambda correct: correct <= 0.25 * SORTING,
}
COLLAPSE_SEEDS = (0, 1)
SMOOTH = 10  # steps of a moving average
# Student's t for 95% by degrees of freedom; a matrix has few pairs.
T95 = {1: 12.706, 2: 4.303, 3: 3.182, 4: 2.776, 5: 2.571, 6: 2.447, 7: 2.365, 8: 2.306, 9: 2.262}


def name_of(row: Row) -> str:
    """Name of a run in tables."""
    name = METHODS[row["method"]] + ("" if row["method"] == "start" else f", seed {row['seed']}")
    return f"{name} ({row['variant']})" if row.get("variant") else name


def over_pairs(values: Sequence[float]) -> Estimate:
    """Mean over pairs with its 95% t-interval; none of one pair."""
    mean = float(np.mean(values))
    if len(values) < 2:
        return Estimate(mean)
    half = T95.get(len(values) - 1, NormalDist().inv_cdf(0.975)) * float(np.std(values, ddof=1)) / len(values) ** 0.5
    return Estimate(mean, mean - half, mean + half)


def of_bands(row: Row, start: Row) -> dict[str, dict[str, np.ndarray]]:
    """Counts by problem over all benchmarks that both have, by the difficulty that the start's sorting samples say."""
    parts: dict[str, dict[str, list[np.ndarray]]] = {band: {"correct": [], "tokens": []} for band in BANDS}
    for benchmark in BENCHMARKS:
        if benchmark not in row["evaluation"] or benchmark not in start.get("sorting", {}):
            continue
        counts, sorting = counts_of(row, benchmark), counts_of(start, benchmark, "sorting")["correct"]
        for band, chosen in BANDS.items():
            for column, values in parts[band].items():
                values.append(counts[column][chosen(sorting)] / row["evaluation"][benchmark]["samples"])
    return {band: {name: np.concatenate(values) for name, values in part.items()} for band, part in parts.items()}


def outcomes_of(row: Row) -> dict[str, Outcomes]:
    """Sums by problem as the evaluation's comparison takes them; tokens of right and of wrong answers are not kept."""
    outcomes = {}
    for name in row["evaluation"]:
        counts, samples = counts_of(row, name), row["evaluation"][name]["samples"]
        of_each = np.full(len(counts["tokens"]), float(samples))
        problems = [str(problem) for problem in range(len(of_each))]
        unknown = np.full(len(of_each), np.nan)
        columns = (counts[column].astype(float) for column in ("correct", "cut_off", "tokens"))
        outcomes[name] = Outcomes(problems, of_each, of_each, *columns, unknown, unknown)
    return outcomes


def log_ratio(mine: np.ndarray, theirs: np.ndarray, seed: int = 0) -> Estimate:
    """Log of the ratio of mean tokens, with a 95% interval over problems."""
    ones = np.ones(len(mine))
    draws = [np.log(replicates(Ratio(values, ones), seed)) for values in (mine, theirs)]
    return summarise(float(np.log(mine.mean() / theirs.mean())), draws[0] - draws[1], len(mine))


def average_accuracy(row: Row) -> float:
    """Accuracy, benchmarks weighing equally; NaN if one is missing."""
    if not all(name in row["evaluation"] for name in BENCHMARKS):
        return float("nan")
    return float(np.mean([row["evaluation"][name]["accuracy"] for name in BENCHMARKS]))


def scan_table(scan: Row) -> Table:
    """What the scan found."""
    names = {"gsm8k": "GSM8K", "math3": "MATH 3", "math4": "MATH 4", "math5": "MATH 5"}
    rows = [
        [text(names[name])]
        + [number(found[column], 100, 0) for column in ("accuracy", "easy", "all_wrong", "cut_off", "code")]
        + [number(found["tokens"], digits=0)]
        for name, found in scan["strata"].items()
    ]
    header = ["", "Right (%)", "Easy (%)", "All wrong (%)", "Cut off (%)", "With code (%)", "Tokens"]
    return Table("scan", "The scan of the start", "T = 1, 8 samples a problem.", header, rows)


def trainings_table(rows: Sequence[Row]) -> Table:
    """How each training went."""
    lines = []
    for row in rows:
        training = row["training"]
        log = training["log"]

        def end(name: str, log: Mapping = log) -> float:
            return float(np.nanmean(np.array(log[name][-SMOOTH:], dtype=float)))

        def begin(name: str, log: Mapping = log) -> float:
            return float(np.nanmean(np.array(log[name][:SMOOTH], dtype=float)))

        pair = [
            (number(begin(name), scale, 0), number(end(name), scale, 0)) for name, scale in TRAINING_COLUMNS.values()
        ]
        lines.append(
            [text(name_of(row)), number(training["steps"], digits=0)]
            + [Cell(f"{first.text} → {last.text}") for first, last in pair]
            + [number(float(np.median(training["step_seconds"])), digits=1), text(row["device"])]
        )
    header = ["", "Steps", *TRAINING_COLUMNS, "Seconds a step", "Card"]
    caption = f"Rollouts of the training: means over the first and over the last {SMOOTH} steps."
    return Table("trainings", "Trainings", caption, header, lines)


TRAINING_COLUMNS = {
    "Right (%)": ("reward", 100),
    "Tokens": ("tokens", 1),
    "Tokens, easy": ("easy_tokens", 1),
    "Tokens, hard": ("hard_tokens", 1),
    "Cut off (%)": ("cut_off", 100),
}


def evaluations_table(rows: Sequence[Row]) -> Table:
    """Accuracy and tokens by benchmark."""
    lines = []
    for row in rows:
        cells = []
        for name in BENCHMARKS:
            found = row["evaluation"].get(name)
            cells.append(Cell(MISSING if found is None else f"{100 * found['accuracy']:.1f} / {found['tokens']:.0f}"))
        code = float(np.mean([found["code"] for found in row["evaluation"].values()]))
        lines.append([text(name_of(row)), *cells, number(average_accuracy(row), 100, 1), number(code, 100, 1)])
    caption = "Percent right / tokens of an answer. Averages weigh benchmarks equally."
    header = ["", *(TITLES[name] for name in BENCHMARKS), "Average right", "With code (%)"]
    return Table("evaluations", "By benchmark", caption, header, lines)


def levels_table(rows: Sequence[Row]) -> Table:
    """Accuracy and tokens by level of MATH."""
    lines = []
    for row in (row for row in rows if "math1200" in row["evaluation"]):
        levels = row["evaluation"]["math1200"]["by_level"].values()
        cells = [Cell(f"{100 * level['accuracy']:.1f} / {level['tokens']:.0f}") for level in levels]
        lines.append([text(name_of(row)), *cells])
    return Table("levels", "By level", "MATH test: percent right / tokens.", ["", "3", "4", "5"], lines)


def bands_table(rows: Sequence[Row], start: Row) -> Table:
    """Accuracy and tokens by difficulty for the start."""
    lines = []
    for row in rows:
        bands = of_bands(row, start)
        cells = [f"{100 * part['correct'].mean():.1f} / {part['tokens'].mean():.0f}" for part in bands.values()]
        lines.append([text(name_of(row)), *map(Cell, cells)])
    sizes = {band: len(part["tokens"]) for band, part in of_bands(start, start).items()}
    header = ["", *(f"{band} ({size:,} problems)" for band, size in sizes.items())]
    caption = "By the start's success rate in 8 other samples. Percent right / tokens."
    return Table("bands", "By difficulty", caption, header, lines)


def pairs(rows: Sequence[Row], method: str) -> list[tuple[Row, Row]]:
    """Runs of a method and of GRPO with the same seed, both fully evaluated; only those as in the design."""
    found = {(row["method"], row["seed"]): row for row in rows if row["complete"] and not row.get("variant")}
    return [
        (run, found["grpo", seed]) for (name, seed), run in found.items() if name == method and ("grpo", seed) in found
    ]


def _percent(logs: Estimate) -> Cell:
    ends = [None if end is None else float(np.expm1(end)) for end in (logs.low, logs.high)]
    return number(Estimate(float(np.expm1(logs.value)), *ends), 100, 1, signed=True, unit="%")


def differences_table(rows: Sequence[Row]) -> Table:
    """Differences to GRPO of the same seed by benchmark, with intervals over problems."""
    lines = []
    for method in (name for name in METHODS if name not in ("start", "grpo")):
        for run, reference in pairs(rows, method):
            mine, theirs = outcomes_of(run), outcomes_of(reference)
            cells = []
            for names in [*([name] for name in BENCHMARKS), list(BENCHMARKS)]:
                found = compare({name: mine[name] for name in names}, {name: theirs[name] for name in names})
                points = number(found.accuracy_points, digits=1, signed=True)
                tokens = number(found.token_change, digits=0, signed=True, unit="%")
                cells.append(Cell(f"{points.text} [{points.interval}] / {tokens.text} [{tokens.interval}]"))
            lines.append([text(name_of(run)), *cells])
    caption = (
        "Difference to GRPO of the same seed: points of accuracy / tokens. Brackets: 95% over problems, which are "
        "resampled; another seed would differ by more."
    )
    header = ["", *(TITLES[name] for name in BENCHMARKS), "Average"]
    return Table("differences", "Against GRPO, by benchmark", caption, header, lines)


def seconds_table(rows: Sequence[Row]) -> Table:
    """Where the time of a step goes, at the beginning and at the end of the training."""
    lines = []
    for row in rows:
        training = row["training"]
        no_seconds = [0.0] * training["steps"]
        # Not the first three steps, which meet new shapes and start the grader.
        for name, part in (("first ten", slice(WARM, WARM + SMOOTH)), ("last ten", slice(-SMOOTH, None))):
            phases = [np.mean(training["phase_seconds"].get(phase, no_seconds)[part]) for phase in PHASE_TITLES]
            total, length = np.mean(training["step_seconds"][part]), np.mean(training["log"]["tokens"][part])
            lines.append(
                [text(name_of(row)), text(name), number(float(total), digits=1)]
                + [number(float(seconds), digits=2) for seconds in phases]
                + [number(float(length), digits=0), number(training["card_gib"], digits=0)]
            )
    header = ["", "Steps", "Seconds", *PHASE_TITLES.values(), "Tokens", "GiB of the card"]
    caption = "Means of seconds a step, one run a card. The first ten begin with step 4."
    return Table("seconds", "Seconds of a step", caption, header, lines)


PHASE_TITLES = {
    "generation": "Generation",
    "weight_sync": "Weights to vLLM",
    "rewards": "Grading, shaping",
    "update": "Update",
}


def pairs_table(rows: Sequence[Row], start: Row) -> Table:
    """Differences to GRPO of the same seed by difficulty, and their means over pairs."""
    lines = []
    for method in (name for name in METHODS if name not in ("start", "grpo")):
        logs: dict[str, list[float]] = {band: [] for band in BANDS}
        points = []
        for run, reference in pairs(rows, method):
            mine, theirs = of_bands(run, start), of_bands(reference, start)
            points.append(100 * (average_accuracy(run) - average_accuracy(reference)))
            cells = [number(points[-1], digits=1, signed=True)]
            for band in BANDS:
                ratio = log_ratio(mine[band]["tokens"], theirs[band]["tokens"], benchmark_seed(band))
                logs[band].append(ratio.value)
                cells.append(_percent(ratio))
            lines.append([text(name_of(run)), *cells])
        if len(points) > 1:
            means = [number(over_pairs(points), digits=1, signed=True)]
            means += [_percent(over_pairs(values)) for values in logs.values()]
            lines.append([text(f"{METHODS[method]}, {len(points)} pairs"), *means])
    header = ["", "Points of accuracy", *(f"Tokens, {band}" for band in BANDS)]
    caption = (
        "Difference to GRPO of the same seed. Brackets: 95%, for a pair over problems (which are resampled: not what "
        "another seed would give), over pairs (Student's t) where there are several."
    )
    return Table("pairs", "Against GRPO, by difficulty", caption, header, lines)


def draw(rows: Sequence[Row], labels: Mapping[str, str], shown: Mapping[str, str], steps: int, path: Path) -> None:
    """Metrics of the training log over its first steps, a panel each and a line for each run."""
    with rc_context(PLOT_SETTINGS):
        figure, axes = panels(1, len(shown))
        styles = run_styles([labels[row["method"]] for row in rows], "GRPO")
        for panel, (name, title) in zip(axes, shown.items(), strict=True):
            for row in rows:
                log = row["training"]["log"]
                values = np.array(log.get(name, [None])[:steps], dtype=float) * (100 if name == "reward" else 1)
                known = ~np.isnan(values)
                window = np.ones(min(SMOOTH, len(values)))
                weights = np.convolve(known, window, "same")
                means = np.convolve(np.where(known, values, 0), window, "same") / np.maximum(weights, 1)
                style = styles[labels[row["method"]]]
                panel.plot(
                    np.arange(1, len(values) + 1), means, color=style["color"], linestyle=style["linestyle"],
                    label=labels[row["method"]],
                )  # fmt: skip
            panel.set_title(title)
            panel.set_xlabel("step")
        legend(figure, axes)
        figure.savefig(path, dpi=110, metadata={"Software": None})


def fill(page: str, parts: Mapping[str, str]) -> str:
    """Puts text between the markers `<!-- begin NAME -->` and `<!-- end -->` of a page."""
    for name, part in parts.items():
        pattern = rf"(<!-- begin {re.escape(name)} -->\n).*?(<!-- end -->)"
        page = re.sub(pattern, lambda match, part=part: f"{match[1]}{part}\n{match[2]}", page, flags=re.DOTALL)
    return page


def build(results: Sequence[Row], folder: Path) -> dict[str, str]:
    """All parts of the page, by marker; draws its pictures into the folder."""
    rows = sorted(
        (row for row in results if row["method"] in METHODS),
        key=lambda row: (list(METHODS).index(row["method"]), row["seed"]),
    )
    trained = [row for row in rows if "training" in row]
    starts = [row for row in rows if row["method"] == "start" and row.get("sorting")]
    start = starts[0] if starts else None
    parts = {row["method"]: markdown(scan_table(row)) for row in results if row["method"] == "scan"}
    if trained:
        draw(trained, METHODS, SHOWN, MOST, folder / PICTURE)
        parts["trainings"] = markdown(trainings_table(trained))
        parts["seconds"] = markdown(seconds_table(trained))
    collapse = [row for row in results if row["method"] in COLLAPSE_LABELS and row["seed"] in COLLAPSE_SEEDS]
    if any(row["method"] in COLLAPSE for row in collapse):
        draw(collapse, COLLAPSE_LABELS, COLLAPSE_SHOWN, COLLAPSE_STEPS, folder / COLLAPSE_PICTURE)
    evaluated = [row for row in rows if row.get("evaluation")]
    if evaluated:
        parts |= {"evaluations": markdown(evaluations_table(evaluated)), "levels": markdown(levels_table(evaluated))}
        parts["differences"] = markdown(differences_table(evaluated))
    if start is not None:
        parts["bands"] = markdown(bands_table(evaluated, start))
        parts["pairs"] = markdown(pairs_table(evaluated, start))
    return parts


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results.jsonl")
    parser.add_argument("--page", type=Path, default=HERE / "README.md")
    args = parser.parse_args()
    parts = build(read_results(args.results), args.page.parent)
    args.page.write_text(fill(args.page.read_text(), parts))


if __name__ == "__main__":
    main()
