r"""
Read mathematics in plain notation, as golds of many data sets have it: `2*pi*r`, `sqrt(x**2+1)/3`, `infinity`.

Only text in which every word is known is taken for mathematics; nothing is executed.
"""

import re

from .structure import closing, rewrite

FUNCTIONS = set("sin cos tan cot csc sinh cosh tanh arcsin arccos arctan log ln exp".split())
FUNCTION = re.compile(r"\\(?:(?:arc)?(?:sin|cos|tan|cot|sec|csc)h?|ln|log)(?![A-Za-z])")
_CONSTANTS = {"pi": r"\pi", "infinity": r"\infty", "inf": r"\infty", "oo": r"\infty"}
_KNOWN = FUNCTIONS | set("alpha beta gamma delta epsilon theta lambda sigma rho phi omega".split())
_NAMES = {name: rf"\{name}" for name in _KNOWN} | _CONSTANTS
_NAMES |= {"asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan"}
# What is written around its argument.
_AROUND = {
    "sqrt": (r"\sqrt{", "}"), "abs": ("|", "|"), "^": ("^{", "}"),
}  # fmt: skip

_NAME = re.compile(r"(?<![\\A-Za-z_])(?<!_\{)[A-Za-z]{2,}")
_CALL = re.compile(r"(?:(?<![A-Za-z])\\?(sqrt|abs)|(\^))\s*(?=\()")
_REWRITTEN = {
    r">=": r"\\ge ",
    r"<=": r"\\le ",
    r"(?<=[)\]])\s*[Uu]\s*(?=[(\[])": r" \\cup ",
    r"(?<=[\w)}\]!'|])(?:\*\*| \*\* )(?=[\w(\\{+-])": "^",
    r"(?<=[\w)}\]!'|])(?:\*| \* )(?=[\w(\\{|])": r"\\cdot ",  # and no emphasis, as in `*A* or *B*`
}
_OPERATOR = re.compile(r"[*/^()+=\d-]")
_OUTSIDE = re.compile(r"⟦[^⟧]*⟧|\\[A-Za-z]+(?:\s*\{[A-Za-z]+\})?")


def plain_to_latex(text: str) -> str:
    r"""`3\cdot \cos(\sqrt{980/7}\cdot t)` of `3*cos(sqrt(980/7)*t)`; text that is not plain mathematics stays."""
    text = _around(rewrite(text, _REWRITTEN))
    names = set(_NAME.findall(_OUTSIDE.sub(" ", text)))
    if names and names <= _NAMES.keys() and (_OPERATOR.search(text) or names <= _CONSTANTS.keys()):
        text = _NAME.sub(_command, text)
    return text


def _command(name: re.Match) -> str:
    is_joined = name.string[name.end() : name.end() + 1].isalpha()
    return _NAMES.get(name.group(), name.group()) + " " * is_joined


def _around(text: str) -> str:
    """Puts what goes around an argument in the place of its parentheses."""
    start = 0
    while call := _CALL.search(text, start):
        start = call.end()
        end = closing(text, start)
        if end is not None:
            before, after = _AROUND[call.group(call.lastindex)]
            text = text[: call.start()] + before + text[start + 1 : end] + after + text[end + 1 :]
            start = call.start() + len(before)
    return text
