"""Whole evaluations with the transformers engine on a tiny random model."""

import itertools
import json
import multiprocessing
import os
import re
import runpy
import shlex
import shutil
import signal
import sys
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
    BloomConfig,
    BloomForCausalLM,
    GenerationConfig,
)

from coda_trl.evaluation import Benchmark, EvaluationConfig, load_samples, read_samples
from coda_trl.evaluation.generation import Request, SamplingSettings
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.evaluation.models import load_tokenizer, locate, model_length, stop_token_ids
from coda_trl.evaluation.runner import evaluate
from coda_trl.evaluation.transformers_engine import TransformersEngine
from coda_trl.grading import Grade
from coda_trl.ladder import CHECKPOINT
from coda_trl.report.runs import load_run


def ask(text):
    return [{"role": "user", "content": text}]


def problems(count=4):
    return [{"prompt": ask(f"{i} + {i} ="), "solution": str(2 * i), "rung": i % 2, "n_gold": i} for i in range(count)]


def grade(completions, asked):
    return [problem["solution"] in completion.split() for completion, problem in zip(completions, asked, strict=True)]


def sums(count=4):
    return Benchmark("sums", problems(count), grade)


def settings(model, folder, **changes):
    arguments = {"engine": "transformers", "n": 3, "temperature": 1.0, "top_p": 1.0, "max_tokens": 12, "batch_size": 4}
    return EvaluationConfig(model, str(folder), **(arguments | changes))


def run_command(monkeypatch, arguments):
    monkeypatch.setattr(sys, "argv", ["evaluate.py", *shlex.split(arguments)])
    runpy.run_path(str(Path(__file__).parents[1] / "recipes" / "evaluate.py"), run_name="__main__")


def by_key(folder):
    return {
        (s["benchmark"], s["problem_id"], s["sample"]): (s["completion"], s["tokens"], s["correct"], s["seed"])
        for s in read_samples(folder / "samples.jsonl")
    }


def test_an_evaluation_writes_every_sample_and_a_summary(tiny_model, tmp_path):
    summary = evaluate(settings(tiny_model, tmp_path), [sums()])
    samples = list(read_samples(tmp_path / "samples.jsonl"))
    assert {(s["problem_id"], s["sample"]) for s in samples} == {(str(p), n) for p in range(4) for n in range(3)}
    for s in samples:
        problem = problems()[int(s["problem_id"])]
        assert s["prompt"] == problem["prompt"]
        assert (s["rung"], s["n_gold"]) == (problem["rung"], problem["n_gold"])
        assert s["correct"] == (problem["solution"] in s["completion"].split())
        words = len(s["completion"].split())
        assert (s["finish_reason"], s["tokens"]) in {("length", 12), ("stop", s["tokens"])}
        assert words <= s["tokens"] <= 12
    assert len({s["seed"] - s["sample"] for s in samples}) == 4, "one of each problem, and the number of the sample"
    assert json.loads((tmp_path / "summary.json").read_text()) == summary
    assert summary["engine"] == "transformers"
    assert summary["settings"]["top_p"] == 1.0
    assert summary["versions"]["torch"] == torch.__version__
    assert summary["versions"].keys() == {"coda_trl", "python", "torch", "transformers"}
    assert summary["complete"]
    assert summary["wall_seconds"] > 0
    assert summary["tokens_per_second"] == pytest.approx(sum(s["tokens"] for s in samples) / summary["wall_seconds"])
    result = summary["benchmarks"]["sums"]
    assert (result.pop("problems"), result.pop("samples"), result.pop("stopped")) == (4, 12, 0)
    assert result.keys() == {"accuracy", "tokens", "correct_tokens", "wrong_tokens", "truncated", "unscorable"}
    assert result["accuracy"]["value"] == pytest.approx(sum(s["correct"] for s in samples) / 12)


def test_results_have_the_order_in_which_they_were_asked_for(tiny_model, tmp_path):
    sets = [
        Benchmark(name, [{"prompt": ask(text), "solution": "1"}], grade) for name, text in (("b", "1"), ("a", "1 + 1"))
    ]
    summary = evaluate(settings(tiny_model, tmp_path, n=1), sets)  # the longest prompts are answered first
    assert [s["benchmark"] for s in read_samples(tmp_path / "samples.jsonl")] == ["a", "b"]
    assert list(summary["benchmarks"]) == ["b", "a"]


