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
    "sqrt": (r"\sqrt{", "}"), "cbrt": (r"\sqrt[3]{", "}"), "abs": ("|", "|"),
    "factorial": ("(", ")!"), "^": ("^{", "}"),
}  # fmt: skip

_NAME = re.compile(r"(?<![\\A-Za-z_])(?<!_\{)[A-Za-z]{2,}")
_CALL = re.compile(r"(?:(?<![A-Za-z])\\?(sqrt|cbrt|abs|factorial)|(\^))\s*(?=\()")
_REWRITTEN = {
    r">=": r"\\ge ",
    r"<=": r"\\le ",
    r"!=(?!=)": r"\\neq ",
    r"(?<=[)\]])\s*[Uu]\s*(?=[(\[])": r" \\cup ",
    r"(?<![\\A-Za-z])log(2|10)(?=\()": r"\\log_{\1}",
    r"(?<![\\A-Za-z])sqrt(?=\d)(\d+)": r"\\sqrt{\1}",
    r"(?<![\\A-Za-z])sec(?=\()": r"\\sec",  # `30 sec` is a time
    r"(?<=[\w)}\]!'|])(?:\*\*| \*\* )(?=[\w(\\{+-])": "^",
    r"(?<=[\w)}\]!'|])(?:\*| \* )(?=[\w(\\{|])": r"\\cdot ",  # and no emphasis, as in `*A* or *B*`
}
_OPERATOR = re.compile(r"[*/^()+=\d-]")
_OUTSIDE = re.compile(r"⟦[^⟧]*⟧|\\(?!cdot)[A-Za-z]+(?:\s*\{[A-Za-z]+\})?")
_UNKNOWN_CALL = re.compile(r"(?<![A-Za-z])([A-Za-z]{3,})\(")
_UNKNOWN_FACTOR = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}\s*(?:\*|\\cdot)|(?:\*|\\cdot)\s*[A-Za-z]{3,}")


def plain_to_latex(text: str) -> str:
    r"""`3\cdot \cos(\sqrt{980/7}\cdot t)` of `3*cos(sqrt(980/7)*t)`; text that is not plain mathematics stays."""
    text = _around(rewrite(text, _REWRITTEN))
    names = set(_NAME.findall(_OUTSIDE.sub(" ", text)))
    if names and names <= _NAMES.keys() and (_OPERATOR.search(text) or names <= _CONSTANTS.keys()):
        text = _NAME.sub(_command, text)
    return text


def is_unknown(text: str) -> bool:
    """Whether a gold calls or multiplies something with a name of several letters that nobody knows (`foo(x)`)."""
    rest = _OUTSIDE.sub(" ", text)
    calls = [name for name in _UNKNOWN_CALL.findall(rest) if not set(name) <= set(re.findall(r"\b[A-Za-z]\b", rest))]
    return bool(calls) or _UNKNOWN_FACTOR.search(rest) is not None


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
