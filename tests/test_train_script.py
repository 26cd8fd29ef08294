"""`recipes/train.py` from the command line to a saved model, on a CPU."""

import importlib.util
import json
import shutil
from pathlib import Path

import pytest
import yaml
from transformers import AutoTokenizer

from coda_trl.dry_run.arithmetic import batch_arithmetic

RECIPES = Path(__file__).parent.parent / "recipes"
SPEC = importlib.util.spec_from_file_location("train", RECIPES / "train.py")
TRAIN = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(TRAIN)

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


@pytest.fixture
def recipe(tiny_model, tmp_path) -> list[str]:
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(RECIPE | {"model_name_or_path": tiny_model, "output_dir": str(tmp_path / "out")}))
    return ["--config", str(path)]


@pytest.fixture
def trainers(monkeypatch) -> list:
    """The trainers that the script makes."""
    made = []

    class Recorded(TRAIN.CodaGRPOTrainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(TRAIN, "CodaGRPOTrainer", Recorded)
    return made


def test_script_trains_as_many_steps_as_the_dry_run_says_and_saves(recipe, trainers, tmp_path):
    assert TRAIN.main(recipe) == 0
    (trainer,) = trainers
    planned = batch_arithmetic(trainer.args, num_rows=11)
    assert trainer.state.global_step == planned.total_steps == 4  # 11 // 4 prompts a batch = 2 steps, 2 epochs
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert {"train/reward", "reward"} & {key for log in trainer.state.log_history for key in log}


def test_dry_run_trains_nothing(recipe, trainers, tmp_path):
    assert TRAIN.main([*recipe, "--dry-run"]) == 0
    assert TRAIN.main([*recipe, "--dry_run", "--scale_rewards", "group"]) == 1
    assert trainers == [] and not (tmp_path / "out").exists()


def test_overlay_and_command_line_reach_the_trainer(recipe, trainers, tmp_path):
    overlay = tmp_path / "overlay.yaml"
    overlay.write_text("coda_alpha: 0.4\ncoda_beta: 0.4\nmax_steps: 1\n")
    TRAIN.main([*recipe, "--overlay", str(overlay), "--coda_beta", "0.1", "--prompt_format", "plain",
                "--reward_funcs", "accuracy_reward"])  # fmt: skip
    (trainer,) = trainers
    assert (trainer.args.coda_alpha, trainer.args.coda_beta, trainer.state.global_step) == (0.4, 0.1, 1)
    assert isinstance(trainer.train_dataset[0]["prompt"], str)


def test_base_checkpoint_stops_at_the_end_of_a_turn(recipe, trainers, tiny_model, tmp_path):
    """As Qwen3's base checkpoints, which declare an end of sequence that the chat template does not use."""
    folder = tmp_path / "base"
    shutil.copytree(tiny_model, folder)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    end = tokenizer.eos_token_id
    tokenizer.add_special_tokens({"additional_special_tokens": ["<|end|>"]})
    tokenizer.eos_token = "<pad>"
    tokenizer.save_pretrained(folder)
    (folder / "generation_config.json").write_text(json.dumps({"eos_token_id": tokenizer.pad_token_id}))
    TRAIN.main([*recipe, "--model_name_or_path", str(folder), "--max_steps", "1"])
    (trainer,) = trainers
    assert set(trainer.eos_token_ids) == {end, tokenizer.pad_token_id}
    assert set(trainer.generation_config.eos_token_id) == {end, tokenizer.pad_token_id}


def test_help_explains_overlays_and_lists_every_kind_of_argument(capsys):
    with pytest.raises(SystemExit):
        TRAIN.main(["--help"])
    text = capsys.readouterr().out
    for argument in ("--overlay", "--dataset", "--reward_funcs", "--coda_alpha", "--lora_r", "--dry_run"):
        assert argument in text