def test_samples_do_not_depend_on_their_batch_nor_on_how_many_there_are(tiny_model, tmp_path):
    same_length = [sums()]  # prompts of one length: padding changes logits in the last digit
    evaluate(settings(tiny_model, tmp_path / "one", batch_size=1), same_length)
    evaluate(settings(tiny_model, tmp_path / "all", batch_size=64, n=5), same_length)
    one, many = by_key(tmp_path / "one"), by_key(tmp_path / "all")
    assert one == {key: many[key] for key in one}
    assert len({completion for completion, *_ in many.values()}) > 10  # and they do differ from each other
    evaluate(settings(tiny_model, tmp_path / "other", seed=1), same_length)
    assert by_key(tmp_path / "other") != one


def test_the_longest_prompt_comes_first_and_padding_is_masked(tiny_model, monkeypatch):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)
    engine = TransformersEngine(model, tokenizer, SamplingSettings(0.0, 1.0, 2), [tokenizer.eos_token_id])
    seen, generate = {}, model.generate
    monkeypatch.setattr(model, "generate", lambda **inputs: seen.update(inputs) or generate(**inputs))
    list(engine.generate([Request("b", "short", (7,), 0, 1, 0), Request("b", "long", (8, 9, 10), 0, 1, 0)]))
    pad = tokenizer.pad_token_id
    assert seen["input_ids"].tolist() == [[8, 9, 10], [pad, pad, 7]]
    assert seen["attention_mask"].tolist() == [[1, 1, 1], [0, 0, 1]]


@pytest.mark.parametrize(("temperature", "top_p"), [(1.0, 1.0), (0.7, 0.6)])
def test_sampling_follows_the_models_distribution(tiny_model, temperature, top_p):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)
    with torch.no_grad():
        model.model.embed_tokens.weight.mul_(20)  # sharpens the distribution
        prompt = tuple(tokenizer("1 + 2 =").input_ids)
        logits = model(torch.tensor([prompt])).logits[0, -1]
    expected = torch.softmax(logits / temperature, dim=0)
    order = expected.argsort(descending=True)
    kept = order[: int((expected[order].cumsum(0) < top_p).sum()) + 1]
    expected = torch.zeros_like(expected).scatter(0, kept, expected[kept] / expected[kept].sum())
    engine = TransformersEngine(
        model, tokenizer, SamplingSettings(temperature, top_p, 1), [tokenizer.eos_token_id], batch_size=500
    )
    request = Request("b", "p", prompt, 0, 2000, seed=0)
    words = [answer.text for batch in engine.generate([request]) for answer in batch]
    vocabulary = tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    plain = [i for i, token in enumerate(vocabulary) if i not in tokenizer.all_special_ids]
    observed = torch.tensor([words.count(vocabulary[i]) for i in plain]) / 2000
    assert observed == pytest.approx(expected[plain].numpy(), abs=0.04)  # four standard errors of a share of 1/4
    assert observed[expected[plain] == 0].sum() == 0


def test_the_models_own_generation_settings_are_not_used(tiny_model, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(tiny_model)
    model.generation_config.repetition_penalty = 50.0
    model.save_pretrained(tmp_path / "model")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "model")
    evaluate(settings(tiny_model, tmp_path / "a"), [sums()])
    evaluate(settings(str(tmp_path / "model"), tmp_path / "b"), [sums()])
    assert by_key(tmp_path / "a") == by_key(tmp_path / "b")


def test_an_answer_ends_at_any_of_the_models_stop_tokens(tiny_model, tmp_path):
    model, tokenizer = AutoModelForCausalLM.from_pretrained(tiny_model), AutoTokenizer.from_pretrained(tiny_model)
    wait = tokenizer.convert_tokens_to_ids("wait")
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, wait]
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    files = locate(str(tmp_path))
    stops = stop_token_ids(files, load_tokenizer(files))
    assert set(stops) == {tokenizer.eos_token_id, wait}
    engine = TransformersEngine(model, tokenizer, SamplingSettings(1.0, 1.0, 30), stops)
    answers = [a for batch in engine.generate([Request("b", "p", (1, 2), 0, 40, 0)]) for a in batch]
    stopped = [answer for answer in answers if answer.finish_reason == "stop"]
    assert stopped
    assert all("wait" not in answer.text.split()[:-1] for answer in answers)
    assert any(answer.text.endswith("wait") for answer in stopped)


