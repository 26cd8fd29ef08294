"""What every process of `recipes.py` runs, given a specification: steps of a shipped recipe, measured by phase.

After every step the process rewrites `rank-RANK.json` in the folder of the specification.
"""

import gc
import json
import sys
import time
from pathlib import Path

import torch
from accelerate import PartialState
from datasets import Dataset
from microbatch import draw_lengths
from timing import hardware, wait_for_card
from transformers import TrainerCallback
from trl import ModelConfig, TrlParser, get_peft_config

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

TYPICAL_PROMPT = 128  # tokens; in full steps, prompts are as long as the recipe lets them be
FIRST = "rewards and log-probabilities"  # phase of a step


class Steps(TrainerCallback):
    """Gives every step its kind of lengths, and writes down seconds and peak memory of its phases on this GPU."""

    def __init__(self, spec: dict, args: CodaGRPOConfig):
        self.kinds, self.deadline, self.args = spec["steps"], spec["deadline"], args
        self.max_prompt_length = spec["max_prompt_length"]
        self.path = Path(spec["folder"]) / f"rank-{args.process_index}.json"
        self.measured = []
        self.done, self.phase, self.start = {}, "load", time.perf_counter()

    def enter(self, phase: str) -> None:
        """Ends the phase before, and begins another."""
        wait_for_card()
        now = time.perf_counter()
        record = self.done.setdefault(self.phase, {"seconds": 0.0})
        record["seconds"] += now - self.start
        if torch.cuda.is_available():
            free, total = torch.cuda.mem_get_info()
            memory = {
                "allocated": torch.cuda.max_memory_allocated(),
                "reserved": torch.cuda.max_memory_reserved(),
                "card": total - free,  # what nvidia-smi shows: context and NCCL included
            }
            record |= {key: max(value, record.get(key, 0)) for key, value in memory.items()}
            torch.cuda.reset_peak_memory_stats()
        self.phase, self.start = phase, now

    def take(self) -> dict[str, dict]:
        """The phases that have ended since the last call."""
        done, self.done = self.done, {}
        return done

    @property
    def kind(self) -> str:
        return self.kinds[len(self.measured)]

    def draw_tokens(self, lengths: list[int]) -> list[list[int]]:
        """Texts of these lengths."""
        generator = torch.Generator().manual_seed(len(self.measured))
        return [torch.randint(3, 40, (length,), generator=generator).tolist() for length in lengths]

    def make_up(self, prompts, trainer) -> dict[str, list]:
        """Rollouts without a model: this process's share of those of all processes."""
        every = draw_lengths(
            "equal" if self.kind == "full" else "lognormal",
            self.args.max_completion_length,
            len(prompts) * self.args.world_size,
            seed=len(self.measured) // 2,  # the same for a step with grouping and one without, side by side
        )
        self.lengths = every[self.args.process_index :: self.args.world_size]
        self.prompt_length = self.max_prompt_length if self.kind == "full" else TYPICAL_PROMPT
        return {
            "prompt_ids": self.draw_tokens([self.prompt_length] * len(prompts)),
            "completion_ids": self.draw_tokens(self.lengths),
            "logprobs": [[0.0] * length for length in self.lengths],
        }

    def on_train_begin(self, args, state, control, **kwargs):
        self.enter("between")
        self.loading = self.take()

    def on_step_begin(self, args, state, control, **kwargs):
        args.length_grouping = not self.kind.endswith("-trl")
        self.take()
        self.enter(FIRST)

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.enter("optimizer")

    def on_step_end(self, args, state, control, **kwargs):
        self.enter("between")
        step = {"kind": self.kind, "phases": self.take(), "lengths": self.lengths}
        self.measured.append(step | {"prompt_length": self.prompt_length})
        facts = {"card": hardware(), "loading": self.loading, "steps": self.measured}
        self.path.write_text(json.dumps(facts))
        # All processes must stop at the same step: the first one's clock decides.
        late = torch.tensor(float(time.time() > self.deadline), device=self.args.device)
        if self.args.world_size > 1:
            torch.distributed.broadcast(late, 0)
        control.should_training_stop |= bool(late)


class MeasuredTrainer(CodaGRPOTrainer):
    """Marks where the phases of a step meet."""

    def _prepare_inputs(self, generation_batch):
        inputs = super()._prepare_inputs(generation_batch)
        if self.steps.phase == FIRST:
            self.steps.enter("forward and backward")
        return inputs


def verdict(completion_ids, **kwargs):
    """A correctness reward for random tokens: every other first token is right."""
    return [float(ids[0] % 2) for ids in completion_ids]


def main(spec: dict) -> None:
    parser = TrlParser((CodaGRPOConfig, ModelConfig))
    args, model_args, _ = parser.parse_args_and_config(spec["arguments"], return_remaining_strings=True)
    args.model_init_kwargs = {"attn_implementation": model_args.attn_implementation, "dtype": model_args.dtype}
    steps = Steps(spec, args)
    trainer = MeasuredTrainer(
        model_args.model_name_or_path,
        verdict,
        args,
        Dataset.from_dict({"prompt": ["1"] * args.generation_batch_size}),
        rollout_func=steps.make_up,
        peft_config=get_peft_config(model_args),
        callbacks=[steps],
    )
    trainer.steps = steps
    trainer.train()
    trainer.accelerator.wait_for_everyone()
    del trainer  # as in `coda_trl/train.py`: else gloo may abort at exit
    gc.collect()
    PartialState().destroy_process_group()


if __name__ == "__main__":
    main(json.loads(Path(sys.argv[1]).read_text()))
