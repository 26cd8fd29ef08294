r"""
Where the time of a whole training step goes, with TRL's micro-batches and with micro-batches grouped by length.

    python benchmarks/step.py [--tiny] [--engine generate] [--rounds 3] [--seconds 90] [--out runs/benchmarks]
    python benchmarks/step.py --model FOLDER --data PROMPTS.jsonl --engine vllm --longest 1024 --rollouts 256

One `CodaGRPOTrainer` makes steps with `length_grouping` off (TRL's own code path: gradients are bit-equal) and on, in
turns. A round has one rollout, which both sides learn from; what only the first of them has to do about it (rollout,
weights to the engine, grading, decoding) counts for both. With `--tiny` it is the arithmetic ladder on a CPU, with the
settings of `recipes/ladder/coda.yaml`. With `--model` it is a real model on a file of prompts (columns `prompt` and
`solution`): plain GRPO (`length_shaping="none"`), groups of 16, no KL term. Without either, it is the shape of
Qwen3-0.6B with random weights on a GPU: so many tokens end a text that lengths follow a geometric distribution with a
mean of a quarter of `--longest`, and the grader gets mathematical text of each rollout's length in its place. There
and on the ladder the KL coefficient is the paper's 0.001, so that the reference model's log-probabilities are part.

Peak memory is what PyTorch allocated in this process, vLLM's share included, and with `--model` the dry run's estimate
stands beside it.

The parts are those that TRL times with its profiling contexts (what it logs as `profiling/Time taken: ...`), caught in
the one place where they are made, with waits for the GPU at both ends of each. Results are written after every step.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import pandas as pd
import torch
import trl.extras.profiling
from datasets import Dataset
from model import save_random_model
from rollout import ENGINES, PROMPT_LENGTH, draw_prompts
from timing import Turns, machine, parser_of, trainer_options, wait_for_card, write
from transformers import PrinterCallback, set_seed
from trl import ModelConfig
from trl.extras.profiling import ProfilingContext, profiling_context

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer
from coda_trl.data import load_training_set
from coda_trl.dry_run.launch import read_launch
from coda_trl.dry_run.memory import estimate_memory, model_size
from coda_trl.ladder import CHECKPOINT, make_dataset
from coda_trl.rewards import accuracy_reward, ladder_reward

SIDES = ("trl", "grouped")
PARTS = (
    "rollout",
    "weights to the engine",
    "grading",
    "shaping and its metrics",
    "reference log-probabilities",
    "grouping",
    "forward",
    "backward",
    "optimizer",
    "rest",
)
ONCE = ["rollout", "weights to the engine", "grading", "rest"]  # in a round
UPDATE = ["reference log-probabilities", "grouping", "forward", "backward", "optimizer"]
# What the innermost of TRL's contexts (and ours below) is part of. Those not named here count to what they are in.
CONTEXTS = {
    "transformers.generate": "rollout",
    "transformers.generate_batch": "rollout",
    "vLLM.generate": "rollout",
    "sync_weights": "weights to the engine",
    "_calculate_rewards": "grading",
    "shaping": "shaping and its metrics",
    "_get_per_token_logps_and_entropies": "reference log-probabilities",
    "grouping": "grouping",
    "compute_loss": "forward",
    "training_step": "backward",
    "optimizer": "optimizer",
    "_prepare_inputs": "rest",
}


class Stopwatch(ProfilingContext):
    """TRL's profiling context, which adds its own time, less that of contexts within it, to `parts`."""

    parts: dict[str, float] = defaultdict(float)
    running: list["Stopwatch"] = []

    def __enter__(self):
        wait_for_card()
        part = CONTEXTS.get(self.name.rpartition("Trainer.")[2])
        inside = self.running[-1].part if self.running else "rest"
        # Within the loss, log-probabilities are the forward pass itself.
        self.part = inside if part is None or inside == "forward" else part
        self.within = 0.0
        self.running.append(self)
        return super().__enter__()

    def __exit__(self, *exception):
        wait_for_card()
        return super().__exit__(*exception)

    def _log_metrics(self, duration):
        self.running.pop()
        self.parts[self.part] += duration - self.within
        if self.running:
            self.running[-1].within += duration


class TimedTrainer(CodaGRPOTrainer):
    """Puts what TRL does not time into contexts of the same kind."""

    round = None  # whose rollout is at hand, for both sides

    def _generate(self, prompts):
        if self.round != self.state.global_step // len(SIDES):
            self.round = self.state.global_step // len(SIDES)
            self.output = super()._generate(prompts)
        return self.output

    def _prepare_inputs(self, generation_batch):
        if self.round != self.state.global_step // len(SIDES):
            self.generation_batch = generation_batch
        return super()._prepare_inputs(self.generation_batch)

    def training_step(self, *args, **kwargs):
        with profiling_context(self, "training_step"):
            return super().training_step(*args, **kwargs)

    def _calculate_rewards(self, *args, **kwargs):
        with profiling_context(self, "shaping"):
            return super()._calculate_rewards(*args, **kwargs)

    def _group_by_length(self, batches):
        with profiling_context(self, "grouping"):
            return super()._group_by_length(batches)