def test_a_model_without_a_declared_context_is_evaluated(tiny_model, tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(tiny_model)
    tokenizer.save_pretrained(tmp_path / "model")
    sizes = {"vocab_size": len(tokenizer), "hidden_size": 16, "n_layer": 1, "n_head": 2}
    BloomForCausalLM(BloomConfig(**sizes)).save_pretrained(tmp_path / "model")
    assert evaluate(settings(str(tmp_path / "model"), tmp_path / "out"), [sums(1)])["complete"]
    assert model_length(locate(str(tmp_path / "model")), 5000) == 5120


def test_revision_own_code_and_attention_reach_all_that_is_loaded(tiny_model, tmp_path, monkeypatch):
    asked = {}

    def spy(owner):
        load = owner.from_pretrained

        def loaded(name, *args, **kwargs):
            asked.setdefault(owner.__name__, kwargs)
            return load(name, *args, **kwargs)

        monkeypatch.setattr(owner, "from_pretrained", loaded)

    for owner in (AutoConfig, AutoTokenizer, AutoModelForCausalLM, GenerationConfig):
        spy(owner)
    changes = {"model_revision": "v2", "trust_remote_code": True}
    summary = evaluate(settings(tiny_model, tmp_path, **changes), [sums(1)])
    assert {kwargs["revision"] for kwargs in asked.values()} == {"v2"} and len(asked) == 4
    assert asked.pop("GenerationConfig") and all(kwargs["trust_remote_code"] for kwargs in asked.values())
    assert summary["settings"]["model_revision"] == "v2"


def test_an_adapter_is_applied_to_the_base_it_names(tiny_model, tmp_path):
    torch.manual_seed(1)
    model = get_peft_model(
        AutoModelForCausalLM.from_pretrained(tiny_model), LoraConfig(r=2, target_modules=["o_proj"])
    )
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if "lora_B" in name:
                weight.normal_(std=5)
    model.save_pretrained(tmp_path / "adapter")
    files = locate(str(tmp_path / "adapter"))
    assert (files.model, files.adapter_rank) == (tiny_model, 2)
    merged = model.merge_and_unload()
    merged.save_pretrained(tmp_path / "merged")
    AutoTokenizer.from_pretrained(tiny_model).save_pretrained(tmp_path / "merged")
    for name in ("adapter", "merged"):
        evaluate(settings(str(tmp_path / name), tmp_path / f"{name}-out"), [sums()])
    evaluate(settings(tiny_model, tmp_path / "base-out"), [sums()])
    assert by_key(tmp_path / "adapter-out") == by_key(tmp_path / "merged-out")
    assert by_key(tmp_path / "adapter-out") != by_key(tmp_path / "base-out")
    with pytest.raises(ValueError, match="is no adapter"):
        locate(tiny_model, base_model_name_or_path="other")
    with pytest.raises(ValueError, match="adapter is an adapter of 'elsewhere', which is no folder here"):
        locate(str(tmp_path / "adapter"), base_model_name_or_path="elsewhere")


def test_vllm_is_given_the_model_its_adapter_and_room_for_the_longest_answer(tiny_model, tmp_path, monkeypatch):
    config = AutoConfig.from_pretrained(shutil.copytree(tiny_model, base := str(tmp_path / "base")))
    config.max_position_embeddings = 8192
    config.save_pretrained(base)
    adapted = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(r=4))
    adapted.save_pretrained(adapter := str(tmp_path / "adapter"))
    AutoTokenizer.from_pretrained(base).save_pretrained(adapter)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(__version__="1.2"))
    monkeypatch.setattr("coda_trl.evaluation.config.find_spec", lambda name: name)
    monkeypatch.setattr("coda_trl.evaluation.vllm_engine.VLLMEngine", made := Mock(side_effect=RuntimeError("made")))
    changes = {"engine": "vllm", "gpu_memory_utilization": 0.5, "kv_cache_memory_bytes": 7, "dtype": "float16"}
    changes |= {"tensor_parallel_size": 2, "data_parallel_size": 3, "max_tokens": 2045}
    common = {"model": base, "tokenizer": base, "tokenizer_revision": None, "revision": None}
    common |= {"trust_remote_code": False, "max_model_len": 3072, "dtype": "float16", "gpu_memory_utilization": 0.5}
    lora = {"tokenizer": adapter, "enable_lora": True, "max_lora_rank": 8}  # vLLM refuses 4
    for model, arguments, folder in ((base, {}, None), (adapter, lora, adapter)):
        with pytest.raises(RuntimeError, match="made"):
            evaluate(settings(model, tmp_path / "out", **changes), [sums()])
        _, sampling, stops, *given = made.call_args.args
        assert sampling == SamplingSettings(1.0, 1.0, 2045) and stops
        assert given == [common | {"kv_cache_memory_bytes": 7} | arguments, folder, 2, 3]
        (tmp_path / "out" / "samples.jsonl").unlink()
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["versions"]["vllm"] == "1.2"


