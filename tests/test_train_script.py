"""`recipes/train.py` from the command line to a saved model, on a CPU."""

import json
import os
import re
import runpy
import shutil
import signal
import sys
import warnings
from pathlib import Path
from unittest.mock import Mock

import pytest
from train_script import PATH, TRAIN, record_trainers, write_recipe
from transformers import AutoConfig, AutoTokenizer, GenerationConfig, TrainerCallback
from transformers.trainer_jit_checkpoint import CheckpointManager

from coda_trl.data import StopTokens
from coda_trl.dry_run.arithmetic import batch_arithmetic
from coda_trl.ladder import CHECKPOINT
from coda_trl.loading import find_reward
from coda_trl.progress import log_line, plain_messages
from coda_trl.resuming import find_last_complete_checkpoint


@pytest.fixture
def recipe(tiny_model, tmp_path) -> list[str]:
    return write_recipe(tmp_path, tiny_model)


@pytest.fixture
def trainers(monkeypatch) -> list:
    return record_trainers(monkeypatch)


def test_script_trains_as_many_steps_as_the_dry_run_says_and_saves(recipe, trainers, tmp_path):
    assert TRAIN.main(recipe) == 0
    (trainer,) = trainers
    planned = batch_arithmetic(trainer.args, num_rows=11)
    assert trainer.state.global_step == planned.total_steps == 4  # 11 // 4 prompts a batch = 2 steps, 2 epochs
    assert (tmp_path / "out" / "model.safetensors").is_file()
    assert {"train/reward", "reward"} & {key for log in trainer.state.log_history for key in log}


@pytest.mark.parametrize("length", [["--max_steps", "3"], ["--num_train_epochs", "2"]])
def test_a_finished_run_stays_as_it_is_until_more_is_asked_for(recipe, trainers, tmp_path, length):
    """Slurm and people start it again; it used to train one more step, and to save that as its model."""
    command = [*recipe, "--save_strategy", "steps", "--save_steps", "1", "--lr_scheduler_type", "constant"]
    command += ["--weight_decay", "0.1", *length]  # the model is never right, and learns nothing else
    weights = tmp_path / "out" / "model.safetensors"
    assert TRAIN.main(command) == 0
    steps, before = trainers[0].state.global_step, weights.read_bytes()
    assert TRAIN.main(command) == 0
    assert len(trainers) == 1 and weights.read_bytes() == before, "found out before any weights are loaded"
    state = tmp_path / "out" / "trainer_state.json"
    complete = state.read_text()
    state.write_text('{"glob')  # by a disk that was full
    assert TRAIN.main(command) == 0
    state.write_text(complete)
    last = max((tmp_path / "out").glob("checkpoint-*"), key=lambda path: int(path.name.partition("-")[2]))
    last.rename(tmp_path / last.name)  # as `load_best_model_at_end` and `save_total_limit` leave it
    assert TRAIN.main(command) == 0
    assert len(trainers) == 1 and weights.read_bytes() == before
    (tmp_path / last.name).rename(last)
    assert TRAIN.main([*command[:-1], "5"]) == 0
    assert trainers[1].state.global_step > steps and weights.read_bytes() != before


def test_a_run_with_other_settings_is_neither_resumed_nor_called_finished(recipe, trainers, tmp_path, caplog):
    """A sweep that forgot `--output_dir` had its first model as often as it has settings."""
    command = [*recipe, "--save_strategy", "steps", "--save_steps", "1", "--max_steps", "1"]
    settings = tmp_path / "out" / "settings.json"
    assert TRAIN.main([*command, "--dataset", "nosuch"]) == 1
    assert TRAIN.main(command) == 0, "nothing was trained with the other settings"
    for changes, message in {
        "--length_shaping vlp --learning_rate 1": "length_shaping='coda', not 'vlp'; learning_rate=0.001, not 1.0",
        "--dataset ladder=12 --max_steps 2": "dataset=['ladder=11'], not ['ladder=12']",
        "--dtype bfloat16": "dtype='float32', not 'bfloat16'",
        "--gradient_accumulation_steps 4": "gradient_accumulation_steps x processes=16, not 32",
        f"--seed 7 --resume_from_checkpoint {tmp_path / 'out' / 'checkpoint-1'}": "seed=42, not 7",
    }.items():
        caplog.clear()
        assert TRAIN.main([*command, *changes.split()]) == 1
        assert message in error_line(caplog) and "or choose another --output_dir" in error_line(caplog)
    for changes in (
        "--per_device_train_batch_size 4 --gradient_accumulation_steps 4",
        "--save_total_limit 1 --logging_steps 2 --eval_dataset ladder=4 --log_completions true",
        "--vllm_gpu_memory_utilization 0.5 --length_grouping false",
    ):
        assert TRAIN.main([*command, *changes.split()]) == 0
    settings.unlink()  # as of an earlier commit
    assert TRAIN.main([*command, "--seed", "7"]) == 0
    assert len(trainers) == 1 and json.loads(settings.read_text())["seed"] == 7


