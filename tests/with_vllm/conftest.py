"""vLLM itself, on a CPU. `make test-vllm` makes an environment for it and runs these tests.

(The folder cannot be called `vllm`: beside other tests, Python would take it for the library.)
"""

import functools
import os
from pathlib import Path

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")  # GiB
os.environ.setdefault("VLLM_CPU_OMP_THREADS_BIND", "nobind")  # to cores, which other processes may be using
os.environ.setdefault("VLLM_CPU_CI_ENV", "1")  # no compiling: it would take longer than running

import pytest
import torch
import vllm
from train_script import TRAIN, record_trainers

RECIPES = Path(__file__).parents[2] / "recipes"


@pytest.fixture(autouse=True)
def environment():
    """TRL leaves variables of `torch.distributed` behind where vLLM ran, and processes started later heed them."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


def leave_weights_in_place(layer: torch.nn.Module, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear


@pytest.fixture(scope="session")
def colocated_engine():
    """
    vLLM as TRL's trainer starts it, but for four things:

    - Weights stay where loading puts them. vLLM's CPU build packs those of linear layers into copies of its own and
      drops the originals, with no setting against it; TRL, which transfers weights by loading them once more, then
      fails with "'Parameter' object has no attribute 'weight_loader'". GPUs use weights as they are loaded.
    - It computes in float32, as the trainer does here, so that the two can be compared token by token. TRL leaves the
      number format to vLLM, which takes bfloat16.
    - It runs the model as it is, uncompiled, which is quicker for so few tokens.
    - Runs with the same settings share an engine, since starting one takes most of a test's time. Each run transfers
      its weights before its first rollout.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("vllm.model_executor.layers.utils.dispatch_cpu_unquantized_gemm", leave_weights_in_place)
        engine = functools.cache(functools.partial(vllm.LLM, dtype="float32", enforce_eager=True))
        patch.setattr("trl.generation.vllm_generation.LLM", engine)
        yield


@pytest.fixture
def train(colocated_engine, tmp_path, monkeypatch):
    """Runs `recipes/train.py` with the ladder's recipe for CODA, batches of 32 completions; returns the trainer."""
    trainers = record_trainers(monkeypatch)

    def run(settings: dict):
        common = {
            "output_dir": tmp_path / "out",
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 4,
            "num_generations": 8,
            "vllm_gpu_memory_utilization": 0.1,
            "save_strategy": "no",
            "logging_steps": 1,
            "disable_tqdm": True,
        }
        flags = [str(part) for name, value in (common | settings).items() for part in (f"--{name}", value)]
        assert TRAIN.main(["--config", str(RECIPES / "ladder" / "coda.yaml"), *flags]) == 0
        return trainers[-1]

    monkeypatch.chdir(RECIPES.parent)  # the recipe names the checkpoint from there
    # The engine goes on using the process group, which this would destroy.
    monkeypatch.setattr("accelerate.PartialState.destroy_process_group", lambda self: None)
    return run
