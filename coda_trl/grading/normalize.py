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
    r"\\hspace\s*\{[^{}]*\}": " ",
    r" {2,}": " ",
    r"(\\(?:text|math)[a-z]*\s*\{[A-Za-z\d./ ]*[A-Za-z])\^\s*(\{[23]\}|[23])\s*\}": r"\1}^\2",  # `\mathrm{cm^2}`
    r"\\[dt]?frac\s*\{(\\(?:text|mathrm)\s*\{[a-z ]+)\}\}\s*\{\\(?:text|mathrm)\s*\{([a-z ]+)\}\}": r"\1/\2}",
    r"(?<!text)(?<!mathrm)\{([-+,:])\}|\\([%&])": r"\1\2",
    r"\\over(?:line|leftrightarrow)\s*\{([A-Z]{2})\}": r"\1",  # a segment or line
    r"(?:\"|``)([A-Za-z][^\"`'\d]*)(?:\"|'')": r"\1",
    r"\\\{\s*\\\}": r"\\emptyset ",
}
_EQUATIONS = re.compile(r"\\begin\{(aligned|align\*?|cases|gathered)\}(.*)\\end\{\1\}", re.DOTALL)
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
_CJK = re.compile(r"[\u3400-\u9fff]+")
_CJK_CONNECTIVES = {"或": "or", "和": "and", "与": "and", "及": "and", "且": "and"}
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
    r"^⟦(?i:(?:the set of )?all real numbers,? except(?: for)?)⟧?\s*(?:⟦?[a-z]⟧?\s*=\s*)?([^⟦⟧]+)⟧?$": (
        r"\\mathbb{R} \\setminus \\{\1\\}"
    ),
    r"(?<=\\mathbb\{R\})\s*[-/]\s*(?=\\\{)": r" \\setminus ",
    r"(?<=\d)(?: ?⟦to⟧ ?| to )(?=\d)": ":",  # a ratio
}
# `0.\overline{3}`, `0.\dot{1}4\dot{2}`, `0.(3)`: digits that repeat are under a bar, between dots or in parentheses.
_BAR, _DOT = r"\\(?:overline|bar|overbar)\s*", r"\\dot\s*"
_REPEATING = re.compile(
    rf"(?<![\d.])(\d*)\.(\d*)(?:{_BAR}(?:\{{(\d+)\}}|(\d))|{_DOT}\{{?(\d)\}}?(?:(\d*){_DOT}\{{?(\d)\}}?)?|\((\d+)\))(?![\d.])"
)
_ANSWER_IS = re.compile(r"^(?:the\s+)?(?:(?:final|correct)\s+)?answer\s*(?:is(?!\s+not)|:|=)\s*(?=\S)", re.IGNORECASE)
# `The answer is`, `Distance:`, `There are`, `Maria earned`; other words may deny or change what follows.
_NOUNS = (
    "answer|solution|result|value|number|amount|sum|total|product|difference|quotient|ratio|average|mean|median|mode|range"
    "|distance|length|width|height|depth|radius|diameter|area|surface area|perimeter|circumference|volume|angle|slope"
    "|probability|speed|rate|time|duration|age|weight|mass|temperature|price|cost|profit|revenue|income|salary|score"
    "|minimum|maximum|degree|rank|dimension|determinant|equation|function|direction|name|day|month|year|date|option|choice"
)
_SENTENCE = (
    r"(?:(?:there|it|he|she|they|we)\s+(?:will\s+be|would\s+be|are|is|were|was)"
    r"|(?:the\s+)?(?!no|nei|nev|half)[a-z]+\s+(?:will\s+|would\s+)?(?:has|have|had|takes?|took|needs?|needed|earns?|earned"
    r"|makes?|made|spends?|spent|pays?|paid|sells?|sold|saves?|saved|costs?|weighs?))"
)
_LEAD = re.compile(
    rf"^⟦((?:(?:so|thus|hence|therefore|and),?\s+)?(?:{_SENTENCE}\b(?=\s*⟧?\s*-?\\?\$?\d)|(?:(?:the|its|their|his|her|our)\s+)?"
    r"(?:(?:final|correct|total|required|desired|maximum|minimum|average|numerical|shaded|remaining|combined|expected)\s+)?"
    rf"(?:{_NOUNS}|[a-z])s?"
    r"(?:\s+of\s+(?:the\s+)?[a-z]{3,})?\s*(?:\bis|\bare|\bequals|:|=)))\s*(?:⟧\s*(?=\S)|(?=-?\\?\$?\d))",
    re.I,
)
_NUMBER_IN_WORDS = re.compile(r"^⟦(-?(?:\\\$)?[\d.,]*\d)\s*([^\W\d_][^⟦⟧\d:]*)⟧(?=$|\^)")
_ONES = """zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen""".split()
_TENS = dict(zip("twenty thirty forty fifty sixty seventy eighty ninety".split(), range(20, 100, 10), strict=True))
NUMBER_WORDS = {*_ONES, *_TENS, "infinity", "pi"}
_VALUES_OF_WORDS = (
    {word: str(value) for value, word in enumerate(_ONES)}
    | {word: str(value) for word, value in _TENS.items()}
    | {f"{ten}{gap}{_ONES[one]}": str(_TENS[ten] + one) for ten in _TENS for one in range(1, 10) for gap in "- "}
    | {"all real numbers": r"\mathbb{R}", "all positive real numbers": r"(0, \infty)"}
    | {"all nonnegative real numbers": r"[0, \infty)", "all nonzero real numbers": r"\mathbb{R} \setminus \{0\}"}
    | {"infinity": r"\infty", "negative infinity": r"-\infty", "pi": r"\pi", "half": r"\frac{1}{2}"}
    | {
        f"{one}{name}": rf"\frac{{1}}{{{value}}}"
        for name, value in {"half": 2, "third": 3, "quarter": 4, "fourth": 4, "fifth": 5}.items()
        for one in ("one ", "one-", "a ")
    }
)
_SCALED = {"hundred", "thousand", "million", "billion", "trillion", "percent", "dollar", "dollars", "cents"}
_PERCENT = re.compile(r"(?<=[\d}])\s*(?:⟦(?:percent|per cent|percentage|pct)\.?⟧|(?:percent|pct)\b)", re.IGNORECASE)
_NEGATIVE = re.compile(r"^(?:negative|minus)\b[\s⟧⟦]*(?=\S)", re.IGNORECASE)
_POSITIVE = re.compile(r"\d[\d.]*|\\frac\{\d+\}\{\d+\}")


