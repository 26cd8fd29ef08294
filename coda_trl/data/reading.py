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
    """A hub data set that could not be fetched."""


def is_local(location: str) -> bool:
    """Whether `location` means a file: it is one, or is written like one (`/`, `./`, `../`, `~`, a known ending)."""
    return location.endswith(SUFFIXES) or location.startswith(("/", "./", "../", "~")) or Path(location).is_file()


def read_rows(location: str, configs: Sequence[str | None] = (None,), splits: Sequence[str] = ("train",)) -> list[Row]:
    """
    Reads all rows of a file with one of the endings in `SUFFIXES`, or of a hub data set: `ID`, `ID:CONFIG` or
    `ID:CONFIG:SPLIT`, by default the `splits` of each of the `configs`. Raises a [`DataError`] that names the file and
    line, or a [`DatasetUnavailableError`].
    """
    if not is_local(location):
        name, config, split, *more = (*location.split(":"), "", "")
        if any(more):
            raise DataError(f"{location!r} has too many colons: write `ID:CONFIG:SPLIT`.")
        configs, splits = [config] if config else configs, [split] if split else splits
        return [row for config in configs for split in splits for row in _read_hub(name, config, split)]
    rows = read_file(Path(location).expanduser())
    if not rows:
        raise DataError(f"{location} holds no rows.")
    return rows


def _read_hub(name: str, config: str | None, split: str) -> list[Row]:
    try:
        return list(load_dataset(name, config, split=split))
    except Exception as error:  # the hub client raises many kinds; each means that these rows cannot be had
        where = f"{name}{'' if config is None else f' (configuration {config!r})'}, split {split!r}"
        raise DatasetUnavailableError(
            f"The hub data set {where} could not be loaded: {type(error).__name__}: {error}. Another configuration or "
            "split is `NAME=ID:CONFIG:SPLIT`. Without access to the hub, give a local copy (`NAME=PATH`)."
        ) from error


def read_file(path: Path) -> list[Row]:
    """Reads all rows of a local file, see [`read_rows`]."""
    if not path.is_file():
        beside = sorted(p.name for p in path.parent.glob("*") if p.is_file())
        raise DataError(f"There is no file {path}. Files in {path.parent}: {', '.join(beside[:20]) or 'none'}.")
    if not path.name.endswith(SUFFIXES):
        raise DataError(f"{path} is of no known kind. Known endings: {', '.join(SUFFIXES)}.")
    try:
        if path.suffix == ".parquet":
            return pyarrow.parquet.read_table(path).to_pylist()
        # Excel writes a byte order mark.
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8-sig", newline="") as file:
            return list((_csv_rows if path.suffix == ".csv" else _json_rows)(path, file))
    except pyarrow.ArrowException as error:
        raise DataError(f"{path} is not a readable parquet file: {error}") from error
    except (gzip.BadGzipFile, EOFError, UnicodeDecodeError) as error:
        raise DataError(f"{path} is damaged: {error}. Copy it again.") from error


def _csv_rows(path: Path, file: TextIO) -> Iterator[Row]:
    reader = csv.DictReader(file)
    for row in reader:
        if None in row:
            raise DataError(
                f"{path}, line {reader.line_num}, has more values than the header: put quotes around commas."
            )
        yield row


def _json_rows(path: Path, file: TextIO) -> Iterator[Row]:
    """Rows of JSON lines, or of one JSON array, which some data sets keep under either ending."""
    is_array = file.read(1) == "["
    file.seek(0)
    try:
        lines = json.load(file) if is_array else file
    except json.JSONDecodeError as error:
        raise DataError(f"{path} is damaged: {error}.") from error
    for number, line in enumerate(lines, start=1):
        if isinstance(line, str) and not line.strip():
            continue
        try:
            row = json.loads(line) if isinstance(line, str) else line
        except json.JSONDecodeError as error:
            raise DataError(f"{path}, line {number}, is not JSON: {error}.") from error
        if not isinstance(row, dict):
            raise DataError(f"{path}, line {number}, is {line!r:.40}, but must be an object.")
        yield row
