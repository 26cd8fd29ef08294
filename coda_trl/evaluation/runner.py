"""Evaluation of a model on benchmarks: missing samples, engine, grading, output files."""

import json
import os
import platform
import sys
import time
import zlib
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
import transformers
from tqdm import tqdm
from transformers import AutoModelForCausalLM, PreTrainedTokenizerBase

from .. import __version__
from ..data.filtering import encode_prompts
from ..grading import opens_thinking
from ..grading.extract import PROMPT_END, REASONING_START
from .benchmarks import Benchmark, Problem
from .bootstrap import estimate
from .columns import load_samples
from .comparison import benchmark_seed
from .config import EvaluationConfig
from .generation import Engine, Generation, Request
from .metrics import accuracy, correct_tokens, mean_tokens, truncated_share, unscorable_share, wrong_tokens
from .models import ModelFiles, check_context, fingerprint, load_tokenizer, locate, model_length, stop_token_ids
from .samples import SAMPLES_FILE, SUMMARY_FILE, SampleWriter, question_of, was_stopped

METRICS = {
    "accuracy": accuracy,
    "tokens": mean_tokens,
    "correct_tokens": correct_tokens,
    "wrong_tokens": wrong_tokens,
    "truncated": truncated_share,
    "unscorable": unscorable_share,
}
# Fields of problems that are copied into samples, to split tables by and to grade again.
_KEPT = ("rung", "level", "n_gold", "options")
_VLLM_RANKS = (1, 8, 16, 32, 64, 128, 256, 320, 512)  # for adapters; vLLM takes no others

Problems = dict[tuple[str, str], tuple[Benchmark, Problem]]  # by name of the benchmark and id


def evaluate(config: EvaluationConfig, benchmarks: Sequence[Benchmark]) -> dict[str, Any]:
    """
    Samples answers to benchmarks, grades them, and writes them as they come. Called again with the same `output_dir`,
    it draws the missing samples.

    Args:
        config (`EvaluationConfig`):
            Model, engine and sampling settings.
        benchmarks (`Sequence[Benchmark]`):
            Problems with their graders.

    Returns:
        `dict[str, Any]`: What `summary.json` holds: engine, versions, settings, time, and results by benchmark.

    Raises:
        ValueError: If two benchmarks have the same name, the folder holds an evaluation with other settings, problems
            or weights, a prompt and its answer do not fit into the model, or a grader returns anything but verdicts.
    """
    names = [benchmark.name for benchmark in benchmarks]
    if len(set(names)) < len(names):
        raise ValueError(f"two benchmarks have one name ({', '.join(names)}): rename a file, or evaluate them apart")
    output_dir = Path(config.output_dir)
    # The writer locks the folder, so it comes before anything is read or written there.
    with SampleWriter(output_dir / SAMPLES_FILE) as writer:
        files = locate(*config.place)
        settings = config.identity() | {"weights": fingerprint(files)}
        problems = {
            (benchmark.name, problem_id): (benchmark, problem)
            for benchmark in benchmarks
            for problem_id, problem in benchmark.numbered().items()
        }
        sessions = _earlier_sessions(output_dir / SUMMARY_FILE, settings, config.n, writer.done, problems)
        tokenizer = load_tokenizer(files)
        for key, (_, problem) in problems.items():
            if writer.questions.get(key, question := question_of(problem)) != question:
                raise ValueError(
                    f"{output_dir} holds samples of another problem {key[1]!r} in benchmark {key[0]!r}: choose "
                    "another output_dir"
                )
        requests = _build_requests(problems, writer.done, tokenizer, config)
        longest_prompt = max((len(request.prompt_ids) for request in requests), default=0)
        if requests:
            check_context(files, longest_prompt, config.max_tokens)
        versions = {"coda_trl": __version__, "python": platform.python_version()}
        versions |= {module.__name__: module.__version__ for module in (torch, transformers)}
        if config.engine == "vllm":
            import vllm

            versions["vllm"] = vllm.__version__  # its package has another name in the build for CPUs
        summary = {
            "model": config.model_name_or_path,
            "engine": config.engine,
            "versions": versions,
            "hardware": torch.cuda.get_device_name() if torch.cuda.is_available() else platform.machine(),
            "settings": settings,
            "n": config.n,
            "sessions": [*sessions, {"seconds": 0.0, "tokens": 0, "samples": 0}],
            "complete": False,
        }
        _write_summary(output_dir, summary)
        if requests:
            engine = _build_engine(config, files, tokenizer, longest_prompt)
            _generate(config, engine, requests, problems, writer, summary)
        seconds, tokens = (sum(session[name] for session in summary["sessions"]) for name in ("seconds", "tokens"))
        results = summarise_samples(output_dir / SAMPLES_FILE)
        summary |= {
            "complete": True,
            "wall_seconds": seconds,
            "tokens_per_second": tokens / seconds if seconds else None,
            "benchmarks": {name: results[name] for name in [*names, *results]},  # in the order asked for
        }
        _write_summary(output_dir, summary)  # while the lock keeps others out
        return summary