def test_one_folder_takes_one_run_at_a_time(recipe, trainers, tmp_path, monkeypatch, caplog):
    """Two, as of a sweep that forgot `--output_dir`, overwrote each other's checkpoints and both ended well."""
    load_datasets, codes = TRAIN.load_datasets, []
    with monkeypatch.context() as patch:  # a second run while the first one loads its data
        patch.setattr(TRAIN, "load_datasets", lambda *args: codes.append(TRAIN.main(recipe)) or load_datasets(*args))
        assert TRAIN.main([*recipe, "--max_steps", "1"]) == 0
    assert codes == [1] and len(trainers) == 1
    assert f"Another process is training in {tmp_path / 'out'}. End it, or choose another --output_dir." in error_line(
        caplog
    )
    assert TRAIN.main([*recipe, "--max_steps", "1"]) == 0


@pytest.mark.parametrize("where", ["load_datasets", "CodaGRPOTrainer"])
def test_control_c_says_how_to_continue_and_frees_the_folder(recipe, trainers, monkeypatch, caplog, where):
    def interrupt(*args, **kwargs):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(TRAIN, where, interrupt)
        assert TRAIN.main([*recipe, "--max_steps", "1"]) == 130
    assert "Stopped. The same command resumes" in caplog.text
    assert TRAIN.main([*recipe, "--max_steps", "1"]) == 0


def test_a_termination_with_a_checkpoint_is_not_the_end_of_the_run(recipe, tmp_path, monkeypatch, caplog):
    """The status was 0, and jobs that wait for a success began."""

    class Termination(TrainerCallback):
        def on_step_end(self, args, state, control, **kwargs):
            if state.global_step == 1:
                os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(CheckpointManager.__init__, "__defaults__", (0,))  # seconds that it waits for a SIGKILL
    monkeypatch.setattr(TRAIN, "show_steps", lambda trainer: trainer.add_callback(Termination()))
    command = [*recipe, "--max_steps", "1000", "--enable_jit_checkpoint", "true"]
    assert TRAIN.main(command) == 130
    assert "Stopped. The same command resumes" in caplog.text
    assert find_last_complete_checkpoint(str(tmp_path / "out")) is not None


def test_a_damaged_file_of_settings_is_named(recipe, trainers, tmp_path, caplog):
    command = [*recipe, "--save_strategy", "steps", "--save_steps", "1", "--max_steps", "1"]
    assert TRAIN.main(command) == 0
    (tmp_path / "out" / "settings.json").write_text("{")
    assert TRAIN.main(command) == 1
    assert "settings.json is damaged (Expecting" in error_line(caplog) and "Delete it to resume" in error_line(caplog)
    (tmp_path / "out" / "settings.json").write_text("")
    assert TRAIN.main(command) == 0 and len(trainers) == 1


def test_dry_run_trains_nothing(recipe, trainers, tmp_path):
    assert TRAIN.main([*recipe, "--dry-run"]) == 0
    assert TRAIN.main([*recipe, "--dry_run", "--scale_rewards", "group"]) == 1
    assert trainers == [] and not (tmp_path / "out").exists()


def test_dry_run_asks_for_the_revision_that_is_trained(recipe, monkeypatch):
    asked = []
    for loader in (AutoTokenizer, AutoConfig, GenerationConfig):
        original = loader.from_pretrained
        monkeypatch.setattr(
            loader,
            "from_pretrained",
            lambda *args, original=original, **kwargs: asked.append(kwargs) or original(*args),
        )
    assert TRAIN.main([*recipe, "--dry_run", "--model_revision", "v2", "--trust_remote_code", "true"]) == 0
    ours = [kwargs for kwargs in asked if "_from_auto" not in kwargs]  # the tokenizer asks for a configuration itself
    everywhere = {"revision": "v2", "trust_remote_code": True}
    assert ours == [everywhere, {"revision": "v2"}, everywhere]


