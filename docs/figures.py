"""Draws the pictures of docs/concepts.md and docs/diagnose.md, and fills in the tables between their marks.

python docs/figures.py                        # from the package's own formulas, and the curves that are committed
python docs/figures.py --runs runs/diagnose   # first takes the curves from new runs (diagnose.md has their lines)
"""

import argparse
import json
from pathlib import Path

import numpy as np
import torch
import yaml
from matplotlib import rc_context
from matplotlib.figure import Figure
from transformers import AutoConfig
from trl import ModelConfig, TrlParser

from coda_trl.analysis import Curve, curve, read_log_history
from coda_trl.data import DataArguments
from coda_trl.dry_run import DryRunArguments
from coda_trl.dry_run.launch import planned_config, read_launch
from coda_trl.dry_run.memory import GIB, estimate_memory, model_size
from coda_trl.report.style import PLOT_SETTINGS, legend, panels
from coda_trl.shaping import shape_rewards

DOCS = Path(__file__).parent
ROOT = DOCS.parent
IMAGES = DOCS / "images"
CURVES = IMAGES / "diagnose" / "curves.json"
EASY, HARD, MIDDLE = "#0072B2", "#D55E00", "#7F7F7F"
GROUP = 16  # completions of a prompt, as in the paper

MEMORY_ROWS = (
    ("qwen3-0.6b", "one_gpu", 1),
    ("qwen3-4b", "zero2", 8),
    ("qwen3-4b", "fsdp2", 8),
    ("qwen3-8b", "zero3", 4),
    ("qwen3-8b", "zero3", 8),
    ("qwen3-8b", "fsdp2", 8),
    ("qwen3-14b", "zero3", 8),
    ("qwen3-14b", "zero3", 16),
)

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
    """What GRPO and CODA push, completion by completion, in an easy, a middling and a hard group."""
    lengths = torch.linspace(500, 8000, GROUP).round()
    groups = {
        "Easy: 16 of 16 right": torch.ones(GROUP),
        "Middle: 8 of 16 right": torch.tensor([1.0, 0.0] * (GROUP // 2)),
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


def last_steps(steps: int = 40) -> str:
    """Table of the runs: means over the points logged in the last steps."""
    curves = json.loads(CURVES.read_text())
    lines = ["| | " + " | ".join(METRICS.values()) + " |", "| --- " * (len(METRICS) + 1) + "|"]
    for run in RUNS:
        cells = []
        for points in curves[run].values():
            values = [
                value
                for step, value in zip(points["steps"], points["values"], strict=True)
                if step > points["steps"][-1] - steps
            ]
            cells.append(f"{np.mean(values):.2f}")
        lines.append(f"| `{run}` | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def length_stats_table(groups: int = 20_000) -> str:
    """What `length_stats` changes: the mean term of a right answer in random groups, by side and by length."""
    lines = [
        "| Right answers | Wrong ones are | Term, `group` | Term, `correct` | Largest gap in a group, mean (maximum) |"
    ]
    lines.append("| --- | --- | --- | --- | --- |")
    torch.manual_seed(0)
    for counts in ((13, 15), (1, 3)):
        for factors in ((1.0, 1.0), (1.5, 3.0)):
            right = torch.randint(counts[0], counts[1] + 1, (groups, 1))
            rewards = (torch.arange(GROUP) < right).float()
            lengths = torch.exp(7 + 0.5 * torch.randn(groups, GROUP))
            longer = factors[0] + (factors[1] - factors[0]) * torch.rand(groups, GROUP)
            lengths = torch.where(rewards == 1, lengths, lengths * longer).round()
            group, correct = (
                shape_rewards(rewards.flatten(), lengths.flatten(), GROUP, length_stats=stats).delta
                for stats in ("group", "correct")
            )
            gap = (group - correct).abs().view(groups, GROUP).amax(dim=1)
            means = [delta[rewards.flatten() == 1].mean() for delta in (group, correct)]
            longer_by = "as long" if factors[0] == factors[1] else "1.5 to 3 times as long"
            lines.append(
                f"| {counts[0]} to {counts[1]} of {GROUP} | {longer_by} | {means[0]:+.3f} | {means[1]:+.3f} "
                f"| {gap.mean():.3f} ({gap.max():.3f}) |"
            )
    return "\n".join(lines)


def memory_table() -> str:
    """What the dry run estimates for the recipes of the paper, in GiB a GPU."""
    lines = [
        "| Model | GPUs | Shared by | Weights, gradients, Adam, reference | vLLM | Backward pass | "
        "Peak, generation | Peak, backward |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for model, launch_file, processes in MEMORY_ROWS:
        launch = read_launch(f"{ROOT}/recipes/accelerate/{launch_file}.yaml", processes)
        recipe = yaml.safe_load((ROOT / "recipes" / model / "coda.yaml").read_text())
        steps = recipe["generation_batch_size"] // (recipe["per_device_train_batch_size"] * launch.num_processes)
        argv = ["--config", f"{ROOT}/recipes/{model}/coda.yaml", "--gradient_accumulation_steps", str(steps)]
        parser = TrlParser((DryRunArguments, DataArguments, planned_config(launch), ModelConfig))
        *_, data_args, args, model_args, _ = parser.parse_args_and_config(argv, return_remaining_strings=True)
        config = AutoConfig.for_model(**json.loads((ROOT / "recipes" / model / "config.json").read_text()))
        memory = estimate_memory(
            model_size(config, model_args), args, model_args, launch, data_args.max_prompt_length, recipe["gpu_memory"]
        )
        amounts = [sum(memory.state.values()), sum(memory.generation.values()), sum(memory.training.values())]
        amounts += [memory.generation_peak, memory.training_peak]
        cells = " | ".join(f"{amount / GIB:.1f}" for amount in amounts)
        lines.append(f"| {model} | {launch.num_processes} x {recipe['gpu_memory']} | `{launch_file}` | {cells} |")
    return "\n".join(lines)


def fill_in(page: Path, mark: str, text: str) -> None:
    """Puts a text between the marks of a page."""
    before, begin, rest = page.read_text().partition(f"<!-- begin {mark} -->\n")
    _, end, after = rest.partition("<!-- end -->")
    page.write_text(before + begin + text + "\n" + end + after)


PICTURES = {
    "concepts/optimality": optimality,
    "concepts/gates": gates,
    "concepts/advantages": advantages,
    "diagnose/healthy_and_sick": healthy_and_sick,
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
    fill_in(DOCS / "diagnose.md", "runs", last_steps())
    fill_in(DOCS / "scaling.md", "memory", memory_table())
    fill_in(DOCS / "paper-and-code.md", "length stats", length_stats_table())


if __name__ == "__main__":
    main()
