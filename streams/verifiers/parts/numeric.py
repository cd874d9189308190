"""A number in the text, compared within a tolerance, in the unit that is expected.

- A number is written in ASCII digits, with or without thousands separators in their places, a fraction, an exponent, a
  currency sign before it, and after it `%`, `bp`, or a scale: `k`, `m`, `b` right behind it, or `bn`, `tn` or these as
  words. What is part of a word, or badly grouped, is none.
- Digits of other scripts are none, though `float()` would read them: what people cannot tell apart, or cannot read, is
  no answer, and a policy that finds it would keep writing it. `unicode_digits` reads them. Nor is a text read whose
  direction is turned about, so that people see other digits.
- Several different numbers are worth nothing, since one of them is bound to be right sooner or later; `pick = "last"`
  takes the last one. NaN and infinity are no numbers.
- A number without unit is read in the unit that is expected. All is decimal: 0.1 is a tenth.

Example: `Part(kind="numeric", expected=12.5, options={"unit": "%", "absolute": 0.05})`.
"""

import re
import unicodedata
from decimal import Context, Decimal, InvalidOperation
from itertools import islice
from typing import Literal

import msgspec

from streams.verifiers.parts.interface import Found, PartKind, TooMuchError

NUMBER = re.compile(
    r"(?<![\w.,])(?P<open>\()?(?P<sign>[-+\u2212])?(?P<currency>[$\u20ac\u00a3\u00a5])?(?P<inner>[-+\u2212])?"
    r"(?P<digits>[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?P<fraction>\.[0-9]+)?(?P<exponent>[eE][-+]?[0-9]{1,3})?"
    r"(?:(?P<unit>[kmb]|[ \u00a0]?(?:%|bps?|thousand|mn|million|bn|billion|tn|trillion))(?![\w/])|(?!\w))"
    r"(?P<close>\))?(?![.,]?\d)",
    re.IGNORECASE,
)
UNITS = {"": 0, "%": -2, "bp": -4, "k": 3, "m": 6, "bn": 9, "tn": 12}
SPELLINGS = {
    "bps": "bp",
    "thousand": "k",
    "mn": "m",
    "million": "m",
    "b": "bn",
    "billion": "bn",
    "trillion": "tn",
}
TURNED = re.compile("[\u202a-\u202e\u2066-\u2069]")
CONTEXT = Context(prec=60, traps=[])
MOST_DIGITS = 320
MOST_NUMBERS = 10_000
"""In a text; more are too much."""
Unit = Literal["", "%", "bp", "k", "m", "bn", "tn"]


class NumericOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How near is right, and how a number is written."""

    absolute: float = 0.0
    """How far from the expected number is right, in its unit."""
    relative: float = 0.0
    """The same as a share of the expected number; the larger of the two holds."""
    fades_at: float = 0.0
    """Relative error at which credit, falling from the tolerance on, is nothing; 0 gives none beyond the tolerance."""
    unit: Unit = ""
    """Of the expected number."""
    currency: Literal["", "$", "\u20ac", "\u00a3", "\u00a5"] = ""
    """The one sign that may stand before the number; empty is any."""
    pick: Literal["only", "last"] = "only"
    accounting: bool = False
    """Whether a number in parentheses is below 0."""
    unicode_digits: bool = False


class Number(msgspec.Struct, frozen=True):
    """A number as it was found."""

    value: Decimal
    currency: str


def score(text: str, expected: int | float, options: NumericOptions) -> Found:
    """Return 1 within the tolerance, less while credit fades, 0 beyond."""
    found = [] if TURNED.search(text) else numbers_in(text, options)
    if not found:
        return Found(0.0, "there is no number")
    if options.pick == "only" and len({number.value for number in found}) > 1:
        several = ", ".join(shown(number.value) for number in found[:5])
        return Found(0.0, f"there are several numbers: {several}")
    number = found[-1]
    if options.currency and number.currency not in ("", options.currency):
        return Found(0.0, f"got {number.currency}, wanted {options.currency}")
    return Found(credit(number.value, in_unit(Decimal(repr(expected)), options.unit), options), shown(number.value))


def credit(got: Decimal, expected: Decimal, options: NumericOptions) -> float:
    """Return what a number is worth."""
    error = CONTEXT.abs(CONTEXT.subtract(got, expected))
    size = CONTEXT.abs(expected)
    within = in_unit(Decimal(repr(options.absolute)), options.unit)
    allowed = max(within, CONTEXT.multiply(Decimal(repr(options.relative)), size))
    if error <= allowed:
        return 1.0
    end = CONTEXT.multiply(Decimal(repr(options.fades_at)), size)
    if error >= end:
        return 0.0
    return float(CONTEXT.divide(CONTEXT.subtract(end, error), CONTEXT.subtract(end, allowed)))


def numbers_in(text: str, options: NumericOptions) -> list[Number]:
    """Return the numbers of a text in their order. Raises TooMuchError."""
    if options.unicode_digits:
        text = "".join(str(unicodedata.digit(c)) if c.isdecimal() else c for c in text)
    matches = list(islice(NUMBER.finditer(text), MOST_NUMBERS + 1))
    if len(matches) > MOST_NUMBERS:
        raise TooMuchError(f"over {MOST_NUMBERS} numbers")
    found = (number_of(match, options) for match in matches)
    return [number for number in found if number is not None]


def number_of(match: re.Match[str], options: NumericOptions) -> Number | None:
    """Return what is written; None where it is beyond all bounds."""
    digits = match["digits"].replace(",", "")
    if len(digits) > MOST_DIGITS:
        return None
    signs = (match["sign"] or "") + (match["inner"] or "")
    is_negative = signs not in ("", "+") if len(signs) < 2 else True
    if options.accounting and match["open"] and match["close"]:
        is_negative = True
    unit = (match["unit"] or "").strip().lower()
    try:
        written = Decimal(digits + (match["fraction"] or "") + (match["exponent"] or ""))
    except InvalidOperation:
        return None
    value = in_unit(written, SPELLINGS.get(unit, unit) or options.unit)
    return Number(CONTEXT.minus(value) if is_negative else value, match["currency"] or "")


def in_unit(number: Decimal, unit: str) -> Decimal:
    """Return the number without its unit."""
    return CONTEXT.scaleb(number, UNITS[unit])


def shown(number: Decimal) -> str:
    """Return a number for people."""
    return f"{number:.12g}"


def check(expected: int | float, options: NumericOptions) -> None:
    """Refuse what no number can be near to."""
    values = {
        "expected": expected,
        "absolute": options.absolute,
        "relative": options.relative,
        "fades_at": options.fades_at,
    }
    for name, value in values.items():
        if not abs(value) < float("inf") or (name != "expected" and value < 0):
            wanted = "a number" if name == "expected" else "a number from 0"
            raise ValueError(f"{name}: got {value}; wanted {wanted}, and neither NaN nor infinity")


NUMERIC = PartKind(name="numeric", version=1, expects=int | float, options=NumericOptions, score=score, check=check)