def test_a_finished_run_draws_nothing_again_and_a_larger_n_only_what_is_new(tiny_model, tmp_path, monkeypatch):
    evaluate(settings(tiny_model, tmp_path), [sums()])
    before = (tmp_path / "samples.jsonl").read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(AutoModelForCausalLM, "from_pretrained", None)  # no weights are loaded
        again = evaluate(settings(tiny_model, tmp_path), [sums()])
        assert again["tokens_per_second"] > 0  # the earlier session still counts
        (tmp_path / "summary.json").unlink()
        assert evaluate(settings(tiny_model, tmp_path), [sums()])["tokens_per_second"] is None
    assert (tmp_path / "samples.jsonl").read_bytes() == before
    evaluate(settings(tiny_model, tmp_path, n=5), [sums()])
    assert (tmp_path / "samples.jsonl").read_bytes().startswith(before)
    assert len(by_key(tmp_path)) == 20


def test_gaps_are_filled_with_the_samples_that_belong_there(tiny_model, tmp_path):
    evaluate(settings(tiny_model, tmp_path, n=6), [sums()])
    complete = by_key(tmp_path)
    lines = (tmp_path / "samples.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "samples.jsonl").write_text("".join(line for i, line in enumerate(lines) if i % 3))
    evaluate(settings(tiny_model, tmp_path, n=6), [sums()])
    assert by_key(tmp_path) == complete


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": "hf"}, "engine must be one of vllm, transformers, got 'hf'"),
        ({"n": 0}, "n must be at least 1"),
        ({"temperature": -1.0}, "temperature must be at least 0"),
        ({"top_p": 0.0}, r"top_p must lie in \(0, 1\]"),
        ({"temperature": 0.0}, "temperature=0 gives n=3 identical samples"),
        ({"prompt_format": "text"}, "prompt_format must be"),
        ({"temperature": float("nan")}, "temperature must be at least 0 and finite, got nan"),
        ({"temperature": float("inf")}, "temperature must be at least 0 and finite, got inf"),
        ({"top_p": float("nan")}, "top_p must lie in"),
        ({"dtype": "float12"}, "dtype must be one of auto, bfloat16, float16, float32, got 'float12'"),
    ],
)
def test_settings_out_of_range_are_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        settings("model", "folder", **changes)


def test_the_remedy_for_answers_that_do_not_fit_is_taken_by_the_same_folder(tiny_model, tmp_path):
    with pytest.raises(ValueError) as refused:
        evaluate(settings(tiny_model, tmp_path, max_tokens=10_000), [sums(1)])
    fits = int(re.search(r"set max_tokens to (\d+) or less", str(refused.value))[1])
    (tmp_path / "samples.jsonl").touch()
    # What an evaluation that ended before its first sample leaves: nothing was drawn with these settings.
    summary = {"settings": {"max_tokens": 10_000}, "n": 64, "sessions": [], "complete": False}
    (tmp_path / "summary.json").write_text(json.dumps(summary))
    assert evaluate(settings(tiny_model, tmp_path, n=1, max_tokens=fits), [sums(1)])["complete"]


