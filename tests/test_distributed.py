"""Groups that straddle processes: two and three processes (gloo, CPU) shape rewards as one process does."""

import json
from pathlib import Path

import pandas as pd
import pytest
from distributed_run import ROLLOUTS, STEPS, main
from small_training import launch, metrics, table

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def one_process(tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("one-process")
    main(tiny_model, folder, processes=1)
    return folder


@pytest.fixture(scope="module", params=[2, 3], ids=lambda processes: f"{processes}-processes")
def several(request, tiny_model, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("several-processes")
    launch(Path(__file__).parent / "helpers" / "distributed_run.py", tiny_model, str(folder), processes=request.param)
    return folder


def history(folder: Path) -> list[dict]:
    return metrics(json.loads((folder / "state.json").read_text())["log_history"])


@pytest.mark.parametrize("method", ["coda", "l1_max"])
def test_same_rollouts_get_the_same_rewards_and_metrics(one_process, several, method):
    expected, found = (table(path / method) for path in (one_process, several))
    assert len(expected) == STEPS * ROLLOUTS
    pd.testing.assert_frame_equal(found, expected, rtol=0, atol=1e-6)
    assert expected["verdict"].isna().any() and (expected["length_shaping"].fillna(0) != 0).any()
    if method == "coda":
        assert expected["coda/w_easy"].max() > 0 and expected["coda/w_hard"].max() > 0

    expected, found = (history(path / method) for path in (one_process, several))
    assert len(found) == STEPS
    for after, before in zip(found, expected, strict=True):  # loss and gradient norm are among them
        assert after == pytest.approx(before, rel=1e-4, abs=1e-6, nan_ok=True)
