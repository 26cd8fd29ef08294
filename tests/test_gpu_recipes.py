"""The benchmark of recipes on GPUs, rehearsed on the CPU: what it records, and that it says when a run failed."""

import json
import re
import shlex
import sys
from argparse import Namespace
from pathlib import Path
from string import Template

import pytest
from processes import Command
from transformers import AutoConfig, GenerationConfig
from trl import ModelConfig, TrlParser

import recipes
from coda_trl.dry_run.launch import Launch, planned_config
from recipes import peak_memory, print_result, summarise

ROOT = Path(__file__).parent.parent


def run(out: Path, *options: str) -> tuple[int, dict]:
    code = recipes.main(["--model", "qwen3-4b", "--tiny", "--out", str(out), *options])
    (path,) = out.glob("recipes-tiny-*.json")
    return code, json.loads(path.read_text())["results"][0]


def test_random_model_ends_texts_at_about_a_quarter(tmp_path):
    recipes.save_random_model("qwen3-0.6b", tmp_path, longest=64, tiny=True)
    ends = GenerationConfig.from_pretrained(tmp_path).eos_token_id
    assert len(ends) == 4 * 256 // 64 and 0 not in ends
    assert AutoConfig.from_pretrained(tmp_path).model_type == "qwen3"


@pytest.mark.slow
def test_steps_of_a_recipe_are_measured_on_every_process(tmp_path):
    kinds = ["full", "lognormal", "lognormal-trl"]
    code, result = run(tmp_path, "--gpus", "2", "--rollouts", "generated", "--longest", "16", "--steps", *kinds)
    assert (code, result["error"]) == (0, None), result["log"]
    full, *short = zip(*(rank["steps"] for rank in result["ranks"]), strict=True)
    assert [length for step in full for length in step["lengths"]] == [64] * 8  # 4 micro-batches of 1, twice
    for step in full:  # no more are generated, but all are trained on
        assert 0 < step["generated_tokens"] <= 16 * 4
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


@pytest.mark.slow
def test_a_run_that_does_not_end_is_reported(tmp_path):
    code, result = run(tmp_path, "--gpus", "1", "--seconds", "-100")
    assert code == 1
    assert "time limit" in result["error"]
    assert result["rows"] == []


SERVER = Namespace(
    model="qwen3-8b", method="coda", gpus=8, server=4, rollouts="generated", longest=None, micro_batches=4
)
SERVER.steps, SERVER.tiny = ["full", "lognormal"], False


def test_a_server_is_used_as_the_overlay_says(tmp_path):
    recipe, overlay = (
        recipes.yaml.safe_load(path.read_text())
        for path in (recipes.RECIPES / "qwen3-8b" / "coda.yaml", recipes.SERVER_OVERLAY)
    )
    arguments = recipes.recipe_arguments(SERVER, recipe, overlay, tmp_path / "model", tmp_path, port=8123)
    parser = TrlParser((planned_config(Launch(4, "zero3")), ModelConfig))
    config, *_ = parser.parse_args_and_config(arguments, return_remaining_strings=True)
    assert (config.use_vllm, config.vllm_mode, config.vllm_enable_sleep_mode) == (True, "server", False)
    assert config.vllm_server_timeout == overlay["vllm_server_timeout"] == 1800
    assert (config.vllm_server_host, config.vllm_server_port) == ("127.0.0.1", 8123)
    assert config.generation_batch_size == 4 * 4 and config.gradient_accumulation_steps == 4  # cut
    assert config.max_completion_length == 16384  # not cut


def test_a_server_that_ends_ends_the_run(tmp_path, monkeypatch):
    args = Namespace(**vars(SERVER) | {"gpus": 2, "server": 1, "tiny": True})
    recipes.save_random_model("qwen3-8b", tmp_path / "model", tiny=True)
    ends = [sys.executable, "-c", "raise SystemExit('OSError: the port is taken')"]
    monkeypatch.setattr(recipes, "serve_command", lambda *arguments: ends)
    trainings = []

    def train(*arguments):
        trainings.append(Command([sys.executable, "-c", "import time; time.sleep(60)"], tmp_path / "spec.log", {}))
        return trainings[0]

    monkeypatch.setattr(recipes, "train", train)
    result = recipes.run(args, "none", tmp_path / "model", tmp_path, seconds=50)
    assert result["error"] == "the server ended: OSError: the port is taken"
    assert not trainings[0].processes()
    assert result["recipe_micro_batches"] == 2048  # all of the recipe's batch, by the one that trains


