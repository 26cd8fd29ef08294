"""From a name such as `easy` or `gsm8k=copies/gsm8k.jsonl.gz` to a data set that a trainer takes."""

import difflib
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pyarrow
from datasets import Dataset, Value, concatenate_datasets

from .prompts import add_length_budget, to_plain_text
from .reading import SUFFIXES, DataError, Row, is_local, read_rows
from .sources import BENCHMARKS, SOURCES, TRAINING_SETS, Schema, custom_schema

logger = logging.getLogger(__name__)

PromptFormat = Literal["chat", "plain"]

# MATH has two empty boxes; a copy with more than this share of rows without a gold is damaged.
MAX_MISSING = 0.01

# Errors from a value of another kind than expected, such as a number instead of text.
_WRONG_VALUE = (AttributeError, KeyError, TypeError, UnicodeEncodeError)
_MIXED = (pyarrow.ArrowException, OverflowError, TypeError, UnicodeEncodeError)  # of a column with values of several

_NAME_COLUMNS = " Name yours: `--prompt_column` and `--solution_column`, in Python `columns`."
_OWN_COLUMNS = ("prompt", "solution", "source", "n_gold")


def load_source(spec: str, columns: tuple[str, str] = ("prompt", "solution"), split: str = "train") -> Dataset:
    """
    Loads one data set.

    Args:
        spec (`str`):
            `NAME`, from the hub, or `NAME=LOCATION`, from a file or another hub id. `NAME` is a key of [`SOURCES`] (or
            of [`TRAINING_SETS`], if that is one source). `ladder=2000` makes 2,000 rows; `custom=LOCATION` is yours.
            A hub id may name a configuration and a split: `ID:CONFIG:SPLIT`, `ID::SPLIT`.
        columns (`tuple[str, str]`, *optional*, defaults to `("prompt", "solution")`):
            Columns of `custom` that hold the prompt (text or messages) and the gold.
        split (`str`, *optional*, defaults to `"train"`):
            Split of `custom` on the hub, if its location names none.

    Returns:
        `Dataset`: Rows with `prompt` (conversational), `solution` (gold answer), `source` (the name), and all original
            columns, of which `prompt`, `solution`, `source` and `n_gold` become `original_<name>`.

    Raises:
        DataError: If the name is unknown, or a file or column is missing or damaged.
    """
    name, _, location = spec.partition("=")
    (name,) = _parts(name, location)
    source = SOURCES[name]
    if source.generate is not None:
        if location and not (location.isdecimal() and int(location) > 0):
            raise DataError(f"`{spec}`: {name!r} is generated, so write a number of rows after the `=`.")
        return source.generate(int(location or source.rows))
    location = location or source.hub
    if location is None:
        raise DataError(f"The data set {name!r} is not on the hub. Give a file: `{name}=PATH`.")
    splits = (split,) if name == "custom" else source.splits
    rows = read_rows(location, source.configs, splits)
    schemas = (custom_schema(*columns),) if name == "custom" else source.schemas
    schema = _match_schema(name, location, schemas, list(rows[0]))
    if source.select is not None:
        try:
            rows = source.select(rows)
        except DataError:
            raise
        except (*_WRONG_VALUE, ValueError) as error:
            raise DataError(
                f"{name!r} ({location}) has a row that lacks a column or holds a value of another kind: {error!r}. "
                f"Found: {', '.join(rows[0])}."
            ) from error
    built, missing = [], []
    for number, row in enumerate(rows, start=1):
        try:
            built.append(_build(name, schema, row))
        except (*_WRONG_VALUE, ValueError) as error:
            missing.append(f"row {number}: {error}")
    if missing:
        report = f"{len(missing)} of {len(rows)} rows of {name!r} ({location}) cannot be used ({missing[0]})"
        if source.is_benchmark or len(missing) > MAX_MISSING * len(rows):
            raise DataError(f"{report}. The copy is damaged, or its columns mean something else.")
        logger.warning("%s. They are left out.", report)
    if not built:
        raise DataError(f"No row of {name!r} ({location}) is left after selection.")
    return _to_dataset(name, location, built)


def load_training_set(
    specs: str | Sequence[str],
    prompt_format: PromptFormat = "chat",
    length_budget: Sequence[int] | None = None,
    seed: int = 42,
    columns: tuple[str, str] = ("prompt", "solution"),
    split: str = "train",
) -> Dataset:
    """
    Loads a training set, made up of one or more data sets.

    Args:
        specs (`str` or `Sequence[str]`):
            `mixed`, `easy`, `hard` (the paper's sets), or names as in [`load_source`].
        prompt_format (`str`, *optional*, defaults to `"chat"`):
            `"chat"`: conversational prompts. `"plain"`: strings, for base models without a chat template.
        length_budget (`Sequence[int]`, *optional*):
            Lowest and highest token budget of L1, see [`add_length_budget`]. `None` asks for none.
        seed (`int`, *optional*, defaults to `42`):
            Seed of the budgets.
        columns (`tuple[str, str]`, *optional*, defaults to `("prompt", "solution")`):
            Columns of `custom`, see [`load_source`].
        split (`str`, *optional*, defaults to `"train"`):
            Split of `custom`, see [`load_source`].

    Returns:
        `Dataset`: Rows as in [`load_source`], with `n_gold` if there is a length budget. Of several data sets, columns
            that differ in type are left out with a warning.

    Example:

    ```python
    >>> from coda_trl.data import load_training_set

    >>> load_training_set(["ladder=100", "ladder=20"])  # `mixed`, `gsm8k=FILE.jsonl`, `custom=HUB_ID` likewise
    Dataset({
        features: ['prompt', 'solution', 'source', 'rung'],
        num_rows: 120
    })

    ```
    """
    specs = [specs] if isinstance(specs, str) else specs
    parts = []
    for spec in specs:
        name, _, location = spec.partition("=")
        parts += [load_source(spec, columns, split)] if location else [load_source(part) for part in _parts(name)]
    dataset = _join(parts)
    if length_budget is not None:
        dataset = add_length_budget(dataset, *length_budget, seed=seed)
    return to_plain_text(dataset) if prompt_format == "plain" else dataset


