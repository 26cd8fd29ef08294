"""`coda_trl.train`, and a recipe that takes it a second a step."""

from pathlib import Path

import yaml

import coda_trl.train

TRAIN = coda_trl.train
PATH = Path(__file__).parents[2] / "recipes" / "train.py"

RECIPE = {
    "dataset": ["ladder=11"],
    "reward_funcs": ["ladder_reward"],
    "max_prompt_length": 64,
    "max_completion_length": 6,
    "num_generations": 4,
    "generation_batch_size": 16,
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 2,
    "num_train_epochs": 2,
    "learning_rate": 1e-3,
    "lr_scheduler_type": "constant",
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
    "use_cpu": True,
    "bf16": False,
}


def record_trainers(monkeypatch) -> list:
    """A list that will hold the trainers which the script makes."""
    made = []

    class Recorded(TRAIN.CodaGRPOTrainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(TRAIN, "CodaGRPOTrainer", Recorded)
    return made


def write_recipe(folder: Path, model: str) -> list[str]:
    """Arguments of a run into `folder / "out"`."""
    path = folder / "recipe.yaml"
    path.write_text(yaml.safe_dump(RECIPE | {"model_name_or_path": model, "output_dir": str(folder / "out")}))
    return ["--config", str(path)]
