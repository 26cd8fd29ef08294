"""Evaluates a model on benchmarks: samples answers, grades them, writes samples.jsonl and summary.json.

python recipes/evaluate.py --model_name_or_path MODEL --benchmarks svamp gsm8k math500 --output_dir runs/coda-eval
python recipes/evaluate.py --model_name_or_path runs/ladder-coda --output_dir runs/ladder-coda-eval \\
    --benchmarks ladder --engine transformers --max_tokens 48

Without a clone of the repository, `coda-evaluate` is `python recipes/evaluate.py`. The same command resumes a stopped
run. `python recipes/report.py` makes tables and plots of the results.
"""

import sys
from dataclasses import dataclass, field
from typing import Any

from trl import TrlParser
from yaml import YAMLError

from .evaluation import EvaluationConfig, format_number
from .evaluation.loading import load_benchmark
from .evaluation.runner import evaluate


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

    def __post_init__(self):
        if isinstance(self.benchmarks, str):  # one name in a configuration file
            self.benchmarks = [self.benchmarks]


def parse() -> tuple[EvaluationConfig, BenchmarkArguments]:
    """Settings from the command line and the file that `--config` names."""
    parser = TrlParser((EvaluationConfig, BenchmarkArguments))
    try:
        config, arguments, unknown = parser.parse_args_and_config(return_remaining_strings=True)
    except OSError as problem:
        raise ValueError(
            f"--config {problem.filename}: {problem.strerror}; give a YAML file with settings"
        ) from problem
    except (UnicodeDecodeError, YAMLError) as problem:
        raise ValueError(f"--config is not a YAML file of settings: {problem}; correct the file") from problem
    except IndexError as problem:
        raise ValueError("--config names no file: give a YAML file with settings") from problem
    if unknown:
        raise ValueError(f"unknown settings: {' '.join(unknown)}; `--help` lists those there are")
    return config, arguments


def show(result: dict[str, Any]) -> str:
    """Accuracy and tokens of one benchmark in words."""
    accuracy, tokens = result["accuracy"], result["tokens"]
    score, *ends = (
        None if accuracy[end] is None else format_number(100 * accuracy[end], unit="%")
        for end in ("value", "low", "high")
    )
    interval = "" if None in ends else f" [{', '.join(ends)}]"
    return f"accuracy {score or 'no verdicts'}{interval}  tokens {format_number(tokens['value'], 0)}"


def main() -> None:
    try:
        config, arguments = parse()
        benchmarks = [
            load_benchmark(spec, config.token_budget, config.prompt_format, arguments.limit)
            for spec in arguments.benchmarks
        ]
        summary = evaluate(config, benchmarks)
    except (ImportError, OSError, ValueError) as problem:  # a setting or a file that cannot work, or vLLM is not there
        sys.exit(f"error: {' '.join(str(problem).split())}")
    width = max(len(name) for name in summary["benchmarks"])
    for name, result in summary["benchmarks"].items():
        print(f"{name:{width}}  {show(result)}")
    print(f"Written to {config.output_dir}")


if __name__ == "__main__":  # vLLM's processes import this file
    main()