@pytest.mark.parametrize("prompt", [None, 7, {"content": "What?"}])
def test_a_prompt_of_the_wrong_shape_is_named(prompt):
    benchmark = Benchmark("sums", [{"prompt": "1 + 1 =", "solution": "2"}, {"prompt": prompt}], grade)
    with pytest.raises(ValueError, match="benchmark 'sums', problem '1': `prompt` must be a string or a list of mess"):
        benchmark.numbered()


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"model.safetensors": "cut off"}, "model.safetensors is truncated or damaged"),
        (
            {"config.json": None, "checkpoint-5": ""},
            "holds neither config.json (a model) nor adapter_config.json (an adapter), but checkpoint-5",
        ),
        ({"config.json": None}, "holds neither config.json (a model) nor adapter_config.json (an adapter): name one"),
    ],
)
def test_a_folder_that_no_model_can_be_read_from_is_named(tiny_model, tmp_path, files, message):
    shutil.copytree(tiny_model, tmp_path / "model")
    for name, content in files.items():
        path = tmp_path / "model" / name
        path.unlink() if content is None else path.write_text(content)
    with pytest.raises(ValueError, match=re.escape(message)):
        locate(str(tmp_path / "model"))


@pytest.mark.parametrize(
    ("config", "arguments", "message"),
    [
        (None, "--config gone.yaml", "error: There is no file gone.yaml."),
        ("n: [1", "--config c.yaml", 'error: while parsing a flow sequence in "c.yaml", line 1, column 4'),
        ("text", "--config c.yaml", "error: c.yaml holds 'text', but must hold settings (`name: value`)."),
        ("samples: 3", "--config c.yaml", "error: There is no setting `samples`. `--help` lists them all."),
        ("n: two and a half", "--config c.yaml", "invalid int value: 'two and a half'"),
        ("seed: 1.5", "--config c.yaml", "invalid int value: '1.5'"),  # half a seed was taken for a whole one
        ("limit: [3]", "--config c.yaml", "error: `limit` is [3], but must be a number."),
        (None, "--chat_template_kwargs no", "error: `chat_template_kwargs` is 'no', but must be a mapping"),
        (None, "--config", "error: argument --config: expected 1 argument"),
        (
            None,
            f"--model_name_or_path '{CHECKPOINT}' --benchmarks ladder=5",
            "error: 'ladder=5': the ladder is made, not read: say `ladder`",
        ),
        (
            None,
            f"--model_name_or_path '{CHECKPOINT}' --benchmarks custom=own.jsonl",
            "error: The tokenizer cannot encode the prompts: WordLevel error: Missing [UNK] token",
        ),
        (None, "--benchmarks unknown", "error: there is no model folder ./gone: check the path"),
        (None, "--model_name_or_path no/such", "error: 'no/such' is no folder here, and the hub did not give it"),
        (None, "--model_name_or_path .", "error: . holds neither config.json (a model) nor adapter_config.json"),
    ],
)
def test_what_the_command_cannot_do_is_one_line(tmp_path, monkeypatch, capsys, config, arguments, message):
    monkeypatch.chdir(tmp_path)
    if config is not None:
        (tmp_path / "c.yaml").write_text(config)
    (tmp_path / "own.jsonl").write_text('{"prompt": "Two plus two?", "solution": "4"}\n')
    base = "--model_name_or_path ./gone --benchmarks ladder --engine transformers --output_dir out"
    with pytest.raises(SystemExit) as ended:
        run_command(monkeypatch, f"{base} {arguments}")
    # argparse, which refuses what is no number, prints its usage by itself and exits with 2.
    said = capsys.readouterr().err.splitlines()[-1] if ended.value.code == 2 else ended.value.code
    assert message in said and "\n" not in said


