"""Columns of files that people keep by hand: what is meant, how it gets typed, and how to read it again."""

import random
from collections.abc import Callable
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any

import msgspec

from producers.domains.entities import CITIES, GOODS, MONTHS, person

NONE = ("N/A", "-", "unknown", "?")
"""How somebody says that there is nothing."""


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of column."""

    draw: Callable[[random.Random], Any]
    typed: Callable[[random.Random, Any], str]
    """A value as somebody types it."""
    words: str
    """How it is to be written; `{name}` is the column."""
    code: str
    """An expression of Python that reads the text `t`."""


def some_day(rng: random.Random) -> str:
    """Draw a date."""
    return (date(rng.randint(2021, 2025), 1, 1) + timedelta(days=rng.randrange(365))).isoformat()


def typed_day(rng: random.Random, value: str) -> str:
    """Return a date as people type it."""
    year, month, day = value.split("-")
    name = MONTHS[int(month) - 1]
    return rng.choice((f"{day}/{month}/{year}", f"{int(day)} {name} {year}", f"{year}.{month}.{day}"))


def typed_money(rng: random.Random, value: float) -> str:
    """Return an amount as people type it."""
    return rng.choice((f"EUR {value:,.2f}", f"{value:,.2f} EUR", f"\u20ac{value:.2f}", f" {value:,.2f}"))


def typed_choice(short: dict[str, str]) -> Callable[[random.Random, Any], str]:
    """Return what types one of several words, or its short form."""
    back = {word: form for form, word in short.items()}
    return lambda rng, value: rng.choice((value.upper(), f" {value.capitalize()}", back[value], value))


def choice(short: dict[str, str]) -> Kind:
    """Return the kind of a column that holds one of several words; `short` says which forms stand for which."""
    listed = ", ".join(f"{form} for {word}" for form, word in short.items())
    return Kind(
        draw=lambda rng: rng.choice(list(short.values())),
        typed=typed_choice(short),
        words=f"{{name}} as one of {', '.join(short.values())} in lower case (short forms: {listed})",
        code=f"{short!r}.get(t.strip().lower(), t.strip().lower())",
    )


def measure(low: int, high: int, unit: str, large: str, factor: int) -> Kind:
    """Return the kind of a column of whole units, some of them typed in a larger one, `factor` times as much."""
    places = len(str(factor)) - 1
    return Kind(
        draw=lambda rng: rng.randint(low, high),
        typed=lambda rng, value: rng.choice(
            (f"{value} {unit}", f"{value / factor:.{places}f} {large}", f"{value}{unit}")
        ),
        words=f"{{name}} as a whole number of {unit}, without the unit ({large} is {factor} {unit})",
        code=f"str(round(float(re.sub('[^0-9.]', '', t)) * ({factor} if t.endswith(' {large}') else 1)))",
    )


def spent(rng: random.Random, value: int) -> str:
    """Return minutes as people type them."""
    hours, minutes = divmod(value, 60)
    return rng.choice((f"{value} min", f"{hours}h {minutes:02}m", f"{hours}:{minutes:02}"))


KINDS: MappingProxyType[str, Kind] = MappingProxyType(
    {
        "person": Kind(
            draw=person,
            typed=lambda rng, value: rng.choice((f" {value}", value.replace(" ", "  "), f"{value} ", value)),
            words="{name} without blanks around it, and one blank between words",
            code="' '.join(t.split())",
        ),
        "town": Kind(
            draw=lambda rng: rng.choice(CITIES),
            typed=lambda rng, value: rng.choice((value.upper(), value.lower(), f"{value} ")),
            words="{name} with a capital letter first and small ones after it",
            code="t.strip().capitalize()",
        ),
        "article": Kind(
            draw=lambda rng: rng.choice(GOODS),
            typed=lambda rng, value: rng.choice((f" {value}", value.replace(" ", "  "))),
            words="{name} without blanks around it, and one blank between words",
            code="' '.join(t.split())",
        ),
        "day": Kind(
            draw=some_day,
            typed=typed_day,
            words="{name} as YYYY-MM-DD (dates with slashes have the day first)",
            code="day(t)",
        ),
        "money": Kind(
            draw=lambda rng: rng.randint(500, 400_000) / 100,
            typed=typed_money,
            words="{name} as a plain number with a point and no thousands separator",
            code="re.sub('[^0-9.]', '', t)",
        ),
        "height": measure(150, 205, "cm", "m", 100),
        "weight": measure(180, 24_000, "g", "kg", 1000),
        "width": measure(12, 940, "mm", "cm", 10),
        "minutes": Kind(
            draw=lambda rng: rng.randint(61, 590),
            typed=spent,
            words="{name} as a whole number of minutes",
            code="minutes(t)",
        ),
        "flag": Kind(
            draw=lambda rng: rng.random() < 0.5,
            typed=lambda rng, value: rng.choice(("Yes", "y", "1", "TRUE") if value else ("No", "n", "0", "FALSE")),
            words="{name} as true or false",
            code="'true' if t.strip().lower() in ('yes', 'y', '1', 'true') else 'false'",
        ),
        "plan": choice({"bsc": "basic", "pls": "plus", "prof": "pro"}),
        "state": choice({"rdy": "ready", "brk": "broken", "mnt": "maintenance"}),
        "ship": choice({"std": "standard", "exp": "express", "frt": "freight"}),
    }
)
