"""Draws the pictures of docs/concepts.md, docs/diagnose.md and docs/performance.md.

python docs/pictures.py                        # from the package's own formulas, and the curves that are committed
python docs/pictures.py --runs runs/diagnose   # first takes the curves of diagnose.md from new runs:

python recipes/train.py --config recipes/ladder/coda.yaml --output_dir runs/diagnose/healthy
python recipes/train.py --config recipes/ladder/coda.yaml --output_dir runs/diagnose/scaled --scale_rewards group
python recipes/train.py --config recipes/ladder/coda.yaml --output_dir runs/diagnose/incorrect \\
    --overlay recipes/ablations/incorrect-bonus.yaml
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
from matplotlib import rc_context
from matplotlib.figure import Figure

from coda_trl.analysis import Curve, curve, read_log_history
from coda_trl.report.style import PLOT_SETTINGS, legend, panels, run_styles
from coda_trl.shaping import shape_rewards

DOCS = Path(__file__).parent
IMAGES = DOCS / "images"
CURVES = IMAGES / "diagnose" / "curves.json"
EASY, HARD, MIDDLE = "#0072B2", "#D55E00", "#7F7F7F"
STEP = DOCS.parent / "benchmarks/results/step-vllm-qwen2.5-coder-1.5b-nvidia-h200.json"
GROUP = 16  # completions of a prompt, as in the paper


RUNS = {
    "healthy": {"color": "black", "linestyle": "-", "label": "healthy: recipes/ladder/coda.yaml"},
    "scaled": {"color": "#D55E00", "linestyle": "--", "label": "scaled: scale_rewards=group"},
    "incorrect": {"color": "#0072B2", "linestyle": ":", "label": "incorrect: bonus_on_incorrect=true"},
}
METRICS = {
    "coda/mean_score": "Accuracy",
    "coda/easy/mean_length": "Tokens, easy prompts",
    "coda/hard/mean_length": "Tokens, hard prompts",
    "coda/frac_zero_std_shaped": "Groups without any signal",
    "entropy": "Entropy (nats a token)",
    "grad_norm": "Norm of the gradient",
}


def optimality() -> Figure:
    """What tokens buy: made-up saturation curves, and where their slope meets the price of a token."""
    tokens = np.linspace(0, 12_000, 1200)
    price = 3e-5
    questions = {
        "easy": (EASY, "-", 0.97 * (1 - np.exp(-tokens / 500))),
        "hard": (HARD, "--", 0.75 * (1 - np.exp(-tokens / 4500))),
    }
    figure, (success, gain) = panels(1, 2, width=9.0, height=3.0)
    for name, (colour, line, probability) in questions.items():
        slope = np.gradient(probability, tokens)
        best = np.argmax(probability - price * tokens)
        success.plot(tokens, probability, color=colour, linestyle=line, label=f"{name} prompt")
        success.plot(tokens[best], probability[best], "o", color=colour)
        success.annotate(f"stop at {tokens[best]:,.0f}", (tokens[best], probability[best] - 0.08), color=colour)
        gain.plot(tokens, slope, color=colour, linestyle=line)
        gain.plot(tokens[best], slope[best], "o", color=colour)
    gain.axhline(price, color="black", linewidth=1, linestyle=":")
    gain.annotate("price of a token", (12_000, price * 1.15), ha="right")
    success.set(title="Probability of a right answer", xlabel="tokens", ylim=(0, 1.02))
    gain.set(title="What one more token adds to it", xlabel="tokens", yscale="log", ylim=(3e-6, 3e-3))
    legend(figure, [success])
    return figure


def gates() -> Figure:
    """Both gates at every success rate that a group can have, and what they leave of the reward of a right answer."""
    counts = torch.arange(GROUP + 1)
    rewards = (torch.arange(GROUP)[None, :] < counts[:, None]).float()
    shaped = shape_rewards(rewards.flatten(), torch.ones(rewards.numel()), GROUP)
    figure, (gate, reward) = panels(1, 2, width=9.0, height=3.0)
    gate.plot(shaped.success_rate, shaped.w_easy, "o-", color=EASY, label="easy gate: long is penalised")
    gate.plot(shaped.success_rate, shaped.w_hard, "s--", color=HARD, label="hard gate: long is rewarded")
    gate.set(title="Gates", xlabel=f"success rate of the group ({GROUP} completions)", ylim=(-0.03, 1.03))

    relative_length = torch.linspace(0.05, 0.95, 50)
    for count, line in {16: "-", 14: "--", 8: ":", 2: "--", 1: "-"}.items():
        factor = 0.2 * shaped.w_hard[count] - 0.2 * shaped.w_easy[count]
        colour = EASY if count > 12 else HARD if count < 4 else MIDDLE
        reward.plot(relative_length, 1 + factor * relative_length, color=colour, linestyle=line)
        reward.annotate(f"{count} of {GROUP} right", (0.96, 1 + 0.95 * factor), color=colour, va="center")
    reward.set(title="Reward of a right answer", xlabel="relative length", xlim=(0, 1.25), ylim=(0.78, 1.18))
    reward.set_xticks([0, 0.25, 0.5, 0.75, 1], ["shortest", "", "0.5", "", "longest"])
    legend(figure, [gate])
    return figure


def advantages() -> Figure:
    """What GRPO and CODA push, completion by completion, in an easy, a medium and a hard group."""
    lengths = torch.linspace(500, 8000, GROUP).round()
    groups = {
        "Easy: 16 of 16 right": torch.ones(GROUP),
        "Medium: 8 of 16 right": torch.tensor([1.0, 0.0] * (GROUP // 2)),
        "Hard: 2 of 16 right": torch.zeros(GROUP).index_fill(0, torch.tensor([4, 12]), 1.0),
    }
    figure, axes = panels(1, 3, width=10.5, height=2.8)
    for axis, (title, rewards) in zip(axes, groups.items(), strict=True):
        for method, colour, shift in (("none", "black", -0.2), ("coda", EASY, 0.2)):
            shaped = shape_rewards(rewards, lengths, GROUP, method).rewards
            label = "GRPO" if method == "none" else "CODA"
            axis.bar(torch.arange(GROUP) + shift, shaped - shaped.mean(), width=0.4, color=colour, label=label)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set(title=title, xlabel="completions, short to long")
        axis.set_xticks([])
    axes[0].set_ylabel("advantage")
    legend(figure, axes[:1])
    return figure


def methods() -> Figure:
    """What every method adds to the reward of an answer, by its length, in an easy, a medium and a hard group."""
    lengths = torch.linspace(500, 8000, GROUP).round()
    strengths = {"window": 8000, "alp_beta": 0.3 / 8000}  # both are in tokens, and meant for longer answers
    styles = run_styles(["coda", "vlp", "asrr", "linear", "alp", "gr3"], "coda")
    figure, axes = panels(1, 3, width=10.5, height=3.2)
    for axis, right in zip(axes, (16, 8, 2), strict=True):
        group = torch.zeros(GROUP)
        group[torch.linspace(0, GROUP - 1, right).round().long()] = 1
        for method, style in styles.items():
            delta = shape_rewards(group, lengths, GROUP, method, **strengths).delta
            for reward, marks in ((1, {"markersize": 4}), (0, {"markersize": 4, "fillstyle": "none"})):
                of = group == reward
                label = {"label": method} if reward else {}
                axis.plot(lengths[of], delta[of], **(style | {"linestyle": "none"}), **marks, **label)
        axis.axhline(0, color="black", linewidth=0.6)
        axis.set(title=f"{right} of {GROUP} right", xlabel="tokens", ylim=(-0.55, 0.1))
    axes[0].set_ylabel("added to the reward")
    legend(figure, axes[:1])
    return figure


def collect(folder: Path) -> None:
    """Keeps of the runs' logs what is drawn, so that the pictures can be made again without the runs."""
    curves = {}
    for run in RUNS:
        history = read_log_history(folder / run / "trainer_state.json")
        logged = {metric: curve(history, metric) for metric in METRICS}
        curves[run] = {
            metric: {"steps": points.steps.tolist(), "values": [round(value, 4) for value in points.values]}
            for metric, points in logged.items()
        }
    CURVES.write_text(json.dumps(curves) + "\n")


