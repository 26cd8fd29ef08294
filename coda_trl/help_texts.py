"""Help texts of command-line options from the docstrings of their dataclasses."""

import inspect
import re
from types import MappingProxyType


def help_texts(docstring: str) -> dict[str, str]:
    """Help by name of the arguments in a docstring in Hugging Face style."""
    entries = re.findall(r"^ {4}(\w+) \(.*\):\n((?: {8}.*\n?)+)", inspect.cleandoc(docstring), re.MULTILINE)
    return {name: " ".join(text.split()).replace("%", "%%") for name, text in entries}


def help_from_docstring(arguments: type) -> type:
    """
    Gives each field of a dataclass the text that its docstring has for it as the help that `HfArgumentParser` shows.

    Args:
        arguments (`type`):
            Dataclass with a docstring in Hugging Face style.
    """
    for name, text in help_texts(arguments.__doc__).items():
        option = arguments.__dataclass_fields__[name]
        option.metadata = MappingProxyType({"help": text} | dict(option.metadata))
    return arguments
