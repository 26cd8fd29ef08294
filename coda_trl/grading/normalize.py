r"""
Write an answer in one canonical LaTeX form, without changing what it means.

The result holds no layout commands, no delimiters of mathematics mode and no separators of thousands; words stand
between `⟦` and `⟧`; every comma that is left separates two values and is followed by a space.
"""

import re
from fractions import Fraction
from functools import lru_cache

from .characters import to_latex
from .plain import plain_to_latex
from .structure import AND, OR

WORD_START, WORD_END = "⟦", "⟧"
WORDS = re.compile("⟦([^⟦⟧]*)⟧")
MAX_PERIOD = 60  # digits of a repeating decimal

_TEXT_COMMANDS = "textnormal|textbf|textit|textrm|textsf|texttt|textup|text|mbox|hbox|emph|underline|operatorname"
_STYLE_COMMANDS = "mathrm|mathbf|mathit|mathsf|mathtt|mathnormal|boldsymbol|bm"
_TEXT = re.compile(rf"\\({_TEXT_COMMANDS}|{_STYLE_COMMANDS})\s*\{{([^{{}}]*)\}}")
_FUNCTIONS = {
    "sin",
    "cos",
    "tan",
    "cot",
    "csc",
    "sinh",
    "cosh",
    "tanh",
    "arcsin",
    "arccos",
    "arctan",
    "log",
    "ln",
    "exp",
}
# In upright type behind a number a unit; otherwise a letter is a variable, or a constant as in `3\mathrm{i}`.
_UPRIGHT = {"mathrm", "text", "textrm", "textup", "textnormal", "mbox", "hbox"}
_LETTER_UNIT = re.compile(r"[mghslLNJWV](?:/[mshL])?")
_NUMBER_BEFORE = re.compile(
    r"(?:^|[=,:])(?:[^A-Za-z\\=,:]|\\(?:frac|sqrt|pi|times|cdot)(?![A-Za-z]))*(?:[\d})]|\\pi)\s*(?:\\cdot\s*)?$"
)
_OPERATORS = _FUNCTIONS | {"sec", "gcd", "lcm", "max", "min", "det"}  # in `\\mathrm{}` these may be units

