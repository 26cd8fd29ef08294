"""What every process of `test_distributed` runs: `torchrun distributed_run.py MODEL FOLDER`.

Thirty rollouts a step in groups of six: shared among two processes (15 each) or three (10 each), groups straddle them.
"""

import json
import os
import sys
import warnings
from pathlib import Path

from datasets import Dataset
from small_training import run_and_leave

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer

ROLLOUTS, GROUP_SIZE, STEPS = 30, 6, 2
PROMPTS = Dataset.from_dict({"prompt": [f"{n} + 3 =" for n in range(10)], "n_gold": [5 + n for n in range(10)]})


def rollout(prompts, trainer):
    """Made-up rollouts that depend on nothing but the step and the place in the batch of all processes."""
    first = trainer.accelerator.process_index * len(prompts)
    places = [trainer.state.global_step * ROLLOUTS + first + place for place in range(len(prompts))]
    eos = trainer.processing_class.eos_token_id
    completion_ids = [[6 + place % 20] * (place * 7 % 11) + [eos] for place in places]
    return {
        "prompt_ids": trainer.processing_class(prompts)["input_ids"],
        "completion_ids": completion_ids,
        "logprobs": [[0.0] * len(ids) for ids in completion_ids],
        # Groups from all right to all wrong, and now and then one that nobody could judge.
        "verdict": [None if place % 13 == 5 else float(place % 6 >= place // 6 % 7) for place in places],
    }


def verdict(completions, verdict, **kwargs):
    return verdict


def main(model: str, folder: Path, processes: int) -> None:
    def run(name: str, reward, **options) -> CodaGRPOTrainer:
        args = CodaGRPOConfig(
            str(folder / name),
            per_device_train_batch_size=ROLLOUTS // processes,
            num_generations=GROUP_SIZE,
            max_completion_length=12,
            max_steps=STEPS,
            learning_rate=1e-2,
            log_completions=True,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            bf16=False,
            use_cpu=True,
            disable_tqdm=True,
            length_shaping=options.pop("length_shaping", "coda"),
            scale_rewards=options.pop("scale_rewards", "none"),
        )
        trainer = CodaGRPOTrainer(model, reward, args, PROMPTS, **options)
        trainer.train()
        if trainer.accelerator.is_main_process:
            trainer.state.save_to_json(str(folder / name / "state.json"))
        return trainer

    run("rollouts-coda", verdict, rollout_func=rollout)
    run("rollouts-l1_max", verdict, rollout_func=rollout, length_shaping="l1_max")

    seen = []  # by this process alone: what a reward function sees

    def odd(completion_ids, **kwargs):
        rewards = [float(ids[0] % 5 > 0) for ids in completion_ids]
        seen.append({"rewards": rewards, "lengths": [len(ids) for ids in completion_ids]})
        return rewards

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = run("generated", odd, scale_rewards="group")
    warned = [str(warning.message) for warning in caught if warning.category is UserWarning]
    of_process = {"steps": seen, "warnings": [text for text in warned if text.startswith("`scale_rewards`")]}
    (folder / f"seen-{trainer.accelerator.process_index}.json").write_text(json.dumps(of_process))


if __name__ == "__main__":
    run_and_leave(main, sys.argv[1], Path(sys.argv[2]), int(os.environ["WORLD_SIZE"]))
