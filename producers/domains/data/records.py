"""Made-up records of several trades, as rows with a key, categories and measurements, and as CSV."""

import random
from datetime import date, timedelta
from itertools import accumulate

import msgspec

from producers.domains.entities import CITIES

Value = str | float | int | None
Row = dict[str, Value]


class Trade(msgspec.Struct, frozen=True, kw_only=True):
    """What records are about."""

    about: str
    file: str
    key: str
    prefix: str
    groups: dict[str, tuple[str, ...]]
    numbers: dict[str, tuple[float, float, int]]
    """Lowest and highest, and decimals."""


TRADES = (
    Trade(
        about="orders of a web shop", file="orders.csv", key="order_id", prefix="O",
        groups={"region": ("north", "south", "east", "west"), "channel": ("web", "app", "phone"),
                "category": ("garden", "kitchen", "toys", "books", "sport")},
        numbers={"units": (1, 40, 0), "unit_price": (2, 180, 2), "shipping_days": (1, 14, 0),
                 "weight_kg": (0.1, 30, 1)},
    ),
    Trade(
        about="rides of a bicycle scheme", file="rides.csv", key="ride_id", prefix="R",
        groups={"station": tuple(CITIES[:5]), "bike": ("city", "cargo", "electric"), "pass": ("day", "month", "year")},
        numbers={"minutes": (2, 140, 0), "distance_km": (0.3, 24, 1), "age": (16, 82, 0), "fare": (0, 19, 2)},
    ),
    Trade(
        about="visits to an outpatient clinic", file="visits.csv", key="visit_id", prefix="V",
        groups={"ward": ("eyes", "skin", "heart", "bones"), "insurance": ("public", "private"),
                "outcome": ("home", "admitted", "referred")},
        numbers={"wait_min": (0, 190, 0), "systolic": (95, 190, 0), "weight_kg": (42, 140, 1), "cost": (20, 900, 2)},
    ),
    Trade(
        about="batches of a dairy", file="batches.csv", key="batch_id", prefix="B",
        groups={"line": ("A", "B", "C"), "product": ("milk", "yoghurt", "cream", "kefir"), "shift": ("early", "late")},
        numbers={"litres": (200, 4800, 0), "fat_pct": (0.1, 35, 2), "temperature": (2, 9, 1), "rejects": (0, 60, 0)},
    ),
    Trade(
        about="calls to a helpdesk", file="calls.csv", key="call_id", prefix="C",
        groups={"queue": ("billing", "network", "orders", "returns"), "tier": ("first", "second"),
                "language": ("en", "de", "fr", "pl")},
        numbers={"seconds": (20, 2600, 0), "hold_seconds": (0, 700, 0), "rating": (1, 10, 0), "transfers": (0, 5, 0)},
    ),
)  # fmt: skip


def draw_rows(rng: random.Random, trade: Trade, num: int, *, missing: float = 0.0) -> list[Row]:
    """Draw records in the order of their dates; a share of measurements is missing."""
    first = date(rng.randint(2022, 2026), rng.randint(1, 12), 1)
    days = accumulate(rng.choices((0, 0, 1, 1, 2), k=num))
    numbers = accumulate(rng.choices((1, 2, 3), k=num), initial=rng.randint(1000, 7000))
    made: dict[str, list[Value]] = {
        trade.key: [f"{trade.prefix}{number}" for number, _ in zip(numbers, range(num), strict=False)],
        "date": [(first + timedelta(days=day)).isoformat() for day in days],
    }
    for name, choices in trade.groups.items():
        made[name] = list(rng.choices(choices, k=num))
    for name, bounds in trade.numbers.items():
        made[name] = list(measured(rng, num, *bounds))
        if missing:
            made[name] = [None if rng.random() < missing else value for value in made[name]]
    return [dict(zip(made, values, strict=True)) for values in zip(*made.values(), strict=True)]


def measured(rng: random.Random, num: int, low: float, high: float, places: int) -> list[float | int]:
    """Draw measurements; small ones are more frequent."""
    span, draw = high - low, rng.random
    values = [low + span * (1 - draw()) * (0.3 + 0.7 * draw()) for _ in range(num)]
    return [round(value, places) for value in values] if places else [round(value) for value in values]


def as_csv(rows: list[Row], *, missing: str = "") -> str:
    """Return rows as CSV with a header; no value has a comma."""
    lines = [",".join([missing if value is None else str(value) for value in row.values()]) for row in rows]
    return "\n".join([",".join(rows[0]), *lines, ""])


def beginning(rows: list[Row], num: int = 4, *, missing: str = "") -> str:
    """Return how the file of these rows begins."""
    return as_csv(rows[:num], missing=missing).rstrip()


def numbers_of(rows: list[Row], name: str) -> list[float]:
    """Return the measurements of a column that are there."""
    return [value for row in rows if isinstance(value := row[name], int | float)]
