r"""
Write an answer in one canonical LaTeX form, without changing what it means.

The result holds no layout commands, no delimiters of mathematics mode and no separators of thousands; words stand
between `⟦` and `⟧`; every comma that is left separates two values and is followed by a space.
"""

import re
from fractions import Fraction
from functools import lru_cache

from .characters import to_latex
from .plain import FUNCTIONS, plain_to_latex
from .structure import AND, OR, closing, conclusion, rewrite

WORDS = re.compile("⟦([^⟦⟧]*)⟧")
MAX_PERIOD = 60  # digits of a repeating decimal

_TEXT_COMMANDS = "textnormal|textbf|textit|textrm|textsf|texttt|textup|text|mbox|hbox|emph|underline|operatorname"
_STYLE_COMMANDS = "mathrm|mathbf|mathit|mathsf|mathtt|mathnormal|boldsymbol|bm"
_TEXT = re.compile(rf"\\({_TEXT_COMMANDS}|{_STYLE_COMMANDS})\s*\{{([^{{}}]*)\}}")
_AROUND_FORMULA = re.compile(rf"\\(?:{_TEXT_COMMANDS}|{_STYLE_COMMANDS})(?=\s*\{{)")  # `\mathbf{\frac{1}{2}}`
_OPERATORS = FUNCTIONS | {"sec", "gcd", "lcm", "max", "min", "det"}  # in `\mathrm{}` these may be units
# In upright type behind a number a unit; otherwise a letter is a variable, or a constant as in `3\mathrm{i}`.
_UPRIGHT = {"mathrm", "text", "textrm", "textup", "textnormal", "mbox", "hbox"}
_LETTER_UNIT = re.compile(r"[mghslLNJWV](?:/[mshL])?")
_NUMBER_BEFORE = re.compile(
    r"(?:^|[=,:]|^\\text[a-z]*\s*\{[^{}]*\})(?:[^A-Za-z\\=,:]|\\(?:frac|sqrt|pi|times|cdot)(?![A-Za-z]))*(?:[\d})]|\\pi)\s*(?:\\cdot\s*)?$"
)

