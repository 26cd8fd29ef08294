"""The benchmark of rollout engines, with vLLM itself on a CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import vllm
from vllm import _custom_ops

ROOT = Path(__file__).parents[2]


# The fixture `colocated_engine` keeps weights in place, but this script starts processes of its own.
@pytest.mark.skipif(
    _custom_ops._supports_onednn,
    reason="vLLM packs weights with oneDNN on this CPU, so TRL cannot transfer new ones (see conftest.py)",
)
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
