"""The dry run: its arithmetic against numbers worked out by hand, and runs that must be refused."""

import functools
import io
import json
import shutil
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import huggingface_hub
import pytest
import yaml
from accelerate.commands.config.config_args import load_config_from_file
from huggingface_hub.utils import _http
from made_samples import read_lines, write_lines
from rich.console import Console
from transformers import AutoConfig, Qwen3Config
from trl import ModelConfig

import coda_trl.hub
from coda_trl.data import DataArguments
from coda_trl.dry_run import dry_run, read_plan
from coda_trl.dry_run.arithmetic import batch_arithmetic, gate_counts
from coda_trl.dry_run.checks import check_batch, check_lengths, check_memory, check_method, check_rewards
from coda_trl.dry_run.launch import Launch, planned_config, read_launch
from coda_trl.dry_run.memory import GIB, VLLM_WORKSPACE, MemoryEstimate, estimate_memory, model_size
from coda_trl.evaluate import main as evaluate_main
from coda_trl.loading import RewardArguments
from coda_trl.train import main as train_main
from coda_trl.train import parse

ROOT = Path(__file__).parent.parent
DATA = Path(__file__).parent / "fixtures" / "data"

PAPER = {
    "generation_batch_size": 2048,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 256,
    "num_generations": 16,
    "max_completion_length": 16384,
    "num_train_epochs": 1,
    "lr_scheduler_type": "constant",
    "use_vllm": True,
    "vllm_enable_sleep_mode": True,
    "vllm_gpu_memory_utilization": 0.5,
    "vllm_importance_sampling_correction": False,
    "beta": 0.001,
    "use_bias_correction_kl": False,
}
EIGHT = Launch(8, "zero3")


def config(launch=EIGHT, **changes):
    return planned_config(launch)(output_dir="unused", **{**PAPER, **changes})


def model_of(name: str):
    return AutoConfig.for_model(**json.loads((ROOT / "recipes" / name / "config.json").read_text()))


@functools.cache
def size_of(model: str):
    return model_size(model_of(model), ModelConfig())


def memory_of(model: str, launch=EIGHT, model_args=None, **changes):
    return estimate_memory(size_of(model), config(launch, **changes), model_args or ModelConfig(), launch, 1024, 80)


def said(findings) -> list[str]:
    return [f"{finding.severity} {finding.setting}" for finding in findings]


# Batch


@pytest.mark.parametrize(
    ("changes", "rows", "updates", "epoch", "total"),
    [
        ({}, 40_315, 1, 314, 314),
        ({"num_train_epochs": 2}, 8_431, 1, 65, 130),
        ({"max_steps": 7}, 8_431, 1, 65, 7),
        ({}, None, 1, None, None),
        ({"gradient_accumulation_steps": 128, "num_iterations": 2}, 40_315, 4, 314 * 4, 314 * 4),
    ],
)
def test_batch_of_the_paper_and_steps(changes, rows, updates, epoch, total):
    batch = batch_arithmetic(config(**changes), rows)
    assert (batch.completions, batch.prompts) == (2048, 128)
    assert (batch.updates, batch.steps_per_epoch, batch.total_steps) == (updates, epoch, total)


def test_gate_counts():
    assert gate_counts(16, 0.75, 0.25) == (13, 3)
    assert gate_counts(8, 0.75, 0.25) == (7, 1)
    assert gate_counts(4, 0.75, 0.25) == (4, None)  # one of four is not below 0.25
    assert gate_counts(16, 1.0, 0.0) == (None, None)


# Launch


LAUNCHES = {
    "cpu": Launch(1, "none", on_cpu=True),
    "one_gpu": Launch(1, "none"),
    "two_gpus": Launch(2, "ddp"),
    "two_gpus_zero3": Launch(2, "zero3"),
} | {sharding: Launch(8, sharding) for sharding in ("ddp", "zero2", "zero3", "fsdp2")}


def test_shipped_launch_files_are_read_as_accelerate_reads_them():
    found = {path.stem: read_launch(str(path)) for path in (ROOT / "recipes" / "accelerate").glob("*.yaml")}
    assert found == LAUNCHES
    for name, launch in LAUNCHES.items():
        config = load_config_from_file(str(ROOT / "recipes" / "accelerate" / f"{name}.yaml"))
        assert config.num_processes == launch.num_processes


