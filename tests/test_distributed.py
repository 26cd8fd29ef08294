"""Groups that straddle processes: two and three processes (gloo, CPU) shape rewards as one process does."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import torch
from distributed_run import GROUP_SIZE, ROLLOUTS, STEPS, main

from coda_trl import shape_rewards


def launch(model: str, folder: Path, processes: int) -> None:
    # Not `accelerate launch --cpu --num_processes 2`: without MPI that starts a single process and says nothing.
    command = [sys.executable, "-m", "torch.distributed.run", "--nnodes=1", f"--nproc_per_node={processes}"]
    command += ["--rdzv_backend=c10d", "--rdzv_endpoint=localhost:0"]  # on whatever port is free
    script = Path(__file__).with_name("distributed_run.py")
    environment = os.environ | {
        "OMP_NUM_THREADS": "1",
        "ACCELERATE_USE_CPU": "true",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(
        [*command, str(script), model, str(folder)], env=environment, capture_output=True, text=True, timeout=400
    )
    assert done.returncode == 0, done.stderr[-5000:]


@pytest.fixture(scope="module")
def one_process(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("one-process")
    main(tiny_model, folder, processes=1)
    return folder


@pytest.fixture(scope="module", params=[2, 3], ids=lambda processes: f"{processes}-processes")
def several(request, tiny_model, tmp_path_factory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("several-processes")
    launch(tiny_model, folder, request.param)
    return folder, request.param


def table(folder: Path) -> pd.DataFrame:
    return pd.concat(map(pd.read_parquet, sorted((folder / "completions").glob("*.parquet"))), ignore_index=True)


def history(folder: Path) -> list[dict]:
    steps = [step for step in json.loads((folder / "state.json").read_text())["log_history"] if "reward" in step]
    return [{key: value for key, value in step.items() if key != "step_time"} for step in steps]


@pytest.mark.parametrize("method", ["coda", "l1_max"])
def test_same_rollouts_get_the_same_rewards_and_metrics(one_process, several, method):
    folder, _ = several
    expected, found = (table(path / f"rollouts-{method}") for path in (one_process, folder))
    assert len(expected) == STEPS * ROLLOUTS
    pd.testing.assert_frame_equal(found, expected, rtol=0, atol=1e-6)
    assert expected["verdict"].isna().any() and (expected["length_shaping"].fillna(0) != 0).any()
    if method == "coda":
        assert expected["coda/w_easy"].max() > 0 and expected["coda/w_hard"].max() > 0

    expected, found = (history(path / f"rollouts-{method}") for path in (one_process, folder))
    assert len(found) == STEPS
    for after, before in zip(found, expected, strict=True):  # loss and gradient norm are among them
        assert after == pytest.approx(before, rel=1e-4, abs=1e-6, nan_ok=True)


def test_generated_rollouts_are_shaped_as_whole_groups(several):
    folder, processes = several
    seen = [json.loads((folder / f"seen-{process}.json").read_text()) for process in range(processes)]
    found = table(folder / "generated")
    assert len(found) == STEPS * ROLLOUTS
    for step in range(STEPS):
        # What the processes saw one by one, side by side.
        rewards, lengths = (
            torch.tensor([value for process in seen for value in process[step][name]])
            for name in ("rewards", "lengths")
        )
        shaped = shape_rewards(rewards, lengths, GROUP_SIZE)
        rows = found[found["step"] == step + 1]
        assert rows["coda/length"].tolist() == lengths.tolist()
        for column, expected in {
            "odd": rewards,
            "length_shaping": shaped.delta,
            "coda/success_rate": shaped.success_rate.repeat_interleave(GROUP_SIZE),
            "coda/w_easy": shaped.w_easy.repeat_interleave(GROUP_SIZE),
        }.items():
            assert rows[column].tolist() == pytest.approx(expected.tolist(), abs=1e-6), column
    assert found["length_shaping"].any()
