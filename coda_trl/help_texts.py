"""Help texts of command-line options from the docstrings of their dataclasses."""

import inspect
import re
from types import MappingProxyType


def help_from_docstring(arguments: type) -> type:
    """
    Gives each field of a dataclass the text that its docstring has for it as the help that `HfArgumentParser` shows.

    Args:
        arguments (`type`):
            Dataclass with a docstring in Hugging Face style.
    """
    entries = re.findall(r"^ {4}(\w+) \(.*\):\n((?: {8}.*\n?)+)", inspect.cleandoc(arguments.__doc__), re.MULTILINE)
    for name, text in entries:
        option = arguments.__dataclass_fields__[name]
        option.metadata = MappingProxyType({"help": " ".join(text.split()).replace("%", "%%")} | dict(option.metadata))
    return arguments
