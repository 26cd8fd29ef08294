"""Builds the report of some runs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from tqdm import tqdm

from .. import __version__
from .comparison import Comparison
from .difficulty import buckets, headline
from .main_results import main_results
from .optimality import optimality
from .reasoning import reasoning
from .render import remove_files, write_figures, write_numbers, write_page, write_tables
from .runs import Run, load_run, unify_problems
from .style import PLOT_SETTINGS
from .training import training

Folders = str | os.PathLike | Sequence[str | os.PathLike]

PAGE, NUMBERS = "index.html", "tables.json"


def build_report(
    runs: Mapping[str, Folders],
    reference: str | None = None,
    out: str | os.PathLike = "report",
    *,
    title: str = "Reasoning length by difficulty",
    split_by: str = "rung",
    difficulty_run: str | Sequence[str] = (),
    tables_json: bool = True,
) -> Path:
    """
    Writes a report on one or more runs: a page that opens from disk, its tables and figures as files, its numbers as
    JSON.

    Args:
        runs (`Mapping[str, str | os.PathLike | Sequence[str | os.PathLike]]`):
            Folder or folders of every run, by the name it goes by. A folder may hold an evaluation (`samples.jsonl`,
            `summary.json`), a training run (`trainer_state.json`), or both; what is missing is said in the report.
            Runs called `NAME@BUDGET` are drawn as one curve over their token budgets.
        reference (`str`, *optional*):
            Name of the run that the others are compared with. By default the first if there are several.
        out (`str` or `os.PathLike`, *optional*, defaults to `"report"`):
            Folder to write: `index.html`, `tables/`, `figures/`, `tables.json`.
        title (`str`, *optional*, defaults to `"Reasoning length by difficulty"`):
            Heading of the page.
        split_by (`str`, *optional*, defaults to `"rung"`):
            Field of the samples that splits a benchmark into one column for each of its values, where they have it.
        difficulty_run (`str` or `Sequence[str]`, *optional*):
            Name or names of the runs whose success rate, with equal weight, says how difficult a problem is, such as
            the model that all trainings started from. By default every comparison is sorted by the two runs that it
            compares, so that no other run moves its numbers.
        tables_json (`bool`, *optional*, defaults to `True`):
            Whether to write `tables.json`.

    Returns:
        `Path`: The page.

    Raises:
        FileNotFoundError: If a folder does not exist.
        ValueError: If there is no run, a name is not among the runs, or a folder holds nothing to report.

    Example:

    ```python
    >>> from coda_trl.report import build_report
    >>> build_report({"GRPO": "out/grpo", "CODA": ["out/coda", "out/coda-eval"]}, "GRPO", "report")  # doctest: +SKIP
    PosixPath('report/index.html')

    ```
    """
    if not runs:
        raise ValueError("runs is empty: give at least one run")
    difficulty_runs = [difficulty_run] if isinstance(difficulty_run, str) else list(difficulty_run)
    named = [("reference", reference)] if reference is not None else []
    for argument, name in (*named, *(("difficulty_run", name) for name in difficulty_runs)):
        if name not in runs:
            raise ValueError(f"{argument}={name!r} is not among the runs: {', '.join(runs)}")
    loaded = {
        name: load_run(name, [folders] if isinstance(folders, str | os.PathLike) else folders, split_by)
        for name, folders in tqdm(runs.items(), desc="Reading runs", unit="run")
    }
    comparison = _compare(loaded, reference, difficulty_runs)
    with rc_context(PLOT_SETTINGS):
        return _write(comparison, Path(out), title, tables_json)


def _write(comparison: Comparison, out: Path, title: str, tables_json: bool) -> Path:
    parts = (headline, main_results, buckets, optimality, reasoning, training)
    sections = [make(comparison) for make in tqdm(parts, desc="Analysing", unit="section")]
    reference = comparison.reference.name if comparison.reference else None
    out.mkdir(parents=True, exist_ok=True)
    remove_files(out, PAGE, NUMBERS)
    if tables_json:
        about = {"reference": reference, "missing": {run.name: run.missing for run in comparison.runs}}
        write_numbers(out / NUMBERS, sections, about)
    write_tables(out / "tables", sections)
    content = {"title": title, "runs": comparison.runs, "reference": reference, "sections": sections}
    content["numbers"] = NUMBERS if tables_json else None
    write_page(out / PAGE, write_figures(out / "figures", sections), version=__version__, **content)
    return out / PAGE


def _compare(runs: dict[str, Run], reference: str | None, difficulty_runs: Sequence[str]) -> Comparison:
    if reference is None and len(runs) > 1:
        reference = next(iter(runs))
    for name in difficulty_runs:
        if not runs[name].samples:
            raise ValueError(f"difficulty_run={name!r} has no samples to take a success rate from")
    unify_problems([runs[reference], *runs.values()] if reference is not None else list(runs.values()))
    return Comparison(
        list(runs.values()),
        runs[reference] if reference is not None and len(runs) > 1 else None,
        [runs[name] for name in difficulty_runs],
    )