def test_launch_without_a_file_and_with_another_number():
    assert read_launch(None) == Launch(1, "none")
    assert read_launch(None, 2) == Launch(2, "ddp")
    assert read_launch(str(ROOT / "recipes/accelerate/zero3.yaml"), 16) == Launch(16, "zero3")


@pytest.fixture
def launch_file(tmp_path, monkeypatch):
    """Writes a file like those by hand, of `accelerate config`, or of other projects."""
    monkeypatch.chdir(tmp_path)

    def write(content: str) -> str:
        Path("launch.yaml").write_text(content)
        return "launch.yaml"

    return write


@pytest.mark.parametrize(
    ("kind", "settings", "sharding"),
    [
        ("MULTI_GPU", "", "ddp"),
        ("MULTI_CPU", "", "ddp"),
        ("NO", "", "ddp"),  # YAML reads it as false
        ("DEEPSPEED", "", "zero2"),
        ("DEEPSPEED", "deepspeed_config: {zero_stage: 1}", "zero1"),
        ("DEEPSPEED", "deepspeed_config: {zero_stage: 3, offload_param_device: cpu}", "zero3 with offloading"),
        ("DEEPSPEED", "deepspeed_config: {zero_stage: 2, offload_optimizer_device: cpu}", "zero2 with offloading"),
        ("DEEPSPEED", "deepspeed_config: {zero_stage: 3, offload_param_device: none}", "zero3"),
        ("DEEPSPEED", "deepspeed_config: {deepspeed_config_file: plain.json}", "zero0"),
        ("DEEPSPEED", "deepspeed_config: {deepspeed_config_file: ds.json}", "zero3"),
        ("DEEPSPEED", "deepspeed_config: {deepspeed_config_file: offload.json}", "zero2 with offloading"),
        ("FSDP", "", "fsdp1"),
        ("FSDP", "fsdp_config: {version: 2}", "fsdp2"),
        ("FSDP", "fsdp_config: {fsdp_version: 2, fsdp_offload_params: true}", "fsdp2 with offloading"),
        ("XLA", "", "XLA"),
    ],
)
def test_launch_files_may_leave_accelerate_its_defaults(launch_file, kind, settings, sharding):
    Path("plain.json").write_text("{}")
    Path("ds.json").write_text('{"zero_optimization": {"stage": 3}, "train_batch_size": "auto"}')
    Path("offload.json").write_text('{"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"}}}')
    assert read_launch(launch_file(f"distributed_type: {kind}\n{settings}"), 4) == Launch(4, sharding)


@pytest.mark.parametrize(
    ("content", "message"),
    {
        "distributed_type: MULTI_GPU": "launch.yaml sets no `num_processes`. Give it as `--num_processes`",
        "num_processes: 2": "launch.yaml, but cannot be read: A `distributed_type` must be specified",
        "distributed_type: [": "while parsing a flow node",
        "{distributed_type: MULTI_GPU, nodes: 1}": r"had unknown keys \(\['nodes'\]\)",
        "{distributed_type: DEEPSPEED, deepspeed_config: {deepspeed_config_file: ds.json}}": "Received: ds.json",
    }.items(),
)
def test_launch_files_that_accelerate_refuses_are_refused(launch_file, content, message):
    with pytest.raises(ValueError, match=message):
        read_launch(launch_file(content))


def test_the_batch_is_checked_for_the_planned_processes():
    # 8 x 1 x 2 holds one whole group, which one process would not.
    assert config(generation_batch_size=None, gradient_accumulation_steps=2).generation_batch_size == 16


# Memory


@pytest.mark.parametrize(
    ("model", "parameters", "kv_kib"),
    [
        ("qwen3-0.6b", 596_049_920, 112),
        ("qwen3-4b", 4_022_468_096, 144),
        ("qwen3-8b", 8_190_735_360, 144),
        ("qwen3-14b", 14_768_307_200, 160),
    ],
)
def test_sizes_of_the_models(model, parameters, kv_kib):
    size = size_of(model)
    assert size.parameters == size.trainable == parameters
    assert size.kv_bytes_per_token == kv_kib * 1024


