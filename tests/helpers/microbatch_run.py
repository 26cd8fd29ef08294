"""One small training whose gradients are recorded, for `test_microbatch`, by whichever trainer class is asked for.

As a script, what every process runs: `torchrun microbatch_run.py MODEL FOLDER ddp|fsdp2`.
"""

import os
import sys
from pathlib import Path
from types import SimpleNamespace

import torch
from accelerate import PartialState
from accelerate.utils import DistributedType
from datasets import Dataset
from peft import LoraConfig
from small_training import SETTINGS, run_and_leave
from torch.distributed.tensor import DTensor
from transformers import TrainerCallback
from trl import GRPOTrainer

from coda_trl import LengthGroupedGRPOConfig, LengthGroupedGRPOTrainer

PROMPTS = Dataset.from_dict(
    {"prompt": ["1 +", "1 + 2 + 3 + 4 + 5 =", "check 3 + 3 =", "so wait check 1 + 1 + 2 ="] * 2}
)
LORA = LoraConfig(r=4, target_modules=["q_proj", "v_proj"], init_lora_weights=False)
# What differs from the defaults in each case.
CASES = {
    **{loss: {"loss_type": loss} for loss in ("dapo", "cispo", "grpo", "dr_grpo", "sapo")},
    "bnpo": {"loss_type": "bnpo", "num_iterations": 2, "epsilon": 0.01},
    "vespo": {"loss_type": "vespo", "beta": 0.1},
    "luspo": {"loss_type": "luspo", "importance_sampling_level": "sequence"},
    "kl": {"beta": 0.1},
    "grpo-kl": {"loss_type": "grpo", "beta": 0.1},
    "peft-kl": {"beta": 0.1, "peft_config": LORA},
    "tools": {"env_mask": True, "loss_type": "grpo"},
    "truncated": {"mask_truncated_completions": True},
    "iterations": {"num_iterations": 2, "epsilon": 0.01},
    "long-buffer": {"steps_per_generation": 8},  # two optimizer steps a generation
    "short-buffer": {"steps_per_generation": 2, "gradient_accumulation_steps": 4},  # two generations a step
    "astride": {"steps_per_generation": 4, "gradient_accumulation_steps": 6, "loss_type": "grpo"},
    "quantile": {"top_entropy_quantile": 0.5},
    "entropy-bonus": {"entropy_coef": 0.1},
    "checkpointing": {"gradient_checkpointing": True},
    "off-policy-mask": {"off_policy_mask_threshold": 0.1},
    "vllm": {"vllm": True, "vllm_importance_sampling_mode": "token_truncate"},
}
# Where only the last group has a right answer, and in the second step none.
RARE = {
    "grpo": CASES["grpo"],
    "vespo": {"loss_type": "vespo"},
    "iterations": CASES["iterations"],
    "short-buffer": CASES["short-buffer"],
    "astride": CASES["astride"],
    "vllm-iterations": CASES["vllm"] | CASES["iterations"],
    "adamw": {"optim": "adamw_torch", "weight_decay": 10.0, "learning_rate": 1e-3, "lr_scheduler_type": "linear"},
}
RARE = {f"rare-{case}": options | {"rare": True} for case, options in RARE.items()}
TWO_PROCESSES = {
    "ddp": ("dapo", "grpo-kl", "iterations", *RARE),
    "fsdp2": ("dapo", "rare-grpo", "rare-iterations", "rare-adamw"),
}
FSDP2 = {
    "ACCELERATE_USE_FSDP": "true",
    "FSDP_VERSION": "2",
    "FSDP_AUTO_WRAP_POLICY": "TRANSFORMER_BASED_WRAP",
    "FSDP_TRANSFORMER_CLS_TO_WRAP": "Qwen3DecoderLayer",
}


