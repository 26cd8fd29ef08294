r"""
Read mathematics in plain notation, as golds of many data sets have it: `2*pi*r`, `sqrt(x**2+1)/3`, `infinity`.

Only text in which every word is known is taken for mathematics; nothing is executed.
"""

import re

_FUNCTIONS = {
    name: rf"\{name}" for name in "sin cos tan cot csc sinh cosh tanh arcsin arccos arctan ln log exp".split()
} | {"asin": r"\arcsin", "acos": r"\arccos", "atan": r"\arctan"}
# What is written around its argument.
_AROUND = {
    "sqrt": (r"\sqrt{", "}"),
    "cbrt": (r"\sqrt[3]{", "}"),
    "abs": ("|", "|"),
    "factorial": ("(", ")!"),
    "^": ("^{", "}"),
}
_CONSTANTS = {"pi": r"\pi", "infinity": r"\infty", "inf": r"\infty", "oo": r"\infty"}
_GREEK = {name: rf"\{name}" for name in "alpha beta gamma delta epsilon theta lambda sigma rho phi omega".split()}
_NAMES = _FUNCTIONS | _CONSTANTS | _GREEK

_NAME = re.compile(r"(?<![\\A-Za-z_])(?<!_\{)[A-Za-z]{2,}")
_CALL = re.compile(r"(?<![\\A-Za-z])(cbrt|abs|factorial)\s*(?=\()")
_ROOT = re.compile(r"(?<![A-Za-z])\\?(sqrt)\s*(?=\()")
_LOG_BASE = re.compile(r"(?<![\\A-Za-z])log(2|10)\s*(?=\()")
_TIMES = re.compile(r"(?<=[\w)}\]!'|])(?:\*| \* )(?=[\w(\\{|])")  # and no emphasis, as in `*A* or *B*`
_POWER = re.compile(r"(?<=[\w)}\]!'|])(?:\*\*| \*\* )(?=[\w(\\{+-])")
_SECANT = re.compile(r"(?<![\\A-Za-z])sec(?=\()")  # `30 sec` is a time
_ROOT_OF_DIGITS = re.compile(r"(?<![\\A-Za-z])sqrt(?=\d)(\d+)")
_SIGNS = {">=": r"\ge ", "<=": r"\le ", "!=": r"\neq "}
_SIGN = re.compile(r"[<>]=|!=(?!=)")
_UNION = re.compile(r"(?<=[)\]])\s*[Uu]\s*(?=[(\[])")
_RAISED = re.compile(r"(\^)\s*(?=\()")
_OPERATOR = re.compile(r"[*/^()+=\d-]")
_OUTSIDE = re.compile(r"⟦[^⟧]*⟧|\\(?!cdot)[A-Za-z]+(?:\s*\{[A-Za-z]+\})?")
_UNKNOWN_CALL = re.compile(r"(?<![A-Za-z])([A-Za-z]{3,})\(")
_UNKNOWN_FACTOR = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{3,}\s*(?:\*|\\cdot)|(?:\*|\\cdot)\s*[A-Za-z]{3,}")


def plain_to_latex(text: str) -> str:
    r"""
    Writes plain mathematics as LaTeX; other text stays as it is.

    Example:

    ```python
    >>> from coda_trl.grading.plain import plain_to_latex

    >>> plain_to_latex("3*cos(sqrt(980/7)*t)"), plain_to_latex("x**(n+1)"), plain_to_latex("pink")
    ('3\\cdot \\cos(\\sqrt{980/7}\\cdot t)', 'x^{n+1}', 'pink')

    ```
    """
    text = _UNION.sub(r" \\cup ", _SIGN.sub(lambda sign: _SIGNS[sign.group()], text))
    text = _SECANT.sub(r"\\sec", _ROOT_OF_DIGITS.sub(r"\\sqrt{\1}", text))
    text = _TIMES.sub(r"\\cdot ", _POWER.sub("^", text))
    names = set(_NAME.findall(_OUTSIDE.sub(" ", text)))
    if names and names <= _NAMES.keys() | _AROUND.keys() and (_OPERATOR.search(text) or names <= _CONSTANTS.keys()):
        text = _LOG_BASE.sub(r"\\log_{\1}", text)
        text = _around(text, _CALL)
        text = _NAME.sub(lambda name: _spaced(_NAMES.get(name.group(), name.group()), name), text)
    text = _around(text, _ROOT)
    return _around(text, _RAISED)


def is_unknown(text: str) -> bool:
    """Whether a gold calls or multiplies something with a name of several letters that nobody knows (`foo(x)`)."""
    rest = _OUTSIDE.sub(" ", text)
    calls = [name for name in _UNKNOWN_CALL.findall(rest) if not set(name) <= set(re.findall(r"\b[A-Za-z]\b", rest))]
    return bool(calls) or _UNKNOWN_FACTOR.search(rest) is not None


def _spaced(command: str, name: re.Match) -> str:
    after = name.string[name.end() : name.end() + 1]
    return command + " " if after.isalpha() and command.startswith("\\") else command


def _around(text: str, pattern: re.Pattern) -> str:
    """Puts what goes around an argument in the place of its parentheses."""
    start = 0
    while call := pattern.search(text, start):
        start = call.end()
        end = _closing(text, start)
        if end is not None:
            before, after = _AROUND[call.group(1)]
            text = text[: call.start()] + before + text[start + 1 : end] + after + text[end + 1 :]
            start = call.start() + len(before)
    return text


def _closing(text: str, start: int) -> int | None:
    """Where the parenthesis that opens at `start` is closed."""
    depth = 0
    for index in range(start, len(text)):
        depth += (text[index] == "(") - (text[index] == ")")
        if depth == 0:
            return index
    return None
