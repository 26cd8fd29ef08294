"""Builds the report of some runs."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib import rc_context
from tqdm import tqdm

from .. import __version__
from .buckets import buckets, headline
from .comparison import ComparedRuns
from .main_results import all_benchmarks, main_results
from .optimality import optimality
from .reasoning import reasoning
from .render import NUMBERS, PAGE, write_figures, write_numbers, write_page, write_tables
from .runs import check_folder, load_run
from .style import PLOT_SETTINGS
from .training import training

Folders = str | os.PathLike | Sequence[str | os.PathLike]


def build_report(
    runs: Mapping[str, Folders],
    reference: str | None = None,
    out: str | os.PathLike = "report",
    *,
    title: str = "Reasoning length by difficulty",
    split_by: str = "rung",
    difficulty_run: str | Sequence[str] = (),
) -> Path:
    """
    Writes a report on one or more runs: a page that opens from disk, its tables and figures as files, its numbers as
    JSON.

    Args:
        runs (`Mapping[str, str | os.PathLike | Sequence[str | os.PathLike]]`):
            Folder or folders of every run by its name (on the command line, by default the folder's). A folder may
            hold an evaluation (`samples.jsonl`), a training run (`trainer_state.json`), or both; the
            report says what is missing. Runs called `NAME@BUDGET` are drawn as one curve over their token budgets.
        reference (`str`, *optional*):
            Run that the others are compared with. Defaults to the first of several.
        out (`str` or `os.PathLike`, *optional*, defaults to `"report"`):
            Folder to write: `index.html`, `tables/`, `figures/`, `tables.json`.
        title (`str`, *optional*, defaults to `"Reasoning length by difficulty"`):
            Heading of the page.
        split_by (`str`, *optional*, defaults to `"rung"`):
            Field of the samples that splits a benchmark into one column for each of its values, where they have it.
        difficulty_run (`str` or `Sequence[str]`, *optional*):
            Run or runs whose success rate, with equal weight, says how difficult a problem is, such as the model that
            all trainings started from. Defaults to the two runs of each comparison, so that no other moves its
            numbers.

    Returns:
        `Path`: The page.

    Raises:
        FileNotFoundError: If a folder does not exist.
        ValueError: If there is no run, a name is not among the runs, or a folder holds nothing to report.
    """
    if not runs:
        raise ValueError("runs is empty: give at least one run")
    out = Path(out)
    folders = {name: [of] if isinstance(of, str | os.PathLike) else of for name, of in runs.items()}
    difficulty = [difficulty_run] if isinstance(difficulty_run, str) else difficulty_run
    for argument, name in [("reference", reference), *(("difficulty_run", name) for name in difficulty)]:
        if name is not None and name not in runs:
            raise ValueError(f"{argument}={name!r} is not among the runs: {', '.join(runs)}")
    for name, of in folders.items():  # before samples are read
        for folder in of:
            check_folder(name, Path(folder))
    out.mkdir(parents=True, exist_ok=True)
    loaded = {
        name: load_run(name, of, split_by) for name, of in tqdm(folders.items(), desc="Reading runs", unit="run")
    }
    for name in difficulty:
        if not loaded[name].samples:
            raise ValueError(f"difficulty_run={name!r} has no samples to take a success rate from")
    shown = list(loaded.values())
    reference = (reference or next(iter(runs))) if len(runs) > 1 else None
    comparison = ComparedRuns(shown, loaded.get(reference), [loaded[name] for name in difficulty])
    parts = [training, main_results]  # without an evaluation
    if all_benchmarks(shown):
        parts = [headline, main_results, buckets, optimality, reasoning, training]
    with rc_context(PLOT_SETTINGS):
        sections = [make(comparison) for make in tqdm(parts, desc="Analysing", unit="section")]
        write_numbers(out / NUMBERS, sections, reference, shown)
        write_tables(out / "tables", sections)
        images = write_figures(out / "figures", sections)
    content = {"runs": shown, "reference": reference, "version": __version__, "numbers": NUMBERS}
    write_page(out / PAGE, images, title=title, sections=sections, **content)
    return out / PAGE
