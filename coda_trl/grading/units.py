r"""
Split units, currency signs, degree signs and percent signs from a value.

A unit may be left out of an answer or added to it; two units that are both known and differ make the answer wrong.
"""

import re
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple

from .normalize import NUMBER_WORDS
from .plain import FUNCTION


class Quantity(NamedTuple):
    """A value in canonical LaTeX, the kind of unit that stood with it (if any), and whether it is in percent."""

    value: str
    unit: str | None = None
    percent: bool = False


# Names of one unit between semicolons.
_UNITS = """
    nm nanometer nanometre; micrometer micrometre micron; mm millimeter millimetre; cm centimeter centimetre; dm
    decimeter decimetre; m meter metre; km kilometer kilometre; in inch; ft foot feet; yd yard; mi mile; lightyear; mg
    milligram; g gram; kg kilogram; ton; tonne; oz ounce; lb pound; ml milliliter millilitre; l liter litre;
    cup; pint; qt quart; gal gallon; acre; ha hectare; ms millisecond; s sec second; min minute; h hr hour; day;
    week wk; month; year yr; decade; century centuries; mi/h mph; km/h kph kmh; knot; cent penny pennies ¢;
    nickel; dime; dollar usd buck $; euro eur €; gbp £; yen jpy ¥; rupee inr ₹; won ₩; peso; degree deg °;
    celsius centigrade; fahrenheit; kelvin; radian rad; n newton; kn kilonewton; j joule; kj kilojoule; cal
    calorie; w watt; kw kilowatt; mw megawatt; v volt; unit
"""
_UNIT_OF = {name: names.split()[0] for names in _UNITS.split(";") for name in names.split()}
# Units of one or two letters that may stand after a number without `\text{}`; other short runs of letters are
# variables.
_BARE_SHORT = "mm|cm|km|ft|yd|mi|mg|kg|oz|lb|lbs|ml|hr|hrs|min|sec|yr|mph|in|deg|USD"
# Words that are or change a number: `3 millions`, `3 dollars four cents`. Plurals as well.
_NUMBER_WORDS = set("""
    half halve quarter third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth twentieth hundredth
    thousandth teen dozen gross hundred thousand lakh million crore billion trillion quadrillion quintillion
    percent percentile mil mila mille millon millón millone millionen milliard milliarden tausend тысяч миллион
""".split()) | NUMBER_WORDS  # fmt: skip
# Words that say something about the value, so that `7 or more` or `not 7` does not become 7; "or" in other languages.
_NOT_UNITS = set("""
    about above almost alternatively am and another any anything around at basis below between bigger bn bps but
    choose cubed decreased divided doesn't doubled either else everything except excluded extraneous factorial
    false greater halved higher if impossible incorrect increased instead inverse is ish isn't larger least lower
    maybe mille minus mn mod modulo most nearly negated negative neither never no none nor not off opposite or out
    over perhaps permille plus pm possibly power probably raised rather reciprocal rejected root roughly short
    smaller so sqrt squared than then times to tripled undefined under unless unknown until up versus vs when where
    which with without wrong oder ou o und y et e ili или и
""".split())  # fmt: skip
_LETTER = r"[^\W\d_一二三四五六七八九十两半百千万萬亿億或]"
_UNIT_WORDS = re.compile(  # `days, nights` were "days and nights"
    rf"-?\(?{_LETTER}+[.')]*(?:(?:\s+\(?|\s*/\s*|['-]|(?<=s), (?=[a-z]+s\b)){_LETTER}+[.')]*)*"
)
_SQUARED = re.compile(r"([A-Za-z]+) (sq|cu)(?:uared|bed)(?=⟧?$)")
# A range, a set or a tuple has no unit but a known one: `[1,3)\text{ excluded}`.
_NO_NUMBER = re.compile(r"[<>]|\\(?:le|ge|neq|in|cup|cap)(?![A-Za-z])|[\[(][^()\[\]]*,[^()\[\]]*[\])]$")
_SCALES = {"hundred": 100, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_CURRENCIES = {"dollar", "cent", "euro", "gbp"}
_TEMPERATURES = {"C": "celsius", "F": "fahrenheit"}

_CURRENCY = re.compile(
    r"^(-?)\s*(?:(?:US|U\.S\.)?\s*(?:\\\$|\\pounds?\b|\\euro\b|([€£¥₹₩]))|⟦?(USD|EUR|GBP|JPY|INR)⟧?(?=[ \d]))\s*"
)
_TRAILING_CURRENCY = re.compile(r"(?<=[\d}%)])\s*(?:\\\$|([€£¥₹₩¢]))$")
CIRCLE = r"^\circ"
_CIRCLE = re.escape(CIRCLE)
_DEGREES = re.compile(rf"{_CIRCLE}\s*(?:(?:([CF])|⟦([CF])⟧)(?![A-Za-z]))?(?!\s*\.?['\"\d])")
_ANGLE = re.compile(rf"(?<![\d.])(\d+(?:\.\d+)?)\s*{_CIRCLE}(?!\s*\.?['\"\d])")
_POWER = r"(?:\s*\^\s*(?:[23]|\{\s*[23]\s*\}))?"
_ORDINAL = re.compile(r"(?<=\d)\s*(?:\^\s*\{?\s*)?(?:⟦(?:st|nd|rd|th)⟧|(?:st|nd|rd|th)(?![A-Za-z]))\s*\}?$")
_MARKED = re.compile(rf"(?<=[\w}}%)\]!'])\s*(?:\\cdot\s*)?⟦([^⟦⟧\d]*)⟧{_POWER}$")
_BARE = re.compile(
    rf"(?<=[\d}}%)])(\s*(?:{_BARE_SHORT})(?![A-Za-z])\.?"
    rf"|\s+(?:[A-Za-z]{{4,}}|sq\.?|days?)(?:[ -][A-Za-z]{{2,}}){{0,2}}\.?){_POWER}$"
)
_PRIMES = re.compile(r"^(-?[\d.]+(?:\\frac\{\d+\}\{\d+\})?)\s*(''|'|\")$")
_PERCENT = re.compile(r"(?<=.)\s*%$")
_SCALE = re.compile(rf"^(-?\d+(?:\.\d+)?)\s*⟦?\s*({'|'.join(_SCALES)})s?(?![A-Za-z])\s*([^⟦⟧]*)⟧?(.*)$", re.IGNORECASE)


@lru_cache(maxsize=8192)
def split_unit(text: str) -> Quantity:
    """Splits a canonical answer: `27⟦square miles⟧` has the value `27` and the unit `mi^2`, `7⟦or more⟧` has none."""
    unit = None
    if currency := _CURRENCY.match(text):
        unit = _UNIT_OF.get((currency.group(2) or currency.group(3) or "$").casefold())
        text = currency.group(1) + text[currency.end() :]
    text = _SCALE.sub(_expand, text)
    if currency := _TRAILING_CURRENCY.search(text):
        unit = _UNIT_OF.get(currency.group(1) or "$")
        text = text[: currency.start()]
    if primes := _PRIMES.search(text):
        text, unit = primes.group(1), "ft" if primes.group(2) == "'" else "in"
    text = _SQUARED.sub(r"\2 \1", _ORDINAL.sub("", text))
    for pattern in (_MARKED, _BARE):
        if (match := pattern.search(text)) and _is_unit(match.group(1)):
            value, name = text[: match.start()].rstrip(), _canonical(match.group(1), match.group())
            if name or not _NO_NUMBER.search(value):
                text, unit = value, name or unit
    if percent := _PERCENT.search(text):
        text = text[: percent.start()]
    if FUNCTION.search(text):
        text = _ANGLE.sub(r"(\\frac{\1 \\pi}{180})", text)
    elif degrees := _DEGREES.search(text):
        text = _DEGREES.sub("", text)
        unit = unit or _TEMPERATURES.get(degrees.group(1) or degrees.group(2), "degree")
    text = text.strip()
    return Quantity(text if text.endswith("..") else text.rstrip(".,"), unit, percent is not None)


def units_differ(one: str | None, other: str | None) -> bool:
    """
    Whether two units, `None` if there is none, contradict each other.

    45° may be any kind of degrees; "square units" may be square centimeters, and no cubic ones.
    """
    if one is None or other is None or one == other:
        return False
    shorter, longer = sorted((one, other), key=len)
    if shorter in _CURRENCIES and longer.startswith(f"{shorter}/"):  # $5 for 5 dollars per hour
        return False
    (name, _, power), (other_name, _, other_power) = one.partition("^"), other.partition("^")
    if "unit" in (name, other_name):
        return power != other_power
    return not ("degree" in (one, other) and {one, other} & {"celsius", "fahrenheit"})


def _expand(match: re.Match) -> str:
    number, scale, words, rest = match.groups()
    return f"{Fraction(number) * _SCALES[scale.lower()]}{f'⟦{words}⟧' if words else ''}{rest}"


def _is_unit(words: str) -> bool:
    words = words.strip().casefold()
    if not _UNIT_WORDS.fullmatch(words):
        return False
    # "8 times", but no "times four"; "25 one-dollar bills", but no "twenty-five".
    names = re.sub(r"\btimes$|[a-z']+-(?=[a-z])", "", words.replace(".", ""))
    names = re.findall(rf"(?:{_LETTER}|')+", names)
    return not any(name in _NOT_UNITS or {name, name.removesuffix("s")} & _NUMBER_WORDS for name in names)


def _canonical(words: str, whole: str) -> str | None:
    r"""Canonical name of a known unit, with its dimension (`cm^2` for `square cm`, `\text{ cm}^2`), else `None`."""
    words = re.sub(r"\bper\b", "/", re.sub(r"^light[ -]", "light", words.casefold().replace(".", "")))
    names, *divisors = (re.findall(r"[a-z]+", part) for part in words.split("/"))
    powers = set(re.findall(r"\^\s*\{?\s*([23])", whole))
    if names and names[0] in ("square", "sq", "cubic", "cu"):
        powers.add("2" if names[0].startswith("s") else "3")
        names = names[1:]
    if names[:1] in (["degree"], ["degrees"]) and len(names) == 2:  # Celsius
        names = names[1:]
    units = [" ".join(map(_singular, part)) for part in (names, *divisors)]
    if not names or (not divisors and units[0] not in _UNIT_OF.values()):
        return None
    return "/".join(units) + ("^" + "".join(sorted(powers)) if powers else "")


def _singular(name: str) -> str:
    singulars = name, name.removesuffix("s"), name.removesuffix("es")
    return next((_UNIT_OF[form] for form in singulars if form in _UNIT_OF), singulars[1])
