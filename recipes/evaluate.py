"""Evaluates a model on benchmarks: samples answers, grades them, writes samples.jsonl and summary.json.

python recipes/evaluate.py --model_name_or_path MODEL --benchmarks svamp gsm8k math500 --output_dir runs/coda-eval
python recipes/evaluate.py --model_name_or_path MODEL --benchmarks ladder --engine transformers --max_tokens 128 ...

A run that was ended goes on when it is started again. `python recipes/report.py` makes tables and plots of the
results.
"""

import sys
from dataclasses import dataclass, field

from trl import TrlParser

from coda_trl.evaluation import EvaluationConfig
from coda_trl.evaluation.loading import load_benchmark
from coda_trl.evaluation.runner import evaluate


@dataclass
class BenchmarkArguments:
    """
    Which benchmarks.

    Args:
        benchmarks (`list[str]`):
            Names, or `NAME=LOCATION` to read one from a file or another hub id, or `custom=PATH`.
        limit (`int`, *optional*):
            Only the first so many problems of each.
    """

    benchmarks: list[str] = field(metadata={"help": "Names, NAME=LOCATION, custom=PATH, or ladder."})
    limit: int | None = field(default=None, metadata={"help": "Only the first so many problems of each."})


def main() -> None:
    try:
        config, arguments = TrlParser((EvaluationConfig, BenchmarkArguments)).parse_args_and_config()
    except (ImportError, ValueError) as problem:  # a setting that cannot work, or vLLM is not there
        sys.exit(f"error: {problem}")
    benchmarks = [
        load_benchmark(spec, config.token_budget, config.prompt_format, arguments.limit)
        for spec in arguments.benchmarks
    ]
    summary = evaluate(config, benchmarks)
    width = max(len(name) for name in summary["benchmarks"])
    for name, result in summary["benchmarks"].items():
        accuracy, tokens = result["accuracy"], result["tokens"]
        interval = "" if accuracy["low"] is None else f" [{accuracy['low']:.1%}, {accuracy['high']:.1%}]"
        score = "no verdicts" if accuracy["value"] is None else f"{accuracy['value']:.1%}{interval}"
        print(f"{name:{width}}  accuracy {score}  tokens {tokens['value']:,.0f}")
    print(f"Written to {config.output_dir}")


if __name__ == "__main__":  # vLLM's processes import this file
    main()