def test_heads_divide_a_model_whose_configuration_gives_them_no_width():
    sizes = {"hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2, "num_hidden_layers": 3}
    size = model_size(AutoConfig.for_model("qwen2", **sizes), ModelConfig())
    assert (size.query_width, size.kv_width, size.kv_bytes_per_token) == (64, 32, 3 * 32 * 2 * 2)


def test_lora_trains_two_thin_matrices_a_layer():
    lora = ModelConfig(use_peft=True, lora_r=32, lora_target_modules=["q_proj", "v_proj"])
    size = model_size(model_of("qwen3-0.6b"), lora)
    assert size.trainable == 28 * 32 * ((1024 + 16 * 128) + (1024 + 8 * 128))


@pytest.mark.parametrize(
    ("sharding", "share"), [("zero2", 2 + 14 / 8), ("zero3", 16 / 8), ("fsdp2", 16 / 8), ("ddp", 16)]
)
def test_training_state_is_sixteen_bytes_a_parameter(sharding, share):
    # Weights, gradients, Adam's two moments, and a float32 copy where the weights are bfloat16.
    state = memory_of("qwen3-8b", Launch(8, sharding), beta=0.0).state
    held = sum(amount for part, amount in state.items() if part.startswith(("Weights", "Master", "Adam", "Gradients")))
    assert held == pytest.approx(share * size_of("qwen3-8b").parameters)


@pytest.mark.parametrize(
    ("sharding", "dtype", "use_peft", "bytes_each"),
    [
        ("none", "bfloat16", False, 2),
        ("none", "float32", False, 4),
        ("zero2", "float32", False, 2),
        ("fsdp2", "bfloat16", False, 4),
        ("fsdp2", "bfloat16", True, 2),
    ],
)
def test_weights_are_as_loaded_unless_the_launch_says_otherwise(sharding, dtype, use_peft, bytes_each):
    launch, model_args = Launch(1, sharding), ModelConfig(dtype=dtype, use_peft=use_peft)
    state = memory_of("qwen3-0.6b", launch, model_args, beta=0.0).state
    weights, gradients = (
        next(amount for part, amount in state.items() if part.startswith(kind)) for kind in ("Weights", "Gradients")
    )
    parameters = size_of("qwen3-0.6b").parameters
    assert weights == bytes_each * parameters and gradients == (4 if use_peft else bytes_each) * parameters


def test_ddp_needs_buckets_besides_what_one_process_needs():
    ddp, alone = (memory_of("qwen3-0.6b", Launch(processes, kind)) for processes, kind in ((2, "ddp"), (1, "none")))
    assert ddp.training == alone.training
    assert ddp.state == alone.state | {"DDP buckets": 4 * size_of("qwen3-0.6b").parameters}


def test_a_checkpoint_holds_the_trained_weights_and_the_optimizer():
    parameters = size_of("qwen3-8b").parameters
    for use_peft, bytes_each in ((False, 6), (True, 12)):  # an adapter is float32
        model_args = ModelConfig(dtype="bfloat16", use_peft=use_peft)
        assert memory_of("qwen3-8b", Launch(8, "ddp"), model_args).checkpoint == bytes_each * parameters
    for sharding, bytes_each in (("zero2", 16), ("zero3", 14), ("fsdp2", 12), ("ddp", 12)):
        assert memory_of("qwen3-8b", Launch(8, sharding)).checkpoint == bytes_each * parameters
    assert memory_of("qwen3-8b", Launch(8, "zero3"), save_only_model=True).checkpoint == 2 * parameters


def test_fsdp2_keeps_whole_gradients_between_micro_batches_that_it_does_not_synchronise():
    synced = {"gradient_accumulation_kwargs": {"sync_each_batch": True}}
    settings = ({}, {"accelerator_config": synced}, {"gradient_accumulation_steps": 1, "generation_batch_size": 16})
    several, *others = (memory_of("qwen3-8b", Launch(8, "fsdp2"), **each).training_peak for each in settings)
    in_bfloat16, sharded = (amount * size_of("qwen3-8b").parameters for amount in (2, 4 / 8))
    assert [several - other for other in others] == pytest.approx([in_bfloat16 - sharded] * 2)


def test_reference_model_counts_only_with_kl_and_without_lora():
    lora = ModelConfig(use_peft=True)
    found = [memory_of("qwen3-8b", beta=beta, model_args=args) for beta, args in ((0.1, None), (0, None), (0.1, lora))]
    assert [any(part.startswith("Reference") for part in memory.state) for memory in found] == [True, False, False]


def test_vllm_share_is_for_generation_alone_when_it_sleeps():
    awake, asleep = (memory_of("qwen3-8b", vllm_enable_sleep_mode=sleeps) for sleeps in (False, True))
    assert sum(asleep.generation.values()) == pytest.approx(40 * GIB)
    assert awake.training_peak - asleep.training_peak == pytest.approx(40 * GIB)
    assert asleep.sequence == 17408 * 144 * 1024
    assert asleep.kv_cache == pytest.approx(40 * GIB - 2 * size_of("qwen3-8b").parameters - VLLM_WORKSPACE)
    server = memory_of("qwen3-8b", vllm_mode="server")
    assert server.generation == {} and server.kv_cache is None
    halved = memory_of("qwen3-8b", vllm_tensor_parallel_size=2)
    assert asleep.sequence == 2 * halved.sequence
    assert asleep.generation["vLLM: weights"] == 2 * halved.generation["vLLM: weights"]


def test_checkpointing_and_batch_size_move_the_backward_pass():
    usual = memory_of("qwen3-8b").training_peak
    assert memory_of("qwen3-8b", gradient_checkpointing=False).training_peak > 2 * usual
    pairs = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 128}
    assert memory_of("qwen3-8b", **pairs).training_peak > usual


