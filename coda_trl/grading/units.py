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


_KNOWN_UNITS = {
    "mm": "mm millimeter millimetre",
    "cm": "cm centimeter centimetre",
    "m": "m meter metre",
    "km": "km kilometer kilometre",
    "in": "in inch inches",
    "ft": "ft foot feet",
    "yd": "yd yard",
    "mi": "mi mile",
    "mg": "mg milligram",
    "g": "g gram",
    "kg": "kg kilogram",
    "oz": "oz ounce",
    "lb": "lb pound",
    "ml": "ml milliliter millilitre",
    "l": "l liter litre",
    "gal": "gal gallon",
    "s": "s sec second",
    "min": "min minute",
    "h": "h hr hour",
    "day": "day",
    "week": "week wk",
    "month": "month",
    "year": "year yr",
    "mi/h": "mph",
    "km/h": "kph kmh",
    "cent": "cent ¢",
    "dollar": "dollar usd buck $",
    "euro": "euro eur €",
    "pound sterling": "gbp £",
    "degree": "degree deg °",
    "celsius": "celsius centigrade",
    "fahrenheit": "fahrenheit",
    "radian": "radian rad",
    "newton": "n newton",
    "joule": "j joule",
    "watt": "w watt",
    "volt": "v volt",
}
_CANONICAL = {name: unit for unit, names in _KNOWN_UNITS.items() for name in names.split()}
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

_CURRENCY = re.compile(r"^(-?)\s*(?:US|U\.S\.)?\s*(?:\\\$|\\pounds?\b|\\euro\b|([€£¥₹₩]))\s*")
_TRAILING_CURRENCY = re.compile(r"(?<=[\d}%)])\s*(?:\\\$|([€£¥₹₩¢]))$")
_DEGREES = re.compile(r"\^\s*(?:\\circ|\{\s*\\circ\s*\})\s*(?:(?:([CF])|⟦([CF])⟧)(?![A-Za-z]))?")
_SCALES_OF_TEMPERATURE = {"C": "celsius", "F": "fahrenheit"}
_POWER = r"(?:\s*\^\s*(?:[23]|\{\s*[23]\s*\}))?"
_ORDINAL = re.compile(r"(?<=\d)\s*(?:\^\s*\{?\s*)?(?:⟦(?:st|nd|rd|th)⟧|(?:st|nd|rd|th)(?![A-Za-z]))\s*\}?$")
_MARKED = re.compile(rf"(?<=[\w}}%)\]!'])\s*(?:\\cdot\s*)?⟦([^⟦⟧\d]*)⟧{_POWER}$")
_BARE = re.compile(
    rf"(?<=[\d}}%)])(\s*(?:{_BARE_SHORT})(?![A-Za-z])\.?"
    rf"|\s+(?:[A-Za-z]{{4,}}|sq\.?|days?)(?:[ -][A-Za-z]{{2,}}){{0,2}}\.?){_POWER}$"
)
_INCHES = re.compile(r"(?<=\d)\s*(?:''|'|\")$")
_PERCENT = re.compile(r"\s*(?:%|⟦(?:percent|per cent|percentage|pct)⟧|\b(?:percent|pct)\b)$", re.IGNORECASE)
_SCALE = re.compile(rf"^(-?\d+(?:\.\d+)?)\s*⟦?\s*({'|'.join(_SCALES)})(?![A-Za-z])\s*([^⟦⟧]*)⟧?(.*)$", re.IGNORECASE)
_TRIGONOMETRY = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)(?![A-Za-z])")
_ANGLE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)\s*\^\s*(?:\\circ|\{\s*\\circ\s*\})")


@lru_cache(maxsize=8192)
def split_unit(text: str) -> Quantity:
    r"""
    Splits a canonical answer into value and unit.

    Args:
        text (`str`):
            Output of [`~coda_trl.grading.normalize.normalize`].

    Returns:
        [`Quantity`]: the value without currency, degrees, percent sign and trailing unit words.

    Example:

    ```python
    >>> from coda_trl.grading.units import split_unit

    >>> split_unit("27⟦square miles⟧")
    Quantity(value='27', unit='mi^2', percent=False)
    >>> split_unit("15%")
    Quantity(value='15', unit=None, percent=True)
    >>> split_unit("7⟦or more⟧")
    Quantity(value='7⟦or more⟧', unit=None, percent=False)

    ```
    """
    unit = None
    currency = _CURRENCY.match(text)
    if currency:
        unit = _CANONICAL.get(currency.group(2) or "$")
        text = currency.group(1) + text[currency.end() :]
    text = _SCALE.sub(_expand, text)
    percent = False
    for pattern in (_TRAILING_CURRENCY, _INCHES, _ORDINAL):
        text, sign = pattern.sub("", text), pattern.search(text)
        if sign and pattern is _TRAILING_CURRENCY:
            unit = _CANONICAL.get(sign.group(1) or "$")
    for pattern in (_MARKED, _BARE):
        match = pattern.search(text)
        if match and not _is_percent(match.group(1)) and _is_unit(match.group(1)):
            unit = _canonical(match.group(1), match.group()) or unit
            text = text[: match.start()].rstrip()
    sign = _PERCENT.search(text)
    if sign and sign.start() > 0:
        text, percent = text[: sign.start()], True
    if _TRIGONOMETRY.search(text):
        text = _ANGLE.sub(r"\\left(\\frac{\1 \\pi}{180}\\right)", text)
    elif degrees := _DEGREES.search(text):
        scale = _SCALES_OF_TEMPERATURE.get(degrees.group(1) or degrees.group(2), "degree")
        text, unit = _DEGREES.sub("", text), unit or scale
    return Quantity(text.strip().rstrip(".,"), unit, percent)


def units_differ(one: str | None, other: str | None) -> bool:
    """Whether two units, `None` if there is none, contradict each other. (45° may be any kind of degrees.)"""
    if one == other or one is None or other is None:
        return False
    return not ("degree" in (one, other) and {one, other} & set(_SCALES_OF_TEMPERATURE.values()))


def _expand(match: re.Match) -> str:
    number, scale, words, rest = match.groups()
    value = Fraction(number) * _SCALES[scale.lower()]
    return f"{value}{f'⟦{words}⟧' if words else ''}{rest}"


def _is_percent(words: str) -> bool:
    return words.strip().casefold() in ("percent", "per cent", "percentage", "pct")


def _is_unit(words: str) -> bool:
    return not _NOT_UNITS.intersection(re.findall(r"[a-z']+", words.casefold().replace(".", ""))) and ":" not in words


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
    units = [_known(name) for name in names]
    if None in units or len(units) != 1 + words.count("/"):
        return None
    return "/".join(units) + (f"^{dimension}" if dimension else "")


def _known(name: str) -> str | None:
    return _CANONICAL.get(name) or _CANONICAL.get(name.removesuffix("s")) or _CANONICAL.get(name.removesuffix("es"))
