"""What every process of `test_distributed` runs: `torchrun distributed_run.py MODEL FOLDER`.

Thirty rollouts a step in groups of six: shared among two processes (15 each) or three (10 each), groups straddle them.
"""

import os
import sys
import warnings
from pathlib import Path

from datasets import Dataset
from small_training import SETTINGS, run_and_leave

from coda_trl import CodaGRPOConfig, CodaGRPOTrainer
from coda_trl.rewards import accuracy_reward, choice_reward

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


def check_that_one_process_warns(model: str, folder: Path) -> None:
    """Of a prompt that asks for no box, and of two rewards that judge correctness."""
    args = CodaGRPOConfig(str(folder), **SETTINGS)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        trainer = CodaGRPOTrainer(
            model, [accuracy_reward, choice_reward], args, PROMPTS.add_column("solution", [1] * 10)
        )
    texts = [str(each.message) for each in caught]
    found = sum(text.startswith(("`accuracy_reward` reads", "Of the reward functions")) for text in texts)
    assert found == 2 * trainer.accelerator.is_main_process, texts


def main(model: str, folder: Path, processes: int) -> None:
    check_that_one_process_warns(model, folder)
    for method, scale_rewards in (("coda", "group"), ("l1_max", "none")):
        sizes = {"per_device_train_batch_size": ROLLOUTS // processes, "num_generations": GROUP_SIZE}
        options = SETTINGS | sizes | {"max_steps": STEPS, "log_completions": True, "scale_rewards": scale_rewards}
        args = CodaGRPOConfig(str(folder / method), length_shaping=method, **options)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            trainer = CodaGRPOTrainer(model, verdict, args, PROMPTS, rollout_func=rollout)
        trainer.train()
        warned = [text for text in (str(each.message) for each in caught) if text.startswith("`scale_rewards`")]
        assert bool(warned) == (scale_rewards == "group" and trainer.accelerator.is_main_process)
        if trainer.accelerator.is_main_process:
            trainer.state.save_to_json(str(folder / method / "state.json"))


if __name__ == "__main__":
    run_and_leave(main, sys.argv[1], Path(sys.argv[2]), int(os.environ["WORLD_SIZE"]))