def healthy_and_sick() -> Figure:
    """The runs of diagnose.md, as moving averages over three logged points."""
    curves = json.loads(CURVES.read_text())
    figure, axes = panels(2, 3, width=10.5, height=2.4)
    for axis, (metric, title) in zip(axes, METRICS.items(), strict=True):
        for run, style in RUNS.items():
            points = Curve(np.array(curves[run][metric]["steps"]), np.array(curves[run][metric]["values"]))
            axis.plot(points.steps, points.smoothed(3).values, **style)
        axis.set(title=title, ylim=(0, None))
    for axis in axes[3:]:
        axis.set_xlabel("step")
    legend(figure, axes[:1])
    return figure


STEP_PARTS = {
    "generation, weights to vLLM": ("rollout", "weights to the engine"),
    "grading, decoding": ("grading", "rest"),
    "forward": ("forward",),
    "backward": ("backward", "optimizer", "grouping"),
}


def whole_step() -> Figure:
    """A step of TRL's and of ours on the same rollouts, round by round, by parts."""
    steps = json.loads(STEP.read_text())["steps"]
    rounds = sorted({step["round"] for step in steps})
    figure, axes = panels(1, len(rounds), width=10.5, height=1.8)
    for axis, number in zip(axes, rounds, strict=True):
        sides = {step["side"]: step["parts"] for step in steps if step["round"] == number}
        first = next(iter(sides.values()))  # what it has to do about the rollout counts for both
        done = np.zeros(2)
        for place, (title, names) in enumerate(STEP_PARTS.items()):
            of = [first if place < 2 else sides[side] for side in ("grouped", "trl")]
            seconds = np.array([sum(parts[name] for name in names) for parts in of])
            axis.barh(
                ["ours", "TRL"], seconds, left=done, label=title, color=("#999999", "#dddddd", EASY, HARD)[place]
            )
            done += seconds
        for row, whole in enumerate(done):
            axis.annotate(f"{whole:.1f}", (whole + 0.2, row), va="center")
        axis.set(title=f"round {number}", xlabel="seconds", xlim=(0, 31))
    legend(figure, axes[:1])
    return figure


PICTURES = {
    "concepts/optimality": optimality,
    "concepts/gates": gates,
    "concepts/advantages": advantages,
    "concepts/methods": methods,
    "diagnose/healthy_and_sick": healthy_and_sick,
    "performance/whole_step": whole_step,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", metavar="DIR", help="Folder that holds the training runs of diagnose.md.")
    args = parser.parse_args()
    if args.runs:
        collect(Path(args.runs))
    with rc_context(PLOT_SETTINGS):
        for name, draw in PICTURES.items():
            draw().savefig(IMAGES / f"{name}.png", dpi=110)


if __name__ == "__main__":
    main()
