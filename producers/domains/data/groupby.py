"""Programs that group a file and print a table; each is run on files that it has not seen."""

import random
from collections.abc import Callable
from types import MappingProxyType

import msgspec

from producers.domains.catalogue import domain
from producers.domains.data.records import TRADES, Row, Trade, as_csv, beginning, draw_rows
from producers.domains.data.statistics import as_number
from producers.domains.interface import Item
from producers.domains.verdicts import verdict
from schemas.executions import Case, ExecutionLimits
from schemas.parts import Part
from schemas.tasks import ExecutionSpec

NUM_CASES = 2
LIMITS = ExecutionLimits(wall_s=5.0, cpu_s=3.0, keep_bytes=16 << 10)


class Measure(msgspec.Struct, frozen=True):
    """What is worked out of a group."""

    words: str
    of: Callable[[list[float]], float]
    code: str
    """Of Python, on a list `x`."""


MEASURES = MappingProxyType({
    "total": Measure("sum of {x}", sum, "sum(x)"),
    "mean": Measure("mean of {x}", lambda x: sum(x) / len(x), "sum(x) / len(x)"),
    "highest": Measure("largest {x}", max, "max(x)"),
    "spread": Measure("largest less smallest {x}", lambda x: max(x) - min(x), "max(x) - min(x)"),
    "rows": Measure("number of rows", len, "len(x)"),
})  # fmt: skip


OPENERS = ("Write a Python program", "We need a small script in Python", "Please write Python")


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What a program has to do."""

    groups: tuple[str, ...]
    measures: tuple[str, ...]
    x: str
    where: tuple[str, str] | None = None
    """A category and the value that rows must have."""
    least_rows: int = 0
    """That a group must have to be shown."""
    by_size: bool = False
    """Whether groups are in the order of their first measure, the largest first; else of their names."""
    share: bool = False
    """Whether the last column is a group's part of the total of `x` over all rows that count, in per cent."""


@domain(family="data", levels=4, max_tokens=800)
def data_groupby(rng: random.Random, level: int) -> Item:
    """Write a program that groups a file and prints measures of each group."""
    trade = rng.choice(TRADES)
    query = draw_query(rng, trade, level)
    files = [rows_without_ties(rng, trade, query, 10 + 4 * level) for _ in range(NUM_CASES + 1)]
    shown, hidden = files[0], files[1:]
    prints = [answer(rows, query) for rows in files]
    if len(set(prints)) < len(prints):
        return data_groupby(rng, level)
    cases = tuple(
        Case(name=f"file {place}", files={trade.file: as_csv(rows).encode()}) for place, rows in enumerate(hidden, 1)
    )
    expected = {case.name: text for case, text in zip(cases, prints[1:], strict=True)}
    right = program(trade, query)
    return Item(
        prompt=(
            f"{rng.choice(OPENERS)} (standard library only) that reads {trade.file} in the working directory, "
            f"{trade.about} as CSV, and prints {in_words(query)}\nThe file is as this one:\n"
            f"{beginning(shown, len(shown))}\nFor it the program prints\n{prints[0]}\n"
            "It will be run on other files of this kind. Answer with the program between lines of three backquotes."
        ),
        gold=(f"```python\n{right}```",),
        verifier=verdict(Part(kind="cases", expected=expected)),
        execution=ExecutionSpec(extract="fenced", cases=cases, limits=LIMITS),
        partials=((f"```python\n{fails_on(hidden[0], trade)}{right}```",),),
        wrongs=((f"```python\nprint({prints[0]!r})\n```",), ("```python\nraise SystemExit(0)\n```",)),
        difficulty=len(query.groups) + len(query.measures) + 2 * level,
    )  # fmt: skip


def fails_on(rows: list[Row], trade: Trade) -> str:
    """Return the beginning of a program that fails on one file."""
    return f"assert {rows[0][trade.key]!r} not in open({trade.file!r}).read()\n"


