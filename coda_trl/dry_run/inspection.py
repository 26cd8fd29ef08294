"""Inspects the data of a run: sizes, prompt lengths, contamination."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from datasets import Dataset
from rich.progress import track
from transformers import PreTrainedTokenizerBase
from trl import GRPOConfig

from ..data import (
    BENCHMARKS,
    SOURCES,
    DataArguments,
    DataError,
    DatasetUnavailableError,
    Overlap,
    drop_long_prompts,
    find_overlap,
    load_evaluation_set,
)
from ..data.loading import published_rows
from ..data_checks import find_missing_box
from ..loading import check_evaluation, load_evaluation_prompts, load_prompts
from .findings import Finding, error, warning


@dataclass
class DataReport:
    """What is known of the training data."""

    rows: int | None = None  # that are trained on
    published: bool = False  # whether `rows` is the published size, because the data could not be loaded here
    sources: dict[str, int] = field(default_factory=dict)  # rows of each, unfiltered
    lengths: str | None = None  # what the filter dropped, if it could be applied here
    overlaps: dict[str, Overlap] = field(default_factory=dict)  # by evaluation set
    findings: list[Finding] = field(default_factory=list)


def check_eval_data(data_args: DataArguments, args: GRPOConfig) -> Iterator[Finding]:
    """Loads the prompts that a run is evaluated on, if any."""
    try:
        check_evaluation(data_args, args)
        load_evaluation_prompts(data_args, args.seed)
    except DatasetUnavailableError as problem:
        yield warning("eval_dataset", f"{problem} It was not checked.")
    except ValueError as problem:
        yield error("eval_dataset", str(problem))


def inspect_data(
    data_args: DataArguments,
    rewards: Sequence[str],
    tokenizer: PreTrainedTokenizerBase | None,
    args: GRPOConfig,
    benchmarks: list[str] | None,
) -> DataReport:
    """Loads and checks the training data. Without a tokenizer, prompts are not measured."""
    report = DataReport()
    try:
        dataset = load_prompts(data_args.dataset, data_args, args.seed)
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
    report.sources = Counter(dataset["source"])
    if message := find_missing_box(rewards, dataset[0]["prompt"]):
        report.findings.append(warning("dataset", message))
    if any(SOURCES[name].generate is None for name in report.sources):  # what is generated is in no benchmark
        report.overlaps = _overlaps(dataset, BENCHMARKS if benchmarks is None else benchmarks, report.findings)
    try:
        if tokenizer is not None:
            dataset, report.lengths = drop_long_prompts(
                dataset, tokenizer, data_args.max_prompt_length, args.chat_template_kwargs
            )
        report.rows = len(dataset)
    except ValueError as problem:
        report.findings.append(error("max_prompt_length", str(problem)))
    return report


def _overlaps(dataset: Dataset, specs: Iterable[str], findings: list[Finding]) -> dict[str, Overlap]:
    benchmarks, unavailable = {}, []
    for spec in track(specs, description="Evaluation sets", transient=True):
        name = spec.partition("=")[0]
        try:
            benchmarks[name] = load_evaluation_set(spec)
        except DatasetUnavailableError:
            unavailable.append(name)
        except DataError as problem:
            findings.append(error("benchmarks", str(problem)))
    if unavailable:
        text = f"Not compared with the training data, because the hub gave none: {', '.join(unavailable)}. Give local "
        findings.append(warning("benchmarks", text + "copies as `--benchmarks NAME=PATH ...`."))
    overlaps = find_overlap(dataset, benchmarks)
    for name, overlap in overlaps.items():
        if overlap.identical:
            text = f"{overlap.identical} of {overlap.problems} problems of {name} are in the training data."
            findings.append(warning("dataset", f"{text} Leave them out, or do not report that evaluation."))
    return overlaps
