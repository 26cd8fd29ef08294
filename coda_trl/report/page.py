"""Builds the report of some runs."""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from matplotlib import rc_context
from tqdm import tqdm

from .. import __version__
from .buckets import buckets, headline
from .checkpoints import checkpoints
from .comparison import ComparedRuns
from .elements import Section, Table
from .latex import latex_main_results
from .main_results import INTRODUCTION, NO_EVALUATION, all_benchmarks, join_models, main_results
from .optimality import optimality
from .reasoning import reasoning
from .render import NUMBERS, PAGE, remove_files, write_figures, write_numbers, write_page, write_tables
from .runs import find_files, is_part, load_run
from .seeds import Run, group_seeds
from .style import PLOT_SETTINGS
from .training import training

Folders = str | os.PathLike | Sequence[str | os.PathLike]
Runs = dict[str, list[Path]]  # folders by name


def build_report(
    runs: Mapping[str, Folders],
    reference: str | None = None,
    out: str | os.PathLike = "report",
    *,
    title: str = "Reasoning length by difficulty",
    split_by: str = "rung",
    difficulty_run: str | Sequence[str] = (),
    benchmarks: Sequence[str] = (),
    groups: Mapping[str, Sequence[str]] | None = None,
    change_of: str | None = None,
    intervals: bool = False,
) -> Path:
    """
    Writes a report on one or more runs: a page that opens from disk, its tables and figures as files, its numbers as
    JSON.

    Args:
        runs (`Mapping[str, str | os.PathLike | Sequence[str | os.PathLike]]`):
            Folder or folders of every run by its name (on the command line, by default the folder's). A folder may
            hold an evaluation (`samples.jsonl`, `summary.json`), a training run (`trainer_state.json`), or both; the
            report says what is missing. Runs called `NAME@BUDGET` are drawn as one curve over their token budgets,
            runs called `NAME@checkpoint-STEP` as one over training steps, runs called `NAME@seed-SEED` as their mean,
            with intervals over seeds. If all are called `MODEL/NAME`, every model gets a report in a folder of its
            own, and the page has the main results of all models.
        reference (`str`, *optional*):
            Run that the others are compared with, in each model. Defaults to the first of several.
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
        benchmarks (`Sequence[str]`, *optional*):
            Benchmarks to show. Defaults to all; one that is split goes by its name without the field.
        groups (`Mapping[str, Sequence[str]]`, *optional*):
            Benchmarks that are shown as one in accuracy against tokens, over checkpoints, and in reflective responses,
            by their common name: `{"AIME": ["aime24", "aime25"]}`, on the command line `AIME=aime24,aime25`.
        change_of (`str`, *optional*):
            The only run whose difference to the reference is in `tables/main_results.tex`. Defaults to all.
        intervals (`bool`, *optional*, defaults to `False`):
            Whether `tables/main_results.tex` has the 95% intervals, too.

    Returns:
        `Path`: The page.

    Raises:
        FileNotFoundError: If a folder does not exist.
        ValueError: If there is no run, a name is not among the runs, a folder holds nothing to report, or `out` holds
            another page.

    Example:

    ```python
    from coda_trl.report import build_report

    build_report({"GRPO": "runs/grpo", "CODA": ["runs/coda", "runs/coda-eval"]}, reference="GRPO")
    ```
    """
    if not runs:
        raise ValueError("runs is empty: give at least one run")
    folders = {
        name: [Path(each) for each in ([of] if isinstance(of, str | os.PathLike) else of)] for name, of in runs.items()
    }
    out = Path(out)
    if (out / PAGE).exists() and not (out / NUMBERS).exists():
        raise ValueError(f"{out / PAGE} is no report, and would be overwritten: choose another `out`")
    difficulty = [difficulty_run] if isinstance(difficulty_run, str) else difficulty_run
    compare = partial(_compare, reference, split_by, difficulty, benchmarks, groups or {})
    tex = partial(latex_main_results, change_of=change_of, intervals=intervals)
    models: dict[str, Runs] = {}
    for name, of in folders.items():
        model, _, run = name.rpartition("/")
        models.setdefault(model, {})[run] = of
    if len(models) < 2 or "" in models:
        models = {"": folders}
    named = [("reference", reference), ("change_of", change_of), *(("difficulty_run", name) for name in difficulty)]
    for model, part in models.items():
        try:
            _check(part, named)
        except ValueError as error:
            raise ValueError(f"model {model!r}: {error}" if model else str(error)) from error
    out.mkdir(parents=True, exist_ok=True)
    with rc_context(PLOT_SETTINGS):
        if "" in models:
            _report(models[""], compare, tex, out, title)
            return out / PAGE
        remove_files(out)  # before the models' reports are written: it would remove them, too
        places = {model: model.replace("/", "-") for model in models}
        results = {
            model: _report(models[model], compare, tex, out / place, f"{title}: {model}", place)
            for model, place in places.items()
        }
    results = {model: tables for model, tables in results.items() if tables}
    seeds = list(dict.fromkeys(count for part in models.values() for count in _count_seeds(part)))
    text = "" if max(seeds) > 1 else INTRODUCTION  # which captions say of seeds
    section = Section("benchmarks", "Accuracy and tokens by model and benchmark", text)
    section.items = [
        join_models(dict(zip(results, tables, strict=True))) for tables in zip(*results.values(), strict=True)
    ]
    section.missing = "" if results else NO_EVALUATION
    links = {model: f"{place}/{PAGE}" for model, place in places.items()}
    about = {"reference": reference, "models": links}
    main = tex(results, seeds, "") if results else ""
    _write(out, [section], main, about, title=title, runs=[], reference=reference, links=links)
    return out / PAGE


