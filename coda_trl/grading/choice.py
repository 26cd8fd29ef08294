r"""Multiple choice: which option a gold names, and which one an answer chooses."""

import re
from collections.abc import Sequence
from itertools import product
from string import ascii_uppercase

from .literals import words_key
from .normalize import WORDS, normalize

_GOLD = re.compile(r"^\(?\s*([A-Z])\s*\)?\s*[.,:)]?$")
_CHOICE = re.compile(
    r"^(?:(?:the\s+)?(?:(?:correct|right|final|best)\s+)?(?:answer|option|choice|letter|graph)\s*(?:is|:|=)?\s*)?"
    r"(?:\(\s*([A-Za-z])\s*\)|([A-Za-z])(?:\s*(?:$|[.:)](?!\w)|(?=\())|\s+[-—]\s+(?=.*[^\W\d_]{2})|(?=\s+is\b)))(.*)$",
    re.IGNORECASE | re.DOTALL,
)
_IS_RIGHT = re.compile(
    r"is\s+(?:the\s+)?(?:only\s+)?(?:(?:correct|right|best)(?:\s+(?:answer|option|choice|one))?|answer)\W*$",
    re.IGNORECASE,
)
_PREDICATE = re.compile(
    r"(?:is|are|was|isn't|aren't|wasn't|can|can't|cannot|could|may|might|must|should|would|seems|looks)\b",
    re.IGNORECASE,
)
# What chooses another option as well, or takes the choice back.
_ANOTHER = re.compile(
    r"^\W*(?:and|or|nor|not|but|vs|versus)\b"  # `B or C`
    r"|^-|^\s*(?:[+*/^_=<>!]|\\(?:neq|le|ge|approx|sim|in|notin|not|pm|cdot|times|cup|cap)(?![A-Za-z]))"  # `(B)+1`
    r"|^(?:[^\w']*[A-Z](?![\w']))+\W*$"  # `A. B`
    r"|(?<![\w)])\(\s*[A-Za-z]\s*\)"  # `(B) 27, (C)`
    r"|(?<![\w'.])(?:[a-z]\s*[.)](?!\w)|[A-Z]\s*(?:[.:](?=\s*\w)|\)))"  # `B. bank C. bookstore`
    r"|[,;]\s*[A-HJ-Z](?![\w'])(?!\s*=)"  # `B. bank; D shop`
    r"|\b(?:and|or|nor|not)\s+(?:\(\s*[A-Za-z]\s*\)|[A-Z](?!\w))"
)
_LABEL = re.compile(r"^(⟦\s*)?(?:\(\s*[A-J]\s*\)|[A-J]\s*[.)](?=\s))\s*(?:=\s*)?(?=[^\s⟧])")
_LABEL_BEHIND = re.compile(r"(?:(?<=[\d})\]%])|(?<=\\circ))\s*\(\s*([A-J])\s*\)$")


def gold_letter(gold: str) -> str | None:
    r"""The option that a gold names (`B`, `(B)`, `\text{(B)}`, `B.`), or `None` if it is no single capital letter."""
    match = _GOLD.match(WORDS.sub(r"\1", gold))
    return match.group(1) if match else None


def chosen_letter(answer: str, options: Sequence[str] | None = None) -> str | None:
    """
    The one option that an answer in canonical form chooses, or `None`.

    `B`, `b`, `(B)`, `B.`, `B. bookstore`, `B - bookstore`, `(B) 27`, `27 (B)`, `Option B` and `B is correct` choose B;
    several letters, `B or C` and `B is wrong` choose nothing. Of `options`, A first, the exact text of one, which no
    other has, chooses it too, also behind its letter (`B bookstore`).
    """
    plain = WORDS.sub(r"\1", answer).strip()
    if match := _CHOICE.match(plain):
        bracketed, bare, rest = match.groups()
        if (not _PREDICATE.match(rest.strip()) or _IS_RIGHT.match(rest.strip())) and not _ANOTHER.search(rest):
            return (bracketed or bare).upper()
    elif match := _LABEL_BEHIND.search(plain):
        return match.group(1)
    texts = [words_key(text) or text for text in map(normalize, map(str, options or ()))]
    labelled = [f"{letter} {text}".casefold() for letter, text in zip(ascii_uppercase, texts, strict=False)]
    key = words_key(answer) or answer
    for said, known in product((key, key.partition(" is ")[2]), (texts, labelled)):  # `The answer is bank`
        if said and known.count(said) == 1:
            return ascii_uppercase[known.index(said)]
    return None


def chosen_letters(text: str) -> list[str] | None:
    """Letters of a list such as `A, B` or `(A), (C)`, sorted; `None` if it is no list of two or more capitals."""
    items = normalize(WORDS.sub(r"\1", text)).split(", ")
    if len(items) < 2 or not all(re.fullmatch(r"[A-Z]|\([A-Z]\)", item) for item in items):
        return None
    return sorted(item.strip("()") for item in items)


def without_label(text: str) -> str:
    """A value without the letter of its option: 27 of `(C) 27` and `27 (C)`, as questions of competitions have it."""
    value, is_labelled = _LABEL.subn(lambda label: "⟦" if label.group(1) else "", text)
    return value if is_labelled else _LABEL_BEHIND.sub("", text)
