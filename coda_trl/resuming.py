"""Which checkpoint a run resumes from: the last complete one, if the settings are still those of the run.

Importing this module also teaches `torch.load` that `cpu:0` is the CPU. Accelerate calls it that when several
processes train on CPUs, and transformers loads optimizers to the device of that name.
"""

import fcntl
import json
import logging
import math
import re
import zipfile
from dataclasses import fields
from pathlib import Path
from typing import IO, Any

import torch
from safetensors import SafetensorError, safe_open
from transformers import TrainerState, TrainingArguments
from transformers.trainer import TRAINER_STATE_NAME
from transformers.trainer_utils import sort_checkpoints

logger = logging.getLogger(__name__)

SETTINGS_FILE = "settings.json"
# Fields of `TrainingArguments` that must not change: the rest says how long, where and how visibly a run trains.
_FIXED = """learning_rate lr_scheduler_type lr_scheduler_kwargs warmup_steps optim optim_args adam_beta1 adam_beta2
adam_epsilon weight_decay max_grad_norm bf16 fp16 seed data_seed""".split()
# Other fields that may change: engine, layout and evaluation. The size of a batch is compared as a whole.
_FREE = re.compile(
    "(use_)?(vllm(?!_importance)|transformers)|attn_|cache_|ds3_|eval_|length_grouping|log_|num_completions_|"
    "num_generations_eval|pad_|skip_zero_|steps_per_generation|trust_"
)

torch.serialization.register_package(
    11,  # behind torch's own for `cpu`
    lambda storage: None,
    lambda storage, location: storage if re.fullmatch(r"cpu:\d+", location) else None,
)


def find_last_complete_checkpoint(output_dir: str) -> str | None:
    """The last complete checkpoint in an output folder, if any. Incomplete ones are skipped with a warning."""
    for checkpoint in reversed(sort_checkpoints(output_dir)):
        damage = find_damage(Path(checkpoint))
        if damage is None:
            return checkpoint
        logger.warning("%s is left out: %s.", checkpoint, damage)
    return None


def lock(output_dir: str) -> IO[str] | None:
    """
    Holds the output folder of a run until the returned file is closed or the process ends. `None` if another process
    holds it: two runs in one folder overwrite each other's checkpoints.
    """
    file = Path(output_dir, SETTINGS_FILE).open("a", encoding="utf-8")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        file.close()
        return None
    except OSError:  # some network file systems have no locks
        pass
    return file


def is_finished(checkpoint: str, args: TrainingArguments) -> bool:
    """
    Whether a run has made all the steps or epochs that `args` asks for, which may be more than before. (If resumed,
    [`~transformers.Trainer`] would train one more step.) The output folder has the state of a finished run even if its
    last checkpoint was deleted to keep the best one.
    """
    saved = Path(args.output_dir, TRAINER_STATE_NAME)
    for path in (Path(checkpoint, TRAINER_STATE_NAME), *([saved] if saved.is_file() else [])):
        try:
            state = TrainerState.load_from_json(str(path))
        except json.JSONDecodeError:  # that of the output folder, truncated by a full disk
            continue
        done = state.global_step >= (args.max_steps if args.max_steps > 0 else state.max_steps)
        if done and (args.max_steps > 0 or state.num_train_epochs == math.ceil(args.num_train_epochs)):
            return True
    return False


def fixed_settings(args: TrainingArguments, *others: Any) -> dict[str, Any]:
    """The settings that all sessions of a run must share: data, reward, model, method and optimizer."""
    own = {field.name for field in fields(args)} - {field.name for field in fields(TrainingArguments)}
    settings = {name: value for settings in others for name, value in vars(settings).items()}
    settings |= {name: vars(args)[name] for name in (*sorted(own), *_FIXED)}
    settings = {name: value for name, value in settings.items() if not _FREE.match(name)}
    batch = args.per_device_train_batch_size * args.gradient_accumulation_steps * args.world_size
    settings["per_device_train_batch_size x gradient_accumulation_steps x processes"] = batch
    return json.loads(json.dumps(settings))


def check_settings(output_dir: str, settings: dict[str, Any], resumes: bool) -> str | None:
    """Compares a resumed run with `settings.json`, which new runs write. Returns what is wrong, if anything."""
    path = Path(output_dir, SETTINGS_FILE)
    if not (resumes and path.stat().st_size):
        path.write_text(json.dumps(settings, indent=1) + "\n", encoding="utf-8")
        return None
    try:
        earlier = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        return f"{path} is damaged ({error}). Delete it to resume with the settings of this command."
    changed = [
        f"{name}={earlier[name]!r}, not {value!r}"
        for name, value in settings.items()
        if name in earlier and earlier[name] != value  # a newer TRL may have more
    ]
    if not changed:
        return None
    return (
        f"{output_dir} holds a run with {'; '.join(changed)}. Resume it with its settings, or choose another "
        "--output_dir."
    )


def find_damage(checkpoint: Path) -> str | None:
    """
    What is wrong with a checkpoint of [`~transformers.Trainer`] in any layout (one file, shards, an adapter,
    DeepSpeed, FSDP), from a few kilobytes of each file. `None` if nothing was found.

    `trainer_state.json` is written last, so without it the writing was interrupted. Truncated files (a full disk, a
    power failure, an interrupted copy) no longer fit their table of contents, which is at the start of safetensors and
    at the end of what `torch.save` writes. Other kinds of files, such as those of sharded optimizers, and bytes inside
    tensors are not checked.
    """
    if not (checkpoint / TRAINER_STATE_NAME).is_file():
        return f"{TRAINER_STATE_NAME}, which is written last, is missing"
    for path in sorted(checkpoint.rglob("*")):
        try:
            if path.suffix == ".json":
                _check_json(path)
            elif path.suffix == ".safetensors":
                with safe_open(path, "pt"):
                    pass
            elif path.suffix in (".pt", ".pth", ".bin"):
                _check_torch(path)
        except (OSError, ValueError, SafetensorError) as error:
            return f"{path.relative_to(checkpoint)} cannot be read ({error})"
    return None


def _check_json(path: Path) -> None:
    content = json.loads(path.read_text(encoding="utf-8"))
    if path.name.endswith(".index.json"):  # of a model in shards
        missing = sorted({shard for shard in content["weight_map"].values() if not (path.parent / shard).is_file()})
        if missing:
            raise ValueError(f"{', '.join(missing)} missing")


def _check_torch(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(2)
        if not start:
            raise ValueError("empty")
        # A zip archive has its table of contents at its end. The older format of torch has none.
        if start == b"PK" and not zipfile.is_zipfile(file):
            raise ValueError("cut short")