def _report(
    runs: Runs, compare: Callable, tex: Callable[..., str], out: Path, title: str, model: str = ""
) -> list[Table]:
    """Writes the report of one model; returns its tables of accuracy and of tokens."""
    comparison = compare(runs)
    found = [*comparison.runs, *comparison.checkpoints]
    parts = [training, main_results]  # without an evaluation
    if all_benchmarks(found):
        parts = [headline, main_results, buckets, optimality, reasoning, training]
    parts += [checkpoints] if comparison.checkpoints else []
    sections = [make(comparison) for make in tqdm(parts, desc="Analysing", unit="section", disable=None)]
    for section in sections:
        section.items = [
            replace(item, caption=f"{item.caption} {comparison.means}".rstrip()) for item in section.items
        ]
    by_name = {one.name: one for run in found for one in run.seeds.values()}
    shown = [by_name[name] for name in runs]
    name = comparison.reference.name if comparison.reference else None
    results = [item for section in sections for item in section.items if item.key in ("accuracy", "tokens")]
    about = {"reference": name, "missing": {one.name: one.missing for one in shown}}
    main = tex({"": results}, _count_seeds(runs), model) if results else ""
    _write(out, sections, main, about, model, title=title, runs=shown, reference=name, links={})
    return results


def _write(
    out: Path, sections: list[Section], main_results: str, about: dict[str, Any], model: str = "", **content: Any
) -> None:
    out.mkdir(parents=True, exist_ok=True)
    remove_files(out)
    write_numbers(out / NUMBERS, sections, about)
    write_tables(out / "tables", sections, model)
    if main_results:
        (out / "tables" / "main_results.tex").write_text(main_results, encoding="utf-8")
    images = write_figures(out / "figures", sections)
    write_page(out / PAGE, images, sections=sections, version=__version__, numbers=NUMBERS, **content)


def _count_seeds(names: Iterable[str]) -> list[int]:
    """Numbers of seeds that runs have."""
    return sorted({len(seeds) for seeds in group_seeds(names).values() if "" not in seeds}) or [1]


def _check(runs: Runs, named: Sequence[tuple[str, str | None]]) -> None:
    """Refuses unknown names and missing folders before samples are read."""
    main = {name: set(of) - {""} for name, of in group_seeds(runs).items() if Run(name, {}).checkpoint is None}
    for argument, name in named:
        if name is not None and name not in main:
            raise ValueError(f"{argument}={name!r} is not among the runs: {', '.join(main)}")
    seeds = {name: of for name, of in main.items() if of}
    if seeds and not set.intersection(*seeds.values()):
        found = "; ".join(f"{name}: {', '.join(sorted(of))}" for name, of in seeds.items())
        raise ValueError(f"no seed is in all runs ({found}): name seeds alike, as they are compared in pairs")
    for name, folders in runs.items():
        for folder in folders:
            find_files(name, folder)


def _compare(
    reference: str | None,
    split_by: str,
    difficulty: Sequence[str],
    benchmarks: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    runs: Runs,
) -> ComparedRuns:
    loaded = {}
    for name, folders in tqdm(runs.items(), desc="Reading runs", unit="run", disable=None):
        loaded[name] = load_run(name, folders, split_by, benchmarks)
    joined = []
    for name, names in group_seeds(runs).items():
        seeds = {seed: loaded[full] for seed, full in names.items()}
        for one in seeds.values():
            lacking = [each for each in all_benchmarks(seeds.values()) if each not in one.benchmarks]
            one.missing += [f"{each}: only in other seeds, so in no mean" for each in lacking]
        joined.append(Run(name, seeds))
    main = {run.name: run for run in joined if run.checkpoint is None}
    for name in difficulty:
        if not main[name].sampled:
            raise ValueError(f"difficulty_run={name!r} has no samples to take a success rate from")
    reference = (reference or next(iter(main))) if len(main) > 1 else None
    found = all_benchmarks(joined)

    def expand(argument: str, whole: str) -> list[str]:
        names = [name for name in found if is_part(name, whole, split_by)]
        if not names:
            remedy = f"shown are {', '.join(found)}" if found else "leave it out to show all"
            raise ValueError(f"{argument} has {whole!r}, on which no run was evaluated; {remedy}")
        return names

    for name in benchmarks:
        expand("benchmarks", name)
    for name in groups:
        if name in found and name not in groups[name]:
            raise ValueError(f"group {name!r} has the name of a benchmark that is not in it: choose another")
    return ComparedRuns(
        list(main.values()),
        main.get(reference),
        [main[name] for name in difficulty],
        {
            name: [b for member in members for b in expand(f"group {name!r}", member)]
            for name, members in groups.items()
        },
        [run for run in joined if run.checkpoint is not None],
    )