def test_gsm8k_in_its_public_schema_with_the_reward_of_trl(recipe, trainers):
    path = Path(__file__).parent / "fixtures" / "data" / "gsm8k_train.jsonl"
    TRAIN.main([*recipe, "--dataset", f"gsm8k_train={path}", "--reward_funcs", "trl_accuracy_reward",
                "--max_steps", "2", "--max_prompt_length", "512"])  # fmt: skip
    (trainer,) = trainers
    assert trainer.train_dataset[0]["solution"].isdigit()
    rewards = [log["rewards/trl_accuracy_reward/mean"] for log in trainer.state.log_history if "reward" in log]
    assert rewards == [0.0] * len(rewards) and rewards  # scorable and wrong: the model is random


def test_own_columns_own_reward_and_evaluation_while_training(recipe, trainers, tmp_path, monkeypatch):
    (tmp_path / "mine.jsonl").write_text('{"question": "1 + 1 =", "gold": 2}\n' * 8)
    (tmp_path / "my_rewards.py").write_text(
        "def long_enough(completions, **kwargs): return [1.0] * len(completions)\n"
    )
    monkeypatch.chdir(tmp_path)
    TRAIN.main([*recipe, "--dataset", "custom=mine.jsonl", "--prompt_column", "question", "--solution_column", "gold",
                "--eval_dataset", "custom=mine.jsonl", "ladder=8", "--eval_strategy", "steps", "--eval_steps", "1",
                "--per_device_eval_batch_size", "8", "--reward_funcs", "my_rewards.long_enough",
                "--max_steps", "1"])  # fmt: skip
    (trainer,) = trainers
    mine, ladder = [log for log in trainer.state.log_history if "eval_reward" in log]  # foreign columns meet nowhere
    assert "eval_mine_runtime" in mine and "eval_ladder_runtime" in ladder
    assert mine["eval_reward"] == 1.0 and trainer.train_dataset[0]["solution"] == "2"


def error_line(caplog) -> str:
    (line,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert "\n" not in line
    return line


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("--reward_funcs nothing_reward", "'nothing_reward', but must hold a dotted path"),
        ("--reward_funcs json.nothing", "'json.nothing', but json has no function 'nothing'"),
        ("--reward_funcs json.decoder", "'json.decoder', but json has no function 'decoder'"),
        ("--overlay no_reward.yaml", "`reward_funcs` is [], but must name a reward function"),
        ("--reward_funcs no_such_module.reward", "'no_such_module.reward', but no_such_module cannot be imported"),
        (
            "--reward_weights 1 2",
            "`reward_weights` is [1.0, 2.0], but must have one weight for each of ladder_reward.",
        ),
        ("--eval_strategy steps --eval_steps 1", "`eval_strategy` is 'steps', but there is nothing to evaluate on"),
        ("--eval_on_start true", "`eval_on_start` is true, but there is nothing to evaluate on"),
        ("--resume_from_checkpoint typo", "`resume_from_checkpoint` is 'typo', but that is no complete checkpoint"),
        ("--overlay resume.yaml", "`resume_from_checkpoint` is True, but that is no complete checkpoint"),
        ("--report_to wandb", "pip install wandb"),
        ("--use_vllm true", 'pip install "vllm>=0.22,<0.32"`, or `--use_vllm false`'),
        ("--attn_implementation flash_attention_2", "pip install flash-attn`, or `--attn_implementation sdpa`"),
        ("--use_peft", "pip install -U peft"),
        ("--output_dir FILE", "`output_dir` is 'FILE', but cannot be made"),
    ],
)
def test_bad_arguments_are_named_in_one_line_before_anything_is_loaded(
    recipe, tmp_path, monkeypatch, caplog, changes, message
):
    monkeypatch.chdir(tmp_path)
    Path("FILE").touch()
    Path("resume.yaml").write_text("resume_from_checkpoint: true\n")
    Path("no_reward.yaml").write_text("reward_funcs: []\n")
    monkeypatch.setattr(TRAIN, "find_spec", lambda name: None)
    monkeypatch.setattr(TRAIN, "is_kernels_available", lambda: False)
    monkeypatch.setattr(TRAIN, "is_flash_attn_2_available", lambda: False)
    monkeypatch.setattr("trl.trainer.utils.is_peft_available", lambda: False)
    monkeypatch.setattr("transformers.integrations.integration_utils.is_wandb_available", lambda: False)
    monkeypatch.setattr(TRAIN, "load_tokenizer", None)
    assert TRAIN.main([*recipe, *changes.split()]) == 1
    assert message in error_line(caplog)