@lru_cache(maxsize=8192)
def normalize(text: str) -> str:
    r"""Writes an answer or a gold in canonical form: `(-\frac{1}{2}, 3]` of `\left(−½,\,3\right]`."""
    text = to_latex(text).replace("⟦", "?").replace("⟧", "?")
    if "\\begin" not in text:
        text = _ESCAPED_COMMAND.sub(r"\\", text)
    text = rewrite(_EQUATIONS.sub(_as_list, text), _LAYOUT)
    text = _COMMAND.sub(lambda command: _CANONICAL.get(command.group(1), command.group()), text)
    text = _CIRCLE.sub(r"^\\circ ", _NOT_EQUAL.sub(r"\\neq ", text))
    text = _EXPONENT.sub(r"^{\1}", text)  # in `\cos^2 2x`, the 2 is no number before a number
    text = _CHOOSE.sub(lambda choose: "{{\\binom{{{}}}{{{}}}}}".format(*filter(None, choose.groups())), text)
    for _ in range(8):  # innermost first
        text = _TEXT.sub(_unwrap, text)
    text = _WITH_ARGUMENTS.sub(_brace_arguments, plain_to_latex(_AROUND_FORMULA.sub("", text)))
    text = _SECOND_ARGUMENT.sub(r"\1{\2}", text)
    text = _CJK.sub(_mark_cjk, _CIS.sub(r"(\\cos \1 + i \\sin \1)", text))
    text = _CONNECTIVE.sub(_connect if _CONDITION.search(text) else ", ", text)
    text = rewrite(_join_thousands(_MIXED.sub(r"\1\\frac{\2}{\3}", text)), _NUMBERS)
    text = _REPEATING.sub(_repeating, text)
    text = re.sub(r"\s*,[\s,]*", ", ", text.replace("\\\\", " \\\\ "))
    text = _strip_lead(_strip_punctuation(conclusion(re.sub(" {2,}", " ", text))))
    text = _NUMBER_IN_WORDS.sub(r"\1⟦\2⟧", text)
    return _PERCENT.sub("%", _in_digits(text.strip("⟦⟧ ")) or text)


