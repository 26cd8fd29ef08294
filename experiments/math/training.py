"""`recipes/train.py` with every step on record as it happens.

python -m experiments.math.training --steps_file runs/x/steps.jsonl --config recipes/qwen2.5-coder-1.5b/coda.yaml ...

`--steps_file` gets a line a step: what the trainer logs, and the seconds of its phases. `--memory_share 0.48` lets
PyTorch keep no more than that of the card, so that a training does not take the memory of another beside it.
"""

import argparse
import json
import runpy
import sys
import time
from collections import Counter
from pathlib import Path

import torch
from transformers import TrainerCallback
from transformers import trainer as transformers_trainer
from trl.extras.profiling import ProfilingContext

TRAIN = Path(__file__).parents[2] / "recipes/train.py"
# TRL's names of what it times, and ours. The rest of a step is the update, whose kernels run on behind TRL's clocks.
PHASES = {
    "vLLM.generate": "generation",
    "transformers.generate": "generation",
    "sync_weights": "weight_sync",
    "_calculate_rewards": "rewards",
}

_seconds: Counter[str] = Counter()


def _note(self: ProfilingContext, duration: float) -> None:
    for name, phase in PHASES.items():
        if self.name.endswith(name):
            _seconds[phase] += duration


class StepRecorder(TrainerCallback):
    """Writes every step down."""

    steps_file: Path

    def on_train_begin(self, args, state, control, **kwargs):
        self.start = time.time()

    def on_log(self, args, state, control, logs=None, **kwargs):
        if "loss" not in logs:  # the closing summary
            return
        now = time.time()
        record = {"step": state.global_step, "time": round(now, 2), "seconds": round(now - self.start, 3)}
        self.start = now
        phases = {phase: round(seconds, 3) for phase, seconds in _seconds.items()}
        phases["update"] = round(record["seconds"] - sum(phases.values()), 3)
        _seconds.clear()
        if torch.cuda.is_available():
            record["peak_gib"] = round(torch.cuda.max_memory_reserved() / 2**30, 2)
            record["peak_allocated_gib"] = round(torch.cuda.max_memory_allocated() / 2**30, 2)
            free, total = torch.cuda.mem_get_info()
            record["card_gib"] = round((total - free) / 2**30, 2)  # of all processes on it
        with open(self.steps_file, "a") as file:
            file.write(json.dumps(record | {"phases": phases, "log": logs}) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, allow_abbrev=False, add_help=False)
    parser.add_argument("--steps_file", type=Path, required=True)
    parser.add_argument("--memory_share", type=float)
    args, rest = parser.parse_known_args()
    if args.memory_share is not None and torch.cuda.is_available():
        torch.cuda.set_per_process_memory_fraction(args.memory_share)
    StepRecorder.steps_file = args.steps_file
    ProfilingContext._log_metrics = _note
    transformers_trainer.DEFAULT_CALLBACKS.append(StepRecorder)
    sys.argv = [str(TRAIN), *rest]
    runpy.run_path(str(TRAIN), run_name="__main__")


if __name__ == "__main__":
    main()