def test_transformers_generates_a_whole_batch_at_once():
    memory = memory_of("qwen3-0.6b", use_vllm=False)
    assert memory.generation["KV cache (transformers)"] == 256 * 17408 * 112 * 1024
    assert memory.generation["Gathered weights"] == 2 * size_of("qwen3-0.6b").parameters
    assert "Gathered weights" not in memory_of("qwen3-0.6b", Launch(8, "ddp"), use_vllm=False).generation


# Checks


BUDGET = DataArguments(length_budget=[128, 10_000])


@pytest.mark.parametrize(
    ("finding", "changes"),
    [
        ("error scale_rewards", {"scale_rewards": "group"}),
        ("error scale_rewards", {"scale_rewards": "batch"}),
        (None, {"scale_rewards": "group", "length_shaping": "none"}),
        ("warning vllm_importance_sampling_correction", {"vllm_importance_sampling_correction": True}),
        (None, {"vllm_importance_sampling_correction": True, "vllm_importance_sampling_mode": "token_truncate"}),
        (None, {"vllm_importance_sampling_correction": True, "use_vllm": False}),
        ("warning use_bias_correction_kl", {"use_bias_correction_kl": True}),
        (None, {"use_bias_correction_kl": True, "beta": 0.0}),
        ("warning lr_scheduler_type", {"lr_scheduler_type": "linear"}),
        (None, {"lr_scheduler_type": "constant_with_warmup"}),
        ("warning loss_type", {"loss_type": "grpo"}),
        ("warning num_generations", {"num_generations": 4}),
        ("warning mask_truncated_completions", {"mask_truncated_completions": True}),
        ("error length_budget", {"length_shaping": "l1_exact"}),
        (None, {"length_shaping": "l1_max", "data": BUDGET}),
        ("warning length_budget", {"data": BUDGET}),
    ],
)
def test_what_contradicts_the_method(changes, finding):
    data = changes.get("data", DataArguments())
    args = config(**{name: value for name, value in changes.items() if name != "data"})
    assert said(check_method(args, data)) == ([] if finding is None else [finding])


@pytest.mark.parametrize(
    ("changes", "rows", "finding"),
    [
        ({}, 127, "error dataset"),
        ({"gradient_accumulation_steps": 128}, 40_315, "warning gradient_accumulation_steps"),
        ({"gradient_accumulation_steps": 512}, 40_315, "warning gradient_accumulation_steps"),
        ({"num_iterations": 2}, 40_315, "warning gradient_accumulation_steps"),
        ({"vllm_tensor_parallel_size": 3}, 40_315, "error vllm_tensor_parallel_size"),
    ],
)
def test_batches_that_differ(changes, rows, finding):
    args = config(**changes)
    (found,) = check_batch(args, EIGHT, batch_arithmetic(args, rows), rows)
    assert said([found]) == [finding]
    assert ("et it to 256" in found.message) == (found.setting == "gradient_accumulation_steps")