def _build_requests(
    problems: Problems,
    done: dict[tuple[str, str], set[int]],
    tokenizer: PreTrainedTokenizerBase,
    config: EvaluationConfig,
) -> list[Request]:
    """One request for every unbroken row of missing sample numbers."""
    requests = []
    for key, (_, problem) in problems.items():
        missing = sorted(set(range(config.n)) - done.get(key, set()))
        prompt_ids = tuple(encode_prompts(tokenizer, [problem["prompt"]], config.chat_template_kwargs)[0])
        is_open = opens_thinking(tokenizer.decode(prompt_ids[-PROMPT_END:]))
        seed = zlib.crc32(json.dumps([config.seed, *key]).encode())
        # Numbers less their position are the same along an unbroken row.
        for _, row in groupby(enumerate(missing), lambda item: item[1] - item[0]):
            numbers = [number for _, number in row]
            requests.append(Request(*key, prompt_ids, numbers[0], len(numbers), seed, is_open))
    return requests


def _build_engine(
    config: EvaluationConfig, files: ModelFiles, tokenizer: PreTrainedTokenizerBase, longest_prompt: int
) -> Engine:
    stops = stop_token_ids(files, tokenizer, config.prompt_format)
    if config.engine == "vllm":
        from .vllm_engine import VLLMEngine

        arguments: dict[str, Any] = {
            "model": files.model,
            "tokenizer": files.model if files.adapter is None else tokenizer.name_or_path,
            "tokenizer_revision": files.revision,
            "dtype": config.dtype,
            "max_model_len": model_length(files, longest_prompt + config.max_tokens),
            "gpu_memory_utilization": config.gpu_memory_utilization,
            "kv_cache_memory_bytes": config.kv_cache_memory_bytes,
            **files.options,
        }
        if files.adapter is not None:
            rank = next((rank for rank in _VLLM_RANKS if rank >= files.adapter_rank), files.adapter_rank)
            arguments |= {"enable_lora": True, "max_lora_rank": rank}
        sizes = config.tensor_parallel_size, config.data_parallel_size
        return VLLMEngine(tokenizer, config.sampling, stops, arguments, files.adapter, *sizes)
    from .transformers_engine import TransformersEngine

    model = AutoModelForCausalLM.from_pretrained(files.model, dtype=config.dtype, **files.options)
    if files.adapter is not None:
        model.load_adapter(files.adapter)
    model.to("cuda" if torch.cuda.is_available() else "cpu")
    return TransformersEngine(model, tokenizer, config.sampling, stops, config.batch_size)


def _generate(
    config: EvaluationConfig,
    engine: Engine,
    requests: Sequence[Request],
    problems: Problems,
    writer: SampleWriter,
    summary: dict[str, Any],
) -> None:
    total = config.n * len(problems)
    done = total - sum(request.num_samples for request in requests)
    session, start, saved = summary["sessions"][-1], time.monotonic(), 0.0
    every = 0.1 if sys.stderr.isatty() else 60  # seconds; in a file, bars do not replace each other
    bar = tqdm(total=total, initial=done, unit="sample", desc=Path(config.output_dir).name, mininterval=every)
    with bar as progress, closing(engine.generate(requests)) as groups:  # an error ends the replicas at once
        for generations in groups:
            writer.write(_grade(generations, problems))
            session["samples"] += len(generations)
            session["tokens"] += sum(generation.tokens for generation in generations)
            session["seconds"] = time.monotonic() - start
            progress.update(len(generations))
            progress.set_postfix_str(f"{session['tokens'] / session['seconds']:,.0f} tokens/s")
            if session["seconds"] - saved > 30:  # so that a killed run still knows how long it took
                saved = session["seconds"]
                _write_summary(Path(config.output_dir), summary)