def rollout(prompts, trainer, env_mask, rare):
    """Made-up rollouts of 2 to 120 tokens, most of them short, every fifth without an end."""
    first = trainer.accelerator.process_index * len(prompts) + trainer.state.global_step * 1000
    eos = trainer.processing_class.eos_token_id
    completion_ids, masks = [], []
    places = range(first, first + len(prompts))
    for place in places:
        random = torch.Generator().manual_seed(place)
        length = 1 + int(120 * torch.rand(1, generator=random) ** 3)
        tokens = torch.randint(6, 30, (length,), generator=random).tolist()
        completion_ids.append(tokens + [6 if place % 5 == 4 else eos])
        masks.append(torch.randint(0, 2, (length,), generator=random).tolist() + [1])
    output = {
        "prompt_ids": trainer.processing_class(prompts)["input_ids"],
        "completion_ids": completion_ids,
        "logprobs": [[-3.5] * len(ids) for ids in completion_ids],  # about those of a random model
        "verdict": [float(sum(ids) % 3 == 0) for ids in completion_ids],
    }
    if rare:
        last = len(prompts) * trainer.accelerator.num_processes - 4
        output["verdict"] = [float(place % 1000 >= last and place // 1000 != 1 and place % 2) for place in places]
    return output | ({"env_mask": masks} if env_mask else {})


def verdict(completions, verdict, **kwargs):
    return verdict


def whole(tensor):
    """A copy; of a tensor in shards, all of it."""
    return tensor.detach().full_tensor() if isinstance(tensor, DTensor) else tensor.detach().clone()


class Record(TrainerCallback):
    """Gradients of every optimizer step, the shape of every forward pass, and the logs."""

    def __init__(self):
        self.gradients, self.shapes, self.logs, self.weights = [], [], [], {}

    def on_forward(self, model, args, kwargs):
        self.shapes.append(kwargs["input_ids"].shape)

    def on_pre_optimizer_step(self, args, state, control, model=None, **kwargs):
        self.gradients.append(
            {name: whole(weight.grad) for name, weight in model.named_parameters() if weight.requires_grad}
        )

    def on_train_end(self, args, state, control, model=None, **kwargs):
        self.weights = {name: whole(weight) for name, weight in model.named_parameters()}

    def on_log(self, args, state, control, logs=None, **kwargs):
        self.logs.append(logs)


def train(
    trainer_class: type[GRPOTrainer],
    model: str,
    folder: Path,
    peft_config=None,
    env_mask=False,
    rare=False,
    vllm=False,
    **options,
) -> tuple[Record, GRPOTrainer]:
    """Three or four optimizer steps of 16 rollouts, in micro-batches of 4 a process if not said otherwise."""
    processes = int(os.environ.get("WORLD_SIZE", 1))
    options = {
        "per_device_train_batch_size": 4,
        "gradient_accumulation_steps": 4 // processes,
        "gradient_checkpointing": False,
        "max_completion_length": 128,
        "learning_rate": 0.1,
        "scale_rewards": "none",
        "optim": "sgd",
        "lr_scheduler_type": "constant",
    } | options
    args = LengthGroupedGRPOConfig(
        str(folder),
        **SETTINGS | {"max_steps": 4 if options.get("num_iterations") else 3, "max_grad_norm": 0} | options,
    )
    record = Record()
    trainer = trainer_class(
        model,
        verdict,
        args,
        PROMPTS,
        rollout_func=lambda prompts, trainer: rollout(prompts, trainer, env_mask, rare),
        peft_config=peft_config,
        eval_dataset=PROMPTS,
        callbacks=[record],
    )
    trainer.model.register_forward_pre_hook(record.on_forward, with_kwargs=True)
    if vllm:  # the correction for its log-probabilities, with those of `rollout` in their place
        trainer.use_vllm, trainer._last_loaded_step = True, -1
        trainer.vllm_generation = SimpleNamespace(sync_weights=lambda: None)
    trainer.train()
    return record, trainer


def shard_on_cpus() -> None:
    """Lets Accelerate take FSDP2 for processes on CPUs, which PyTorch shards as it does GPUs."""
    os.environ.update(FSDP2)
    create = PartialState.__init__

    def as_gpus(self, *args, **kwargs):
        create(self, *args, **kwargs)
        if self.distributed_type == DistributedType.MULTI_CPU:
            self.distributed_type = DistributedType.MULTI_GPU

    PartialState.__init__ = as_gpus


def main(model: str, folder: Path, sharding: str) -> None:
    if sharding == "fsdp2":
        shard_on_cpus()
    for case in TWO_PROCESSES[sharding]:
        for trainer_class in (GRPOTrainer, LengthGroupedGRPOTrainer):
            record, trainer = train(trainer_class, model, folder, **(CASES | RARE)[case])
            assert trainer.is_fsdp_enabled == (sharding == "fsdp2")
            if trainer.accelerator.is_main_process:
                del record.shapes
                torch.save(vars(record), folder / f"{case}-{trainer_class.__name__}.pt")


if __name__ == "__main__":
    run_and_leave(main, sys.argv[1], Path(sys.argv[2]), sys.argv[3])
