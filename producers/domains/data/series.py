"""Questions about a monthly series: changes, moving averages, drawdowns, forecasts."""

import math
import random
from collections.abc import Callable
from itertools import pairwise

import msgspec

from producers.domains.catalogue import domain
from producers.domains.entities import CITIES, MONTHS, company, table
from producers.domains.interface import Item
from producers.domains.verdicts import Unit, last_number, verdict

KINDS = (
    "Nights booked in hotels of {town}, thousands",
    "Electricity used by {firm}, MWh",
    "Passengers of the airport of {town}, thousands",
    "Orders received by {firm}",
    "Tickets opened at the helpdesk of {firm}",
    "Water drawn from the reservoir of {town}, megalitres",
)


class Series(msgspec.Struct, frozen=True, kw_only=True):
    """Amounts by month."""

    title: str
    year: int
    """Of the first January."""
    values: list[float]

    def name(self, place: int) -> str:
        """Return what a month is called."""
        return f"{MONTHS[place % 12][:3]} {self.year + place // 12}"


Question = tuple[str, float, Unit, list[float], int]
"""What is asked, the number, its unit, numbers that are wrong, months to be looked at."""


def draw_series(rng: random.Random, num: int) -> Series:
    """Draw a series with trend, season and noise."""
    base, trend, swing = rng.uniform(120, 4000), rng.uniform(-0.008, 0.02), rng.uniform(0.05, 0.35)
    peak = rng.randrange(12)
    values = [
        round(base * (1 + trend * t) * (1 + swing * math.cos(math.tau * (t - peak) / 12)) * rng.uniform(0.93, 1.07), 1)
        for t in range(num)
    ]
    title = rng.choice(KINDS).format(town=rng.choice(CITIES), firm=company(rng))
    return Series(title=title, year=rng.randint(2016, 2024), values=values)


def changed(rng: random.Random, of: Series) -> Question:
    """Ask for a change from one month to another, or the largest."""
    v, place = of.values, rng.randint(1, len(of.values) - 1)
    changes = [100 * (b / a - 1) for a, b in pairwise(v)]
    if rng.random() < 0.5:
        others = [-changes[place - 1], 100 * (1 - v[place - 1] / v[place])]
        return f"By how many per cent did it change from {of.name(place - 1)} to {of.name(place)}?", changes[
            place - 1
        ], "%", others, 2  # fmt: skip
    return (
        "What is the largest rise from one month to the next, in per cent?", max(changes), "%",
        [sorted(changes)[-2], max(map(abs, changes)) + 1], len(v),
    )  # fmt: skip


def averaged(rng: random.Random, of: Series) -> Question:
    """Ask for a moving average or a comparison of quarters."""
    v = of.values
    if rng.random() < 0.5:
        width = rng.choice((3, 4, 6))
        place = rng.randint(width - 1, len(v) - 1)
        mean = sum(v[place - width + 1 : place + 1]) / width
        asked = (
            f"What is the trailing {width}-month moving average at {of.name(place)} (that month and those before it)?"
        )
        return asked, mean, "", [v[place], sum(v[place - width + 1 : place + 1])], width + 6
    quarter = rng.randrange(4)
    now, before = (sum(v[start + 3 * quarter : start + 3 * quarter + 3]) for start in (12, 0))
    asked = (
        f"By how many per cent did the total of quarter {quarter + 1} change from {of.year} to {of.year + 1}?"
    )  # fmt: skip
    month = 100 * (v[12 + 3 * quarter] / v[3 * quarter] - 1)
    return asked, 100 * (now / before - 1), "%", [month, 100 * (1 - before / now)], 9


def drawdown(values: list[float]) -> float:
    """Return the deepest fall from a peak to any later value, in per cent of the peak."""
    peak, worst = values[0], 0.0
    for value in values:
        peak = max(peak, value)
        worst = max(worst, 100 * (1 - value / peak))
    return worst


