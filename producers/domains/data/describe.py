"""Statistics of a file that has to be read with a program."""

import json
import random

from producers.domains.catalogue import domain
from producers.domains.data.records import TRADES, Row, Trade, as_csv, beginning, draw_rows
from producers.domains.data.statistics import HARDER, HARDEST, SIMPLE, Statistic, as_number
from producers.domains.interface import Item
from producers.domains.tools import PYTHON, machine_tools, with_tools
from producers.domains.verdicts import closed, json_values, verdict
from schemas.tools import written

SHAPES = ((20, 2, (SIMPLE,)), (32, 3, (SIMPLE, HARDER)), (48, 4, (HARDER, HARDEST)), (64, 6, (HARDER, HARDEST)))
"""By level: rows, statistics, among which."""
OPENERS = (
    "The file {file} in your working directory has {num} {about}.",
    "You are given {num} {about} in {file}, which is in the working directory.",
    "A colleague left {file} ({num} {about}) in your working directory and needs some figures of it.",
)
PROGRAM = """\
import csv, json, math, statistics
from collections import Counter
with open({file!r}) as file:
    rows = list(csv.DictReader(file))
found = {{}}
"""
STEP = """\
kept = [row for row in rows if {condition} and {present}]
x = [float(row[{x!r}]) for row in kept]
y = [float(row[{y!r}]) for row in kept]
found[{name!r}] = {code}
"""
Asked = tuple[Statistic, str, str, str, str]
"""A statistic, its columns, and the category and value that rows have to have, or nothing."""


@domain(family="data", levels=4, max_tokens=700)
def data_describe(rng: random.Random, level: int) -> Item:
    """Work out statistics of the columns of a file."""
    num_rows, num, pools = SHAPES[level]
    trade = rng.choice(TRADES)
    missing = rng.choice(("", "NA", "n/a")) if level else ""
    rows = draw_rows(rng, trade, num_rows, missing=0.06 if level else 0.0)
    asked: dict[str, Asked] = {}
    for place in range(num):
        asked[f"q{place + 1}"] = draw_asked(rng, trade, pools[place % len(pools)], level)
    kept = [keep(rows, one) for one in asked.values()]
    if min(map(len, kept)) < 8 or len(set(asked.values())) < num:
        return data_describe(rng, level)
    values = {name: one[0].of(*columns(found, one)) for (name, one), found in zip(asked.items(), kept, strict=True)}
    values = {name: float(f"{value:.6g}") for name, value in values.items()}
    if 0.0 in values.values():
        return data_describe(rng, level)
    listed = "\n".join(f"- {name}: {in_words(one)}" for name, one in asked.items())
    execution = machine_tools(PYTHON, files={trade.file: as_csv(rows, missing=missing).encode()})
    question = (
        f"{rng.choice(OPENERS).format(file=trade.file, num=num_rows, about=trade.about)} It begins\n"
        f"{beginning(rows, missing=missing)}\n"
        + (
            f"Missing values are written {missing!r}; a row that lacks a column in question is left out.\n"
            if level
            else ""
        )
        + f"Find\n{listed}\nAnswer with one JSON object with the numbers {', '.join(asked)}, to six significant digits."
    )
    one_wrong = values | {"q1": values["q1"] * 1.5 + 1}
    return Item(
        prompt=with_tools(question, execution),
        gold=(written("python", code=program(trade, asked, missing)), json.dumps(values)),
        verifier=verdict(json_values(values, closed({name: {"type": "number"} for name in values}), relative=1e-4)),
        execution=execution,
        max_turns=6,
        partials=((json.dumps(one_wrong),),),
        wrongs=((json.dumps(dict.fromkeys(values, -1)),), (json.dumps({"q1": values["q1"]}),)),
        difficulty=num_rows / 20 + 3 * num,
    )


def draw_asked(rng: random.Random, trade: Trade, pool: tuple[Statistic, ...], level: int) -> Asked:
    """Draw what is asked for."""
    x, y = rng.sample(list(trade.numbers), 2)
    group = rng.choice(list(trade.groups)) if level >= 2 and rng.random() < 0.6 else ""
    return rng.choice(pool), x, y, group, rng.choice(trade.groups[group]) if group else ""


def keep(rows: list[Row], asked: Asked) -> list[Row]:
    """Return the rows that count."""
    statistic, x, y, group, value = asked
    needed = (x, y)[: statistic.num_columns]
    return [row for row in rows if (not group or row[group] == value) and all(row[name] is not None for name in needed)]


def columns(rows: list[Row], asked: Asked) -> tuple[list[float], list[float]]:
    """Return both columns of rows that have what is needed."""
    statistic, x, y, *_ = asked
    second = y if statistic.num_columns > 1 else x
    return [as_number(row[x]) for row in rows], [as_number(row[second]) for row in rows]


def in_words(asked: Asked) -> str:
    """Return what is asked for, in words."""
    statistic, x, y, group, value = asked
    where = f", over rows whose {group} is {value}" if group else ""
    return statistic.words.format(x=x, y=y) + where


def program(trade: Trade, asked: dict[str, Asked], missing: str) -> str:
    """Return a program that prints what is asked for."""
    text = PROGRAM.format(file=trade.file)
    for name, (statistic, x, y, group, value) in asked.items():
        second = y if statistic.num_columns > 1 else x
        text += STEP.format(
            condition=f"row[{group!r}] == {value!r}" if group else "True",
            present=f"row[{x!r}] != {missing!r} and row[{second!r}] != {missing!r}",
            x=x, y=second, name=name, code=statistic.code,
        )  # fmt: skip
    return text + "print(json.dumps({name: float(format(value, '.6g')) for name, value in found.items()}))\n"