def test_other_or_fewer_problems_settings_weights_or_a_smaller_n_in_the_same_folder_are_refused(tiny_model, tmp_path):
    model, folder = tmp_path / "model", tmp_path / "out"
    shutil.copytree(tiny_model, model)
    evaluate(settings(str(model), folder), [sums(2)])
    others = Benchmark("sums", [{"prompt": ask("9 + 9 ="), "solution": "18"}, *problems(2)[1:]], grade)
    with pytest.raises(ValueError, match="holds samples of another problem '0' in benchmark 'sums'"):
        evaluate(settings(str(model), folder), [others])
    with pytest.raises(ValueError, match=r"n=3, not 2: continue with its settings \(n, limit and"):
        evaluate(settings(str(model), folder, n=2), [sums(2)])
    with pytest.raises(ValueError, match=r"holds an evaluation with temperature=1.0, not 0.5.*choose another"):
        evaluate(settings(str(model), folder, temperature=0.5), [sums(2)])
    assert evaluate(settings(str(model), folder), [sums(3)])["complete"]  # more problems are welcome
    with pytest.raises(
        ValueError, match="an evaluation with 1 problems of 'sums' that are not asked for now: continue"
    ):
        evaluate(settings(str(model), folder), [sums(2)])  # it was `complete`, of three problems
    others = Benchmark("others", problems(1), grade)
    with pytest.raises(ValueError, match="3 problems of 'sums' that are not asked for now"):
        evaluate(settings(str(model), folder, n=4), [others])
    assert set(evaluate(settings(str(model), folder), [others])["benchmarks"]) == {"others", "sums"}
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps(summary | {"complete": False}))
    with pytest.raises(ValueError, match="1 problems of 'others' that are not asked for now"):
        evaluate(settings(str(model), folder), [sums(3)])
    assert evaluate(settings(str(model), folder), [sums(3), others])["complete"]
    trained = AutoModelForCausalLM.from_pretrained(model)
    with torch.no_grad():
        next(trained.parameters()).add_(0.01)
    trained.save_pretrained(model)
    with pytest.raises(ValueError, match="holds an evaluation with weights="):
        evaluate(settings(str(model), folder), [sums(3)])
    for content in ('{"model": ', "[1]", "{}"):
        (folder / "summary.json").write_text(content)
        with pytest.raises(ValueError, match="summary.json is damaged or no summary of an evaluation .*: delete it"):
            evaluate(settings(str(model), folder), [sums(3)])


@pytest.mark.parametrize(
    ("verdicts", "message"),
    [([0.5] * 4, "returned 0.5: return one verdict for each"), ([True], "returned 1 verdicts for 4 completions")],
)
def test_a_grader_that_does_not_give_verdicts_is_named_at_once(tiny_model, tmp_path, verdicts, message):
    benchmark = Benchmark("sums", problems(), lambda completions, asked: verdicts)
    with pytest.raises(ValueError, match=f"the grader of benchmark 'sums' {message}"):
        evaluate(settings(tiny_model, tmp_path), [benchmark])
    good = Benchmark("sums", problems(), lambda completions, asked: [np.bool_(True), 1, 0, None][: len(completions)])
    result = evaluate(settings(tiny_model, tmp_path / "good", n=1), [good])["benchmarks"]["sums"]
    assert result["accuracy"]["value"] == pytest.approx(2 / 3)


def test_a_grade_that_was_stopped_is_kept_and_counted(tiny_model, tmp_path):
    def slow(completions, asked):
        return [Grade(False, None, 2.0, stopped=problem["solution"] == "2") for problem in asked]

    summary = evaluate(settings(tiny_model, tmp_path), [Benchmark("sums", problems(), slow)])
    assert [s["problem_id"] for s in read_samples(tmp_path / "samples.jsonl") if s.get("stopped")] == ["1"] * 3
    assert summary["benchmarks"]["sums"]["stopped"] == 3
    missing = load_run("run", [tmp_path]).missing
    assert "sums rung 1: 3 samples whose grading was stopped, which count as wrong" in missing


def test_repeated_names_and_ids_and_no_problems_are_refused(tiny_model, tmp_path):
    with pytest.raises(ValueError, match=r"two benchmarks have one name \(sums, sums\)"):
        evaluate(settings(tiny_model, tmp_path), [sums(2), sums(3)])
    twice = Benchmark("sums", [{**problem, "problem_id": "same"} for problem in problems()], grade)
    with pytest.raises(ValueError, match="two problems with problem_id 'same'"):
        evaluate(settings(tiny_model, tmp_path), [twice])
    with pytest.raises(ValueError, match="benchmark 'empty' has no problems"):
        evaluate(settings(tiny_model, tmp_path), [sums(2), Benchmark("empty", [], grade)])


def evaluate_until_killed(model, folder):
    batches = itertools.count()

    def fatal(completions, asked):
        if next(batches) == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return grade(completions, asked)

    evaluate(settings(model, folder), [Benchmark("sums", problems(10), fatal)])