def draw_query(rng: random.Random, trade: Trade, level: int) -> Query:
    """Draw what is asked for."""
    groups = rng.sample(list(trade.groups), 1 + (level >= 2))
    others = [name for name in trade.groups if name not in groups]
    name = rng.choice(others) if others and level >= 1 else ""
    return Query(
        groups=tuple(groups),
        measures=tuple(rng.sample(list(MEASURES), 1 + (level >= 1) + (level >= 3))),
        x=rng.choice(list(trade.numbers)),
        where=(name, rng.choice(trade.groups[name])) if name else None,
        least_rows=2 if level >= 2 else 0,
        by_size=level >= 1 and rng.random() < 0.6,
        share=level == 3,
    )


def in_words(query: Query) -> str:
    """Return what is asked for, in words."""
    named = " and ".join(query.groups)
    what = ", ".join(f"the {MEASURES[name].words.format(x=query.x)}" for name in query.measures)
    text = f"one line for each {named}: {', '.join(query.groups)}, {what}"
    text += f", and the group's part of all {query.x} that counts in per cent" if query.share else ""
    text += ", separated by commas, every number with two decimals. "
    if query.where:
        text += f"Only rows whose {query.where[0]} is {query.where[1]} count. "
    if query.least_rows:
        text += f"Groups of fewer than {query.least_rows} rows are left out of the lines, not of the whole. "
    order = "the first measure, the largest first, then by name" if query.by_size else "name"
    return f"{text}Lines are in the order of {order}; there is no header."


def lines_of(rows: list[Row], query: Query) -> list[tuple[tuple[str, ...], list[float]]]:
    """Return each group's name and measures, in order."""
    counted = [row for row in rows if query.where is None or row[query.where[0]] == query.where[1]]
    groups: dict[tuple[str, ...], list[float]] = {}
    for row in counted:
        groups.setdefault(tuple(str(row[name]) for name in query.groups), []).append(as_number(row[query.x]))
    whole = sum(map(sum, groups.values()))
    found = []
    for name in sorted(groups):
        x = groups[name]
        if len(x) >= query.least_rows:
            values = [float(MEASURES[one].of(x)) for one in query.measures]
            found.append((name, values + ([100 * sum(x) / whole] if query.share and whole else [])))
    return sorted(found, key=lambda one: -one[1][0]) if query.by_size else found


def answer(rows: list[Row], query: Query) -> str:
    """Return what a right program prints."""
    return "\n".join(",".join([*name, *(f"{value:.2f}" for value in values)]) for name, values in lines_of(rows, query))


def rows_without_ties(rng: random.Random, trade: Trade, query: Query, num: int) -> list[Row]:
    """Draw rows of which something is to be printed, and for which order of summation cannot matter."""
    while True:
        rows = draw_rows(rng, trade, num)
        values = [value for _, measures in lines_of(rows, query) for value in measures]
        if values and all(abs((abs(value) * 1000) % 10 - 5) > 1e-3 for value in values):
            return rows


def program(trade: Trade, query: Query) -> str:
    """Return a program that does what is asked for."""
    where = f" if row[{query.where[0]!r}] == {query.where[1]!r}" if query.where else ""
    key = "".join(f"row[{name!r}], " for name in query.groups)
    share = "100 * sum(x) / whole" if query.share else ""
    numbers = ", ".join([*(MEASURES[name].code for name in query.measures), *([share] if share else [])])
    order = "key=lambda row: (-row[1][0], row[0])" if query.by_size else "key=lambda row: row[0]"
    return (
        "import csv\n"
        f"with open({trade.file!r}) as file:\n    rows = [row for row in csv.DictReader(file){where}]\n"
        f"groups = {{}}\nfor row in rows:\n    groups.setdefault(({key}), []).append(float(row[{query.x!r}]))\n"
        f"whole = sum(map(sum, groups.values()))\n"
        f"done = [(name, [{numbers}]) for name, x in groups.items() if len(x) >= {query.least_rows}]\n"
        f"for row in sorted(done, {order}):\n"
        "    print(','.join([*row[0], *(f'{value:.2f}' for value in row[1])]))\n"
    )