_REMOVED = re.compile(
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr|large|Large|LARGE|huge"
    r"|rm|bf|it|sf|boldmath|boxed|fbox|therefore|mathstrut|strut|negthinspace|left\s*\.|right\s*\.|left|right)(?![A-Za-z])"
    r"|\\(?:text)?color\s*\{[A-Za-z]*\}|\\v?phantom\s*(?:\{[^{}]*\}|.)|(?<!\\)\\!\s*|(?<!\\)\\[()\[\]]|(?<!\\)\$"
)
_ROW_SKIP = re.compile(r"\\\\\s*\[\s*-?[\d.]+\s*[a-z]{2}\s*\]")
_SPACES = re.compile(
    r"(?<!\\)\\(?:[,;:> ]|(?:quad|qquad|enspace|thinspace|medspace|thickspace|space|hfill)(?![A-Za-z]))|~"
)
_RUN_OF_SPACES = re.compile(" {2,}")
_SYNONYMS = {
    "dfrac": r"\frac", "tfrac": r"\frac", "cfrac": r"\frac", "dbinom": r"\binom", "tbinom": r"\binom",
    "leq": r"\le", "leqslant": r"\le", "leqq": r"\le", "geq": r"\ge", "geqslant": r"\ge", "geqq": r"\ge",
    "ne": r"\neq", "lt": "<", "gt": ">", "ast": r"\cdot", "cdotp": r"\cdot", "varnothing": r"\emptyset",
    "degree": r"^\circ", "lbrace": r"\{", "rbrace": r"\}", "lbrack": "[", "rbrack": "]", "langle": "(",
    "rangle": ")", "lvert": "|", "rvert": "|", "vert": "|", "mid": r"\mid", "colon": ":", "infin": r"\infty",
    "iff": r"\Rightarrow", "implies": r"\Rightarrow", "Longrightarrow": r"\Rightarrow",
    "Leftrightarrow": r"\Rightarrow", "backslash": r"\setminus", "smallsetminus": r"\setminus",
    "R": r"\mathbb{R}", "dots": r"\ldots", "cdots": r"\ldots", "dotsc": r"\ldots", "simeq": r"\approx",
    "thickapprox": r"\approx", "vee": r"\lor", "wedge": r"\land",
}  # fmt: skip
_EMPTY_SET = re.compile(r"\\\{\s*\\\}")
_ESCAPED_COMMAND = re.compile(r"\\\\(?=[A-Za-z])")  # JSON-escaped LaTeX
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_CONNECTIVE = re.compile(
    r",?\s*(?:⟦\s*,?\s*(and|or)\s*,?\s*⟧|(?<![A-Za-z\\])(and|or)(?![A-Za-z])|\\(land|lor)(?![A-Za-z]))"
)
_CONDITION = re.compile(r"[<>]|\\(?:le|ge|neq|in)(?![A-Za-z])")
_ONES = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen "
    "eighteen nineteen"
).split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
_VALUES_OF_WORDS = (
    {word: str(value) for value, word in enumerate(_ONES)}
    | {word: f"{ten}0" for ten, word in enumerate(_TENS, start=2)}
    | {
        f"{tens}{hyphen}{ones}": f"{ten}{one}"
        for ten, tens in enumerate(_TENS, start=2)
        for one, ones in enumerate(_ONES[1:10], start=1)
        for hyphen in "- "
    }
    | {"infinity": r"\infty", "negative infinity": r"-\infty", "pi": r"\pi"}
)
_WITH_ARGUMENTS = re.compile(r"\\(frac|binom|sqrt)(?![A-Za-z])(?:\s*\[[^\[\]]*\])?")
_CHOOSE = re.compile(r"\{([^{}]+)\\choose(?![A-Za-z])([^{}]+)\}|^\s*(\w+)\s*\\choose(?![A-Za-z])\s*(\w+)\s*$")
_ARGUMENT = re.compile(r"\s*(\\[A-Za-z]+|[A-Za-z\d])")
_THOUSANDS = re.compile(r"(?<![\d.,])([1-9]\d{0,2})((?:,\d{3})+|(?: \d{3})+)(?!\d|,\d|\s+\d)")
_CJK = re.compile(r"[\u3400-\u9fff]+")
_CJK_CONNECTIVES = {"或": "or", "和": "and", "与": "and", "及": "and", "且": "and"}
_ANSWER_IS = re.compile(r"^(?:the\s+)?(?:(?:final|correct)\s+)?answer\s*(?:is(?!\s+not)|:|=)\s*(?=\S)", re.IGNORECASE)
# `The answer is`, `Distance:`, but not `the answer is not`
_LEAD = re.compile(
    r"^⟦((?:(?!\b(?:not|no|never|at|about|less|more)\b)[^⟦⟧\d=])*?(?:\bis|:|=))\s*(?:⟧\s*(?=\S)|(?=-?\\?\$?\d))", re.I
)
_NUMBER_IN_WORDS = re.compile(r"^⟦(-?[\d.,]*\d)\s*([^\W\d_][^⟦⟧\d:]*)⟧$")
# TeX takes one letter or digit as the index: without braces, the base of `\log_2 8` reads as a number before a number.
_LOG_BASE = re.compile(r"(\\log)\s*_\s*([A-Za-z\d])(?!\w)")
_EXPONENT = re.compile(r"\^\s*([+-]\d+|\d{2,})")
_SCIENTIFIC = re.compile(r"(?<![A-Za-z\d])(\d+\.\d+|\d+(?=E)|^-?\d+(?=e[+-]?\d+$))[eE]([+-]?\d+)(?![\d.])")
_MIXED = re.compile(r"(?<![\d.\w])(\d+)\s+(\d+)/(\d+)(?![\d.])")
# `0.\overline{3}`, `0.\dot{1}4\dot{2}`, `0.(3)`: digits that repeat are under a bar, between dots or in parentheses.
_BAR = r"\\(?:overline|bar|overbar)\s*"
_DOT = r"\\dot\s*"
_REPEATING = re.compile(
    rf"(?<![\d.])(\d*)\.(\d*)(?:{_BAR}(?:\{{(\d+)\}}|(\d))|{_DOT}\{{?(\d)\}}?(?:(\d*){_DOT}\{{?(\d)\}}?)?|\((\d+)\))(?![\d.])"
)
_FACTORIAL_POWER = re.compile(r"(?<![\w.}])(\d+|[A-Za-z])!(?=\s*\^)")


