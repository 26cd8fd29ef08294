"""What every process of `recipes.py` runs, given a specification: steps of a shipped recipe, measured by phase.

After every step the process rewrites `rank-RANK.json` in the folder of the specification.
"""

import json
import sys
import time
from collections import deque
from pathlib import Path

import torch
from datasets import Dataset
from microbatch import draw_lengths
from timing import hardware, wait_for_card
from transformers import TrainerCallback
from trl import ModelConfig, TrlParser, get_peft_config
from trl.generation.vllm_client import VLLMClient

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

TYPICAL_PROMPT = 128  # tokens; where rollouts are full, prompts are as long as the recipe lets them be


class Steps(TrainerCallback):
    """Gives every step its kind of lengths, and writes down seconds and peak memory of its phases on this GPU."""

    def __init__(self, spec: dict, args: CodaGRPOConfig):
        self.kinds, self.deadline, self.args = spec["steps"], spec["deadline"], args
        self.max_prompt_length = spec["max_prompt_length"]
        self.prompt_length = min(TYPICAL_PROMPT, self.max_prompt_length)
        self.path = Path(spec["folder"]) / f"rank-{args.process_index}.json"
        self.measured, self.generated_tokens = [], 0
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
                "card": total - free,  # what nvidia-smi shows: context, NCCL and vLLM included
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

    def draw(self, rollouts: int) -> list[int]:
        """Lengths of this process's rollouts in the step: its share of those of all processes."""
        every = draw_lengths(
            "equal" if self.kind == "full" else "lognormal",
            self.args.max_completion_length,
            rollouts * self.args.world_size,
            seed=len(self.measured) // 2,  # the same for a step with grouping and one without, side by side
        )
        self.lengths = every[self.args.process_index :: self.args.world_size]
        return self.lengths

    def draw_tokens(self, lengths: list[int]) -> list[list[int]]:
        """Texts without a model."""
        generator = torch.Generator().manual_seed(len(self.measured))
        return [torch.randint(3, 40, (length,), generator=generator).tolist() for length in lengths]

    def make_up(self, prompts, trainer) -> dict[str, list]:
        """Rollouts without a model."""
        lengths = self.draw(len(prompts))
        self.prompt_length = min(TYPICAL_PROMPT if self.kind != "full" else sys.maxsize, self.max_prompt_length)
        return {
            "prompt_ids": self.draw_tokens([self.prompt_length] * len(prompts)),
            "completion_ids": self.draw_tokens(lengths),
            "logprobs": [[0.0] * length for length in lengths],
        }

    def on_train_begin(self, args, state, control, **kwargs):
        self.enter("between")
        self.loading = self.take()

    def on_step_begin(self, args, state, control, **kwargs):
        args.length_grouping = not self.kind.endswith("-trl")
        self.take()
        self.enter("rollout")

    def on_pre_optimizer_step(self, args, state, control, **kwargs):
        self.enter("optimizer")

    def on_step_end(self, args, state, control, **kwargs):
        self.enter("between")
        step = {"kind": self.kind, "phases": self.take(), "lengths": self.lengths}
        step |= {"prompt_length": self.prompt_length, "generated_tokens": self.generated_tokens}
        self.measured.append(step)
        facts = {"card": hardware(), "loading": self.loading, "steps": self.measured}
        self.path.write_text(json.dumps(facts))
        # All processes must stop at the same step: the first one's clock decides.
        late = torch.tensor(float(time.time() > self.deadline), device=self.args.device)
        if self.args.world_size > 1:
            torch.distributed.broadcast(late, 0)
        control.should_training_stop |= bool(late)


class MeasuredTrainer(CodaGRPOTrainer):
    """Marks the phases of a step, and gives generated rollouts the lengths that the step is to have."""

    def _generate(self, prompts):
        self.steps.enter("rollout")
        output = super()._generate(prompts)
        self.steps.enter("rewards and log-probabilities")
        return output

    def _generate_single_turn(self, *args, **kwargs):
        generated, logprobs = super()._generate_single_turn(*args, **kwargs)
        self.steps.generated_tokens = sum(map(len, generated))
        lengths = self.steps.draw(len(generated))
        filler = self.steps.draw_tokens(lengths)
        completion_ids = [
            [*ids, *more[len(ids) :]][:length] for ids, more, length in zip(generated, filler, lengths, strict=True)
        ]
        if logprobs is not None:
            logprobs = [[*values, *[0.0] * length][:length] for values, length in zip(logprobs, lengths, strict=True)]
        return completion_ids, logprobs

    def _prepare_inputs(self, generation_batch):
        inputs = super()._prepare_inputs(generation_batch)
        if self.steps.phase == "rewards and log-probabilities":
            self.steps.enter("forward and backward")
        return inputs


def measure_transfer(trainer: MeasuredTrainer) -> None:
    """Makes a phase of the weights' way to vLLM."""
    transfer = trainer.vllm_generation.sync_weights

    def sync_weights() -> None:
        trainer.steps.enter("weight transfer")
        transfer()
        trainer.steps.enter("rollout")

    trainer.vllm_generation.sync_weights = sync_weights


def verdict(completion_ids, **kwargs):
    """A correctness reward for random tokens: every other first token is right."""
    return [float(ids[0] % 2) for ids in completion_ids]


def main(spec: dict) -> None:
    parser = TrlParser((CodaGRPOConfig, ModelConfig))
    args, model_args, _ = parser.parse_args_and_config(spec["arguments"], return_remaining_strings=True)
    args.model_init_kwargs = {"attn_implementation": model_args.attn_implementation, "dtype": model_args.dtype}
    if args.use_cpu and args.use_vllm:
        # A server on a CPU cannot be sent weights: NCCL needs GPUs. They are gathered, and go nowhere.
        VLLMClient.init_communicator = lambda self, device: None
        VLLMClient.update_named_params = lambda self, metadata, named_params: deque(named_params, maxlen=0)
    steps = Steps(spec, args)
    trainer = MeasuredTrainer(
        model_args.model_name_or_path,
        verdict,
        args,
        Dataset.from_dict({"prompt": [" ".join(["1"] * steps.prompt_length)] * args.generation_batch_size}),
        rollout_func=steps.make_up if spec["rollouts"] == "made-up" else None,
        peft_config=get_peft_config(model_args),
        callbacks=[steps],
    )
    trainer.steps = steps
    if args.use_vllm:
        measure_transfer(trainer)
    if spec["longest"] is not None:
        # Of the generator alone: the recipe's own is what micro-batches are made for.
        if args.use_vllm:
            trainer.vllm_generation.max_completion_length = spec["longest"]
        else:
            trainer.generation_config.max_new_tokens = spec["longest"]
    trainer.train()


if __name__ == "__main__":  # vLLM's processes import this file
    main(json.loads(Path(sys.argv[1]).read_text()))