@pytest.mark.parametrize("here", ["is_kernels_available", "is_flash_attn_2_available"])
def test_packages_that_are_installed_are_used(recipe, monkeypatch, here):
    monkeypatch.setattr(TRAIN, "find_spec", lambda name: name)
    for each in ("is_kernels_available", "is_flash_attn_2_available"):
        monkeypatch.setattr(TRAIN, each, lambda each=each: each == here)
    argv = [*recipe, "--use_vllm", "true", "--attn_implementation", "flash_attention_2"]
    _, data_args, _, args, model_args = TRAIN.parse(argv)
    TRAIN.check_arguments(data_args, args, model_args)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("--coda_aplha 0.3", "There is no setting `coda_aplha`. Did you mean `coda_alpha`?"),
        ("--config typo.yaml", "There is no setting `coda_aplha`. Did you mean `coda_alpha`?"),
        ("--config gone.yaml", "There is no file gone.yaml. Files in .: broken.yaml, bytes.yaml, empty.yaml"),
        ("--config recipes/ladder/coda.yaml", "There is no file recipes/ladder/coda.yaml. `coda-recipes` writes"),
        ("--config folder", "There is no file folder. Files in folder: a.yaml"),
        ("--config broken.yaml", "broken.yaml"),
        ("--overlay gone.yaml", "There is no file gone.yaml"),
        ("--overlay empty.yaml", "empty.yaml holds None, but must hold settings"),
        ("--config list.yaml", "list.yaml holds ['coda_alpha'], but must hold settings"),
        ("--overlay none.yaml", "`dataset` is [], but must name a data set"),
        ("--overlay env.yaml", "`env` is 3, but must hold environment variables"),
        ("--overlay types.yaml", "`reward_funcs` is [1], but must be a list of text."),
        ("--overlay null.yaml", "`max_prompt_length` is None, but must be a number."),
        ("--overlay plan.yaml", "`gpu_memory` is [80], but must be a number."),
        ("--overlay key.yaml", "TRL or transformers cannot take a setting: AcceleratorConfig.__init__() got an"),
        ("--coda_alph 0.3", "There is no setting `coda_alph`"),
        ("--overl none.yaml", "There is no setting `overl`"),
        ("--deepspeed gone.json", "deepspeed>="),
        ("--overlay number.yaml", "There is no setting `1`"),
        ("--overlay short.yaml", "There is no setting `coda_alph`"),
        ("--config bytes.yaml", 'in "bytes.yaml", position 0'),
        ("--length_budget 5 2", "`length_budget` is [5, 2], but must be two positive numbers: lowest and highest"),
        ("--num_generations 1", "GRPO requires at least 2 generations per prompt"),
        ("typo.yaml", "give --config RECIPE"),
    ],
)
def test_what_is_no_setting_is_said_without_a_traceback(tmp_path, monkeypatch, caplog, changes, message):
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    Path("folder/a.yaml").touch()
    Path("broken.yaml").write_text("coda_alpha: [0.3\n")
    Path("empty.yaml").touch()
    Path("list.yaml").write_text("- coda_alpha\n")
    Path("none.yaml").write_text("dataset: []\n")
    Path("env.yaml").write_text("env: 3\n")
    Path("types.yaml").write_text("reward_funcs: [1]\n")
    Path("key.yaml").write_text("accelerator_config:\n  nosuch: 1\n")
    Path("null.yaml").write_text("max_prompt_length: null\n")
    Path("plan.yaml").write_text("gpu_memory: [80]\n")
    Path("number.yaml").write_text("1: [2]\n")
    Path("short.yaml").write_text("coda_alph: 0.3\n")
    Path("bytes.yaml").write_bytes(b"\xff\x00")
    Path("typo.yaml").write_text("coda_aplha: 0.3\nuse_cpu: true\nbf16: false\n")
    assert TRAIN.main([*changes.split(), "--output_dir", "out", "--use_cpu", "--bf16", "false"]) == 2
    assert message in caplog.text


