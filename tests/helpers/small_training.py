"""A training of a second on a CPU, and what it leaves behind, for every test that needs one."""

import dataclasses
import gc
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
from accelerate import PartialState
from datasets import Dataset
from trl import GRPOConfig

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

PROMPTS = Dataset.from_dict({"prompt": [f"{number} + 3 =" for number in range(8)], "n_gold": list(range(2, 10))})
SETTINGS = {
    "per_device_train_batch_size": 8,
    "per_device_eval_batch_size": 8,
    "num_generations": 4,
    "max_completion_length": 12,
    "max_steps": 1,
    "learning_rate": 1e-2,
    "logging_steps": 1,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "bf16": False,
    "use_cpu": True,
}
TIMES = {"step_time", "coda/reward_seconds"}  # metrics that differ between two runs that are the same


def right(completions, **kwargs):
    return [1.0] * len(completions)


def odd(completion_ids, **kwargs):
    """Right about half the time, whatever the length."""
    return [float(ids[0] % 2) for ids in completion_ids]


def brevity(completion_ids, **kwargs):
    return [1 / len(ids) for ids in completion_ids]


def make(model, folder, reward_funcs, train_dataset=PROMPTS, trainer=CodaGRPOTrainer, **settings):
    """A trainer; of the settings, those that are no field of its configuration are its own arguments."""
    config = CodaGRPOConfig if issubclass(trainer, CodaGRPOTrainer) else GRPOConfig
    fields = {field.name for field in dataclasses.fields(config)}
    others = {name: settings.pop(name) for name in settings.keys() - fields}
    return trainer(model, reward_funcs, config(str(folder), **(SETTINGS | settings)), train_dataset, **others)


def train(*args, **settings):
    trainer = make(*args, **settings)
    trainer.train()
    return trainer


def logs(trainer, key: str) -> list:
    return [entry[key] for entry in trainer.state.log_history if key in entry]


def metrics(log_history: list[dict]) -> list[dict]:
    """What was logged of each step, without what depends on the clock."""
    return [
        {key: value for key, value in entry.items() if key not in TIMES} for entry in log_history if "reward" in entry
    ]


def table(folder) -> pd.DataFrame:
    """The completions of all steps."""
    return pd.concat(map(pd.read_parquet, sorted(Path(folder, "completions").glob("*.parquet"))), ignore_index=True)


def launch(script: Path, *arguments: str, processes: int, timeout: int = 300, status: int = 0) -> str:
    """Runs a script on several CPU processes, which must end with this status. Returns what they wrote."""
    # Not `accelerate launch --cpu --num_processes 2`: without MPI that starts a single process and says nothing.
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc_per_node={processes}"]
    command += ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]  # on whatever port is free
    environment = os.environ | {"ACCELERATE_USE_CPU": "true", "PYTHONPATH": os.pathsep.join(sys.path)}
    command += [str(script), *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=timeout)
    assert done.returncode == status, done.stderr[-5000:]
    return done.stdout + done.stderr


def run_and_leave(main, *arguments) -> None:
    """What a process of `launch` does. Leaves with the others, and at once: gloo can hang or abort when taken down."""
    gc.freeze()  # as in conftest.py
    main(*arguments)
    PartialState().wait_for_everyone()
    sys.stdout.flush()
    os._exit(0)
