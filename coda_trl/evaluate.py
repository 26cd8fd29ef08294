"""Evaluates a model on benchmarks: samples answers, grades them, writes samples.jsonl and summary.json.

python recipes/evaluate.py --model_name_or_path MODEL --benchmarks svamp gsm8k math500 --output_dir runs/coda-eval
python recipes/evaluate.py --model_name_or_path runs/ladder-coda --output_dir runs/ladder-coda-eval \\
    --benchmarks ladder --engine transformers --dtype float32 --max_tokens 48

Without a clone of the repository, `coda-evaluate` is `python recipes/evaluate.py`. The same command resumes a stopped
run. `python recipes/report.py` makes tables and plots of the results.
"""

import sys
from dataclasses import dataclass
from typing import Any

from yaml import YAMLError

from .commands import command
from .evaluation import EvaluationConfig, format_number
from .evaluation.loading import load_benchmark
from .evaluation.models import locate
from .evaluation.runner import evaluate
from .help_texts import help_from_docstring
from .hub import ask_the_hub_once
from .loading import parse_settings
from .progress import hide_bars

USAGE = "%(prog)s --model_name_or_path MODEL --benchmarks NAME ... --output_dir FOLDER [--SETTING VALUE ...]"


@help_from_docstring
@dataclass
class BenchmarkArguments:
    """
    Which benchmarks.

    Args:
        benchmarks (`list[str]`):
            Names, `NAME=LOCATION` to read one from a file or another hub id, `custom=LOCATION` for yours, or `ladder`.
        prompt_column (`str`, *optional*, defaults to `"prompt"`):
            Column of `custom` that holds the prompt (text or messages).
        solution_column (`str`, *optional*, defaults to `"solution"`):
            Column of `custom` that holds the gold answer.
        limit (`int`, *optional*):
            Only the first so many problems of each.
    """

    benchmarks: list[str]
    prompt_column: str = "prompt"
    solution_column: str = "solution"
    limit: int | None = None


def show(result: dict[str, Any]) -> str:
    """Accuracy and tokens of one benchmark as text."""
    known = [format_number(100 * share, unit="%") for share in result["accuracy"].values() if share is not None]
    score, *ends = known or ["no verdicts"]
    interval = f" [{', '.join(ends)}]" if ends else ""
    return f"accuracy {score}{interval}  tokens {format_number(result['tokens']['value'], 0)}"


@command
def main() -> None:
    if not sys.stderr.isatty():
        hide_bars()
    try:
        config, arguments = parse_settings(
            sys.argv[1:], (EvaluationConfig, BenchmarkArguments), usage=USAGE, description=__doc__.splitlines()[0]
        )
        columns = arguments.prompt_column, arguments.solution_column
        with ask_the_hub_once():
            locate(*config.place)  # a wrong path, before data is fetched
            benchmarks = [
                load_benchmark(spec, config.token_budget, config.prompt_format, arguments.limit, columns)
                for spec in arguments.benchmarks
            ]
            summary = evaluate(config, benchmarks)
    except KeyboardInterrupt:
        print("Stopped. The same command draws the remaining samples.", file=sys.stderr)
        sys.exit(130)
    # A setting or a file does not work, or vLLM is missing.
    except (ImportError, OSError, ValueError, YAMLError) as problem:
        sys.exit(f"error: {' '.join(str(problem).split())}")
    width = max(len(name) for name in summary["benchmarks"])
    for name, result in summary["benchmarks"].items():
        print(f"{name:{width}}  {show(result)}")
    print(f"Written to {config.output_dir}")


if __name__ == "__main__":  # vLLM's processes import this file
    main()
