"""The benchmark of recipes on GPUs, rehearsed on the CPU: what it records, and that it says when a run failed."""

import json

import pytest
from transformers import AutoConfig, GenerationConfig

import recipes
from recipes import peak_memory, print_result, summarise


def test_random_model_ends_texts_at_about_a_quarter(tmp_path):
    recipes.save_random_model("qwen3-0.6b", tmp_path, longest=64, tiny=True)
    ends = GenerationConfig.from_pretrained(tmp_path).eos_token_id
    assert len(ends) == 4 * 256 // 64 and 0 not in ends
    assert AutoConfig.from_pretrained(tmp_path).model_type == "qwen3"


@pytest.mark.slow
def test_steps_of_a_recipe_are_measured_on_every_process(tmp_path):
    kinds = ["full", "lognormal", "lognormal-trl"]
    code = recipes.main(["--model", "qwen3-4b", "--tiny", "--out", str(tmp_path), "--gpus", "2", "--steps", *kinds])
    (path,) = tmp_path.glob("recipes-tiny-*.json")
    (result,) = json.loads(path.read_text())["results"]
    assert (code, result["error"]) == (0, None), result["log"]
    full, *short = zip(*(rank["steps"] for rank in result["ranks"]), strict=True)
    assert [length for step in full for length in step["lengths"]] == [64] * 8  # 4 micro-batches of 1, twice
    for steps in short:
        lengths = [length for step in steps for length in step["lengths"]]
        assert max(lengths) == 64 and sum(lengths) < 64 * 8 / 4  # a seventh on average

    rows = result["rows"]
    assert [row["kind"] for row in rows] == kinds
    for row in rows:
        assert list(row["seconds"]) == ["rewards and log-probabilities", "forward and backward", "optimizer"]
        assert row["seconds"]["forward and backward"] > 0
    assert rows[0]["tokens"] == 8 * (64 + 16)
    assert result["estimate"]["training_peak"] > 0


def test_a_run_that_does_not_end_is_reported(tmp_path):
    recipes.save_random_model("qwen3-4b", tmp_path / "model", tiny=True)
    args = recipes.parse_arguments(["--model", "qwen3-4b", "--gpus", "1", "--tiny"])
    result = recipes.run(args, "none", tmp_path / "model", tmp_path, seconds=-100)
    assert "time limit" in result["error"] and result["rows"] == []


def test_a_step_is_summed_up_over_its_processes(capsys):
    memory = {"allocated": 2**30, "reserved": 2 * 2**30, "card": 40 * 2**30}
    seconds = {"rewards and log-probabilities": 1.0, "forward and backward": 3.0, "optimizer": 1.0}
    phases = {phase: memory | {"seconds": value} for phase, value in seconds.items()}
    step = {"kind": "full", "phases": phases, "lengths": [90], "prompt_length": 10}
    result = {
        "recipe": "qwen3-8b/coda.yaml",
        "processes": 2,
        "sharding": "fsdp2",
        "error": None,
        "estimate": {"training_peak": 44 * 2**30},
        "ranks": [{"steps": [step]}] * 2,
    }
    (row,) = result["rows"] = summarise(result)
    assert row["seconds"] == seconds
    assert row["update_tokens_per_second"] == 2 * 100 / 5
    print_result(result)
    text = capsys.readouterr().out
    assert "Backward pass: 39.0 GiB measured, 44.0 estimated (+13%); 40.0 with what PyTorch keeps" in text


def test_other_programs_on_a_card_do_not_count():
    phase = {"allocated": 45, "reserved": 60, "card": 63}
    full, shared = {"optimizer": phase}, {"optimizer": phase | {"allocated": 46, "card": 71}}
    assert peak_memory([shared, full]) == (49, 63)
