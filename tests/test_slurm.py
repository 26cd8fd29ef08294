"""The Slurm scripts with doubles of the commands that they call: what is launched, and what ends the job."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
SCRIPTS = ROOT / "recipes" / "slurm"
SERVERS = ["multi_node", "one_node_server"]
FOREVER = "exec sleep 1000"  # until it is killed
DOUBLES = {
    "python": "",
    "scontrol": "printf '%s\\n' first second last",
    # Options come before the command; the nodes' own shells know their rank.
    "srun": 'while [[ $1 == -* ]]; do echo "srun $1" >> calls; shift; done; SLURM_PROCID=1 exec "$@"',
    "accelerate": "",
    "vllm": FOREVER,
}


@pytest.fixture
def recipe(tmp_path) -> Path:
    folder = tmp_path / "my recipes"
    folder.mkdir()
    (folder / "dry_run.yaml").write_text("accelerate_config: launch.yaml\n")
    (folder / "coda.yaml").write_text("model_name_or_path: some/model # the base\n")
    return folder / "coda.yaml"


@pytest.fixture
def submit(tmp_path, recipe):
    """Runs a script as a job of three nodes with four GPUs each, with these commands in place of the doubles."""

    def run(script: str, *arguments: str, **commands: str) -> tuple[subprocess.CompletedProcess, list[str]]:
        (tmp_path / "bin").mkdir()
        for name, body in (DOUBLES | commands).items():
            path = tmp_path / "bin" / name
            path.write_text(f'#!/bin/bash\necho {name} "${{@@Q}}" >> calls\n{body}\n')
            path.chmod(0o755)
        environment = {"SLURM_JOB_NAME": "job", "SLURM_JOB_ID": "7", "SLURM_CPUS_PER_TASK": "1"}
        environment |= {"SLURM_NNODES": "3", "SLURM_GPUS_ON_NODE": "4", "SLURM_JOB_NODELIST": "nodes"}
        environment |= {"PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}"}
        command = ["bash", SCRIPTS / f"{script}.slurm", recipe, *arguments]
        done = subprocess.run(
            command, cwd=tmp_path, env=os.environ | environment, capture_output=True, text=True, timeout=60
        )
        return done, (tmp_path / "calls").read_text().replace("'", "").splitlines()

    return run


def test_one_node_with_spaces_in_names(submit, recipe):
    done, calls = submit("one_node", "--output_dir", "my runs")
    assert done.returncode == 0, done.stderr
    train = f"recipes/train.py --config {recipe}"
    assert calls == [
        f"python {train} --dry_run --output_dir my runs",
        f"accelerate launch --config_file launch.yaml {train} --output_dir my runs",
    ]


@pytest.mark.parametrize("script", ["one_node", "one_node_server"])
def test_a_recipe_without_a_launch_file_is_refused_with_the_remedy(submit, recipe, script):
    (recipe.parent / "dry_run.yaml").write_text("gpu_memory: 80\n")
    (recipe.parents[1] / "calls").touch()
    done, calls = submit(script)
    assert done.returncode != 0 and calls == []
    assert f"add it to {recipe.parent}/dry_run.yaml, such as: accelerate_config: recipes/accelerate/" in done.stderr


def test_several_nodes(submit, recipe):
    """The number of GPUs in a node is Slurm's; the last node serves the recipe's model, the others train."""
    until_it_serves = "until grep -q ^vllm calls; do sleep 0.1; done"
    done, calls = submit("multi_node", "--output_dir", "my runs", accelerate=until_it_serves)
    assert done.returncode == 0, done.stderr
    train = f"recipes/train.py --config {recipe} --overlay recipes/slurm/server.yaml"
    train += " --gradient_accumulation_steps 256 --vllm_server_host last --output_dir my runs"
    assert f"python {train} --dry_run --num_processes 8" in calls
    launch = "--config_file recipes/accelerate/zero3.yaml --num_machines 2 --num_processes 8 --machine_rank 1"
    assert f"accelerate launch {launch} --main_process_ip first --main_process_port 29500 {train}" in calls
    assert {"srun --nodelist=last", "srun --nodes=2", "srun --exclude=last", "srun --kill-on-bad-exit"} <= {*calls}
    (serve,) = (call for call in calls if call.startswith("vllm"))
    assert serve.startswith("vllm serve some/model ") and "--tensor-parallel-size 4 " in serve


@pytest.mark.parametrize("script", SERVERS)
@pytest.mark.parametrize("option", ["--model_name_or_path other/model", "--seed 1 --model-name-or-path=other/model"])
def test_a_model_of_the_command_line_is_served(submit, script, option):
    until_it_serves = "until grep -q ^vllm calls; do sleep 0.1; done"
    _, calls = submit(script, *option.split(), "--max_steps", "1", accelerate=until_it_serves)
    assert [call.split()[2] for call in calls if call.startswith("vllm")] == ["other/model"]


@pytest.mark.parametrize("script", SERVERS)
def test_a_server_that_ends_ends_the_job(submit, script):
    """The training waited half an hour for a server that had failed."""
    done, _ = submit(script, vllm="exit 0", accelerate=FOREVER)
    assert done.returncode == 1
    assert "vllm serve has ended, so the training is ended, too. job-7-server.log says why." in done.stderr


@pytest.mark.parametrize("script", SERVERS)
def test_a_training_that_fails_ends_the_server_and_the_job(submit, script):
    done, _ = submit(script, accelerate="exit 3")
    assert done.returncode == 3 and "vllm" not in done.stderr


@pytest.mark.parametrize("script", ["one_node", *SERVERS])
def test_nothing_starts_after_a_dry_run_with_errors(submit, script):
    done, calls = submit(script, python="exit 1")
    assert done.returncode == 1
    assert not [call for call in calls if call.startswith(("accelerate", "vllm"))]
