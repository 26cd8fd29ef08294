r"""Take an answer apart where order, brackets and repetition matter: lists, tuples, sets, intervals and relations."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

# What may separate the parts of an answer. `AND` and `OR` stand between conditions only, see `normalize`.
AND, OR = "∧", "∨"
COMMAS = frozenset(",;")
LISTS = COMMAS | {AND, OR}
RELATIONS = frozenset(["<", ">", "=", r"\le", r"\ge", r"\neq"])
APPROXIMATELY = frozenset([r"\approx", r"\sim"])
_CONCLUSIONS = frozenset([r"\Rightarrow", r"\to"])

_OPENING = frozenset(["(", "[", "{", "\\{"])
_OPENING_OF = {")": "([", "]": "([", "}": "{", "\\}": "\\{"}  # half-open intervals pair a round with a square bracket
_TOKEN = re.compile(r"\\[A-Za-z]+|\\.|.", re.DOTALL)
_PLUS_MINUS = re.compile(r"\\pm(?![A-Za-z])")
_REVERSED_INTERVAL = re.compile(r"([\[\]])([\s,;]*[^\[\]()\s,;][^\[\](),;]*[,;][^\[\]()]+)([\[\]])")
_SIGN_OF_INFINITY = re.compile(r"\+ ?(?=\\infty)|(?<=-) (?=\\infty)")
GREEK = """alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi rho sigma tau phi varphi
    chi psi omega""".split()  # fmt: skip
_LETTER = rf"(?:(?<![\\A-Za-z])[A-Za-z]|\\(?:{'|'.join(GREEK)})(?![A-Za-z]))"
LETTERS = re.compile(_LETTER)
_SET_BUILDER = re.compile(rf"^\\\{{\s*{_LETTER}\s*(?:\\in\s*\\mathbb\s*\{{?R\}}?\s*)?(?:\\mid|\||:)\s*(.+)\\\}}$")
_MEMBERSHIP = re.compile(rf"^{_LETTER}\w*(?:\([^()]*\))?\s*\\in(?![A-Za-z])\s*(.+)$")
LABEL = re.compile(rf"^\(?{_LETTER}(?:_\{{?\w+\}}?|')?(?:\([^()]*\))?(?:, {_LETTER})*\)?$")
NAME = re.compile(rf"{LABEL.pattern}|^(?:m?\\angle )?[A-Z]{{1,3}}$")


def _scan(text: str) -> Iterator[tuple[re.Match, int]]:
    """Characters and commands, each with the number of brackets that are open behind it."""
    depth = 0
    for token in _TOKEN.finditer(text):
        depth += (token.group() in _OPENING) - (token.group() in _OPENING_OF)
        yield token, depth


def rewrite(text: str, table: dict[str, str]) -> str:
    """Replaces patterns, one after the other."""
    for pattern, replacement in table.items():
        text = re.sub(pattern, replacement, text)
    return text


def nesting(text: str) -> int:
    """Number of brackets inside each other."""
    return max((depth for _, depth in _scan(text)), default=0)


def split_top(text: str, separators: frozenset[str]) -> tuple[list[str], list[str]]:
    r"""The parts between separators outside of all brackets, and these: `["0", "x", "2"], ["<", "\le"]`."""
    if not any(separator in text for separator in separators):
        return [text.strip()], []
    parts, found, start = [], [], 0
    for token, depth in _scan(text):
        if depth == 0 and token.group() in separators:
            parts.append(text[start : token.start()].strip())
            found.append(token.group())
            start = token.end()
    return [*parts, text[start:].strip()], found


def balanced(text: str) -> bool:
    """Whether every bracket and brace that opens is closed by one that goes with it, and none closes otherwise."""
    open_brackets = []
    for symbol in _TOKEN.findall(text):
        if symbol in _OPENING:
            open_brackets.append(symbol)
        elif symbol in _OPENING_OF and (not open_brackets or open_brackets.pop() not in _OPENING_OF[symbol]):
            return False
    return not open_brackets


def closing(text: str, start: int) -> int | None:
    """Where the parenthesis or brace at `start` is closed; brackets of other kinds do not count."""
    depth = 0
    for token in _TOKEN.finditer(text, start):
        depth += (token.group() == text[start]) - (token.group() == {"(": ")", "{": "}"}[text[start]])
        if depth == 0:
            return token.start()
    return None


def conclusion(text: str) -> str:
    r"""The last step of `2x = 4 \Rightarrow x = 2`; `x = 7 \Rightarrow 3` says `x = 7 = 3`."""
    steps, arrows = split_top(text, _CONCLUSIONS)
    if "\\to" in arrows and not all(split_top(step, RELATIONS)[1] for step in steps):
        return text  # `x \to 5` concludes nothing
    if arrows and not split_top(steps[-1], RELATIONS)[1]:
        sides, signs = split_top(steps[-2], RELATIONS)
        if set(signs) <= {"="} and all(LABEL.match(side) or not LETTERS.search(side) for side in sides):
            return " = ".join(steps[-2:])
    return steps[-1]


@lru_cache(maxsize=8192)
def simplify_notation(text: str) -> str:
    r"""
    Brings notations of sets to one: `x \in S` and `\{x \mid 2 < x\}` become what they say about `x`, and `]3,4]`
    becomes `(3, 4]`.
    """
    if match := _SET_BUILDER.match(text):
        text = match.group(1).strip()
    if match := _MEMBERSHIP.match(text):
        text = match.group(1)
    if text.startswith("]") or text.endswith("["):
        text = _REVERSED_INTERVAL.sub(lambda part: "[("[part[1] == "]"] + part[2] + "])"[part[3] == "["], text)
    return _SIGN_OF_INFINITY.sub("", text)


class Sequence(NamedTuple):
    """Values with their brackets: `"()"`, `"[]"`, `"(]"`, `"[)"`, `"{}"` (a set) or `""` (a list without brackets)."""

    brackets: str
    items: tuple[str, ...]


@lru_cache(maxsize=8192)
def sequence(text: str) -> Sequence | None:
    r"""Reads a list, tuple, set or interval; `None` for a single value. `\pm` at the top level makes two values."""
    items, _ = split_top(text, LISTS)
    if len(items) > 1:
        return Sequence("", _plus_minus(items))
    opening = "\\{" if text.startswith("\\{") else text[:1]
    if opening in ("(", "[", "\\{"):
        end = "\\}" if text.endswith("\\}") else text[-1:]
        inside = text[len(opening) : len(text) - len(end)]
        if end in (")", "]", "\\}") and (opening == "\\{") == (end == "\\}") and balanced(inside):
            items, _ = split_top(inside, COMMAS)
            if len(items) > 1 or opening == "\\{":
                return Sequence(opening[-1] + end[-1], _plus_minus(items))
    expanded = _plus_minus([text])
    return Sequence("", expanded) if len(expanded) > 1 else None


def _plus_minus(items: list[str]) -> tuple[str, ...]:
    expanded = []
    for item in filter(None, items):
        if 0 < len(_PLUS_MINUS.findall(item)) <= 2:  # `\pm 1 \pm i` are four values
            signs = [_PLUS_MINUS.sub(sign, item, count=1).lstrip("+ ") for sign in "+-"]
            expanded += _plus_minus(signs)
        else:
            expanded.append(item)
    return tuple(expanded)