def name_of(spec: str) -> str:
    """Name of a data set in tables and metrics: of `custom`, that of its file or hub id."""
    name, _, location = spec.partition("=")
    if name != "custom":
        return name
    file = Path(location if is_local(location) else location.partition(":")[0]).name
    return file.removesuffix(next(filter(file.endswith, SUFFIXES), ""))


def _join(parts: list[Dataset]) -> Dataset:
    types: dict[str, set[str]] = {}
    for part in parts:
        for column, feature in part.features.items():
            types.setdefault(column, set()).add(str(feature))
    clashing = {column for column, found in types.items() if len(found - {str(Value("null"))}) > 1}
    differ = sorted(clashing - {*_OWN_COLUMNS})  # of those, `datasets` says what clashes
    if differ:
        logger.warning("Columns left out because their types differ between data sets: %s.", ", ".join(differ))
    return concatenate_datasets([part.remove_columns([*set(differ) & set(part.features)]) for part in parts])


def load_evaluation_set(spec: str) -> Dataset:
    """
    Loads an evaluation set, with conversational prompts.

    Args:
        spec (`str`):
            One of [`BENCHMARKS`], or `NAME=LOCATION` as in [`load_source`].

    Raises:
        DataError: As in [`load_source`], or if it is not an evaluation set.
    """
    name = spec.partition("=")[0]
    if name not in BENCHMARKS:
        raise DataError(
            f"{name!r} is not an evaluation set. They are: {', '.join(BENCHMARKS)}. "
            'Yours is `load_source("custom=LOCATION")`.'
        )
    return load_source(spec)


def published_rows(specs: Sequence[str]) -> int | None:
    """Published number of rows of a training set, without loading it. `None` if one of its parts has none."""
    rows = [SOURCES[part].rows for spec in specs for part in _parts(spec.partition("=")[0])]
    return None if None in rows else sum(rows)


def _parts(name: str, location: str = "") -> tuple[str, ...]:
    """Names of the sources behind a name."""
    if name in SOURCES:
        return (name,)
    if name not in TRAINING_SETS:
        known = [*TRAINING_SETS, *SOURCES]
        close = difflib.get_close_matches(name, known)
        raise DataError(
            f"There is no data set {name!r}{f' (did you mean {close[0]!r}?)' if close else ''}. Known: "
            f"{', '.join(known)}. For a file or another hub id write `NAME=LOCATION`; `custom=LOCATION` is your own "
            "(`prompt_column`, `solution_column`)."
        )
    parts = TRAINING_SETS[name]
    if location and len(parts) > 1:
        each = " ".join(f"{part}=..." for part in parts)
        raise DataError(f"The training set {name!r} is made of {len(parts)} data sets. Give each its place: `{each}`.")
    return parts


def _match_schema(name: str, location: str, schemas: Sequence[Schema], found: list[str]) -> Schema:
    for schema in schemas:
        if set(schema.columns) <= set(found):
            return schema
    wanted = " or ".join("(" + ", ".join(schema.columns) + ")" for schema in schemas)
    missing = [column for column in schemas[0].columns if column not in found]
    raise DataError(
        f"{location} does not have the columns of {name!r}. Missing: {', '.join(missing)}. Needed: {wanted}. "
        f"Found: {', '.join(found)}." + (_NAME_COLUMNS if name == "custom" else "")
    )


def _build(name: str, schema: Schema, row: Row) -> Row:
    for column in schema.columns:
        if row.get(column) is None or row[column] == "":
            raise ValueError(f"column {column!r} is empty")
    prompt, solution = schema.build(row)
    if not solution.strip():
        raise ValueError("the gold is empty")
    extra = {f"original_{column}" if column in _OWN_COLUMNS else column: value for column, value in row.items()}
    return {"prompt": prompt, "solution": solution.strip(), "source": name, **extra}


def _to_dataset(name: str, location: str, rows: list[Row]) -> Dataset:
    try:
        return Dataset.from_list(rows)
    except _MIXED as error:
        column = next(column for column in rows[0] if _is_mixed(column, rows))
        raise DataError(
            f"Column {column.removeprefix('original_')!r} of {name!r} ({location}) is not of one type: {error}. Give "
            "all its values one, or remove it."
        ) from error


def _is_mixed(column: str, rows: list[Row]) -> bool:
    try:
        Dataset.from_dict({column: [row.get(column) for row in rows]})
    except _MIXED:
        return True
    return False
