"""The benchmark of rollout engines, with vLLM itself on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import vllm

ROOT = Path(__file__).parents[2]


def test_engines_roll_out_side_by_side(tmp_path):
    command = [sys.executable, "benchmarks/rollout.py", "--tiny", "--engines", "generate", "vllm", "--rounds", "1"]
    done = subprocess.run([*command, "--out", str(tmp_path)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "rollout-tiny-cpu.json").read_text())
    assert [(row["engine"], row["warm_up"]) for row in result["rows"]] == [
        ("generate", True),
        ("generate", False),
        ("vllm", True),
        ("vllm", False),
    ]
    assert all(32 <= row["tokens"] <= 32 * 64 and row["longest"] <= 64 for row in result["rows"])
    assert vllm.__version__.startswith(result["about"]["vllm"])
