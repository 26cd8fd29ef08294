"""Unicode characters of mathematics written as LaTeX, so that the rest of the grader sees ASCII where it can."""

import re
import unicodedata

_INVISIBLE = dict.fromkeys(map(ord, "\u00ad\u200b\u200c\u200d\u200e\u200f\u2060\u2061\u2062\u2063\u2064\ufeff\ufe0f"))

_COMMANDS = {
    "−": "-", "–": "-", "‐": "-", "‑": "-", "‒": "-", "﹣": "-", "⁄": "/", "∕": "/", "∣": "|", "∶": ":",
    "×": r"\times ", "✕": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ", "∙": r"\cdot ", "•": r"\cdot ", "÷": r"\div ",
    "±": r"\pm ", "∓": r"\mp ", "∞": r"\infty ", "π": r"\pi ", "°": r"^\circ ", "º": r"^\circ ", "∘": r"^\circ ",
    "℃": r"^\circ C", "℉": r"^\circ F", "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\neq ",
    "≈": r"\approx ", "≅": r"\approx ", "∪": r"\cup ", "⋃": r"\cup ", "∩": r"\cap ", "∖": r"\setminus ",
    "∈": r"\in ", "∅": r"\emptyset ", "⌀": r"\emptyset ", "ℝ": r"\mathbb{R}", "ℤ": r"\mathbb{Z}",
    "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "⟨": "(", "⟩": ")", "〈": "(", "〉": ")",
    "、": ",", "。": ".", "【": "[", "】": "]", "“": '"', "”": '"', "‘": "'", "’": "'", "′": "'", "″": "''",
    "…": r"\ldots ", "⋯": r"\ldots ", "⇒": r"\Rightarrow ", "⟹": r"\Rightarrow ", "→": r"\to ", "∨": r"\lor ",
    "∧": r"\land ",
}  # fmt: skip
_SINGLE = str.maketrans(_COMMANDS)
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ", "0123456789+-n")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋ₙ", "0123456789+-n")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻ⁿ]+")
_LOWERED = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋ₙ]+")
_STYLED = re.compile("[\uff01-\uff5e\U0001d400-\U0001d7ff]")  # full-width forms, mathematical alphanumeric symbols
_ROOT = re.compile(r"√\s*(\d+|[A-Za-z]|(?=[({]))")


def to_latex(text: str) -> str:
    r"""
    Writes unicode mathematics as LaTeX: `½` as `\frac{1}{2}`, `x²` as `x^{2}`, `52₈` as `52_{8}`, `≤` as `\le`.

    Invisible characters vanish, every kind of space becomes one space, and control characters and lone surrogates
    become `?`, which no answer contains, so that nothing joins across them.
    """
    if not text.isascii():
        text = text.translate(_INVISIBLE)
        text = _RAISED.sub(lambda run: "^{" + run.group().translate(_SUPERSCRIPTS) + "}", text)
        text = _LOWERED.sub(lambda run: "_{" + run.group().translate(_SUBSCRIPTS) + "}", text)
        text = _ROOT.sub(lambda root: rf"\sqrt{{{root.group(1)}}}" if root.group(1) else r"\sqrt", text)
        text = "".join(map(_character, text.translate(_SINGLE)))
    text = " ".join(text.split())
    return "".join("?" if unicodedata.category(character) in ("Cc", "Cs") else character for character in text)


def _character(character: str) -> str:
    if character.isdecimal():
        return str(unicodedata.decimal(character))
    plain = unicodedata.normalize("NFKC", character)
    if unicodedata.category(character) == "No":  # vulgar fractions; circled digits and the like stay as they are
        top, slash, bottom = plain.partition("\u2044")
        return rf"\frac{{{top}}}{{{bottom}}}" if slash and bottom else character
    return plain if _STYLED.match(character) else character