def test_a_machine_without_a_gpu_for_bfloat16_is_pointed_to_the_dry_run(monkeypatch, caplog):
    monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: False)
    assert TRAIN.main(["--output_dir", "out"]) == 2
    assert "`--dry_run` checks the run on any machine" in caplog.text


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            "--correctness_reward ladder",
            "`correctness_reward` is 'ladder', but must be the name of one of the reward functions: ladder_reward.",
        ),
        ("--reward_funcs json.dumps", "The reward function 'dumps' cannot be called: missing"),
    ],
)
def test_rewards_that_do_not_suit_are_named_in_one_line_before_any_weights(recipe, caplog, changes, message):
    assert TRAIN.main([*recipe, *changes.split()]) == 1
    assert message in error_line(caplog)


def test_prompts_that_the_tokenizer_cannot_encode_are_said_in_one_line(recipe, trainers, tmp_path, caplog):
    """The ladder's has no token for unknown words, and templates refuse roles; each raised an error of its own."""
    (tmp_path / "own.jsonl").write_text('{"prompt": "What is two plus two?", "solution": "4"}\n' * 4)
    command = [*recipe, "--dataset", f"custom={tmp_path / 'own.jsonl'}", "--model_name_or_path", CHECKPOINT]
    assert TRAIN.main(command) == 1 and trainers == []
    assert "The tokenizer cannot encode the prompts: WordLevel error: Missing [UNK]" in error_line(caplog)


def test_a_reward_with_partial_credit_is_named_without_a_traceback(recipe, tmp_path, monkeypatch, caplog):
    (tmp_path / "partial.py").write_text("def half(completions, **kwargs):\n    return [0.5] * len(completions)\n")
    monkeypatch.chdir(tmp_path)
    assert TRAIN.main([*recipe, "--reward_funcs", "partial.half"]) == 1
    assert error_line(caplog).startswith("The reward function 'half' returned 0.5, but length shaping needs 1 (right)")


def test_training_on_a_benchmark_is_warned_of(recipe, caplog):
    """`gsm8k` is the test split; the training split is `gsm8k_train`. The dry run counts them if the hub is there."""
    assert TRAIN.main([*recipe, "--dataset", "gsm8k"]) == 1  # no hub here
    assert "`dataset` has gsm8k, a benchmark: its test problems are trained on." in caplog.text
    assert caplog.text.count("a benchmark") == 1, "of no other"


def test_a_run_without_a_model_is_told_so(tmp_path, caplog, capsys):
    command = "--dataset ladder --reward_funcs ladder_reward --use_cpu --bf16 false --output_dir".split()
    command.append(str(tmp_path))
    assert TRAIN.main(command) == TRAIN.main([*command, "--dry_run"]) == 1
    assert error_line(caplog) == "There is no model: set `model_name_or_path` to a hub id or a folder."
    assert "error model_name_or_path: There is none." in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("max_steps: 1.5", "--max_steps/--max-steps: invalid int value: '1.5'"),
        ("length_shaping: codaa", "invalid choice: 'codaa' (choose from"),
    ],
)
def test_values_of_a_recipe_are_checked_as_those_of_the_command_line(tmp_path, capsys, line, message):
    """`max_steps: 1.5` came as far as transformers' loop over epochs."""
    path = tmp_path / "settings.yaml"
    path.write_text(line)
    with pytest.raises(SystemExit, match="2"):
        TRAIN.main(["--config", str(path)])
    assert message in capsys.readouterr().err


def test_prompts_of_messages_need_a_chat_template(recipe, trainers, tiny_model, tmp_path, caplog):
    folder = tmp_path / "plain"
    shutil.copytree(tiny_model, folder, ignore=shutil.ignore_patterns("*.jinja"))
    assert TRAIN.main([*recipe, "--model_name_or_path", str(folder)]) == 1
    assert "no chat template: set `prompt_format: plain`" in error_line(caplog) and trainers == []


