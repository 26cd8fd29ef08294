"""Checks that settings are of the types that their dataclass declares, as dataclasses themselves do not."""

import json
from collections.abc import Mapping
from dataclasses import is_dataclass
from enum import Enum
from inspect import get_annotations
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin

# Types of values in a file. Others, such as paths, and annotations as text are left to the code that reads them.
_WORDS = {bool: "true or false", int: "a number", float: "a number", str: "text", list: "a list", dict: "a mapping"}
_WORDS[NoneType] = "null"
# Types that TRL and transformers accept beyond their annotations.
_MORE = {"fsdp": bool | list[str], "resume_from_checkpoint": bool, "run_name": int, "scale_rewards": bool}


def check_types(settings: Mapping[str, Any], arguments: type) -> None:
    """Raises a `ValueError` if a value is not of the type of its field in the dataclass `arguments`."""
    annotations: dict[str, Any] = {}
    for each in reversed(arguments.__mro__):  # parsers change the types of fields
        annotations |= get_annotations(each)
    annotations |= {name: annotations[name] | more for name, more in _MORE.items() if name in annotations}
    for name in filter(settings.__contains__, annotations):
        value, expected = settings[name], annotations[name]
        if not _suits(value, expected):
            is_bare = isinstance(value, bool) and _suits("no", expected)
            remedy = ": put a bare no, yes, off or on in quotes" if is_bare else ""
            raise ValueError(f"`{name}` is {value!r}, but must be {_describe(expected)}{remedy}.")
        if name.endswith("_kwargs") and isinstance(value, str) and not _is_mapping(value):
            raise ValueError(f"`{name}` is {value!r}, but must be a mapping: on the command line, JSON.")


def _suits(value: Any, annotation: Any) -> bool:
    kind, items = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Union, UnionType):
        return any(_suits(value, each) for each in items)
    if type(value) not in _WORDS or not isinstance(kind, type):
        return True
    if kind in _WORDS:
        is_kind = _WORDS[type(value)] == _WORDS[kind] or (kind is bool and value in (0, 1))
        return is_kind and (kind is not list or all(_suits(item, each) for each in items for item in value))
    return isinstance(value, str) if issubclass(kind, Enum) else not is_dataclass(kind)  # an enum's value is text


def _describe(annotation: Any) -> str:
    kind, items = get_origin(annotation) or annotation, get_args(annotation)
    if kind in (Union, UnionType):
        return " or ".join(dict.fromkeys(_describe(each) for each in items if each is not NoneType))
    if kind is list and items:
        return "a list of " + ("numbers" if items[0] in (int, float) else "text")
    return _WORDS.get(kind, "text" if issubclass(kind, Enum) else kind.__name__)


def _is_mapping(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except json.JSONDecodeError:
        return False