@pytest.mark.parametrize("changes", [{"vllm_max_model_length": 17_407}, {"max_completion_length": 32_000}])
def test_lengths_beyond_vllm_or_the_model(changes):
    (setting,) = changes
    assert said(check_lengths(config(**changes), 1024, size_of("qwen3-8b"))) == [f"error {setting}"]
    assert said(check_lengths(config(vllm_max_model_length=17_408), 1024, size_of("qwen3-8b"))) == []


def test_memory_that_does_not_fit_says_what_to_change():
    size = size_of("qwen3-14b")

    def findings(gpu_memory, dtype="float32", launch=EIGHT, **changes):
        args, model_args = config(launch, **changes), ModelConfig(dtype=dtype)
        memory = estimate_memory(size, args, model_args, launch, 1024, gpu_memory)
        return {f.setting: f for f in check_memory(args, model_args, launch, memory, gpu_memory)}

    found = findings(40, vllm_enable_sleep_mode=False)["gpu_memory"]
    assert found.severity == "error" and "To lower it: `vllm_enable_sleep_mode`" in found.message
    assert findings(80, vllm_gpu_memory_utilization=0.2).keys() == {"vllm_gpu_memory_utilization"}
    assert findings(1000, dtype="bfloat16", launch=Launch(8, "ddp")).keys() == {"dtype"}
    assert findings(1000, dtype="bfloat16").keys() == set()


@pytest.mark.parametrize(
    ("generation", "training", "kv_cache", "finding", "message"),
    [
        (39, 0, None, None, ""),
        (41, 0, None, "warning gpu_memory", "About 91 GiB are needed during generation"),
        (0, 50, None, "warning gpu_memory", "About 100 GiB are needed during the backward pass"),
        (0, 51, None, "error gpu_memory", "About 101 GiB"),
        (0, 0, 2, None, ""),
        (0, 0, 1, "error vllm_gpu_memory_utilization", "leaves 1.0 GiB for keys and values"),
        (0, 0, -1, "error vllm_gpu_memory_utilization", "leaves 0.0 GiB for keys and values"),
    ],
)
def test_memory_is_too_little_from_what_a_gpu_has_and_close_from_nine_tenths_of_it(
    generation, training, kv_cache, finding, message
):
    parts = ({"part": amount * GIB} for amount in (50, generation, training))
    memory = MemoryEstimate(*parts, None if kv_cache is None else kv_cache * GIB, sequence=2 * GIB, checkpoint=0)
    found = list(check_memory(config(), ModelConfig(), EIGHT, memory, 100))
    assert said(found) == [finding] * len(found) and len(found) == (finding is not None)
    assert all(message in each.message for each in found)


@pytest.mark.parametrize(
    ("sharding", "dtype", "use_peft", "warned"),
    [
        ("none", "bfloat16", False, True),
        ("ddp", "bfloat16", False, True),
        ("zero2", "bfloat16", False, False),
        ("ddp", "float32", False, False),
        ("ddp", "bfloat16", True, False),
    ],
)
def test_weights_that_lose_small_updates_are_warned_of(sharding, dtype, use_peft, warned):
    memory = MemoryEstimate({}, {}, {}, None, 0, 0)
    model_args = ModelConfig(dtype=dtype, use_peft=use_peft)
    found = check_memory(config(), model_args, Launch(8, sharding), memory, 100)
    assert said(found) == ["warning dtype"] * warned


def test_a_guess_of_the_reward_that_is_shaped_is_warned_of():
    def findings(*names, **changes):
        return said(check_rewards(config(**changes), RewardArguments(list(names))))

    assert findings("accuracy_reward", "choice_reward") == ["warning correctness_reward"]
    assert findings("accuracy_reward", "choice_reward", length_shaping="none") == findings("accuracy_reward") == []


# The whole report


def report(*argv: str) -> tuple[int, str]:
    output = io.StringIO()
    status = dry_run(read_plan(argv), partial(parse, argv), console=Console(file=output, width=200))
    return status, output.getvalue()


