"""Help for command-line options, from the docstrings of their dataclasses, and suggestions for misspelt ones."""

import difflib
import inspect
import re
from collections.abc import Sequence
from dataclasses import fields
from types import MappingProxyType
from typing import TypeVar

_Arguments = TypeVar("_Arguments")


def help_texts(docstring: str) -> dict[str, str]:
    """Help by name of the arguments in a docstring in Hugging Face style, with names in place of links."""
    plain = re.sub(r"\[`~?([\w.]+)`\]", r"`\1`", inspect.cleandoc(docstring))
    entries = re.findall(r"^ {4}(\w+) \(.*\):\n((?: {8}.*\n?)+)", plain, re.MULTILINE)
    return {name: " ".join(text.split()).replace("%", "%%") for name, text in entries}


def help_from_docstring(arguments: type[_Arguments]) -> type[_Arguments]:
    """Gives each field of a dataclass its text in the docstring, as the help that `HfArgumentParser` shows."""
    for name, text in help_texts(arguments.__doc__).items():
        option = arguments.__dataclass_fields__[name]
        option.metadata = MappingProxyType({"help": text} | dict(option.metadata))
    return arguments


def explain_unknown(word: str, classes: Sequence[type]) -> str:
    """Message about a word, such as `--coda_aplha`, that is no option of these dataclasses."""
    if not word.startswith("--"):
        return f"{word!r} belongs to no setting. A file of settings follows `--config`."
    name = word.lstrip("-").partition("=")[0].replace("-", "_")
    close = difflib.get_close_matches(name, [field.name for each in classes for field in fields(each)], 1)
    return f"There is no setting `{name}`. " + (f"Did you mean `{close[0]}`?" if close else "`--help` lists them all.")