def test_weights_on_their_way_count_neither_as_rollout_nor_as_update(capsys):
    memory = {"allocated": 2**30, "reserved": 2 * 2**30, "card": 40 * 2**30}
    seconds = {"rollout": 8.0, "weight transfer": 2.0, "rewards and log-probabilities": 1.0}
    seconds |= {"forward and backward": 3.0, "optimizer": 1.0}
    phases = {phase: memory | {"seconds": value} for phase, value in seconds.items()}
    step = {"kind": "full", "phases": phases, "lengths": [90], "prompt_length": 10, "generated_tokens": 80}
    result = {
        "recipe": "qwen3-8b/coda.yaml",
        "processes": 2,
        "servers": 1,
        "sharding": "fsdp2",
        "rollouts": "generated",
        "error": None,
        "micro_batches": 4,
        "recipe_micro_batches": 512,
        "recipe_steps": 314,
        "estimate": {"training_peak": 44 * 2**30, "generation_peak": 20 * 2**30},
        "ranks": [{"steps": [step]}] * 2,
    }
    (row,) = result["rows"] = summarise(result)
    assert row["seconds"] == seconds
    assert row["rollout_tokens_per_second"] == 2 * 80 / 8
    assert row["update_tokens_per_second"] == 2 * 100 / 5
    print_result(result)
    text = capsys.readouterr().out
    assert "Backward pass: 39.0 GiB measured, 44.0 estimated (+13%); 40.0 with what PyTorch keeps" in text
    assert "Generation:" not in text  # beside a server there is nothing to estimate


def test_other_programs_on_a_card_do_not_count():
    phase = {"allocated": 45, "reserved": 60, "card": 63}
    full = {"forward and backward": phase, "rollout": {"allocated": 30, "reserved": 50, "card": 53}}
    shared = {"forward and backward": phase | {"allocated": 46, "card": 71}, "rollout": full["rollout"]}
    assert peak_memory([shared, full], "training") == (49, 63)
    assert peak_memory([shared, full], "generation") == (33, 53)


def test_the_commands_for_eight_cards_can_be_parsed_and_use_the_sharding_of_the_recipe():
    text = (ROOT / "benchmarks" / "gpu" / "README.md").read_text()
    values = dict(re.findall(r'^(run|generated)="(.*)"$', text, re.MULTILINE))
    commands = re.findall(r"^(\$run .*)", text, re.MULTILINE)
    assert len(commands) == 3
    options = ("", "$generated", "$generated --server 4")  # of the rows of the table
    (table,) = re.findall(r"^\| `--sharding`.*(?:\n\|.*)+", text, re.MULTILINE)
    header, *rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
    for row, own_options in zip(rows[1:], options, strict=True):
        for model, cell in zip(header[1:], row[1:], strict=True):
            shardings = re.findall(r"`([a-z\d ]+)`", cell)
            more = " ".join(re.findall(r"`(--[^`]+)`", cell))
            commands += [f"$run --model {model} --sharding {sharding} {own_options} {more}" for sharding in shardings]
    assert len(commands) == 3 + 10
    for command in commands:
        words = shlex.split(Template(command).substitute(values), comments=True)
        assert words[:2] == ["python", "benchmarks/gpu/recipes.py"]
        args = recipes.parse_arguments(words[2:])
        assert args.gpus == 8 and args.seconds < 600
        # What is not the recipe's own sharding is asked for in steps without vLLM alone.
        plan = recipes.yaml.safe_load((recipes.RECIPES / args.model / "dry_run.yaml").read_text())
        assert args.rollouts == "made-up" or args.sharding == [Path(plan["accelerate_config"]).stem]


@pytest.mark.parametrize(
    "options, message",
    [
        (["--server", "1"], "--rollouts generated"),
        (["--longest", "64"], "--rollouts generated"),
        (["--server", "2", "--rollouts", "generated"], "leaves none of the 2 cards"),
    ],
)
def test_options_that_contradict_each_other_are_refused(options, message, capsys):
    with pytest.raises(SystemExit):
        recipes.main(["--model", "qwen3-4b", "--gpus", "2", *options])
    assert message in capsys.readouterr().err
