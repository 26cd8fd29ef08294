"""Inspects the training data before a run: sizes, prompt lengths, contamination."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from datasets import Dataset
from rich.progress import track
from transformers import PreTrainedTokenizerBase

from ..data import (
    BENCHMARKS,
    SOURCES,
    DataArguments,
    DataError,
    DatasetUnavailableError,
    Overlap,
    PromptLengths,
    drop_long_prompts,
    find_overlap,
    load_evaluation_set,
    published_rows,
)
from ..loading import load_prompts
from .findings import Finding, error, warning


@dataclass
class DataReport:
    """
    What is known of the training data.

    Args:
        rows (`int`, *optional*):
            Rows that are trained on. `None` if not known.
        published (`bool`):
            Whether `rows` is the published size, because the data could not be loaded here.
        sources (`dict[str, int]`):
            Rows by source, unfiltered.
        lengths ([`PromptLengths`], *optional*):
            What the prompt-length filter dropped. `None` if it could not be applied here.
        overlaps (`dict[str, Overlap]`):
            Evaluation problems found in the training data, by evaluation set.
        findings (`list[Finding]`):
            What is wrong, or could not be checked.
    """

    rows: int | None = None
    published: bool = False
    sources: dict[str, int] = field(default_factory=dict)
    lengths: PromptLengths | None = None
    overlaps: dict[str, Overlap] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)


def check_eval_data(data_args: DataArguments, seed: int) -> Iterator[Finding]:
    """
    Loads the prompts that a run is evaluated on.

    Args:
        data_args ([`DataArguments`]):
            Which they are, if any.
        seed (`int`):
            Seed of length budgets.
    """
    if data_args.eval_dataset is None:
        return
    try:
        load_prompts(data_args.eval_dataset, data_args, seed)
    except DatasetUnavailableError as problem:
        yield warning("eval_dataset", f"{problem} It was not checked.")
    except DataError as problem:
        yield error("eval_dataset", str(problem))


def inspect_data(
    data_args: DataArguments, tokenizer: PreTrainedTokenizerBase | None, seed: int, benchmarks: list[str] | None
) -> DataReport:
    """
    Loads and checks the training data.

    Args:
        data_args ([`DataArguments`]):
            What to train on.
        tokenizer ([`~transformers.PreTrainedTokenizerBase`], *optional*):
            Tokenizer of the model. Without it the prompt lengths are only bounded.
        seed (`int`):
            Seed of length budgets.
        benchmarks (`list[str]`, *optional*):
            Evaluation sets to compare it with. Defaults to all.

    Returns:
        [`DataReport`]
    """
    report = DataReport()
    try:
        dataset = load_prompts(data_args.dataset, data_args, seed)
    except DatasetUnavailableError as problem:
        report.rows = published_rows(data_args.dataset)
        report.published = report.rows is not None
        report.findings.append(
            warning("dataset", f"{problem} Lengths and contamination were not checked, and sizes are as published.")
        )
        return report
    except DataError as problem:
        report.findings.append(error("dataset", str(problem)))
        return report
    report.sources = dict(Counter(dataset["source"]))
    if any(SOURCES[name].generate is None for name in report.sources):  # what is generated is in no benchmark
        report.overlaps = _overlaps(dataset, benchmarks, report.findings)
    if tokenizer is None:
        report.rows = len(dataset)
        report.findings += _length_bound(dataset, data_args.max_prompt_length)
        return report
    try:
        dataset, report.lengths = drop_long_prompts(dataset, tokenizer, data_args.max_prompt_length)
        report.rows = len(dataset)
    except ValueError as problem:
        report.findings.append(error("max_prompt_length", str(problem)))
    return report


def _overlaps(dataset: Dataset, specs: Sequence[str] | None, findings: list[Finding]) -> dict[str, Overlap]:
    benchmarks, unavailable = {}, []
    for spec in track(BENCHMARKS if specs is None else specs, description="Evaluation sets", transient=True):
        name = spec.partition("=")[0]
        try:
            benchmarks[name] = load_evaluation_set(spec)
        except DatasetUnavailableError:
            unavailable.append(name)
        except DataError as problem:
            findings.append(error("benchmarks", str(problem)))
    if unavailable:
        findings.append(
            warning(
                "benchmarks",
                f"Not compared with the training data, because the hub gave none: {', '.join(unavailable)}. Give "
                "local copies as `--benchmarks NAME=PATH ...`.",
            )
        )
    overlaps = find_overlap(dataset, benchmarks)
    for name, overlap in overlaps.items():
        if overlap.identical:
            findings.append(
                warning(
                    "dataset",
                    f"{overlap.identical} of {overlap.problems} problems of {name} are in the training data. Leave "
                    "them out, or do not report that evaluation.",
                )
            )
    return overlaps


def _length_bound(dataset: Dataset, limit: int) -> list[Finding]:
    texts = [prompt if isinstance(prompt, str) else prompt[-1]["content"] for prompt in dataset["prompt"]]
    long = sum(len(text.encode()) > limit for text in texts)
    if not long:
        return []
    return [
        warning(
            "max_prompt_length",
            f"The tokenizer could not be loaded here, so prompts were not counted in tokens. At most {long:,} of "
            f"{len(texts):,} can be longer than {limit:,} (a byte makes no more than one token).",
        )
    ]
