"""The benchmark of recipes on GPUs, rehearsed on the CPU: what it records, and that it says when a run failed."""

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent


def run(out: Path, *options: str) -> tuple[subprocess.CompletedProcess, dict]:
    command = [
        sys.executable,
        "benchmarks/gpu/recipes.py",
        "--model",
        "qwen3-4b",
        "--cpu",
        "--tiny",
        "--out",
        str(out),
    ]
    done = subprocess.run(
        [*command, *options], cwd=ROOT, env=os.environ | {"PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    (path,) = out.glob("recipes-tiny-*.json")
    return done, json.loads(path.read_text())["results"][0]


def test_steps_of_a_recipe_are_measured_on_every_process(tmp_path):
    kinds = ["full", "lognormal", "lognormal-trl"]
    done, result = run(tmp_path, "--gpus", "2", "--rollouts", "generated", "--steps", *kinds)
    assert done.returncode == 0, done.stdout + done.stderr
    assert result["error"] is None
    full, *short = zip(*(rank["steps"] for rank in result["ranks"]), strict=True)
    assert [length for step in full for length in step["lengths"]] == [64] * 8  # 4 micro-batches of 1, twice
    for steps in short:
        lengths = [length for step in steps for length in step["lengths"]]
        assert max(lengths) == 64 and sum(lengths) < 64 * 8 / 4  # a seventh on average

    rows = result["rows"]
    assert [row["kind"] for row in rows] == kinds
    for row in rows:
        assert list(row["seconds"]) == [
            "rollout",
            "rewards and log-probabilities",
            "forward and backward",
            "optimizer",
        ]
        assert row["seconds"]["forward and backward"] > 0
        assert row["rollout_tokens_per_second"] > 0
    assert rows[0]["tokens"] == 8 * (64 + 16)
    # From the micro-batches of the rehearsal to those of the recipe: 256 a step, 314 steps.
    assert rows[0]["update_hours"] > 314 * 256 / 4 * rows[0]["seconds"]["forward and backward"] / 3600
    assert result["estimate"]["training_peak"] > 0


def test_a_run_that_does_not_end_is_reported(tmp_path):
    done, result = run(tmp_path, "--gpus", "1", "--seconds", "-100")
    assert done.returncode == 1
    assert "time limit" in result["error"]
    assert result["rows"] == []
