"""Groups that straddle processes: two and three processes (gloo, CPU) shape rewards as one process does."""

import json
from pathlib import Path

import pandas as pd
import pytest
import torch
from distributed_run import GROUP_SIZE, ROLLOUTS, STEPS, main
from small_training import launch, metrics, table

from coda_trl import shape_rewards

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_process(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("one-process")
    main(tiny_model, folder, processes=1)
    return folder


@pytest.fixture(scope="module", params=[2, 3], ids=lambda processes: f"{processes}-processes")
def several(request, tiny_model, tmp_path_factory) -> tuple[Path, int]:
    folder = tmp_path_factory.mktemp("several-processes")
    launch(Path(__file__).with_name("distributed_run.py"), tiny_model, str(folder), processes=request.param)
    return folder, request.param


def history(folder: Path) -> list[dict]:
    return metrics(json.loads((folder / "state.json").read_text())["log_history"])


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
            torch.tensor([value for process in seen for value in process["steps"][step][name]])
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
    assert [len(process["warnings"]) for process in seen] == [1] + [0] * (processes - 1)
