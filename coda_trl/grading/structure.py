r"""Take an answer apart where order, brackets and repetition matter: lists, tuples, sets, intervals and relations."""

import re
from functools import lru_cache
from typing import NamedTuple


class Sequence(NamedTuple):
    """Values with their brackets: `"()"`, `"[]"`, `"(]"`, `"[)"`, `"{}"` (a set) or `""` (a list without brackets)."""

    brackets: str
    items: tuple[str, ...]


_OPENING = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}
_CLOSING = {")", "]", "}", "\\}"}
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_RELATION = re.compile(r"<|>|\\le(?![A-Za-z])|\\ge(?![A-Za-z])|\\neq(?![A-Za-z])|=")
_PLUS_MINUS = re.compile(r"\\pm(?![A-Za-z])")
_SET_BUILDER = re.compile(r"^\\\{\s*([A-Za-z])\s*(?:\\in\s*\\mathbb\s*\{?R\}?\s*)?(?:\\mid|\||:)\s*(.+)\\\}$")
_MEMBERSHIP = re.compile(r"^[A-Za-z]\w*\s*\\in(?![A-Za-z])\s*(.+)$")
_REVERSED_INTERVAL = re.compile(r"^([\[\]])([^\[\]()]+[,;][^\[\]()]+)([\[\]])$")
LETTERS = re.compile(r"(?<![\\A-Za-z])[A-Za-z]")
LABEL = re.compile(r"^\(?[A-Za-z](?:_\{?\w+\}?|')?(?:\([^()]*\))?(?:, [A-Za-z])*\)?$")


def split_top(text: str, separators: str) -> list[str]:
    """Splits at the given single characters where they stand outside of every bracket and brace."""
    if not any(separator in text for separator in separators):
        return [text.strip()]
    parts, depth, start = [], 0, 0
    for token in _TOKEN.finditer(text):
        symbol = token.group()
        if symbol in _OPENING:
            depth += 1
        elif symbol in _CLOSING:
            depth -= 1
        elif depth == 0 and symbol in separators:
            parts.append(text[start : token.start()].strip())
            start = token.end()
    parts.append(text[start:].strip())
    return parts


def split_relation(text: str) -> tuple[list[str], list[str]]:
    r"""Sides and signs of a chain of relations at the top level: `["0", "x", "2"], ["<", "\le"]` of `0 < x \le 2`."""
    if not _RELATION.search(text):
        return [text.strip()], []
    sides, signs, depth, start = [], [], 0, 0
    for token in _TOKEN.finditer(text):
        symbol = token.group()
        if symbol in _OPENING:
            depth += 1
        elif symbol in _CLOSING:
            depth -= 1
        elif depth == 0 and _RELATION.fullmatch(symbol):
            sides.append(text[start : token.start()].strip())
            signs.append(symbol)
            start = token.end()
    sides.append(text[start:].strip())
    return sides, signs


@lru_cache(maxsize=8192)
def simplify_notation(text: str) -> str:
    r"""
    Brings notations of sets to one: `x \in S` and `\{x \mid 2 < x\}` become what they say about `x`, `]3,4]`
    becomes `(3, 4]`, and a conclusion (`2x = 4 \Rightarrow x = 2`) keeps its last step.
    """
    text = re.split(r"\\(?:Rightarrow|to)(?![A-Za-z])", text)[-1].strip()
    if match := _SET_BUILDER.match(text):
        text = match.group(2).strip()
    if match := _MEMBERSHIP.match(text):
        text = match.group(1)
    if (match := _REVERSED_INTERVAL.match(text)) and match.group(1) + match.group(3) != "[]":
        text = ("(" if match.group(1) == "]" else "[") + match.group(2) + (")" if match.group(3) == "[" else "]")
    return text.replace("+\\infty", "\\infty").replace("+ \\infty", "\\infty")


@lru_cache(maxsize=8192)
def sequence(text: str) -> Sequence | None:
    r"""
    Reads a list, tuple, set or interval.

    Args:
        text (`str`):
            Canonical LaTeX.

    Returns:
        [`Sequence`] or `None`: `None` for a single value. `\pm` at the top level makes two values.
    """
    items = split_top(text, ",;")
    if len(items) > 1:
        return Sequence("", _plus_minus(items))
    opening = "\\{" if text.startswith("\\{") else text[:1]
    if opening in ("(", "[", "\\{"):
        closing = "\\}" if text.endswith("\\}") else text[-1:]
        inside = text[len(opening) : len(text) - len(closing)]
        if closing in (")", "]", "\\}") and (opening == "\\{") == (closing == "\\}") and _balanced(inside):
            items = split_top(inside, ",;")
            if len(items) > 1 or opening == "\\{":
                return Sequence(opening[-1] + closing[-1], _plus_minus(items))
    if _PLUS_MINUS.search(text):
        expanded = _plus_minus([text])
        return Sequence("", expanded) if len(expanded) > 1 else None
    return None


def _balanced(text: str) -> bool:
    """Whether no bracket closes that did not open inside, so that the brackets around belong to each other."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token.group() in _OPENING) - (token.group() in _CLOSING)
        if depth < 0:
            return False
    return depth == 0


def _plus_minus(items: list[str]) -> tuple[str, ...]:
    expanded = []
    for item in items:
        if len(_PLUS_MINUS.findall(item)) == 1:
            expanded += [_PLUS_MINUS.sub("+", item).lstrip("+ "), _PLUS_MINUS.sub("-", item)]
        else:
            expanded.append(item)
    return tuple(item for item in expanded if item)
