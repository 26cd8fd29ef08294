"""Numbers as they are printed: rounded half up in decimal, the same on the page, in tables and on the console."""

from decimal import ROUND_HALF_UP, Decimal


def format_number(value: float, digits: int = 1, signed: bool = False, unit: str = "") -> str:
    """
    A number rounded half up, away from zero, to `digits` after the point, with commas between thousands, a true minus
    sign, and if `signed`, a plus sign unless 0 is shown.

    It is first rounded to eight more digits than are shown, so that a ratio of counts that is 1e-10 off a half counts
    as one.

    Example:

    ```python
    >>> from coda_trl.evaluation import format_number
    >>> format_number(100 * 212 / 320), format_number(2574.5, digits=0), format_number(-74.95, signed=True, unit="%")
    ('66.3', '2,575', '−75.0%')

    ```
    """
    exact = Decimal(f"{value:.{digits + 8}f}")
    rounded = exact.quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0  # no "-0"
    sign = "+" if signed and rounded else ""
    return f"{rounded:{sign},.{digits}f}".replace("-", "−") + unit
