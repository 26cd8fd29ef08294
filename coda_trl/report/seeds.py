"""Several seeds in one report: every number is the mean of what each seed has by itself."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, product
from typing import Any

import numpy as np

from ..evaluation.bootstrap import Estimate, over_seeds
from .buckets import answer
from .elements import MISSING, Cell, Plot, Section, Table
from .main_results import INTRODUCTION

_SEED = re.compile(r"@seed-([^@/]+)$")
# Figures that are not drawn of means.
_APART = ("Accuracy against tokens", "Budget curves by difficulty", "Checkpoints")


def check_names(names: Iterable[str]) -> None:
    """Refuses seeds in another spelling, which would pass for budgets."""
    for name in names:
        if re.search("@seed", name, re.IGNORECASE) and not _SEED.search(name):
            raise ValueError(f"run {name!r}: a seed is the end of a name, spelled NAME@seed-SEED, such as GRPO@seed-0")


def by_seed(runs: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Runs by seed and by name without `@seed-SEED`; those without a seed belong to every seed."""
    split = {(_SEED.sub("", name), "".join(_SEED.findall(name))): run for name, run in runs.items()}
    found: dict[str, dict[str, Any]] = {seed: {} for seed in dict.fromkeys(seed for _, seed in split if seed) or [""]}
    for (name, _), seed in product(split, found):
        keys = {(name, seed), (name, "")} & split.keys()
        if len(keys) != 1:
            problem = "is given with and without its seed" if keys else f"is missing: add {name}@seed-{seed}"
            raise ValueError(f"run {name!r} of seed {seed!r} {problem}; a run has every seed, or none")
        found[seed][name] = split[keys.pop()]
    return found


def average_sections(reports: Mapping[str, Sequence[Section]], reference: str | None) -> list[Section]:
    """The sections of one report for those of every seed."""
    first, *others = reports.values()
    about = (
        f"Means over {len(reports)} seeds ({', '.join(reports)}) with 95% intervals over them (Student's t; where all "
        "agree, over problems), of differences over pairs of one seed."
    )
    everything = [item for section in chain(*reports.values()) for item in section.items]
    for section in first if others else ():
        alike = [[each for each in everything if _kind(each) == _kind(item)] for item in section.items]
        apart = [of[0].title for of in alike if of[0].title in _APART or len(of) < len(reports)]
        section.items = [_average_item(of, about) for of in alike if of[0].title not in apart]
        section.text = section.text.replace(INTRODUCTION, about)
        if section.key == "answer" and (section.items or apart):
            section.text = "" if apart else answer(section.items[0], reference)
        if apart:
            section.missing = f"Not averaged over seeds: {', '.join(apart)}. Reports of single seeds have them."
    return list(first)


def _kind(item: Table | Plot) -> tuple[str, ...]:
    return item.title, *(item.header if isinstance(item, Table) else ())


def _average_item(items: Sequence[Any], about: str) -> Table | Plot:
    first = items[0]
    captions = ". ".join(item.caption.rstrip(" .") for item in items)
    sentences = captions.replace(", over problems and not over trainings,", "").split(". ")
    caption = ". ".join([*dict.fromkeys(sentences), about])
    if isinstance(first, Plot):
        caption += " Pale curves are single seeds." * (first.key != "token_ratio")  # bars
        return Plot(first.key, first.title, caption, _average([item.data for item in items]), first.draw)
    rows = [{_words(row): row for row in table.rows} for table in items]
    words = [key for key in rows[0] if all(key in of for of in rows)]
    if lost := [" ".join(key) for key in dict.fromkeys(chain(*rows)) if key not in words]:
        caption += f" Not in every seed: {', '.join(lost)}."
    cells = [list(map(_average_cell, zip(*(of[key] for of in rows), strict=True))) for key in words]
    changes = [_words(first.rows[place]) for place in first.differences]
    places = frozenset(place for place, key in enumerate(words) if key in changes)
    return replace(first, caption=caption, rows=cells, differences=places)


def _words(row: Sequence[Cell]) -> tuple[str, ...]:
    return tuple(cell.text for cell in row if cell.value is None and cell.text not in ("", MISSING))


def _average_cell(cells: Sequence[Cell]) -> Cell:
    first = cells[0]
    if all(cell == first for cell in cells):
        return first
    if any(cell.value is None for cell in cells):
        return Cell(MISSING)
    mean = _over_seeds(cells)
    return first.again(Estimate(mean.value) if isinstance(first.value, int) else mean)  # counts have no interval


def _over_seeds(found: Sequence[Cell | Estimate]) -> Estimate:
    mean = over_seeds([each.value for each in found])
    if not np.allclose([each.value for each in found], mean.value):
        return mean
    # Alike by chance, as shares of few problems are: Student's t would exclude everything else.
    known = [each for each in found if each.low is not None]
    return Estimate(mean.value, min((e.low for e in known), default=None), max((e.high for e in known), default=None))


def _average(found: Sequence[Any]) -> Any:
    """Means of a figure's numbers: of a curve at the steps that all `seeds` have."""
    first = found[0]
    if all(each == first for each in found):
        return first
    if isinstance(first, list):  # of buckets
        same = ([each for each in chain(*found) if each["name"] == bucket["name"]] for bucket in first)
        return [_average(of) for of in same if len(of) == len(found)]
    if not isinstance(first, dict):
        return float(np.mean(found))
    if "low" in first:
        return vars(_over_seeds([Estimate(**each) for each in found]))
    if "steps" in first:
        logged = [dict(zip(each["steps"], each["values"], strict=True)) for each in found]
        means = {step: float(np.mean([each[step] for each in logged])) for step in set.intersection(*map(set, logged))}
        return {"steps": sorted(means), "values": [means[step] for step in sorted(means)], "seeds": list(found)}
    return {key: _average([each[key] for each in found]) for key in first if all(key in each for each in found)}