@pytest.mark.slow
def test_a_killed_run_resumes_without_losing_or_doubling_a_sample(tiny_model, tmp_path):
    unbroken, killed = tmp_path / "unbroken", tmp_path / "killed"
    evaluate(settings(tiny_model, unbroken), [sums(10)])
    process = multiprocessing.get_context("spawn").Process(target=evaluate_until_killed, args=(tiny_model, killed))
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    path = killed / "samples.jsonl"
    with open(path, "ab") as file:  # what a write that was cut off leaves
        file.write(b'{"benchmark": "sums", "problem_id": "9", "sam')
    kept = path.read_bytes().count(b"\n")
    assert 0 < kept < 30
    assert not json.loads((killed / "summary.json").read_text())["complete"]
    summary = evaluate(settings(tiny_model, killed), [sums(10)])
    assert len(path.read_text().splitlines()) == 30
    assert by_key(killed) == by_key(unbroken)
    assert summary["sessions"][-1]["samples"] == 30 - kept


def test_the_ladder_and_files_are_benchmarks_by_name(tmp_path, caplog):
    ladder = load_benchmark("ladder")
    assert len(ladder.problems) == 600
    assert [problem["rung"] for problem in ladder.problems][:7] == [1, 2, 3, 4, 5, 6, 1]
    asked = [ladder.problems[0], ladder.problems[1]]
    assert ladder.grade([f"ans {asked[0]['solution']}", "ans -1"], asked) == [True, False]
    assert [p["prompt"] for p in load_benchmark("ladder", limit=6).problems] == [
        p["prompt"] for p in ladder.problems.select(range(6))
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text(json.dumps({"question": "What is 1 + 1?", "gold": "2"}) + "\n")
    mine = load_benchmark(f"custom={path}", token_budget=512, columns=("question", "gold"))
    assert "The grader of custom=" in caplog.text and "the first prompt asks for none" in caplog.text
    path.write_text(json.dumps({"prompt": "What is 1 + 1?", "solution": "2"}) + "\n")
    assert mine.name == "mine"
    assert mine.problems[0]["prompt"][-1]["content"] == "What is 1 + 1? Think for 512 tokens."
    answers = [r"\boxed{2}", r"\boxed{3}"]
    assert [grade.verdict for grade in mine.grades(answers, [mine.problems[0]] * 2)] == [True, False]
    assert load_benchmark(f"custom={path}", prompt_format="plain").problems[0]["prompt"].strip() == "What is 1 + 1?"
    with pytest.raises(ValueError, match="'gsm9k' is not a benchmark"):
        load_benchmark("gsm9k")


def test_the_command_line_evaluates_the_ladder_by_rung(tmp_path, monkeypatch, capsys):
    (tmp_path / "config.yaml").write_text("engine: transformers\nmax_tokens: 8\nn: 2\n")
    arguments = f"--config config.yaml --model_name_or_path '{CHECKPOINT}' --benchmarks ladder --limit 12 --n 1"
    monkeypatch.chdir(tmp_path)
    run_command(monkeypatch, f"{arguments} --output_dir out")
    assert re.search(r"ladder  accuracy \d+\.\d% \[\d+\.\d%, \d+\.\d%\]  tokens", capsys.readouterr().out)
    samples = list(read_samples(tmp_path / "out" / "samples.jsonl"))
    assert sorted(sample["rung"] for sample in samples) == sorted(2 * [1, 2, 3, 4, 5, 6])
    assert set(load_samples(tmp_path / "out" / "samples.jsonl", "rung")) == {
        f"ladder rung {rung}" for rung in range(1, 7)
    }


def test_a_stopped_command_says_how_to_resume(tmp_path, monkeypatch, capsys):
    def stopped(config, benchmarks):
        raise KeyboardInterrupt

    monkeypatch.setattr("coda_trl.evaluate.evaluate", stopped)
    arguments = (
        f"--model_name_or_path '{CHECKPOINT}' --benchmarks ladder --engine transformers --output_dir '{tmp_path}'"
    )
    with pytest.raises(SystemExit, match="130"):
        run_command(monkeypatch, arguments)
    assert "The same command draws the remaining samples" in capsys.readouterr().err


def test_without_vllm_the_command_ends_in_a_sentence_before_anything_is_read(tmp_path, monkeypatch):
    monkeypatch.setattr("coda_trl.evaluation.config.find_spec", lambda name: None)
    arguments = f"--model_name_or_path no/model --benchmarks no-benchmark --output_dir {tmp_path / 'out'}"
    with pytest.raises(SystemExit) as end:
        run_command(monkeypatch, arguments)
    assert "vLLM is not installed" in end.value.code
    assert "pip install 'vllm>=" in end.value.code and "--engine transformers" in end.value.code
    assert not (tmp_path / "out").exists()