_ESCAPED_COMMAND = re.compile(r"\\\\(?=[A-Za-z])")  # JSON-escaped LaTeX
_LAYOUT = {
    r"(?<=\d)(?:\$+|\\\)\s*\\\()(?=\d)": "?",  # no number goes on in another formula
    r"\\\\\s*\[\s*-?[\d.]+\s*[a-z]{2}\s*\]": r"\\\\",
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|big|Big|bigg|Bigg|bigl|bigr|Bigl|Bigr|small|large|Large"
    r"|LARGE|huge|rm|bf|it|sf|boldmath|boxed|fbox|therefore|mathstrut|strut|negthinspace|(?:left|right)(?:\s*\.)?|middle)"
    r"(?![A-Za-z])|(?:(?<=,) )?(?<!\\)\\!\s*"
    r"|\\(?:text)?color\s*\{[A-Za-z]*\}|\\v?phantom\s*(?:\{[^{}]*\}|.)|(?<!\\)\\[()\[\]]|(?<!\\)\$": "",
    r"(?<!\\)\\(?:[,;:> ]|$|(?:quad|qquad|enspace|thinspace|medspace|thickspace|space|hfill)(?![A-Za-z]))|~": " ",
    r" {2,}": " ",
    r"(\\(?:text|math)[a-z]*\s*\{[A-Za-z\d./ ]*[A-Za-z])\^\s*(\{[23]\}|[23])\s*\}": r"\1}^\2",  # `\mathrm{cm^2}`
    r"(?<!text)(?<!mathrm)\{([-+,:])\}|\\([%&])": r"\1\2",
    r"\\over(?:line|leftrightarrow)\s*\{([A-Z]{2})\}": r"\1",  # a segment or line
    r"(?:\"|``)([A-Za-z][^\"`'\d]*)(?:\"|'')": r"\1",
    r"\\\{\s*\\\}": r"\\emptyset ",
}
_CIRCLE = re.compile(r"\^\s*(?:\\circ(?![A-Za-z])|\{\s*\\circ\s*\})\s*")
_NOT_EQUAL = re.compile(r"\\not\s*=|=\s*/\s*=")
_EXPONENT = re.compile(r"\^\s*([+-]?\d+)(?=\s+[\d.])")
_SYNONYMS = {
    r"\frac": "dfrac tfrac cfrac nicefrac sfrac", r"\binom": "dbinom tbinom", r"\le": "leq leqslant leqq",
    r"\ge": "geq geqslant geqq", r"\neq": "ne", "<": "lt", ">": "gt", r"\cdot": "ast cdotp", "|": "lvert rvert vert",
    r"\emptyset": "varnothing", r"^\circ": "degree", r"\{": "lbrace", r"\}": "rbrace", "[": "lbrack", "]": "rbrack",
    "(": "langle", ")": "rangle", ":": "colon", r"\infty": "infin", r"\mathbb{R}": "R", r"\ldots": "dots cdots dotsc",
    r"\Rightarrow": "iff implies Longrightarrow Leftrightarrow", r"\setminus": "backslash smallsetminus",
    r"\approx": "simeq thickapprox", r"\$": "textdollar", r"\lor": "vee", r"\land": "wedge",
    "=": "equiv",
}  # fmt: skip
_CANONICAL = {name: command for command, names in _SYNONYMS.items() for name in names.split()}
_COMMAND = re.compile(r"\\([A-Za-z]+)")
_CHOOSE = re.compile(r"\{([^{}]+)\\choose(?![A-Za-z])([^{}]+)\}|^\s*(\w+)\s*\\choose(?![A-Za-z])\s*(\w+)\s*$")
_ARGUMENT = r"\s*(\\[A-Za-z]+|[A-Za-z\d])"
_WITH_ARGUMENTS = re.compile(
    rf"(\\(?:frac|binom)(?![A-Za-z])(?:\s*\[[^\[\]]*\])?){_ARGUMENT}(?:{_ARGUMENT})?"
    rf"|(\\sqrt(?![A-Za-z])(?:\s*\[[^\[\]]*\])?){_ARGUMENT}"
)
IN_BRACES = r"\{(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}"
_SECOND_ARGUMENT = re.compile(rf"(\\(?:frac|binom)\s*{IN_BRACES})\s*([A-Za-z\d]|\\pi(?![A-Za-z]))")  # `\frac{19}3`
_CIS = re.compile(
    r"(?:⟦cis⟧|\\?cis(?![A-Za-z]))\s*((?:\^\\circ|\\(?:pi|theta|frac\{[^{}]*\}\{[^{}]*\})|[\d./ ])+|\([^()]*\))"
)
_CJK = re.compile(r"[\u3400-\u9fff]+(?![^⟦⟧]*⟧)")
_CONNECTIVE = re.compile(
    r",?\s*(?:⟦\s*,?\s*(and|or)\s*,?\s*⟧|(?<![A-Za-z\\])(and|or)(?![A-Za-z])|\\(land|lor)(?![A-Za-z]))"
)
_CONDITION = re.compile(r"[<>]|\\(?:le|ge|neq|in)(?![A-Za-z])")
_THOUSANDS = re.compile(r"\\[{}]|[()\[\]]|(?<![\d.,_^])([1-9]\d{0,2})((?:,\d{3})+|(?: \d{3})+)(?!\d|,\d|\s+\d)")
_MIXED = re.compile(r"(?<![\d.\w])(\d+)\s+(\d+)/(\d+)(?![\d.])")
_NUMBERS = {
    r"(?<![A-Za-z\d])(\d+\.\d+|\d+(?=E)|^-?\d+(?=e[+-]?\d+$))[eE]([+-]?\d+)(?![\d.])": r"\1\\times 10^{\2}",
    r"\^\s*([+-]?\d*\.\d+|[+-]\d+|\d{2,}|\\frac\{[^{}]*\}\{[^{}]*\})": r"^{\1}",
    # TeX takes one letter or digit as the index: without braces, the base of `\log_2 8` reads as a number before a
    # number.
    r"(\\log)\s*_\s*([A-Za-z\d])(?!\w)": r"\1_{\2}",
    r"(?<![\w.}])(\d+|[A-Za-z])!(?=\s*\^)": r"(\1!)",
    r"(?<=\\mathbb\{R\})\s*[-/]\s*(?=\\\{)": r" \\setminus ",
    r"(?<=\d)(?: ?⟦to⟧ ?| to )(?=\d)": ":",  # a ratio
}
# Digits that repeat are under a bar.
_REPEATING = re.compile(r"(?<![\d.])(\d*)\.(\d*)\\(?:overline|bar)\s*\{?(\d+)\}?")
# `The answer is`, `Distance:`; other words may deny or change what follows.
_LEAD = re.compile(
    r"^⟦?(?:the\s+)?(?:(?:final|correct|total)\s+)?(?:answer|solution|result|value|number|sum|total|ratio|distance|length"
    r"|height|radius|area|perimeter|volume|angle|probability|speed|time|price|cost|profit)\s*(?:\bis|:|=)\s*"
    r"(?:⟧\s*(?=\S)|(?=-?\\?\$?\d))",
    re.IGNORECASE,
)
_NUMBER_IN_WORDS = re.compile(r"^⟦(-?(?:\\\$)?[\d.,]*\d)\s*([^\W\d_][^⟦⟧\d:]*)⟧(?=$|\^)")
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen""".split()
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety".split()
NUMBER_WORDS = {*_ONES, *_TENS, "infinity", "pi"}
_VALUES_OF_WORDS = {word: str(value) for value, word in enumerate(_ONES)} | {
    f"{ten}-{_ONES[one]}" if one else ten: f"{tens}{one}" for tens, ten in enumerate(_TENS, 2) for one in range(10)
} | {
    "all real numbers": r"\mathbb{R}", "infinity": r"\infty", "negative infinity": r"-\infty", "pi": r"\pi",
    "one half": r"\frac{1}{2}",
}  # fmt: skip
_PERCENT = re.compile(r"(?<=[\d}])\s*(?:⟦(?:percent|per cent|percentage|pct)\.?⟧|(?:percent|pct)\b)", re.IGNORECASE)


@lru_cache(maxsize=8192)
def normalize(text: str) -> str:
    r"""Writes an answer or a gold in canonical form: `(-\frac{1}{2}, 3]` of `\left(−½,\,3\right]`."""
    text = to_latex(text).replace("⟦", "?").replace("⟧", "?")
    if "\\begin" not in text:
        text = _ESCAPED_COMMAND.sub(r"\\", text)
    text = rewrite(text, _LAYOUT)
    text = _COMMAND.sub(lambda command: _CANONICAL.get(command.group(1), command.group()), text)
    text = _CIRCLE.sub(r"^\\circ ", _NOT_EQUAL.sub(r"\\neq ", text))
    text = _EXPONENT.sub(r"^{\1}", text)  # in `\cos^2 2x`, the 2 is no number before a number
    text = _CHOOSE.sub(lambda choose: "(\\binom{{{}}}{{{}}})".format(*filter(None, choose.groups())), text)
    for _ in range(8):  # innermost first
        text = _TEXT.sub(_unwrap, text)
    text = _WITH_ARGUMENTS.sub(_brace_arguments, plain_to_latex(_AROUND_FORMULA.sub("", text)))
    text = _SECOND_ARGUMENT.sub(r"\1{\2}", text)
    text = _CJK.sub(r"⟦\g<0>⟧", _CIS.sub(r"(\\cos \1 + i \\sin \1)", text))
    text = _CONNECTIVE.sub(_connect if _CONDITION.search(text) else ", ", text)
    text = rewrite(_join_thousands(_MIXED.sub(r"\1\\frac{\2}{\3}", text)), _NUMBERS)
    text = _REPEATING.sub(_repeating, text)
    text = re.sub(r"\s*,[\s,]*", ", ", text.replace("\\\\", " \\\\ "))
    text = _strip_lead(_strip_punctuation(conclusion(re.sub(" {2,}", " ", text))))
    text = _NUMBER_IN_WORDS.sub(r"\1⟦\2⟧", text)
    return _PERCENT.sub("%", _VALUES_OF_WORDS.get(text.strip("⟦⟧ ").casefold(), text))


def _unwrap(match: re.Match) -> str:
    """The content of a text or font command, marked if it reads as words."""
    command, argument = match.groups()
    content = argument.strip("⟦⟧ ")
    if content in (_OPERATORS if command == "operatorname" else FUNCTIONS):
        return rf"\{content} "
    is_unit = command in _UPRIGHT and _LETTER_UNIT.fullmatch(content)
    if re.search(r"[^\W\d_]\.?[^\W\d_]", re.sub(r"\\[A-Za-z]+", "", content)) or (
        is_unit and _NUMBER_BEFORE.search(match.string[: match.start()])
    ):
        return f"⟦{content}⟧"
    return content


def _brace_arguments(command: re.Match) -> str:
    r"""As TeX reads `\frac\pi 2` and `\sqrt3`."""
    name, *arguments = filter(None, command.groups())
    return name + "".join(f"{{{argument}}}" for argument in arguments)


def _connect(connective: re.Match) -> str:
    """Between conditions, "and" and "or" are no commas."""
    return f" {OR if 'or' in connective.group(connective.lastindex) else AND} "


def _join_thousands(text: str) -> str:
    """Removes the separators of thousands outside of parentheses, brackets and braces, where a comma means a list."""
    depth = 0

    def join(token: re.Match) -> str:
        nonlocal depth
        depth = max(0, depth + (token.group() in ("(", "[", "\\{")) - (token.group() in (")", "]", "\\}")))
        return re.sub("[ ,]", "", token.group()) if depth == 0 else token.group()

    return _THOUSANDS.sub(join, text)


def _repeating(decimal: re.Match) -> str:
    whole, fixed, period = decimal.groups()
    if len(whole + fixed + period) > MAX_PERIOD:
        return decimal.group()
    value = int((whole + fixed) or "0") + Fraction(int(period), 10 ** len(period) - 1)
    value /= 10 ** len(fixed)
    return rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


def _strip_punctuation(text: str) -> str:
    """Removes punctuation at the ends, and braces that enclose everything."""
    while True:
        stripped = text.strip(" ").removeprefix("=").strip(" *")
        stripped = stripped if stripped.endswith("..") else stripped.rstrip(".,;:")
        if stripped.endswith("\\"):
            stripped = text.strip(" ")
        if stripped.startswith("{") and closing(stripped, 0) == len(stripped) - 1:
            stripped = stripped[1:-1]
        if stripped == text:
            return text
        text = stripped


def _strip_lead(text: str) -> str:
    r"""Removes words that announce the value, inside or outside of its `\text{}`."""
    lead = _LEAD.match(text)
    if lead is None:
        return text
    rest = text[lead.end() :]
    if "⟧" in lead.group() or "⟦" not in lead.group():
        return rest
    return rest.removesuffix("⟧") if re.fullmatch(r"[^⟦⟧A-Za-z]*⟧", rest) else "⟦" + rest