def test_a_model_without_a_tokenizer_is_not_trained_on_empty_prompts(recipe, trainers, tiny_model, tmp_path, caplog):
    """Transformers makes a tokenizer of special tokens alone, and generation failed on prompts without a token."""
    shutil.copytree(tiny_model, tmp_path / "bare", ignore=shutil.ignore_patterns("tokenizer*", "*.jinja"))
    assert TRAIN.main([*recipe, "--model_name_or_path", str(tmp_path / "bare")]) == 1
    assert "The tokenizer has no words: the model comes without" in error_line(caplog) and trainers == []


def test_prompts_are_measured_with_the_settings_of_the_chat_template(recipe, tiny_model, tmp_path, caplog, capsys):
    folder = tmp_path / "wordy"
    shutil.copytree(tiny_model, folder)
    template = folder / "chat_template.jinja"
    template.write_text(f"{{% if wordy %}}{'1 ' * 2000}{{% endif %}}" + template.read_text())
    command = [*recipe, "--model_name_or_path", str(folder), "--chat_template_kwargs", '{"wordy": true}']
    assert TRAIN.main(command) == TRAIN.main([*command, "--dry_run"]) == 1
    for said in error_line(caplog), capsys.readouterr().out:
        assert "no prompt is that short" in said


def test_a_model_without_weights_and_a_folder_that_may_not_be_written_end_in_one_line(
    recipe, trainers, tiny_model, tmp_path, monkeypatch, caplog
):
    folder = tmp_path / "empty"
    shutil.copytree(tiny_model, folder, ignore=shutil.ignore_patterns("*.safetensors"))
    assert TRAIN.main([*recipe, "--model_name_or_path", str(folder)]) == 1
    assert "no file named model.safetensors" in error_line(caplog) and trainers == []
    caplog.clear()
    monkeypatch.setattr("os.access", lambda path, mode: False)  # the tests' user may be root, who may write anywhere
    assert TRAIN.main(recipe) == 1
    assert f"`output_dir` is '{tmp_path / 'out'}', which may not be written." in error_line(caplog)


def test_a_wrong_name_for_the_model_ends_in_one_line(recipe, caplog):
    assert TRAIN.main([*recipe, "--model_init_kwargs", '{"dtypee": 3}']) == 1
    assert "such as `model_init_kwargs`, is wrong: Qwen3ForCausalLM.__init__() got an" in error_line(caplog)


@pytest.mark.parametrize(
    "changes",
    [["--model_name_or_path", "no/model"], ["--model_name_or_path", "a_new_kind"], ["--dataset", "nosuch"]],
)
def test_an_unknown_model_or_data_set_ends_in_one_line_before_any_weights(
    recipe, trainers, tmp_path, monkeypatch, caplog, changes
):
    monkeypatch.chdir(tmp_path)
    Path("a_new_kind").mkdir()
    Path("a_new_kind/config.json").write_text('{"model_type": "a_new_kind"}')
    assert TRAIN.main([*recipe, *changes]) == 1
    assert changes[1] in error_line(caplog) and trainers == []


def test_rewards_of_trl_that_have_to_be_made_are_reachable_by_name():
    punishment, penalty = (
        find_reward(f"get_{name}", 100) for name in ("soft_overlong_punishment", "repetition_penalty_reward")
    )
    assert punishment(completion_ids=[[1] * length for length in (3, 75, 85, 101)]) == [0, 0, -0.4, -1]
    assert penalty(completions=["1 2 3"], completion_ids=[[1, 2, 3]]) == [0]


def test_the_same_command_resumes_from_the_last_checkpoint_or_from_one_that_it_names(
    recipe, trainers, tmp_path, caplog
):
    save = ["--save_strategy", "steps", "--save_steps", "1", "--logging_steps", "1"]
    TRAIN.main([*recipe, *save, "--max_steps", "1"])
    TRAIN.main([*recipe, *save, "--max_steps", "2"])
    assert [trainer.state.global_step for trainer in trainers] == [1, 2]
    assert [log["step"] for log in trainers[1].state.log_history if "reward" in log and "loss" in log] == [1, 2]
    (step, *_), (same, *_) = (trainer.state.log_history for trainer in trainers)
    assert step == same, "times as well: the step was not made again"
    assert {path.name for path in (tmp_path / "out").glob("checkpoint-*")} == {"checkpoint-1", "checkpoint-2"}
    assert (tmp_path / "out" / "trainer_state.json").is_file()
    first = str(tmp_path / "out" / "checkpoint-1")
    assert TRAIN.main([*recipe, *save, "--max_steps", "2", "--resume_from_checkpoint", first]) == 0
    assert caplog.text.count(f"Resuming from {first}") == 2 and trainers[2].state.log_history[0] == step


