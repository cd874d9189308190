"""Statistics of columns: in words, as they are computed here, and as a line of a program that computes them."""

import math
from collections.abc import Callable
from typing import cast

import msgspec

Number = float | int


class Statistic(msgspec.Struct, frozen=True):
    """A number that describes a column of numbers, `x`, or two, `x` and `y`."""

    words: str
    """`{x}` and `{y}` are the columns."""
    of: Callable[[list[float], list[float]], Number]
    code: str
    """An expression of Python on the lists `x` and `y`, with `statistics`, `math`, `Counter`."""
    num_columns: int = 1


def quantile(values: list[float], share: float) -> float:
    """Return a quantile, by linear interpolation between order statistics (that of `numpy.quantile`)."""
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def correlation(x: list[float], y: list[float]) -> float:
    """Return Pearson's correlation."""
    mean_x, mean_y = sum(x) / len(x), sum(y) / len(y)
    above = sum((a - mean_x) * (b - mean_y) for a, b in zip(x, y, strict=True))
    return above / math.sqrt(sum((a - mean_x) ** 2 for a in x) * sum((b - mean_y) ** 2 for b in y))


def deviation(x: list[float]) -> float:
    """Return the sample standard deviation."""
    mean = sum(x) / len(x)
    return math.sqrt(sum((a - mean) ** 2 for a in x) / (len(x) - 1))


def trimmed(x: list[float]) -> float:
    """Return the mean without the lowest and the highest tenth of the values, rounded down."""
    num = len(x) // 10
    kept = sorted(x)[num : len(x) - num]
    return sum(kept) / len(kept)


def median(x: list[float]) -> float:
    """Return the middle value."""
    return quantile(x, 0.5)


def median_deviation(x: list[float]) -> float:
    """Return the median of the absolute distances from the median."""
    middle = median(x)
    return median([abs(a - middle) for a in x])


SIMPLE = (
    Statistic("the mean of {x}", lambda x, _: sum(x) / len(x), "statistics.fmean(x)"),
    Statistic("the median of {x}", lambda x, _: median(x), "statistics.median(x)"),
    Statistic("the largest {x}", lambda x, _: max(x), "max(x)"),
    Statistic("the sum of {x}", lambda x, _: sum(x), "math.fsum(x)"),
    Statistic("the number of different values of {x}", lambda x, _: len(set(x)), "len(Counter(x))"),
)
HARDER = (
    Statistic("the sample standard deviation of {x}", lambda x, _: deviation(x), "statistics.stdev(x)"),
    Statistic(
        "the first quartile of {x} (linear interpolation between order statistics, as NumPy does it)",
        lambda x, _: quantile(x, 0.25),
        'statistics.quantiles(x, n=4, method="inclusive")[0]',
    ),
    Statistic(
        "the 90th percentile of {x} (linear interpolation between order statistics, as NumPy does it)",
        lambda x, _: quantile(x, 0.9),
        'statistics.quantiles(x, n=10, method="inclusive")[8]',
    ),
    Statistic(
        "the coefficient of variation of {x} (sample standard deviation over mean)",
        lambda x, _: deviation(x) / (sum(x) / len(x)),
        "statistics.stdev(x) / statistics.fmean(x)",
    ),
)
HARDEST = (
    Statistic("the Pearson correlation of {x} and {y}", correlation, "statistics.correlation(x, y)", 2),
    Statistic(
        "the mean of {x} weighted by {y}",
        lambda x, y: sum(a * b for a, b in zip(x, y, strict=True)) / sum(y),
        "math.fsum(a * b for a, b in zip(x, y)) / math.fsum(y)",
        2,
    ),
    Statistic(
        "the mean of {x} without its lowest and its highest tenth of values (counts rounded down)",
        lambda x, _: trimmed(x),
        "statistics.fmean(sorted(x)[len(x) // 10 : len(x) - len(x) // 10])",
    ),
    Statistic(
        "the median absolute deviation of {x} from its median (not scaled)",
        lambda x, _: median_deviation(x),
        "statistics.median([abs(a - statistics.median(x)) for a in x])",
    ),
    Statistic(
        "the slope of the least-squares line of {y} on {x}",
        lambda x, y: correlation(x, y) * deviation(y) / deviation(x),
        "statistics.linear_regression(x, y).slope",
        2,
    ),
)


def as_number(value: object) -> float:
    """Return a value that is known to be a number."""
    return float(cast("float", value))