def _grade(generations: Sequence[Generation], problems: Problems) -> list[dict[str, Any]]:
    by_benchmark: dict[str, list[Generation]] = {}
    for generation in generations:
        by_benchmark.setdefault(generation.request.benchmark, []).append(generation)
    samples = []
    for name, group in by_benchmark.items():
        answered = [problems[name, generation.request.problem_id] for generation in group]
        benchmark = answered[0][0]
        texts = [REASONING_START + one.text if one.request.opens_thinking else one.text for one in group]
        grades = benchmark.grades(texts, [problem for _, problem in answered])
        for generation, (_, problem), grade in zip(group, answered, grades, strict=True):
            samples.append(
                {name: problem[name] for name in _KEPT if name in problem}
                | {
                    "benchmark": name,
                    "problem_id": generation.request.problem_id,
                    "sample": generation.sample,
                    "prompt": problem["prompt"],
                    "solution": problem.get("solution"),
                    "completion": generation.text,
                    "tokens": generation.tokens,
                    "finish_reason": generation.finish_reason,
                    "correct": grade.verdict,
                    "seed": generation.request.seed + generation.sample,
                }
                | ({"stopped": True} if grade.stopped else {})
                | ({"opens_thinking": True} if generation.request.opens_thinking else {})
            )
    return samples


def _earlier_sessions(
    path: Path, settings: dict[str, Any], n: int, done: dict[tuple[str, str], set[int]], problems: Problems
) -> list[dict[str, float]]:
    if not path.exists() or not done:  # nothing was drawn with earlier settings
        return []
    try:
        summary = json.loads(path.read_text(encoding="utf-8"))
        earlier, n_before, sessions = summary["settings"], summary["n"], summary["sessions"]
        is_final = summary["complete"] and n_before == n  # so other benchmarks may follow
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"{path} is damaged or no summary of an evaluation ({error!r}): delete it if the samples beside it were "
            "drawn with these settings, or choose another output_dir"
        ) from error
    changed = [
        f"{name}={earlier.get(name)!r}, not {value!r}"
        for name, value in settings.items()
        if earlier.get(name) != value
    ]
    if n_before > n:
        changed.append(f"n={n_before}, not {n}")
    names = {name for name, _ in problems}
    left_out = Counter(name for name, _ in done.keys() - problems.keys() if name in names or not is_final)
    changed += [f"{count} problems of {name!r} that are not asked for now" for name, count in sorted(left_out.items())]
    if changed:
        raise ValueError(
            f"{path.parent} holds an evaluation with {'; '.join(changed)}: continue with its settings (n, limit "
            "and benchmarks may grow, but not shrink), or choose another output_dir"
        )
    return [session for session in sessions if session["samples"]]


def summarise_samples(path: str | os.PathLike) -> dict[str, dict[str, Any]]:
    """
    Results by benchmark of a sample file: `problems`, `samples`, those of which grading was `stopped`, and each as a
    dictionary with `value`, `low` and `high` (95% interval) `accuracy`, `tokens`, `correct_tokens`, `wrong_tokens`,
    `truncated` and `unscorable`.
    """
    results: dict[str, dict[str, Any]] = {}
    for name, columns in load_samples(path, counts={"stopped": was_stopped}).items():
        results[name] = {"problems": len(columns.problems), "samples": len(columns.problem)}
        results[name]["stopped"] = int(columns.counts["stopped"].sum())
        for metric, function in METRICS.items():
            found = estimate(function(columns.outcomes), benchmark_seed(name))
            # NaN is not JSON.
            results[name][metric] = {key: value if value == value else None for key, value in vars(found).items()}
    return results


def _write_summary(output_dir: Path, summary: dict[str, Any]) -> None:
    partial = output_dir / f"{SUMMARY_FILE}.partial"
    partial.write_text(json.dumps(summary, indent=2) + "\n", encoding="utf-8")
    partial.replace(output_dir / SUMMARY_FILE)  # in one step: a killed run leaves the old or the new one