def fallen(rng: random.Random, of: Series) -> Question:
    """Ask for a drawdown, or for the error of a seasonal forecast."""
    v = of.values
    if rng.random() < 0.5:
        asked = (
            "What is the maximum drawdown, that is, the deepest fall from any value to a later one, in per cent of the "
            "former?"
        )
        step = max(100 * (1 - b / a) for a, b in pairwise(v))
        return asked, drawdown(v), "%", [step, 100 * (1 - min(v) / max(v)) + 0.5], len(v) + 6
    tail = len(v) - 6
    errors = [100 * abs(v[t] - v[t - 12]) / v[t] for t in range(tail, len(v))]
    naive = [100 * abs(v[t] - v[t - 1]) / v[t] for t in range(tail, len(v))]
    asked = (
        "Forecast each of the last six months by the same month of the year before. What is the mean absolute "
        "percentage error of these forecasts (each error in per cent of the actual value)?"
    )
    return asked, sum(errors) / 6, "%", [sum(naive) / 6, sum(errors)], 24


def smoothed(values: list[float], alpha: float, beta: float) -> float:
    """Return the forecast for the month after, by exponential smoothing with a linear trend (Holt).

    It starts with the first value as level and the first change as trend, and goes on from the second value.
    """
    level, trend = values[0], values[1] - values[0]
    for value in values[1:]:
        before = level
        level = alpha * value + (1 - alpha) * (level + trend)
        trend = beta * (level - before) + (1 - beta) * trend
    return level + trend


def forecast(rng: random.Random, of: Series) -> Question:
    """Ask for a forecast by exponential smoothing of the last months, one of which is missing."""
    num = rng.randint(6, 8)
    gap = rng.randint(2, num - 2)
    v = of.values[-num:]
    place = len(of.values) - num + gap
    filled = [*v[:gap], (v[gap - 1] + v[gap + 1]) / 2, *v[gap + 1 :]]
    alpha, beta = rng.choice((0.2, 0.3, 0.4, 0.5, 0.6)), rng.choice((0.1, 0.2, 0.3))
    asked = (
        f"The value of {of.name(place)} turned out to be wrong; put in its place the mean of its two neighbours. Then "
        f"forecast the month after the last by Holt's exponential smoothing with trend, using the last {num} months "
        f"only, alpha {alpha} for the level and beta {beta} for the trend. The level starts at the first of these "
        "months, the trend at the change from the first to the second, and updating begins with the second. What is "
        "the forecast?"
    )
    plain = smoothed(v, alpha, beta)
    return asked, smoothed(filled, alpha, beta), "", [plain, smoothed(filled, alpha, 0.0), v[-1]], 40


CLOSERS = (
    "Show your steps, and give the number alone on the last line",
    "Work it out; the last line is to be the number alone",
    "End with a line that holds nothing but the number",
)
LEVELS: tuple[Callable[[random.Random, Series], Question], ...] = (changed, averaged, fallen, forecast)


@domain(family="data", levels=4, max_tokens=1000)
def data_timeseries(rng: random.Random, level: int) -> Item:
    """Work out a number from a monthly series."""
    of = draw_series(rng, (12, 24, 24, 24)[level])
    asked, number, unit, others, num_months = LEVELS[level](rng, of)
    rows = [[of.name(place), f"{value:,.1f}"] for place, value in enumerate(of.values)]
    text = table(["Month", "Value"], rows, style=rng.choice(("text", "markdown")))
    how = "in per cent with two decimals" if unit else "with two decimals"
    return Item(
        prompt=f"{of.title}\n\n{text}\n\n{asked} {rng.choice(CLOSERS)}, {how}.",
        gold=(f"Step by step one gets\n{number:.2f}{unit}",),
        verifier=verdict(last_number(number, unit=unit, absolute=0.0151)),
        wrongs=tuple((f"{other:.2f}{unit}",) for other in others if abs(other - number) > 0.05),
        difficulty=num_months,
    )
