"""How far two tables of rows agree: values cell by cell, rows in their order or in any."""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from typing import Any

MOST_ROWS = 500
"""That a table may have beyond those that are expected."""
MOST_PAIRS = 100_000
"""Rows that are compared with each other in search of partners. Those of a right table, in any order in which equal
values keep their places, need one comparison each."""
Row = Sequence[Any]
Same = Callable[[Row, Row], bool]


def is_number(value: Any) -> bool:
    """Return whether it is a number, which true and false are not."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_close(got: Any, expected: Any, *, absolute: float, relative: float) -> bool:
    """Return whether two values are equal, numbers within a tolerance; what is no number equals no number."""
    if is_number(got) and is_number(expected):
        try:
            return bool(abs(got - expected) <= max(absolute, relative * abs(expected)))
        except OverflowError:
            return False
    return type(got) is type(expected) and bool(got == expected)


def ordered_share(got: Sequence[Row], expected: Sequence[Row], same: Same) -> float:
    """Return the share of rows that agree place by place; of the longer table."""
    num_same = sum(same(a, b) for a, b in zip(got, expected, strict=False))
    return share(num_same, len(got), len(expected))


def share(num_same: int, num_got: int, num_expected: int) -> float:
    """Return it as a share of the larger side; two empty sides agree."""
    longer = max(num_got, num_expected)
    return num_same / longer if longer else 1.0


def f1(num_same: int, num_got: int, num_expected: int) -> float:
    """Return the harmonic mean of precision and recall; two empty sides agree."""
    return 2 * num_same / (num_got + num_expected) if num_got + num_expected else 1.0


def num_matched(got: Sequence[Row], expected: Sequence[Row], same: Same) -> int:
    """Return how many rows of either side have a partner in the other: equal ones first, then those that are `same`."""
    left = Counter(map(key_of, expected))
    by_key: dict[Hashable, list[Row]] = {}
    for row in expected:
        by_key.setdefault(key_of(row), []).append(row)
    num_same, others = 0, []
    for row in got:
        key = key_of(row)
        if left[key] > 0:
            left[key] -= 1
            by_key[key].pop()
            num_same += 1
        else:
            others.append(row)
    rest = [row for rows in by_key.values() for row in rows]
    left_pairs = MOST_PAIRS
    for row in others:
        place = next((index for index, one in enumerate(rest[:left_pairs]) if same(row, one)), None)
        left_pairs -= len(rest) if place is None else place + 1
        if place is not None:
            del rest[place]
            num_same += 1
        if left_pairs <= 0:
            break
    return num_same


def key_of(row: Row) -> Hashable:
    """Return what equal rows have in common."""
    return tuple(("number", value) if is_number(value) else (type(value).__name__, repr(value)) for value in row)