@lru_cache(maxsize=8192)
def normalize(text: str) -> str:
    r"""
    Writes an answer or a gold in canonical form.

    Args:
        text (`str`):
            Content of a box, or a gold answer as a data set holds it.

    Returns:
        `str`: the canonical form; empty if nothing is left.

    Example:

    ```python
    >>> from coda_trl.grading.normalize import normalize

    >>> normalize(r"\$\text{12,\!500}\,."), normalize(r"\left(−½,\,3\right]"), normalize(r"2\text{ or }3")
    ('\\$12500', '(-\\frac{1}{2}, 3]', '2, 3')

    ```
    """
    text = to_latex(text).replace(WORD_START, "?").replace(WORD_END, "?")
    if "\\begin" not in text:
        text = _ESCAPED_COMMAND.sub(r"\\", text)
    text = (
        _RUN_OF_SPACES.sub(" ", _SPACES.sub(" ", _REMOVED.sub("", _ROW_SKIP.sub(r"\\\\", text))))
        .replace("{,}", ",")
        .replace("{:}", ":")
        .replace("\\%", "%")
        .replace("\\&", "&")
    )
    text = _EMPTY_SET.sub(r"\\emptyset ", text)
    text = _COMMAND.sub(lambda command: _SYNONYMS.get(command.group(1), command.group()), text)
    text = _CHOOSE.sub(lambda choose: "{{\\binom{{{}}}{{{}}}}}".format(*filter(None, choose.groups())), text)
    text = _CJK.sub(_mark_cjk, _brace_arguments(plain_to_latex(_mark_words(text))))
    text = _CONNECTIVE.sub(_connect if _CONDITION.search(text) else ", ", text)
    text = _join_thousands(_MIXED.sub(r"\1\\frac{\2}{\3}", text))
    text = _SCIENTIFIC.sub(r"\1\\times 10^{\2}", text)
    text = _EXPONENT.sub(r"^{\1}", text)
    text = _REPEATING.sub(_repeating, _FACTORIAL_POWER.sub(r"(\1!)", _LOG_BASE.sub(r"\1_{\2}", text)))
    text = re.sub(r"\s*,[\s,]*", ", ", text.replace("\\\\", " \\\\ "))
    text = _RUN_OF_SPACES.sub(" ", text).strip()
    text = _strip_lead(_strip_punctuation(text))
    text = _NUMBER_IN_WORDS.sub(r"\1⟦\2⟧", text)
    return _VALUES_OF_WORDS.get(text.strip("⟦⟧ ").casefold(), text)


def _mark_words(text: str) -> str:
    """Replaces text and font commands by their content, innermost first, and marks what reads as words."""
    for _ in range(8):
        replaced = _TEXT.sub(_unwrap, text)
        if replaced == text:
            break
        text = replaced
    return text


