"""What a terminal or a log file shows of a training: a line for each log, not all of its sixty metrics."""

import logging
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from datasets import disable_progress_bars
from tqdm.auto import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm
from transformers import PrinterCallback, ProgressCallback, Trainer
from transformers.trainer import DEFAULT_PROGRESS_CALLBACK
from transformers.utils.logging import disable_progress_bar

logger = logging.getLogger(__name__)

_SHOWN = {
    "coda/mean_score": "accuracy {:.0%}",
    "reward": "reward {:.2f}",
    "completions/mean_length": "{:,.0f} tokens",
    "coda/easy/share": "easy {:.0%}",
    "coda/hard/share": "hard {:.0%}",
}


def log_line(step: int, max_steps: int, logs: dict[str, Any]) -> str:
    """The most telling numbers of a log, in at most 80 characters for up to 999 steps."""
    if "train_runtime" in logs:  # the last one
        return f"step {step}/{max_steps}  done after {logs['train_runtime']:,.0f} s"
    evaluated = [key.removesuffix("_runtime") for key in logs if key.endswith("_runtime")]
    prefix = "eval_" if evaluated else ""
    numbers = [form.format(logs[prefix + key]) for key, form in _SHOWN.items() if logs.get(prefix + key) is not None]
    if (seconds := logs.get("step_time")) is not None:
        numbers.append(f"{seconds:,.{int(seconds < 10)}f} s")
    return "  ".join([f"step {step}/{max_steps}", *(name.replace("_", " ", 1) for name in evaluated), *numbers])


class StepLines(PrinterCallback):
    """Prints a line for each log."""

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero:  # above the bar, and in order with other messages
            tqdm.write(log_line(state.global_step, state.max_steps, logs), file=sys.stderr)


class StepBar(ProgressCallback):
    """The same, and a progress bar."""

    on_log = StepLines.on_log


def show_steps(trainer: Trainer) -> None:
    """Lets a trainer show these lines instead of all metrics, which stay in `trainer_state.json` and in trackers."""
    for usual in (PrinterCallback, DEFAULT_PROGRESS_CALLBACK):
        trainer.remove_callback(usual)
    trainer.add_callback(StepLines if trainer.args.disable_tqdm else StepBar)


def hide_bars() -> None:
    """Hides the bars of datasets and transformers."""
    disable_progress_bars()
    disable_progress_bar()


@contextmanager
def plain_messages() -> Iterator[None]:
    """Shows messages above a bar, and warnings of this package without the line of code that issued them."""
    show_others = warnings.showwarning

    def show(message, category, filename, *others, **options):
        if Path(filename).is_relative_to(Path(__file__).parent):
            logger.warning("Warning: %s", message)
        else:
            show_others(message, category, filename, *others, **options)

    with warnings.catch_warnings(), logging_redirect_tqdm():
        warnings.showwarning = show
        yield
