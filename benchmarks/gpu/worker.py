"""What every process of a smoke case runs, given a specification by `smoke.py`: a short CODA training.

Into the case's folder go `rollouts-RANK.jsonl` (a line a step: problems, base rewards and lengths that this process
alone saw, before anything is gathered), `process-RANK.json` (card, memory, seconds a step, parameters held), and the
trainer's `state.json`. A folder that holds a checkpoint is resumed.
"""

import functools
import gc
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path

import torch
from accelerate import PartialState
from timing import hardware
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback
from transformers.trainer_utils import get_last_checkpoint
from trl import ModelConfig, get_peft_config

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer
from coda_trl.ladder import CHECKPOINT, make_dataset
from coda_trl.rewards import ladder_reward


def recorded(path: Path) -> Callable:
    """The ladder's reward function, which also appends what it saw to a file."""

    @functools.wraps(ladder_reward)  # TRL calls the column by the function's name
    def wrapper(completion_ids, problem, trainer_state, **kwargs):
        rewards = ladder_reward(completion_ids=completion_ids, **kwargs)
        row = {
            "step": trainer_state.global_step + 1,  # as TRL counts it once it is done
            "pid": os.getpid(),
            "problems": problem,
            "rewards": rewards,
            "lengths": [len(ids) for ids in completion_ids],
        }
        with path.open("a") as file:
            file.write(json.dumps(row) + "\n")
        return rewards

    return wrapper


class Watch(TrainerCallback):
    """Seconds of every step, and the most memory in use on the card at the end of one (vLLM's share included)."""

    def __init__(self):
        self.seconds, self.card_bytes = [], 0

    def on_step_begin(self, args, state, control, **kwargs):
        self.start = time.perf_counter()

    def on_step_end(self, args, state, control, **kwargs):
        self.seconds.append(time.perf_counter() - self.start)
        if torch.cuda.is_available():
            free, total = torch.cuda.mem_get_info()
            self.card_bytes = max(self.card_bytes, total - free)


def count_parameters(parameters) -> tuple[int, int]:
    """Number of parameters that this process holds (its shards, where the model is sharded), and of all."""
    held = total = 0
    for parameter in parameters:
        if "ds_tensor" in parameter.__dict__:  # DeepSpeed ZeRO-3
            held += parameter.ds_tensor.numel()
            total += parameter.ds_numel
        else:
            local = parameter.to_local() if isinstance(parameter, DTensor) else parameter  # a DTensor with FSDP2
            held += local.numel()
            total += parameter.numel()
    return held, total


def main(spec: dict) -> None:
    folder = Path(spec["folder"])
    dataset = make_dataset(spec["problems"], seed=0)
    dataset = dataset.add_column("problem", list(range(len(dataset))))
    args = CodaGRPOConfig(str(folder), **spec["config"])
    lora = ModelConfig(
        use_peft=spec["lora"], lora_r=8, lora_alpha=16, lora_target_modules=["all-linear"], lora_dropout=0
    )
    if args.use_cpu and args.world_size > 1:
        # transformers loads the optimizer to `args.device`, which is "cpu:0" here; torch only knows "cpu".
        torch.serialization.register_package(
            0, lambda storage: None, lambda storage, location: storage if location.startswith("cpu:") else None
        )

    watch = Watch()
    trainer = CodaGRPOTrainer(
        model=CHECKPOINT,
        reward_funcs=recorded(folder / f"rollouts-{args.process_index}.jsonl"),
        args=args,
        train_dataset=dataset,
        callbacks=[watch],
        peft_config=get_peft_config(lora),
    )
    checkpoint = get_last_checkpoint(str(folder))
    trainer.train(resume_from_checkpoint=checkpoint)

    if trainer.accelerator.is_main_process:
        trainer.state.save_to_json(str(folder / "state.json"))
    held, total = count_parameters(trainer.model.parameters())
    facts = {
        "card": hardware(),
        "resumed_from": checkpoint and Path(checkpoint).name,
        "step_seconds": watch.seconds,
        "peak_bytes": torch.cuda.max_memory_allocated(),
        "card_bytes": watch.card_bytes,
        "parameters_held": held,
        "parameters": total,
    }
    (folder / f"process-{args.process_index}.json").write_text(json.dumps(facts))
    trainer.accelerator.wait_for_everyone()
    if not args.use_vllm:  # as in `coda_trl/train.py`
        del trainer
        gc.collect()
        PartialState().destroy_process_group()


if __name__ == "__main__":  # vLLM's processes import this file
    main(json.loads(Path(sys.argv[1]).read_text()))
