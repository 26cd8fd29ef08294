"""Faults put into a run, one by one. Each ends in a clear message or in a metric, and what was saved stays."""

import asyncio
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file
from small_training import launch, logs, make, odd, right, table, train
from train_script import PATH, TRAIN, write_recipe
from trl import GRPOTrainer

from coda_trl import CodaGRPOConfig
from coda_trl.resuming import check_settings, find_damage, find_last_complete_checkpoint, is_finished


def assert_finite(trainer) -> None:
    for entry in trainer.state.log_history:
        assert all(value is None or math.isfinite(value) for value in entry.values())
    assert all(weight.isfinite().all() for weight in trainer.model.parameters())


# Rewards


def test_too_few_rewards_are_refused_with_the_name_and_both_counts(tiny_model, tmp_path):
    def forgetful(completions, **kwargs):
        return [1.0] * (len(completions) - 1)

    with pytest.raises(ValueError, match="'forgetful' returned 7 rewards, but 8 were expected"):
        train(tiny_model, tmp_path, [right, forgetful])


@pytest.mark.parametrize("value", [["1"] * 8, [(1.0, "why")] * 8, None, 1.0])
def test_what_is_no_list_of_numbers_is_said_to_be_none(tiny_model, tmp_path, value):
    """PyTorch says `too many dimensions 'str'`."""
    with pytest.raises((TypeError, ValueError)) as error:
        train(tiny_model, tmp_path, lambda **kwargs: value)
    assert "one of them (<lambda>) did not return a list of numbers" in error.value.__notes__[0]


@pytest.mark.parametrize("method", ["coda", "none"])
@pytest.mark.parametrize("value", [math.inf, -math.inf])
def test_an_infinite_reward_is_refused_before_it_reaches_the_weights(tiny_model, tmp_path, method, value):
    def overflow(completions, **kwargs):
        return [value] + [0.0] * (len(completions) - 1)

    trainer = make(tiny_model, tmp_path, [right, overflow], length_shaping=method)
    before = [weight.clone() for weight in trainer.model.parameters()]
    with pytest.raises(ValueError, match="'overflow' returned an infinite reward. Return a finite one, or None"):
        trainer.train()
    assert all(map(torch.equal, before, trainer.model.parameters()))


def test_a_slow_reward_shows_in_a_metric_and_can_be_given_a_limit(tiny_model, tmp_path):
    """The judge is the one of `docs/training-faults.md`."""

    def slow(completions, **kwargs):
        time.sleep(0.3)
        return [1.0] * len(completions)

    async def judge_one(completion):
        await asyncio.sleep(0 if " so" in completion else 60)
        return 1.0

    async def in_time(completion):
        try:
            return await asyncio.wait_for(judge_one(completion), timeout=0.1)
        except TimeoutError:
            return None

    async def judge(completions, **kwargs):
        return await asyncio.gather(*map(in_time, completions))

    trainer = train(tiny_model, tmp_path, [judge, slow])
    (seconds,) = logs(trainer, "coda/reward_seconds")
    assert 0.3 < seconds < 30
    assert 0 < logs(trainer, "coda/unscorable_ratio")[0] < 1


def test_a_reward_called_like_the_column_of_the_shaping_term_is_refused(tiny_model, tmp_path):
    def length_shaping(completions, **kwargs):
        return [1.0] * len(completions)

    with pytest.raises(ValueError, match="A reward function is called 'length_shaping', .* Rename it"):
        make("no-such-model", tmp_path, [right, length_shaping])
    assert len(make(tiny_model, tmp_path, [right, length_shaping], length_shaping="none").reward_funcs) == 2


# Rollouts