def _in_digits(text: str) -> str | None:
    """A number written in words: `negative seven`, `three million`, `one half`."""
    if negative := _NEGATIVE.match(text):
        number = text[negative.end() :]
        number = _in_digits(number) or number
        return f"-{number}" if _POSITIVE.fullmatch(number) else None
    number, _, scale = text.casefold().rpartition(" ")
    if scale in _SCALED and number in _VALUES_OF_WORDS:
        return f"{_VALUES_OF_WORDS[number]}⟦{scale}⟧"
    return _VALUES_OF_WORDS.get(text.casefold())


def _as_list(equations: re.Match) -> str:
    r"""Equations below each other: `x = 1, y = 2` of `\begin{cases} x = 1 \\ y = 2 \end{cases}`."""
    rows = re.sub(r"&\s*(?==)", "", equations.group(2))
    return equations.group() if "&" in rows else re.sub(r"\\\\(?!\s*(?:$|=))", ", ", rows).replace(r"\\", "")


def _unwrap(match: re.Match) -> str:
    """The content of a text or font command, marked if it reads as words."""
    command, argument = match.groups()
    content = argument.replace("⟦", "").replace("⟧", "").strip()
    if content in (_OPERATORS if command == "operatorname" else FUNCTIONS):
        return rf"\{content} "
    is_unit = command in _UPRIGHT and _LETTER_UNIT.fullmatch(content)
    if re.search(r"[^\W\d_]\.?[^\W\d_]", re.sub(r"\\[A-Za-z]+", "", content)) or (
        is_unit and _NUMBER_BEFORE.search(match.string[: match.start()])
    ):
        return f"⟦{content}⟧"
    return argument if len(content) > 1 else content


def _brace_arguments(command: re.Match) -> str:
    r"""As TeX reads `\frac\pi 2` and `\sqrt3`."""
    name, *arguments = filter(None, command.groups())
    return name + "".join(f"{{{argument}}}" for argument in arguments)


def _mark_cjk(run: re.Match) -> str:
    if run.group() in _CJK_CONNECTIVES:
        return f"⟦{_CJK_CONNECTIVES[run.group()]}⟧"
    before = run.string[: run.start()]
    is_marked = before.rfind("⟦") > before.rfind("⟧") and "⟧" in run.string[run.end() :]
    return run.group() if is_marked else f"⟦{run.group()}⟧"


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
    whole, fixed, *repeated = decimal.groups()
    period = "".join(filter(None, repeated))
    if len(whole + fixed + period) > MAX_PERIOD:
        return decimal.group()
    value = int((whole + fixed) or "0") + Fraction(int(period), 10 ** len(period) - 1)
    value /= 10 ** len(fixed)
    return f"{value}" if value.denominator == 1 else rf"\frac{{{value.numerator}}}{{{value.denominator}}}"


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
    text = _ANSWER_IS.sub("", text)
    lead = _LEAD.match(text)
    if lead is None:
        return text
    rest = text[lead.end() :]
    if "⟧" in lead.group():
        return rest
    return rest.removesuffix("⟧") if re.fullmatch(r"[^⟦⟧A-Za-z]*⟧", rest) else "⟦" + rest