def _unwrap(match: re.Match) -> str:
    command, argument = match.groups()
    content = argument.replace(WORD_START, "").replace(WORD_END, "").strip()
    if content in (_OPERATORS if command == "operatorname" else _FUNCTIONS):
        return rf"\{content} "
    if re.search(r"[^\W\d_]\.?[^\W\d_]", re.sub(r"\\[A-Za-z]+", "", content)):
        return f"{WORD_START}{content}{WORD_END}"
    is_letter = command in _UPRIGHT and _LETTER_UNIT.fullmatch(content)
    if is_letter and _NUMBER_BEFORE.search(match.string[: match.start()]):
        return f"{WORD_START}{content}{WORD_END}"
    return argument if len(content) > 1 else content


def _connect(connective: re.Match) -> str:
    """Between conditions, "and" and "or" are no commas."""
    return f" {OR if 'or' in connective.group(connective.lastindex) else AND} "


def _mark_cjk(run: re.Match) -> str:
    if run.group() in _CJK_CONNECTIVES:
        return f"⟦{_CJK_CONNECTIVES[run.group()]}⟧"
    before, after = run.string[: run.start()], run.string[run.end() :]
    inside = before.rfind(WORD_START) > before.rfind(WORD_END)  # of words that are marked already
    return run.group() if inside and WORD_END in after else f"{WORD_START}{run.group()}{WORD_END}"


def _strip_lead(text: str) -> str:
    """Removes words that announce the value, inside or outside of its `\\text{}`."""
    text = _ANSWER_IS.sub("", text)
    lead = _LEAD.match(text)
    if lead is None:
        return text
    rest = text[lead.end() :]
    if "⟧" in lead.group():
        return rest
    return rest.removesuffix(WORD_END) if re.fullmatch(r"[^⟦⟧A-Za-z]*⟧", rest) else WORD_START + rest


def _brace_arguments(text: str) -> str:
    r"""Puts the arguments of fractions, roots and binomials into braces, as TeX reads `\frac\pi 2` and `\sqrt3`."""
    parts, position = [], 0
    for command in _WITH_ARGUMENTS.finditer(text):
        if command.start() < position:
            continue
        parts.append(text[position : command.end()])
        position = command.end()
        for _ in range(1 if command.group(1) == "sqrt" else 2):
            argument = _ARGUMENT.match(text, position)
            if argument is None:
                break
            parts.append(f"{{{argument.group(1)}}}")
            position = argument.end()
    return "".join(parts) + text[position:]


def _repeating(decimal: re.Match) -> str:
    whole, fixed, *repeated = decimal.groups()
    period = "".join(filter(None, repeated))
    if len(whole + fixed + period) > MAX_PERIOD:
        return decimal.group()
    scale = 10 ** len(fixed)
    value = Fraction(int((whole + fixed) or "0"), scale) + Fraction(int(period), (10 ** len(period) - 1) * scale)
    return f"{value}" if value.denominator == 1 else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _join_thousands(text: str) -> str:
    """Removes the separators of thousands outside of parentheses, brackets and braces, where a comma means a list."""
    parts = re.split(r"(\\[{}]|[()\[\]])", text)
    depth = 0
    for index, part in enumerate(parts):
        if part in ("(", "[", "\\{"):
            depth += 1
        elif part in (")", "]", "\\}"):
            depth = max(0, depth - 1)
        elif depth == 0:
            parts[index] = _THOUSANDS.sub(lambda number: re.sub("[ ,]", "", number.group()), part)
    return "".join(parts)


def _strip_punctuation(text: str) -> str:
    """Removes punctuation at the ends, and braces that enclose everything."""
    while True:
        stripped = text.strip(" ").rstrip(".,;:").removeprefix("=").strip(" *")
        if stripped.endswith("\\"):
            stripped = text.strip(" ")
        if stripped.startswith("{") and _encloses(stripped):
            stripped = stripped[1:-1]
        if stripped == text:
            return text
        text = stripped


def _encloses(text: str) -> bool:
    depth = 0
    for index, symbol in enumerate(text):
        escaped = index > 0 and text[index - 1] == "\\"
        depth += (symbol == "{" and not escaped) - (symbol == "}" and not escaped)
        if depth == 0:
            return index == len(text) - 1
    return False
