"""The GPU smoke test itself: it must see what is wrong, survive what hangs, and leave no process behind."""

import json
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

import pandas as pd
import pytest
import smoke
import torch
from checks import check_learning, check_shaping, read_history, read_rollouts
from child_processes import has_ended, wait_until
from made_samples import read_lines, write_lines
from processes import LAUNCH, Command, _visible, serve_command
from smoke import CASES, Case, Place, run_case

from coda_trl import shape_rewards

REPOSITORY = Path(__file__).parents[1]
GROUP_SIZE, STEPS = 4, 2


def run_script(script: str):
    """The function of a case that runs a line of Python in place of a training."""

    def run(case: Case, place: Place) -> dict:
        place.folder.mkdir(parents=True)
        Command([sys.executable, "-c", script], place.folder / "train.log", {}).succeed(place.deadline)
        return {}

    return run


@pytest.mark.parametrize(("ours", "theirs"), [(None, "1"), ("2,3", "3")])
def test_a_case_keeps_to_the_cards_that_the_smoke_test_was_given(monkeypatch, ours, theirs):
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if ours is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", ours)
    assert _visible([1]) == {"CUDA_VISIBLE_DEVICES": theirs}


def run_cases(cases: dict[str, Case], place: Place) -> dict:
    results = {}
    for name, case in cases.items():
        deadline = time.monotonic() + (3 if name == "hangs" else 60)
        results[name] = run_case(case, replace(place, folder=place.folder / name, deadline=deadline))
    return results


@pytest.mark.slow
def test_failing_and_hanging_cases_do_not_stop_the_others(tmp_path):
    # The hanging one has a child in a session of its own, as the workers of torchrun are.
    child = f"import subprocess, time; subprocess.Popen(['{sys.executable}', '-c', 'import time; time.sleep(600)'], "
    cases = {
        "fails": Case(run_script("print('loading'); raise ValueError('no such flag')")),
        "hangs": Case(run_script(child + "start_new_session=True); time.sleep(600)")),
        "misses": Case(run_script(""), needs=("no_such_package",)),
        "needs a GPU": Case(run_script(""), on_cpu=False),
        "breaks": Case(lambda case, place: 1 / 0),
        "passes": Case(run_script("print('fine')")),
    }
    results = run_cases(cases, Place(tmp_path))
    assert {name: (result["status"], result["why"]) for name, result in results.items()} == {
        "fails": ("failed", "exit code 1: ValueError: no such flag"),
        "hangs": ("failed", "still running at the time limit, see train.log"),
        "misses": ("skipped", "no_such_package is not installed"),
        "needs a GPU": ("skipped", "needs a GPU"),
        "breaks": ("failed", "ZeroDivisionError: division by zero"),
        "passes": ("passed", ""),
    }
    assert "loading" in results["fails"]["log"]["train.log"]
    wide = run_cases({"wide": Case(processes=2, servers=1)}, Place(tmp_path, cards=(0, 1)))
    assert wide["wide"]["why"] == "needs 3 GPUs, found 2"


@pytest.mark.slow
def test_a_command_is_stopped_with_its_orphans(tmp_path):
    # The child ignores SIGTERM, has its own session, and its parent is gone.
    child = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(99)"
    )
    parent = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {child!r}], start_new_session=True)"
    command = Command([sys.executable, "-c", parent], tmp_path / "log", {})
    assert command.wait(time.monotonic() + 30) == 0
    assert wait_until(lambda: "up" in command.log.read_text())
    assert len(command.left_behind(grace=0.1)) == 1
    (orphan,) = command.processes()
    command.stop()
    assert has_ended(orphan.pid)
    assert command.left_behind(grace=0.1) == []


def test_a_server_that_ends_ends_the_training(tmp_path):
    server = Command([sys.executable, "-c", "raise SystemExit('OSError: the port is taken')"], tmp_path / "server", {})
    training = Command([sys.executable, "-c", "import time; time.sleep(99)"], tmp_path / "training", {})
    with pytest.raises(RuntimeError, match="the server ended: OSError: the port is taken"):
        training.succeed(time.monotonic() + 60, server)
    assert not training.processes()


@pytest.fixture
def folder(tmp_path) -> Path:
    """What two processes leave behind after two steps of two groups of four, the first group easy."""
    (tmp_path / "completions").mkdir()
    history = []
    for step in range(1, STEPS + 1):
        rewards = torch.tensor([1.0, 1, 1, 1, 0, 1, 0, 0])
        lengths = torch.tensor([3, 5, 9, 4, 7, 2, 2, step])
        shaped = shape_rewards(rewards, lengths, GROUP_SIZE)
        advantages = shaped.rewards.view(2, -1) - shaped.rewards.view(2, -1).mean(dim=1, keepdim=True)
        columns = {"ladder_reward": rewards, "coda/length": lengths, "length_shaping": shaped.delta}
        table = pd.DataFrame(columns | {"advantage": advantages.flatten()})
        table.to_parquet(tmp_path / "completions" / f"completions_{step:05d}.parquet")
        history.append({"reward": shaped.rewards.mean().item(), "loss": -0.1, "grad_norm": 0.5})
        for rank, rows in enumerate((slice(0, 4), slice(4, 8))):
            seen = {"step": step, "problems": [step] * 4, "rewards": rewards[rows].tolist()}
            with (tmp_path / f"rollouts-{rank}.jsonl").open("a") as file:
                file.write(json.dumps(seen | {"lengths": lengths[rows].tolist()}) + "\n")
    (tmp_path / "state.json").write_text(json.dumps({"log_history": [*history, {"train_loss": 0.0}]}))
    return tmp_path