def test_the_command_line_wins_over_overlays_and_the_last_one_over_the_recipe(recipe, trainers, tmp_path, caplog):
    first, second = tmp_path / "first.yaml", tmp_path / "second.yaml"
    first.write_text("coda_alpha: 0.4\ncoda_beta: 0.4\nlength_budget: [1, 2]\nmax_steps: 2\n")
    second.write_text("coda_alpha: 0.3\nmax_steps: 1\n")
    command = [*recipe, "--coda_beta", "0.1", "--overlay", str(first), str(second), "--prompt_format", "plain"]
    TRAIN.main([*command, "--reward_funcs", "accuracy_reward"])
    (trainer,) = trainers
    args, row = trainer.args, trainer.train_dataset[0]
    assert (args.coda_alpha, args.coda_beta, args.coda_tau_easy) == (0.3, 0.1, 0.75)
    assert trainer.state.global_step == 1
    assert isinstance(row["prompt"], str) and row["n_gold"] in (1, 2)
    first.write_text("coda_gamma: 0.1\n")
    assert TRAIN.main(command) == 2 and "There is no setting `coda_gamma`" in caplog.text


@pytest.mark.parametrize("place", ["--config", "--overlay"])
def test_nothing_one_name_and_mappings_mean_the_same_in_recipe_and_overlay(tmp_path, monkeypatch, place):
    """`null` in an overlay was the text "None", and a name in a recipe the list of its letters."""
    monkeypatch.setenv("OF_THE_RECIPE", "0")
    path = tmp_path / "settings.yaml"
    path.write_text(
        "attn_implementation: null\nlength_budget: null\neval_dataset: null\ndataset: gsm8k\nbenchmarks: svamp\n"
        "reward_funcs: ladder_reward\nreward_weights: 2\nlearning_rate: 1e-4\nmodel_init_kwargs:\n  use_cache: true\n"
        "env:\n  OF_THE_RECIPE: 1\n"
    )
    argv = [place, str(path), "--output_dir", "out", "--use_cpu", "--bf16", "false"]
    rewards, data, plan, args, model = TRAIN.parse(argv)
    assert model.attn_implementation is None and data.length_budget is None and data.eval_dataset is None
    assert (rewards.reward_funcs, data.dataset, plan.benchmarks) == (["ladder_reward"], ["gsm8k"], ["svamp"])
    assert args.reward_weights == [2.0]
    assert args.learning_rate == 1e-4 and args.model_init_kwargs == {"use_cache": True}
    assert os.environ["OF_THE_RECIPE"] == "1"


def test_base_checkpoint_stops_at_the_end_of_a_turn(recipe, trainers, tiny_model, tmp_path, monkeypatch):
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
    monkeypatch.setattr(TRAIN, "find_spec", lambda name: name)
    monkeypatch.setattr(TRAIN, "CodaGRPOTrainer", made := Mock(side_effect=ValueError))
    command = [*recipe, "--model_name_or_path", str(folder), "--use_vllm", "true"]
    stops = {"stop_token_ids": sorted([tokenizer.pad_token_id, end])}
    for options, expected in ([], stops), (["--generation_kwargs", '{"n": 1}'], stops | {"n": 1}):
        TRAIN.main([*command, *options])
        assert made.call_args.kwargs["args"].generation_kwargs == expected


