"""Training curves: gates, reward, easy penalty, length, and evaluation during training (Fig. 2 and 4)."""

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.figure import Figure

from ..analysis.dynamics import Curve, base_reward_key, curve, evaluation_histories
from .comparison import ComparedRuns
from .elements import Plot, Section, Table, number, table_of_rows
from .seeds import Columns, Run, cells
from .style import legend, panels

_BASE = "base reward"  # whose name in the log depends on the run
_LENGTH = "completions/mean_length"
# By key of the figure its title, caption, and panels with what they show.
_FIGURES = {
    "gates": (
        "Gate dynamics",
        "Mean gates: how much of a batch counts as easy, and how much as hard, to the policy at that step.",
        {"easy gate w_easy": "coda/mean_w_easy", "hard gate w_hard": "coda/mean_w_hard"},
    ),
    "dynamics": (
        "Reward, shaping and length",
        "Easy penalty and hard bonus are averaged over all rollouts.",
        {
            "base reward": _BASE,
            "easy penalty": "coda/global_easy_penalty_mean",
            "hard bonus": "coda/global_hard_reward_mean",
            "completion length (tokens)": _LENGTH,
        },
    ),
    "regimes": (
        "Length by difficulty",
        "Prompts that were easy or hard to the policy at that step, by the success rate of their group.",
        {
            "length, easy prompts (tokens)": "coda/easy/mean_length",
            "length, hard prompts (tokens)": "coda/hard/mean_length",
            "share of easy prompts": "coda/easy/share",
            "share of hard prompts": "coda/hard/share",
        },
    ),
}
_ENDS = {"Base reward": _BASE, "w_easy": "coda/mean_w_easy", "w_hard": "coda/mean_w_hard", "Length": _LENGTH}

Curves = dict[str, dict[str, list[Curve | None]]]  # by panel and run, of every seed


def training(comparison: ComparedRuns) -> Section:
    """Training curves of the runs that have a log."""
    section = Section(
        "training",
        "Training dynamics",
        "Means over a batch at every logged step; where there are 30 and more, thick lines are moving averages. "
        "Rewards are unshaped.",
    )
    logged = [run for run in comparison.runs if run.is_logged]
    if not logged:
        section.missing = "No run has a training log (trainer_state.json)."
        return section
    for key, (title, caption, shown) in _FIGURES.items():
        curves = {panel: {run.name: _curves(run, name) for run in logged} for panel, name in shown.items()}
        section.items += _plot(comparison, key, title, caption, curves)
    caption = "Unshaped reward and completion length on held-out problems."
    section.items += _plot(comparison, "evaluation", "Evaluation during training", caption, _evaluation_curves(logged))
    section.items.append(_table(logged))
    without = [run.name for run in logged if not any(_curves(run, _ENDS["w_easy"]))]
    if without:
        section.text += f" No gates were logged by {', '.join(without)}."
    return section


def _curve(log_history: list[dict], name: str) -> Curve | None:
    return curve(log_history, base_reward_key(log_history) or "" if name == _BASE else name)


def _curves(run: Run, name: str) -> list[Curve | None]:
    return [_curve(one.log_history, name) for one in run.seeds.values()]


def _evaluation_curves(runs: list[Run]) -> Curves:
    found: Curves = {}
    for run in runs:
        of_seeds = [evaluation_histories(one.log_history) for one in run.seeds.values()]
        for name in of_seeds[0]:
            prefix = f"{name}: " if name else ""
            for panel, key in (("reward", _BASE), ("completion length (tokens)", _LENGTH)):
                curves = [_curve(of.get(name, []), key) for of in of_seeds]
                found.setdefault(prefix + panel, {})[run.name] = curves
    return found


def _plot(comparison: ComparedRuns, key: str, title: str, caption: str, curves: Curves) -> list[Plot]:
    """The figure of the curves that were logged, if any."""
    logged = {panel: {run: _mean(of) for run, of in lines.items() if all(of)} for panel, lines in curves.items()}
    data = {panel: lines for panel, lines in logged.items() if lines}
    if comparison.means:
        caption += " Pale curves are single seeds."
    return [Plot(key, title, caption, data, _draw(comparison.styles, data))] if data else []


def _mean(curves: Sequence[Curve]) -> dict[str, list]:
    """A run's curve or, at the steps that all its `seeds` have, their mean."""
    found = [{"steps": line.steps.tolist(), "values": line.values.tolist()} for line in curves]
    if len(found) == 1:
        return found[0]
    logged = [dict(zip(of["steps"], of["values"], strict=True)) for of in found]
    steps = sorted(set.intersection(*map(set, logged)))
    return {"steps": steps, "values": [float(np.mean([of[step] for of in logged])) for step in steps], "seeds": found}


def _draw(styles: Mapping[str, dict], data: Mapping[str, Mapping[str, dict]]) -> Figure:
    columns = 2 if len(data) in (2, 4) else min(3, len(data))
    figure, axes = panels(-(-len(data) // columns), columns, height=2.7)
    for axis, (panel, lines) in zip(axes, data.items(), strict=False):
        axis.set(title=panel, xlabel="step")
        axis.xaxis.get_major_locator().set_params(integer=True)
        axis.ticklabel_format(axis="y", useOffset=False)
        for name, line in lines.items():
            pale = {"color": styles[name]["color"], "linewidth": 0.6, "alpha": 0.3}
            for seed in line.get("seeds", ()):
                axis.plot(seed["steps"], seed["values"], **pale)
            shown, bold = Curve(np.array(line["steps"]), np.array(line["values"])), {"markersize": 4, "linewidth": 1.2}
            if len(shown.steps) >= 30:
                axis.plot(shown.steps, shown.values, **pale)
                shown, bold = shown.smoothed(max(3, len(shown.steps) // 20)), {"marker": "", "linewidth": 1.8}
            axis.plot(shown.steps, shown.values, label=name, **styles[name] | bold)
        axis.margins(x=0.02)
    for axis in axes[len(data) :]:
        axis.set_visible(False)
    legend(figure, axes)
    return figure


def _tenth(log_history: list[dict], key: str, at_end: bool) -> float:
    """Mean of the first or the last tenth of the logged values; NaN if there are none."""
    line = _curve(log_history, key)
    if line is None:
        return np.nan
    tenth = max(1, len(line.values) // 10)
    return float(np.mean(line.values[-tenth:] if at_end else line.values[:tenth]))


def _table(runs: list[Run]) -> Table:
    columns: Columns = {
        f"{name}, {end}": (
            partial(_tenth, key=key, at_end=end == "end"),
            partial(number, digits=0 if key == _LENGTH else 3),
        )
        for name, key in _ENDS.items()
        for end in ("start", "end")
    }
    rows = [{"Run": run.name} | cells(columns, [one.log_history for one in run.seeds.values()]) for run in runs]
    caption = "Means over the first and the last tenth of the logged steps."
    return table_of_rows("training", "Start and end of training", caption, rows)