@pytest.mark.parametrize("loss", ["dapo", "grpo"])
@pytest.mark.parametrize("masked", [True, False])
def test_a_batch_of_truncated_rollouts(tiny_model, tmp_path, masked, loss):
    endless = {"suppress_tokens": [0, 2]}  # padding and the end of a sequence
    options = {"mask_truncated_completions": masked, "loss_type": loss, "beta": 0.1, "max_steps": 2}
    trainer = train(tiny_model, tmp_path, odd, generation_kwargs=endless, **options)
    assert logs(trainer, "completions/clipped_ratio") == [1, 1]
    assert_finite(trainer)
    assert all((norm == 0) == masked for norm in logs(trainer, "grad_norm"))


def test_an_empty_completion_has_length_zero(tiny_model, tmp_path, monkeypatch):
    """TRL 1.16 itself stops at one, which only a `rollout_func` can make. Nothing of ours does."""
    generate = GRPOTrainer._generate

    def with_empty(trainer, prompts):
        output = generate(trainer, prompts)
        output[1][1], output[3][1] = [], ""
        return output

    monkeypatch.setattr(GRPOTrainer, "_generate", with_empty)
    trainer = train(tiny_model, tmp_path, right, log_completions=True)
    assert table(tmp_path)["coda/length"][1] == 0
    assert_finite(trainer)


# Checkpoints