class Parts(Turns):
    """Collects the parts of every step."""

    def on_step_begin(self, args, state, control, **kwargs):
        set_seed(self.plan[0]["round"])
        Stopwatch.parts.clear()
        super().on_step_begin(args, state, control)

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.optimizer = Stopwatch("Trainer.optimizer", report_to=[])
        self.optimizer.__enter__()

    def on_optimizer_step(self, args, state, control, **kwargs):
        self.optimizer.__exit__(None, None, None)

    def measured(self, step, state):
        parts = {part: Stopwatch.parts.get(part, 0.0) for part in PARTS}
        parts["rest"] += step["seconds"] - sum(parts.values())
        step |= {"parts": parts, "lengths": self.trainer._completion_lengths}
        if torch.cuda.is_available():
            step |= {"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved()}
        skipped = self.trainer._metrics["train"].pop("coda/skipped_token_ratio", [])
        return step | {"skipped_token_ratio": statistics.mean(skipped) if skipped else None}


def grade_math(completion_ids: list[list[int]], **kwargs) -> list[float | None]:
    """Grades mathematical text of the same length in place of each completion, every other right."""
    texts = [
        "so x = 3 + 4 and " * (len(ids) // 8) + rf"the answer is \boxed{{\frac{{{1 + place % 2}}}{{4}}}}"
        for place, ids in enumerate(completion_ids)
    ]
    return accuracy_reward(texts, ["0.25"] * len(texts))


def make_trainer(args: argparse.Namespace, folder: str, steps: int, callbacks: list) -> CodaGRPOTrainer:
    options = {name: value for name, value in ENGINES[args.engine].items() if name != "vllm_gpu_memory_utilization"}
    options |= trainer_options() | {"max_steps": steps, "lr_scheduler_type": "constant"}
    options["beta"] = 0.0 if args.model else 0.001
    if args.tiny:
        config = CodaGRPOConfig(
            "runs/step",
            per_device_train_batch_size=40,
            gradient_accumulation_steps=4,
            num_generations=16,
            max_completion_length=48,
            learning_rate=1e-4,
            gradient_checkpointing=False,
            **options,
        )
        return TimedTrainer(CHECKPOINT, ladder_reward, config, make_dataset(400), callbacks=callbacks)
    if args.model:
        options |= {
            "length_shaping": "none",
            "model_init_kwargs": {"dtype": args.dtype if options["bf16"] else "float32"},
        }
        model, reward, prompts = args.model, accuracy_reward, load_training_set(f"custom={args.data}")
    else:
        save_random_model("qwen3-0.6b", folder, args.longest)
        model, reward, prompts = folder, grade_math, Dataset.from_dict({"prompt": draw_prompts(args.rollouts)})
    config = CodaGRPOConfig(
        "runs/step",
        per_device_train_batch_size=args.rows,
        gradient_accumulation_steps=args.rollouts // args.rows,
        gradient_checkpointing=not args.no_checkpointing,
        num_generations=16 if args.model else 8,
        max_completion_length=args.longest,
        learning_rate=0.0 if args.model else 1e-6,  # so that both sides, and all rounds, have one model
        vllm_gpu_memory_utilization=args.vllm_share,
        vllm_max_model_length=args.longest_prompt + args.longest,
        vllm_importance_sampling_correction=False,
        **options,
    )
    return TimedTrainer(model, reward, config, prompts, callbacks=callbacks)


def estimate(trainer: CodaGRPOTrainer, args: argparse.Namespace) -> dict[str, float]:
    """The dry run's peaks for one card, in bytes."""
    model_args = ModelConfig(model_name_or_path=args.model, dtype=args.dtype)
    size = model_size(trainer.model.config, model_args)
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30 if torch.cuda.is_available() else 80
    found = estimate_memory(size, trainer.args, model_args, read_launch(None), args.longest_prompt, memory)
    return {"training_peak": found.training_peak, "generation_peak": found.generation_peak} | found.training


def summarise(steps: list[dict]) -> list[dict]:
    """One row a part, the update and the step: medians of both sides over the rounds, in seconds, and ranges."""
    seconds = pd.DataFrame([step["parts"] for step in steps])
    seconds[ONCE] = seconds[ONCE].groupby([step["round"] for step in steps]).transform("first")
    seconds = seconds.assign(update=seconds[UPDATE].sum(axis=1), step=seconds.sum(axis=1))
    found = seconds.groupby([step["side"] for step in steps]).agg(["min", "median", "max"])
    rows = []
    for part in (*PARTS, "update", "step"):
        row = {"part": part}
        for side in SIDES:
            low, middle, high = found.loc[side, part]
            row |= {side: middle, f"{side}_range": [low, high]}
        rows.append(row)
    return rows


def print_table(rows: list[dict]) -> None:
    table = pd.DataFrame(rows).set_index("part")
    for side in SIDES:
        table[f"{side} %"] = 100 * table[side] / table[side]["step"]
        table[f"{side} range"] = [f"{low:.3f}-{high:.3f}" for low, high in table[f"{side}_range"]]
    columns = [f"{side}{of}" for side in SIDES for of in ("", " %", " range")]
    print(table[columns].to_string(float_format="{:.3f}".format))


def read_command_line() -> argparse.Namespace:
    parser = parser_of(__doc__)
    parser.add_argument("--tiny", action="store_true", help="The arithmetic ladder, on a CPU.")
    parser.add_argument("--model", help="Folder of a real model, with --data.")
    parser.add_argument("--data", type=Path, help="JSON lines with the columns `prompt` and `solution`, with --model.")
    parser.add_argument("--dtype", default="float32", help="Of the real model's weights on a GPU.")
    parser.add_argument("--rows", type=int, help="Rollouts of a micro-batch (default: an eighth of a step's).")
    parser.add_argument("--no_checkpointing", action="store_true", help="Keep activations for the backward pass.")
    parser.add_argument("--longest_prompt", type=int, default=PROMPT_LENGTH, help="In tokens, for vLLM.")
    parser.add_argument("--vllm_share", type=float, default=0.4, help="Of the card's memory, for vLLM.")
    parser.add_argument("--engine", choices=ENGINES, default="generate", help="What makes the rollouts.")
    parser.add_argument(
        "--rollouts", type=int, default=128, help="Completions per step, a multiple of 64. Not with --tiny."
    )
    parser.add_argument("--longest", type=int, default=512, help="Longest completion in tokens. Not with --tiny.")
    parser.add_argument("--rounds", type=int, default=3, help="Timed steps of each side.")
    parser.add_argument("--seconds", type=float, default=90, help="Begin no round that would end later than this.")
    args = parser.parse_args()
    if bool(args.model) != bool(args.data):
        parser.error("--model and --data go together.")
    args.rows = args.rows or args.rollouts // 8
    return args


def main() -> None:
    args = read_command_line()
    os.environ.setdefault("CUDA_VISIBLE_DEVICES", "0")  # with more cards in sight, Trainer wants to be launched
    deadline = time.perf_counter() + args.seconds
    settings = {"engine": args.engine}
    if not args.tiny:
        settings |= {"rollouts": args.rollouts, "longest": args.longest, "rows": args.rows}
        settings |= {"vllm_share": args.vllm_share} if args.engine == "vllm" else {}
        settings |= {"prompt_length": args.longest_prompt, "checkpointing": not args.no_checkpointing}
    model = "ladder checkpoint" if args.tiny else Path(args.model or "random Qwen3-0.6B").name
    about = machine() | {"threads": torch.get_num_threads(), "model": model, "settings": settings}
    kind = "ladder-" if args.tiny else f"{model}-" if args.model else ""
    steps = []

    def report(step: dict) -> None:
        if step["round"] == 0:  # which warms up
            watch.slowest = 0.0
            return
        steps.append(step)
        rows = summarise(steps) if len(steps) >= len(SIDES) else []
        name = f"step-{args.engine}-{kind}{about['hardware']}"
        write(args.out, name, {"about": about, "rows": rows, "steps": steps})

    plan = [
        {"side": side, "round": number}
        for number in range(1 + args.rounds)
        for side in (SIDES if number % 2 == 0 else SIDES[::-1])
    ]
    with tempfile.TemporaryDirectory() as folder:
        watch = Parts(plan, deadline, report)
        trainer = watch.trainer = make_trainer(args, folder, len(plan), [watch])
        if args.model:
            about["estimate"] = estimate(trainer, args)
        trainer.remove_callback(PrinterCallback)
        trl.extras.profiling.ProfilingContext = Stopwatch
        trainer.train()
    if not steps:
        sys.exit(f"Warming up took all of {args.seconds:.0f} s. Give more `--seconds`, or fewer or shorter rollouts.")
    print(f"{model} on {about['hardware']}, rollouts by {args.engine}; every step is in {args.out}")
    print_table(summarise(steps))


if __name__ == "__main__":
    main()
