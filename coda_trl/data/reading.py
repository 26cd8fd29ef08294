"""Reads rows from a local file or the hub, with errors that say what is wrong with a damaged file."""

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, TextIO

import pyarrow.parquet
from datasets import load_dataset

Row = dict[str, Any]

SUFFIXES = (".jsonl", ".jsonl.gz", ".json", ".json.gz", ".csv", ".parquet")

csv.field_size_limit(1 << 30)  # long solutions exceed the default of 128 KiB


class DataError(ValueError):
    """A data set that is missing, damaged, or not of the expected form. The message says what was found."""


class DatasetUnavailableError(DataError):
    """A hub data set that could not be fetched from here. It may well be available elsewhere."""


def is_local(location: str) -> bool:
    """Whether `location` means a file: it is one, or is written like one (`/`, `./`, `../`, `~`, a known ending)."""
    return location.endswith(SUFFIXES) or location.startswith(("/", "./", "../", "~")) or Path(location).is_file()


def read_rows(location: str, configs: Sequence[str | None] = (None,), splits: Sequence[str] = ("train",)) -> list[Row]:
    """
    Reads all rows of a data set.

    Args:
        location (`str`):
            Path of a `.jsonl`, `.json`, `.csv` (each optionally with `.gz`, but `.csv`) or `.parquet` file, or id of a
            hub data set.
        configs (`Sequence[str]`, *optional*, defaults to `(None,)`):
            Hub configurations to read, one after the other. Not used for a file.
        splits (`Sequence[str]`, *optional*, defaults to `("train",)`):
            Hub splits to read of each configuration. Not used for a file.

    Returns:
        `list[dict]`: The rows.

    Raises:
        DataError: If a file is missing, empty or damaged (with its name and line).
        DatasetUnavailableError: If a hub data set cannot be fetched.
    """
    if is_local(location):
        rows = read_file(Path(location).expanduser())
        if not rows:
            raise DataError(f"{location} holds no rows.")
        return rows
    rows = []
    for config in configs:
        for split in splits:
            rows.extend(_read_hub(location, config, split))
    return rows


def _read_hub(name: str, config: str | None, split: str) -> list[Row]:
    try:
        return list(load_dataset(name, config, split=split))
    except Exception as error:  # the hub client raises many kinds; each means that these rows cannot be had
        where = f"{name}{'' if config is None else f' (configuration {config!r})'}, split {split!r}"
        raise DatasetUnavailableError(
            f"The hub data set {where} could not be loaded: {type(error).__name__}: {error}. Without access to the "
            "hub, give a local copy (`NAME=PATH`)."
        ) from error


def read_file(path: Path) -> list[Row]:
    """Reads all rows of a local file, see [`read_rows`]."""
    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*") if p.is_file()) if path.parent.is_dir() else []
        raise DataError(f"There is no file {path}. Files in {path.parent}: {', '.join(beside[:20]) or 'none'}.")
    if not path.name.endswith(SUFFIXES):
        raise DataError(f"{path} is of no known kind. Known endings: {', '.join(SUFFIXES)}.")
    if path.suffix == ".parquet":
        try:
            return pyarrow.parquet.read_table(path).to_pylist()
        except pyarrow.ArrowException as error:
            raise DataError(f"{path} is not a readable parquet file: {error}") from error
    opener = gzip.open if path.suffix == ".gz" else open
    try:
        with opener(path, "rt", encoding="utf-8", newline="") as file:
            if path.suffix == ".csv":
                return list(csv.DictReader(file))
            return list(_json_rows(path, file))
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged: {error}. Copy it again.") from error


def _json_rows(path: Path, file: TextIO) -> Iterator[Row]:
    """Rows of JSON lines, or of one JSON array, which some data sets keep under either ending."""
    first = file.read(1)
    file.seek(0)
    if first == "[":
        try:
            rows = json.load(file)
        except json.JSONDecodeError as error:
            raise DataError(f"{path} is damaged: {error}.") from error
        numbered = enumerate(rows, start=1)
    else:
        numbered = ((number, line) for number, line in enumerate(file, start=1) if line.strip())
    for number, row in numbered:
        try:
            row = json.loads(row) if isinstance(row, str) else row
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}, is not JSON: {error}.") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}, is a {type(row).__name__}, but must be an object.")
        yield row
