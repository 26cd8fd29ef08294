"""Evaluation with vLLM against evaluation with transformers."""

import random

import pytest

from coda_trl.evaluation import Benchmark, EvaluationConfig, read_samples
from coda_trl.evaluation.runner import evaluate
from coda_trl.ladder import CHECKPOINT, RUNGS, ends_in_sum, sample_problem
from coda_trl.ladder.problems import as_row


@pytest.fixture(scope="module")
def samples(tmp_path_factory) -> dict[str, dict]:
    """
    What each engine answers, by problem and sample: completion, tokens, why it ended, whether it is right. Temperature
    and nucleus are wide enough, and the limit is low enough, to matter.
    """
    rng = random.Random(0)
    problems = [as_row(sample_problem(rung, rng)) for rung in RUNGS for _ in range(5)]

    def graded(completions, problems):
        return [ends_in_sum(text, problem["solution"]) for text, problem in zip(completions, problems, strict=True)]

    samples = {}
    for engine in ("vllm", "transformers"):
        config = EvaluationConfig(
            CHECKPOINT,
            str(tmp_path_factory.mktemp(engine)),
            engine=engine,
            n=20,
            temperature=1.3,
            top_p=0.9,
            max_tokens=24,
            dtype="float32",
            batch_size=200,
            gpu_memory_utilization=0.1,
            kv_cache_memory_bytes=2**28,
        )
        evaluate(config, [Benchmark("ladder", problems, graded)])
        samples[engine] = {
            (sample["problem_id"], sample["sample"]): [
                sample[field] for field in ("completion", "tokens", "finish_reason", "correct")
            ]
            for sample in read_samples(f"{config.output_dir}/samples.jsonl")
        }
    return samples


def test_engines_draw_the_same_samples(samples):
    """
    On a CPU both draw with exponential noise from a generator with the sample's seed, so that not only rates can be
    compared: prompts, stops, temperature, nucleus and seeds are the same, or hardly a sample is.
    """
    assert len(samples["vllm"]) == len(samples["transformers"]) == 20 * 5 * len(RUNGS)
    same = sum(samples["vllm"][key] == answer for key, answer in samples["transformers"].items())
    assert same >= 0.99 * len(samples["vllm"])  # a rounding error may tip a token


def test_tokens_count_the_end_of_sequence(samples):
    for answers in samples.values():
        assert {reason for _, _, reason, _ in answers.values()} == {"stop", "length"}
        for completion, tokens, reason, _ in answers.values():
            assert tokens == len(completion.split()) + (reason == "stop")  # a word is a token
            assert tokens == 24 or reason == "stop"