def test_what_is_asked_for_reaches_the_trainer(recipe, monkeypatch, caplog):
    made = Mock(side_effect=[ImportError("bitsandbytes is missing"), TypeError("a fault")])
    load = TRAIN.load_tokenizer
    monkeypatch.setattr(TRAIN, "CodaGRPOTrainer", made)
    monkeypatch.setattr(TRAIN, "get_quantization_config", lambda model_args: "in four bits")
    monkeypatch.setattr(TRAIN, "load_tokenizer", lambda *args: (load(*args)[0], StopTokens((2,), (), "No end.")))
    command = [
        *recipe,
        *"--model_revision v2 --dtype bfloat16 --attn_implementation eager --use_peft --lora_r 2".split(),
    ]
    command += ["--model_init_kwargs", '{"use_cache": false}']
    assert TRAIN.main(command) == 1
    assert error_line(caplog) == "bitsandbytes is missing" and "No end." in caplog.text
    given = made.call_args.kwargs
    expected = {"revision": "v2", "attn_implementation": "eager", "dtype": "bfloat16", "use_cache": False}
    assert given["args"].model_init_kwargs == expected
    assert (given["quantization_config"], given["peft_config"].r) == ("in four bits", 2)
    with pytest.raises(TypeError, match="a fault"):
        TRAIN.main(command)


def test_help_explains_overlays_and_lists_every_kind_of_argument(capsys):
    with pytest.raises(SystemExit):
        TRAIN.main(["--help"])
    text = capsys.readouterr().out
    for argument in ("--overlay", "--dataset", "--reward_funcs", "--coda_alpha", "--lora_r", "--dry_run"):
        assert argument in text
    assert "--config RECIPE [--overlay FILE ...] [--dry_run]" in text.splitlines()[0]
    assert "docs/reference/config.md" in "".join(text.splitlines()[-3:])
    assert "[`load_source`]" not in text and "`load_source`" in text, "a link of the reference pages"


@pytest.mark.parametrize("terminal", [False, True])
def test_a_log_is_a_line_of_80_characters_which_the_quickstart_counts(recipe, monkeypatch, capfd, terminal):
    """All metrics were a dictionary of 60, and answers a table whose columns had five characters."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    command = [*recipe, *"--max_steps 2 --logging_steps 1 --log_completions --disable_tqdm false".split()]
    command += "--eval_dataset ladder=4 --eval_strategy steps --eval_steps 2 --per_device_eval_batch_size 4".split()
    assert TRAIN.main(command) == 0
    out, err = capfd.readouterr()
    lines = re.findall("step .*", err)
    assert re.search("^Warning: `num_generations`: With 4", err, re.MULTILINE) and "UserWarning" not in err
    assert out == "" and max(map(len, lines)) <= 80 and ("2/2 [" in err) is ("%|" in err) is terminal
    numbers = r"accuracy 0%  reward 0\.00  \d tokens  easy 0%  hard 100%"
    expected = f"1/2  {numbers}  .* s", f"2/2  {numbers}  .* s", f"2/2  eval  {numbers}", "2/2  done after .* s"
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch(f"step {pattern}", line), line
    quickstart = runpy.run_path(str(PATH.parent / "quickstart.py"))
    if not terminal:
        assert [quickstart["read_step"](text) for text in ("", err.partition("step 2")[0], err)] == [0, 1, 2]
    assert quickstart["steps_to_make"]("coda") == 100


@pytest.mark.parametrize("in_the_way", ["runs", "runs/quickstart"])
def test_the_quickstart_says_where_it_cannot_write(tmp_path, monkeypatch, in_the_way):
    monkeypatch.chdir(tmp_path)
    (tmp_path / in_the_way).parent.mkdir(exist_ok=True)
    (tmp_path / in_the_way).touch()
    with pytest.raises(SystemExit, match=f"cannot write to {tmp_path}/runs/quickstart: "):
        runpy.run_path(str(PATH.parent / "quickstart.py"), run_name="__main__")


def test_a_line_names_the_evaluation_whose_numbers_it_shows():
    """TRL's metrics begin with `eval_`, whatever `evaluate(metric_key_prefix=...)` says."""
    shown = [log_line(2, 4, {f"{name}_runtime": 1.0, "eval_reward": 0.5}) for name in ("eval_my_set", "test")]
    assert shown == ["step 2/4  eval my_set  reward 0.50", "step 2/4  test  reward 0.50"]


def test_warnings_of_others_keep_their_form():
    with warnings.catch_warnings(record=True) as caught, plain_messages():
        warnings.warn("of others", stacklevel=1)
    assert [str(each.message) for each in caught] == ["of others"]