def test_right_rewards_pass(folder):
    found = check_shaping(folder, 2, GROUP_SIZE, STEPS)
    assert found["largest_difference"] < 1e-6
    assert found["shaped_share"] == 0.5  # the easy group of each step


def harm_table(folder: Path, column: str) -> None:
    path = folder / "completions" / "completions_00002.parquet"
    table = pd.read_parquet(path).astype(float)
    table.loc[1, column] += 1e-3
    table.to_parquet(path)


def log(folder: Path, **entries: float) -> None:
    history = [entry | entries for entry in read_history(folder)]
    (folder / "state.json").write_text(json.dumps({"log_history": history}))


def never_right(folder: Path) -> None:
    """There is nothing to shape."""
    for path in folder.glob("rollouts-*.jsonl"):
        write_lines(path, [row | {"rewards": [0.0] * 4} for row in read_lines(path)])
    for path in (folder / "completions").iterdir():
        pd.read_parquet(path).assign(ladder_reward=0.0, length_shaping=0.0, advantage=0.0).to_parquet(path)
    log(folder, reward=0.0)


@pytest.mark.parametrize(
    "harm, message",
    [
        (partial(harm_table, column="ladder_reward"), "step 2: base reward differs by 0.001"),
        (partial(harm_table, column="coda/length"), "step 2: length differs by 0.001"),
        (partial(harm_table, column="length_shaping"), "step 2: shaping term differs by 0.001"),
        (partial(harm_table, column="advantage"), "step 2: advantage differs by 0.001"),
        (partial(log, reward=0.9), "mean reward differs by"),
        (never_right, "no reward was shaped"),
    ],
)
def test_a_wrong_value_and_idle_shaping_are_found(folder, harm, message):
    with pytest.raises(RuntimeError, match="2 steps logged"):
        check_shaping(folder, 2, GROUP_SIZE, STEPS + 1)
    harm(folder)
    with pytest.raises(RuntimeError, match=message):
        check_shaping(folder, 2, GROUP_SIZE, STEPS)


def test_of_a_repeated_step_the_later_rollouts_count(folder):
    with (folder / "rollouts-0.jsonl").open("a") as file:
        file.write(json.dumps({"step": 2, "problems": [7] * 4, "rewards": [1.0] * 4, "lengths": [1] * 4}) + "\n")
        file.write(json.dumps({"step": 3, "problems": [8] * 4, "rewards": [1.0] * 4, "lengths": [1] * 4}) + "\n")
    rollouts = read_rollouts(folder, 2)
    assert list(rollouts) == [1, 2]  # of step 3 the other process has none
    assert rollouts[2]["problems"] == [7] * 4 + [2] * 4


@pytest.mark.parametrize(
    "logged, message",
    [
        ({"loss": float("nan")}, "loss is"),
        ({"grad_norm": float("inf")}, "grad_norm is"),
        ({"grad_norm": 0.0}, "all gradients are 0"),
        ({"sampling/sampling_logp_difference/mean": 0.3}, "differ from the trainer's"),
    ],
)
def test_a_run_that_learns_nothing_or_from_stale_weights_is_found(folder, logged, message):
    log(folder, **{"sampling/sampling_logp_difference/mean": 0.01})
    assert check_learning(folder, bound=0.05)["loss"] == [-0.1, -0.1]
    log(folder, **logged)
    with pytest.raises(RuntimeError, match=message):
        check_learning(folder, bound=0.05)


def test_cases_use_the_launch_files_and_the_server_flags_that_are_shipped():
    assert all((LAUNCH / case.launch).is_file() for case in CASES.values())
    command = serve_command("folder", port=8000, max_model_length=17408, tensor_parallel=4)
    for script, first in (("one_node_server.slurm", "--port"), ("multi_node.slurm", "--weight-transfer-config")):
        text = (REPOSITORY / "recipes" / "slurm" / script).read_text().replace("'", "").replace("\\\n    ", "")
        assert " ".join(command[command.index(first) :]) in text


@pytest.mark.timeout(300)
@pytest.mark.slow
def test_one_case_for_real(tmp_path, capsys):
    assert smoke.main(["--cpu", "--cases", "one-gpu,vllm-sleep", "--out", str(tmp_path), "--timeout", "280"]) == 0
    results = json.loads((tmp_path / "smoke-ladder-cpu.json").read_text())
    assert "torch" in results["about"]
    assert results["cases"]["vllm-sleep"]["status"] == "skipped"
    facts = results["cases"]["one-gpu"]["facts"]
    assert facts["steps"] == 5 and facts["tokens_per_second"] > 0 and facts["parameters"] > 500_000
    assert len(facts["metrics"]["coda/success_rate"]) == 5
    assert "PASSED" in capsys.readouterr().out