@pytest.fixture(scope="module")
def saved(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("saved")
    train(tiny_model, folder, right, save_strategy="steps", save_steps=1)
    return folder / "checkpoint-1"


@pytest.fixture
def checkpoint(saved, tmp_path) -> Path:
    return Path(shutil.copytree(saved, tmp_path / "checkpoint-1"))


def cut(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize("harm", [cut, lambda path: os.truncate(path, 0)], ids=["cut", "emptied"])
@pytest.mark.parametrize(
    "name", ["model.safetensors", "optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json", "config.json"]
)
def test_files_cut_short_are_found(checkpoint, name, harm):
    assert find_damage(checkpoint) is None
    harm(checkpoint / name)
    assert find_damage(checkpoint).startswith(f"{name} cannot be read")


def test_last_whole_checkpoint_by_number(checkpoint, tmp_path, caplog):
    assert find_last_complete_checkpoint(tmp_path / "nothing") is None
    for step in (9, 10, 11, 100):
        shutil.copytree(checkpoint, tmp_path / f"checkpoint-{step}")
    (tmp_path / "checkpoint-100" / "trainer_state.json").unlink()
    cut(tmp_path / "checkpoint-11" / "optimizer.pt")
    (tmp_path / "checkpoint-best").mkdir()
    assert find_last_complete_checkpoint(tmp_path) == str(tmp_path / "checkpoint-10")
    interrupted, damaged = [record.getMessage() for record in caplog.records]
    assert interrupted.endswith("checkpoint-100 is left out: trainer_state.json, which is written last, is missing.")
    assert damaged.endswith("checkpoint-11 is left out: optimizer.pt cannot be read (cut short).")
    for step in (1, 9, 10):
        cut(tmp_path / f"checkpoint-{step}" / "trainer_state.json")
    assert find_last_complete_checkpoint(tmp_path) is None


def shards(folder: Path) -> str:
    (folder / "model.safetensors").unlink()
    for part in "12":
        save_file({part: torch.ones(9)}, folder / f"model-{part}.safetensors")
    index = '{"weight_map": {"1": "model-1.safetensors", "2": "model-2.safetensors"}}'
    (folder / "model.safetensors.index.json").write_text(index)
    return "model-2.safetensors"


def deepspeed(folder: Path) -> str:
    (folder / "optimizer.pt").unlink()
    (folder / "global_step1").mkdir()
    (folder / "latest").write_text("global_step1")
    (folder / "zero_to_fp32.py").write_text("")
    name = "global_step1/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt"
    torch.save({"step": torch.ones(9)}, folder / name)
    return name


def fsdp(folder: Path) -> str:
    (folder / "model.safetensors").unlink()
    torch.save({"weight": torch.ones(9)}, folder / "pytorch_model_fsdp.bin")
    dcp.save({"step": torch.ones(9)}, checkpoint_id=folder / "optimizer_0", no_dist=True)
    return "pytorch_model_fsdp.bin"


def older_torch(folder: Path) -> str:
    torch.save({"step": torch.ones(9)}, folder / "optimizer.pt", _use_new_zipfile_serialization=False)
    return "scheduler.pt"


@pytest.mark.filterwarnings("ignore:torch.distributed is")
@pytest.mark.parametrize("layout", [shards, deepspeed, fsdp, older_torch])
def test_other_layouts_are_whole_until_a_file_is_cut_short(checkpoint, layout):
    name = layout(checkpoint)
    assert find_damage(checkpoint) is None
    cut(checkpoint / name)
    assert find_damage(checkpoint).startswith(f"{name} cannot be read")


def test_a_missing_shard_is_named(checkpoint):
    (checkpoint / shards(checkpoint)).unlink()
    assert "model-2.safetensors missing" in find_damage(checkpoint)


def test_a_file_that_the_system_does_not_give_is_damage(checkpoint):
    (checkpoint / "scheduler.pt").unlink()
    (checkpoint / "scheduler.pt").symlink_to("gone")
    assert find_damage(checkpoint).startswith("scheduler.pt cannot be read")


def test_a_run_is_finished_by_the_steps_or_epochs_that_are_asked_for(checkpoint, tmp_path):
    def finished(**length):
        return is_finished(str(checkpoint), CodaGRPOConfig(str(tmp_path), use_cpu=True, bf16=False, **length))

    assert finished(max_steps=1) and not finished(max_steps=2)
    (tmp_path / "trainer_state.json").write_text('{"epoch": ')  # by a full disk
    assert not finished(max_steps=2)
    state = json.loads((checkpoint / "trainer_state.json").read_text()) | {"max_steps": 4, "num_train_epochs": 2}
    (checkpoint / "trainer_state.json").write_text(json.dumps(state))
    assert not finished(num_train_epochs=2)
    (checkpoint / "trainer_state.json").write_text(json.dumps(state | {"global_step": 4}))
    assert finished(num_train_epochs=1.5) and not finished(num_train_epochs=3)


def test_settings_of_a_run_are_compared_when_it_resumes_but_for_those_that_it_did_not_have(tmp_path):
    assert check_settings(tmp_path, {"seed": 1}, resumes=False) is None
    assert check_settings(tmp_path, {"seed": 1, "of a newer TRL": 2}, resumes=True) is None
    assert "seed=1, not 2. Resume it with its settings" in check_settings(tmp_path, {"seed": 2}, resumes=True)
    assert (
        check_settings(tmp_path, {"seed": 2}, resumes=False) is None
    )  # another run in place of one that saved nothing
    assert check_settings(tmp_path, {"seed": 2}, resumes=True) is None


# The script, from a fault to the end of the run. Its reward function is where faults get in.

REWARD = """
import atexit, os, resource, signal
import torch

def name(thread):
    try:
        return open(f"/proc/self/task/{thread}/comm").read().strip()
    except OSError:  # it has just ended
        return ""

def threads():
    return list(map(name, os.listdir("/proc/self/task")))

def reward(completions, trainer_state, **kwargs):
    if os.environ.get("WORLD_SIZE") == "2":
        assert "pt_gloo_runloop" in threads()  # the name by which the last line knows them
    if trainer_state.global_step == 1 and not os.path.exists("mended"):
        FAULT
    return [1.0] * len(completions)

if os.environ.get("WORLD_SIZE") == "2":
    text = "gloo's threads at exit: {}\\n"  # in one piece, as the other process writes too
    atexit.register(lambda: os.write(1, text.format(threads().count("pt_gloo_runloop")).encode()))
"""
FULL = "resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))  # room for the weights, not for the optimizer"
KILLED = """
        def save(value, path, save=torch.save):
            save(value, path)
            if str(path).endswith("optimizer.pt"):
                os.truncate(path, os.path.getsize(path) // 2)
                os.kill(os.getpid(), signal.SIGKILL)
        torch.save = save
"""


@pytest.fixture
def command(tiny_model, tmp_path, monkeypatch) -> list[str]:
    """Two steps, each with a checkpoint."""
    monkeypatch.chdir(tmp_path)
    save = ["--save_strategy", "steps", "--save_steps", "1", "--logging_steps", "1", "--max_steps", "2"]
    return [*write_recipe(tmp_path, tiny_model), *save]


def steps_logged(folder: Path) -> list[int]:
    history = json.loads((folder / "out" / "trainer_state.json").read_text())["log_history"]
    return [entry["step"] for entry in history if "reward" in entry]


def test_a_reward_that_raises_stops_the_run_which_resumes_when_it_is_mended(command, tmp_path, caplog):
    (tmp_path / "raising.py").write_text(REWARD.replace("FAULT", "raise KeyError('the judge is away')"))
    command += ["--reward_funcs", "raising.reward"]
    with pytest.raises(KeyError, match="the judge is away"):
        TRAIN.main(command)
    (error,) = [record.getMessage() for record in caplog.records if record.levelname == "ERROR"]
    assert (
        f"The same command resumes from the last complete checkpoint in {tmp_path / 'out'}, if there is one; its disk"
        in error
    )
    Path("mended").touch()
    assert TRAIN.main(command) == 0
    assert f"Resuming from {tmp_path / 'out' / 'checkpoint-1'}" in caplog.text and "left out" not in caplog.text
    assert steps_logged(tmp_path) == [1, 2]


@pytest.mark.slow
def test_processes_that_get_a_reward_which_cannot_be_shaped_say_so_once(command):
    Path("partial.py").write_text("def half(completions, **kwargs):\n    return [0.5] * len(completions)\n")
    command += ["--per_device_train_batch_size", "4", "--reward_funcs", "partial.half"]
    output = launch(PATH, *command, processes=2, status=1)
    assert output.count("The reward function 'half' returned 0.5") == 1


def start(command: list[str], fault: str) -> subprocess.CompletedProcess:
    Path("faulty.py").write_text(REWARD.replace("FAULT", fault))
    command = [sys.executable, str(PATH), *command, "--reward_funcs", "faulty.reward"]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


@pytest.mark.slow
def test_a_checkpoint_that_a_killed_process_was_writing_is_left_out(command, tmp_path):
    assert start(command, KILLED).returncode == -signal.SIGKILL
    assert (tmp_path / "out" / "checkpoint-2" / "optimizer.pt").is_file()
    assert find_last_complete_checkpoint(tmp_path / "out") == str(tmp_path / "out" / "checkpoint-1")


@pytest.mark.slow
def test_a_full_disk_costs_no_checkpoint_and_all_processes_resume_from_the_same(command, tmp_path):
    run = start(command, FULL)
    assert run.returncode == 1 and "_save_optimizer_and_scheduler" in run.stderr
    assert "Stopped by the error below. The same command resumes from the last complete checkpoint" in run.stderr
    Path("mended").touch()
    command += ["--per_device_train_batch_size", "4", "--reward_funcs", "faulty.reward"]
    output = launch(PATH, *command, processes=2)
    assert output.count("checkpoint-2 is left out: trainer_state.json, which is written last, is missing.") == 1
    assert output.count(f"Resuming from {tmp_path / 'out' / 'checkpoint-1'}") == 1
    assert steps_logged(tmp_path) == [1, 2] and output.count("step 2/2  done after") == 1
    assert find_last_complete_checkpoint(tmp_path / "out") == str(tmp_path / "out" / "checkpoint-2")
    # Left alive, they can abort a process that has done its work: https://github.com/pytorch/pytorch/issues/190489
    assert output.count("gloo's threads at exit: 0") == 2
    finished = launch(PATH, *command, processes=2)
    assert "This run is finished" in finished and finished.count("gloo's threads at exit: 0") == 2