@pytest.fixture
def tiny_recipe(tiny_model, tmp_path, monkeypatch) -> list[str]:
    """A run on the files of the fixtures that can work: 2 steps of 2 prompts x 4 completions."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "recipe.yaml"
    recipe = {
        "model_name_or_path": tiny_model,
        "dataset": [f"deepscaler={DATA}/deepscaler.jsonl"],
        "benchmarks": [f"aime24={DATA}/aime24.jsonl"],
        "max_prompt_length": 128,
        "max_completion_length": 8,
        "num_generations": 4,
        "coda_tau_hard": 0.3,
        "generation_batch_size": 8,
        "per_device_train_batch_size": 8,
        "gradient_accumulation_steps": 1,
        "num_train_epochs": 1,
        "lr_scheduler_type": "constant",
        "save_steps": 1,
        "output_dir": str(tmp_path / "out"),
        "gpu_memory": 16,
    }
    path.write_text(yaml.safe_dump(recipe))
    return ["--config", str(path), "--dry_run"]


def test_a_run_that_can_work(tiny_recipe, tmp_path):
    status, text = report(*tiny_recipe)
    assert status == 0, text
    for line in [
        "2 x 4 completions",
        "each process holds 2 groups",
        "at most 64 (8 x 8)",
        "at most 128 ",
        "4 rows",
        "tokens, 128 allowed",
        "Evaluation problems in the training data",
        "Memory of one GPU",
        "On disk the run keeps 2 checkpoints of 0.0 GiB",
        "No errors, no warnings.",
    ]:
        assert line in text, f"{line!r} is missing from:\n{text}"
    assert "published size" not in text
    assert not (tmp_path / "out").exists(), "a dry run wrote something"
    status, text = report(*tiny_recipe, "--num_processes", "4", "--per_device_train_batch_size", "2")
    assert status == 0 and "each process holds 0.5 groups, so some are split between processes" in text


def test_a_launch_whose_memory_is_not_estimated_says_so(tiny_recipe, launch_file):
    file = launch_file("distributed_type: FSDP\nnum_processes: 1")
    status, text = report(*tiny_recipe, "--accelerate_config", file)
    assert status == 0 and "FSDP2, not fsdp1" in text and "Memory of one GPU" not in text


@pytest.mark.parametrize(
    "text",
    [
        "compute_environment: AMAZON_SAGEMAKER\nec2_instance_type: a\niam_role_name: b\ndistributed_type: NO",
        "distributed_type: FSDP\nfsdp_config: [1]\nnum_processes: 1",
        "distributed_type: MULTI_GPU\nnum_processes: eight",
        "distributed_type: 3\nnum_processes: 1",
    ],
)
def test_a_launch_file_of_another_kind_is_named(tiny_recipe, launch_file, text):
    file = launch_file(text)
    status, text = report(*tiny_recipe, "--accelerate_config", file)
    assert status == 1 and f"`accelerate_config` is {file}, but cannot be read: " in " ".join(text.split())


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["--num_processes", "7"], "generation_batch_size (8) must be divisible by the global batch size (56)"),
        (["--num_generations", "3"], "generation_batch_size (8) must be divisible by num_generations (3)"),
        (["--scale_rewards", "group"], "scale_rewards: 'group'"),
        (["--max_prompt_length", "2"], "no prompt is that short"),
        (["--max_completion_length", "256"], "but the model is made for 256"),
        (["--gpu_memory", "2"], "and a GPU has 2"),
        (["--dataset", f"deepscaler={DATA}/gsm8k.jsonl"], "Missing: problem. Needed: (problem, answer)"),
        (["--benchmarks", f"svamp={DATA}/gsm8k.jsonl"], "Missing: question_concat"),
        (["--num_generations", "16", "--generation_batch_size", "128"], "4 prompts do not fill one batch of 8"),
        (["--coda_alpha", "2"], "`coda_alpha` is 2.0"),
        (["--accelerate_config", "nothing.yaml"], "`nothing.yaml` does not exist"),
        (["--max_completion_length", "null"], "None leaves open how long a completion gets"),
        (["--eval_dataset", "nosuch"], "There is no data set 'nosuch'"),
        (["--eval_strategy", "steps", "--eval_steps", "1"], "nothing to evaluate on"),
        (["--reward_funcs", "no_such_reward"], "`reward_funcs` has 'no_such_reward'"),
        (["--reward_weights", "1", "2"], "must have one weight for each of accuracy_reward"),
        (["--correctness_reward", "wright"], "is 'wright', but must be the name of one of the reward functions"),
    ],
)
def test_runs_that_cannot_work_have_a_status_of_their_own(tiny_recipe, changes, message):
    status, text = report(*tiny_recipe, *changes)
    assert status == 1, text
    assert message in text
    assert "Do not start this run" in text


def test_prompts_that_ask_for_no_box_are_warned_of(tiny_recipe):
    write_lines(Path("mine.jsonl"), [{"prompt": f"{number} + 1 =", "solution": number + 1} for number in range(8)])
    status, text = report(*tiny_recipe, "--dataset", "custom=mine.jsonl")
    assert status == 0 and "the first prompt asks for none" in text


def test_a_reward_that_is_an_object_has_the_name_that_trl_gives_it(tiny_recipe):
    Path("judges.py").write_text("class Judge:\n    def __call__(self, **kwargs): ...\njudge = Judge()\n")
    status, text = report(*tiny_recipe, "--reward_funcs", "judges.judge", "--correctness_reward", "Judge")
    assert status == 0, text


def test_contaminated_training_data_is_named(tiny_recipe):
    status, text = report(*tiny_recipe, "--dataset", f"math_level1={DATA}/math_hub.jsonl", "--num_generations", "8",
                          "--benchmarks", f"math500={DATA}/math_hub_as_math500.jsonl")  # fmt: skip
    assert status == 1 and "There is no file" in text  # a benchmark that is missing is an error, not a clean bill
    rows = [{"problem": row["problem"], "answer": "1"} for row in read_lines(DATA / "math500.jsonl")[:2]]
    write_lines(Path("training.jsonl"), rows)
    status, text = report(*tiny_recipe, "--dataset", "deepscaler=training.jsonl", "--benchmarks",
                          f"math500={DATA}/math500.jsonl")  # fmt: skip
    assert status == 0
    assert "2 of 3 problems of math500 are in the training data" in text
    status, text = report(*tiny_recipe, "--benchmarks", "svamp")
    assert status == 0 and "Not compared with the training data, because the hub gave none: svamp" in text


def test_without_hub_and_tokenizer_a_config_json_is_enough(tmp_path, monkeypatch):
    monkeypatch.chdir(ROOT)
    sizes = Qwen3Config(num_hidden_layers=2, hidden_size=64, intermediate_size=128, num_attention_heads=4,
                        num_key_value_heads=2, head_dim=16, vocab_size=1000)  # fmt: skip
    sizes.to_json_file(tmp_path / "config.json")
    status, text = report("--config", "recipes/qwen3-8b/coda.yaml", "--dry_run", "--model_name_or_path", "no/model",
                          "--model_config", str(tmp_path / "config.json"))  # fmt: skip
    assert status == 0, text
    assert "40,315 (published size; not loaded here)" in text
    assert "314 (123 prompts left over)" in text
    assert "prompt lengths and end-of-sequence tokens were not checked" in text
    assert "Lengths and contamination were not checked" in text
    status, text = report("--config", "recipes/qwen3-8b/coda.yaml", "--dry_run", "--model_config", "no/model",
                          "--eval_dataset", "svamp")  # fmt: skip
    assert status == 0 and "so memory was not estimated" in text
    assert "warning eval_dataset: " in text and "It was not checked." in text


def ask(monkeypatch, answers: bool) -> list[str]:
    """Puts a hub that has nothing, or none, in place of the real one. Returns what it will be asked for."""
    asked = []
    httpx = vars(_http).get("httpx") or _http.httpx2  # from huggingface_hub 2 on

    def answer(request):
        asked.append(f"{request.method} {request.url}")
        if answers:
            return httpx.Response(404, request=request)
        raise httpx.ConnectError("Name or service not known", request=request)

    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr(_http, "_GLOBAL_CLIENT", httpx.Client(transport=httpx.MockTransport(answer)))
    no_sleep = {"sleep": lambda seconds: pytest.fail(f"waits {seconds} s to ask again")}
    monkeypatch.setattr(_http, "time", SimpleNamespace(**vars(time) | no_sleep))  # others may wait, as for a file lock
    monkeypatch.setattr(coda_trl.hub, "PATIENCE", 0)
    return asked


@pytest.mark.parametrize(
    ("model", "answers", "expected"),
    [
        (["--model_name_or_path", "no/model"], False, ["HEAD https://huggingface.co"]),
        (
            ["--model_name_or_path", "no/model"],
            True,
            ["HEAD https://huggingface.co", "/no/model/"],
        ),
        ([], True, []),  # a local model and files
    ],
    ids=["unreachable", "reachable", "not needed"],
)
def test_the_hub_is_asked_once_whether_it_answers(tiny_recipe, monkeypatch, model, answers, expected):
    asked = ask(monkeypatch, answers)
    status, text = report(*tiny_recipe, *model)
    assert status == 0, text
    later = iter(asked)  # the client may ask something of its own in between, once a process
    assert all(any(part in address for address in later) for part in expected), asked
    assert asked.count("HEAD https://huggingface.co") == expected.count("HEAD https://huggingface.co")
    if not answers:
        assert len(asked) == 1 and text.count("HF_HUB_OFFLINE=1") == 2 and "`--model_config PATH`" in text
        asked = ask(monkeypatch, answers)  # the dry run has closed the client
        assert train_main([*tiny_recipe[:2], "--use_cpu", "--bf16=false", "--report_to=none", *model]) == 1
        assert len(asked) == 1


@pytest.mark.parametrize("command", [train_main, evaluate_main], ids=["train", "evaluate"])
def test_without_network_a_model_comes_from_the_cache_alone(tiny_recipe, tiny_model, tmp_path, monkeypatch, command):
    asked = ask(monkeypatch, answers=False)
    folder = tmp_path / "cache" / "models--some--model"
    shutil.copytree(tiny_model, folder / "snapshots" / "abc")
    (folder / "refs").mkdir()
    (folder / "refs" / "main").write_text("abc")
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    if command is train_main:
        options = [*tiny_recipe[:2], "--use_cpu", "--bf16=false", "--report_to=none", "--eval_strategy=no"]
    else:
        options = "--engine transformers --max_tokens 4 --n 1 --limit 2".split()
        options += ["--benchmarks", f"aime24={DATA}/aime24.jsonl", "--output_dir", str(tmp_path / "evaluation")]
    monkeypatch.setattr("sys.argv", ["command", "--model_name_or_path", "some/model", *options])
    assert not command()
    assert asked == ["HEAD https://huggingface.co"]


def test_a_hub_that_answers_the_second_time_can_be_reached(monkeypatch):
    problems, slept = [OSError("Name or service not known"), None], []

    def head(url, timeout):
        if problem := problems.pop(0):
            raise problem

    monkeypatch.setattr(coda_trl.hub, "time", SimpleNamespace(monotonic=time.monotonic, sleep=slept.append))
    assert coda_trl.hub._ask(SimpleNamespace(head=head)) is None and slept == [1]


def test_a_file_beside_the_recipe_holds_what_only_the_dry_run_needs(tiny_recipe, tmp_path):
    (tmp_path / "dry_run.yaml").write_text("gpu_memory: 2\nnum_processes: 2\n")
    assert read_plan(tiny_recipe).num_processes == 2
    assert read_plan([*tiny_recipe, "--num_processes", "3"]).num_processes == 3
    assert read_plan(tiny_recipe).gpu_memory == 16  # of the recipe


def test_what_the_memory_cannot_be_worked_out_for(tiny_recipe, tmp_path):
    status, text = report(*tiny_recipe, "--use_peft", "true", "--lora_target_modules", "no_such", "module")
    assert status == 1 and "lora_target_modules: " in text
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "gpt2"}))
    status, text = report(*tiny_recipe, "--model_config", str(tmp_path / "config.json"))
    assert status == 0 and "'GPT2Config' object has no attribute" in text


def test_a_run_on_the_cpu_has_no_memory_of_a_gpu(tiny_recipe):
    for changes in (["--use_cpu", "true"], ["--accelerate_config", str(ROOT / "recipes/accelerate/cpu.yaml")]):
        status, text = report(*tiny_recipe, *changes)
        assert status == 0 and "Memory of one GPU" not in text


@pytest.mark.slow
def test_peft_is_needed_for_lora_alone(tiny_recipe):
    """As full training does, in an environment without it."""
    code = (
        "import sys; sys.modules['peft'] = None\n"
        "from coda_trl.train import main\n"
        "sys.exit(main(sys.argv[1:]) + main([*sys.argv[1:], '--use_peft']))"
    )
    command = [sys.executable, "-c", code, *tiny_recipe]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("Memory of one GPU") == 1
    assert "PEFT" in run.stdout.replace("\n", " ")
