r"""
Split units, currency signs, degree signs and percent signs from a value.

A unit may be left out of an answer or added to it; two units that are both known and differ make the answer wrong.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple


class Quantity(NamedTuple):
    """A value in canonical LaTeX, the kind of unit that stood with it (if any), and whether it is in percent."""

    value: str
    unit: str | None = None
    percent: bool = False


# Names of one unit between semicolons.
_UNITS = """
    mm millimeter millimetre; cm centimeter centimetre; m meter metre; km kilometer kilometre; in inch; ft foot feet;
    yd yard; mi mile; mg milligram; g gram; kg kilogram; oz ounce; lb pound; ml milliliter millilitre; l liter litre;
    gal gallon; s sec second; min minute; h hr hour; day; week wk; month; year yr; mi/h mph; km/h kph kmh; cent ¢;
    dollar usd buck $; euro eur €; gbp £; degree deg °; celsius centigrade; fahrenheit; radian rad; n newton;
    j joule; w watt; v volt; unit
"""
_UNIT_OF = {name: names.split()[0] for names in _UNITS.split(";") for name in names.split()}
# Units of one or two letters that may stand after a number without `\text{}`; other short runs of letters are
# variables.
_BARE_SHORT = "mm|cm|km|ft|yd|mi|mg|kg|oz|lb|lbs|ml|hr|hrs|min|sec|yr|mph|in"
# Words that say something about the value, so that `7 or more` or `not 7` does not become 7.
_NOT_UNITS = set(
    (
        "about above almost approximately around at below between choose cubed divided doesn't either except exactly "
        "fewer greater half if impossible incorrect isn't least less maybe minus mod modulo more most nearly neither "
        "never no none nor not over plus squared than then times to under unless unknown until up when where which "
        "with without wrong hundred thousand million billion trillion dozen am pm and or is half halves third thirds "
        "fourth fourths fifth fifths sixth sixths seventh sevenths eighth eighths ninth ninths tenth tenths hundredth "
        "hundredths thousandth thousandths factorial negative"
    ).split()
)
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_TEMPERATURES = {"C": "celsius", "F": "fahrenheit"}

_CURRENCY = re.compile(r"^(-?)\s*(?:US|U\.S\.)?\s*(?:\\\$|\\pounds?\b|\\euro\b|([€£¥₹₩]))\s*")
_TRAILING_CURRENCY = re.compile(r"(?<=[\d}%)])\s*(?:\\\$|([€£¥₹₩¢]))$")
_CIRCLE = r"\^\s*(?:\\circ|\{\s*\\circ\s*\})"
_DEGREES = re.compile(rf"{_CIRCLE}\s*(?:(?:([CF])|⟦([CF])⟧)(?![A-Za-z]))?")
_ANGLE = re.compile(rf"(?<![\d.])(\d+(?:\.\d+)?)\s*{_CIRCLE}")
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_POWER = r"(?:\s*\^\s*(?:[23]|\{\s*[23]\s*\}))?"
_ORDINAL = re.compile(r"(?<=\d)\s*(?:\^\s*\{?\s*)?(?:⟦(?:st|nd|rd|th)⟧|(?:st|nd|rd|th)(?![A-Za-z]))\s*\}?$")
_MARKED = re.compile(rf"(?<=[\w}}%)\]!'])\s*(?:\\cdot\s*)?⟦([^⟦⟧\d]*)⟧{_POWER}$")
_BARE = re.compile(
    rf"(?<=[\d}}%)])(\s*(?:{_BARE_SHORT})(?![A-Za-z])\.?"
    rf"|\s+(?:[A-Za-z]{{4,}}|sq\.?|days?)(?:[ -][A-Za-z]{{2,}}){{0,2}}\.?){_POWER}$"
)
_INCHES = re.compile(r"(?<=\d)\s*(?:''|'|\")$")
_PERCENT = re.compile(r"(?<=.)\s*(?:%|⟦(?:percent|per cent|percentage|pct)⟧|\b(?:percent|pct)\b)$", re.IGNORECASE)
_SCALE = re.compile(rf"^(-?\d+(?:\.\d+)?)\s*⟦?\s*({'|'.join(_SCALES)})(?![A-Za-z])\s*([^⟦⟧]*)⟧?(.*)$", re.IGNORECASE)


@lru_cache(maxsize=8192)
def split_unit(text: str) -> Quantity:
    """Splits a canonical answer: `27⟦square miles⟧` has the value `27` and the unit `mi^2`, `7⟦or more⟧` has none."""
    unit = None
    if currency := _CURRENCY.match(text):
        unit = _UNIT_OF.get(currency.group(2) or "$")
        text = currency.group(1) + text[currency.end() :]
    text = _SCALE.sub(_expand, text)
    if currency := _TRAILING_CURRENCY.search(text):
        unit = _UNIT_OF.get(currency.group(1) or "$")
        text = text[: currency.start()]
    text = _ORDINAL.sub("", _INCHES.sub("", text))
    for pattern in (_MARKED, _BARE):
        match = pattern.search(text)
        if match and _is_unit(match.group(1)):
            unit = _canonical(match.group(1), match.group()) or unit
            text = text[: match.start()].rstrip()
    percent = _PERCENT.search(text)
    if percent:
        text = text[: percent.start()]
    if _TRIGONOMETRY.search(text):
        text = _ANGLE.sub(r"\\left(\\frac{\1 \\pi}{180}\\right)", text)
    elif degrees := _DEGREES.search(text):
        text = _DEGREES.sub("", text)
        unit = unit or _TEMPERATURES.get(degrees.group(1) or degrees.group(2), "degree")
    return Quantity(text.strip().rstrip(".,"), unit, percent is not None)


def units_differ(one: str | None, other: str | None) -> bool:
    """
    Whether two units, `None` if there is none, contradict each other.

    45° may be any kind of degrees; "square units" may be square centimeters, and no cubic ones.
    """
    if one is None or other is None or one == other:
        return False
    (name, _, power), (other_name, _, other_power) = one.partition("^"), other.partition("^")
    if "unit" in (name, other_name):
        return power != other_power
    return not ("degree" in (one, other) and {one, other} & {"celsius", "fahrenheit"})


def _expand(match: re.Match) -> str:
    number, scale, words, rest = match.groups()
    return f"{Fraction(number) * _SCALES[scale.lower()]}{f'⟦{words}⟧' if words else ''}{rest}"


def _is_unit(words: str) -> bool:
    words = words.casefold()
    is_percent = words.strip() in ("percent", "per cent", "percentage", "pct")
    return not is_percent and ":" not in words and not _NOT_UNITS & set(re.findall(r"[a-z']+", words.replace(".", "")))


def _canonical(words: str, whole: str) -> str | None:
    r"""Canonical name of a known unit, with its dimension (`cm^2` for `square cm`, `\text{ cm}^2`), else `None`."""
    names = re.findall(r"[a-z]+", words.casefold().replace(".", ""))
    power = re.search(r"\^\s*\{?\s*([23])", whole)
    dimension = power.group(1) if power else ""
    if names and names[0] in ("square", "sq", "cubic", "cu"):
        dimension = "2" if names[0].startswith("s") else "3"
        names = names[1:]
    if names[:1] in (["degree"], ["degrees"]) and len(names) == 2:  # Celsius
        names = names[1:]
    singulars = ((name, name.removesuffix("s"), name.removesuffix("es")) for name in names)
    units = [next((_UNIT_OF[name] for name in forms if name in _UNIT_OF), None) for forms in singulars]
    if None in units or len(units) != 1 + words.count("/"):
        return None
    return "/".join(units) + (f"^{dimension}" if dimension else "")
