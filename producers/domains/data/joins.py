"""Queries over several tables, judged by the rows that they give on data that nobody has seen."""

# ruff: noqa: S608  queries are shown in prompts, and run in a database in memory that a verifier makes

import random
from collections.abc import Callable

import msgspec

from producers.domains.catalogue import domain
from producers.domains.data.queries import (
    COLUMNS,
    JOINED,
    MEASURES,
    by,
    draw_condition,
    draw_conditions,
    facts_of,
    kept,
    said,
    value,
    where,
)
from producers.domains.data.shops import DDL, Shop, draw_shop
from producers.domains.interface import Item
from producers.domains.verdicts import verdict
from schemas.parts import Part

Rows = list[list[str | int | float | None]]


class Question(msgspec.Struct, frozen=True, kw_only=True):
    """What is asked of a shop's tables."""

    words: str
    rows: Rows
    sql: str
    ordered: bool = False


def listed(rng: random.Random, shop: Shop, year: int) -> Question:
    """Ask for orders and their customers with conditions."""
    columns = [COLUMNS[name] for name in rng.sample(("customer", "city", "segment", "date", "status"), 2)]
    conditions = [draw_condition(rng, of, year) for of in ("customer", "order")]
    facts = {one["order"]: one for one in kept(facts_of(shop), conditions)}
    return Question(
        words=f"id of the order, {' and '.join(column.words for column in columns)} of every order for which "
        f"{said(conditions)}",
        rows=[[one["order"], *(column.of(one) for column in columns)] for one in facts.values()],
        sql=f"SELECT o.id, {', '.join(column.sql for column in columns)} FROM orders o "
        f"JOIN customers c ON c.id = o.customer_id WHERE {where(conditions)}",
    )


def grouped(rng: random.Random, shop: Shop, year: int) -> Question:
    """Ask for measures over all tables by group."""
    column = COLUMNS[rng.choice(("customer", "city", "segment", "product", "category", "month"))]
    measures = rng.sample(MEASURES, 2)
    conditions = draw_conditions(rng, ("customer", "order", "product", "line"), 2, year)
    groups = by(kept(facts_of(shop), conditions), column)
    return Question(
        words=f"for each {column.words}: itself, {', and '.join(one.words for one in measures)}; only of lines for "
        f"which {said(conditions)}",
        rows=[[name, *(one.of(facts) for one in measures)] for name, facts in groups.items()],
        sql=f"SELECT {column.sql}, {', '.join(one.sql for one in measures)} FROM {JOINED} WHERE {where(conditions)} "
        f"GROUP BY {column.sql}",
    )


def with_absent(rng: random.Random, shop: Shop, year: int) -> Question:
    """Ask for measures of everybody or everything, also of what was never ordered; refunds come once an order."""
    refunds = dict(shop.refunds)
    of_customers = rng.random() < 0.5
    conditions = draw_conditions(rng, ("order", "line", "product" if of_customers else "customer"), 2, year)
    kind = draw_condition(rng, "customer" if of_customers else "product", year)
    facts = kept(facts_of(shop), conditions)
    name = "customer" if of_customers else "product"
    groups = by(facts, COLUMNS[name])
    things = (
        [one[1] for one in shop.customers if kind.holds({"segment": one[3]})]
        if of_customers
        else [one[1] for one in shop.products if kind.holds({"category": one[2], "price": one[3]})]
    )
    rows: Rows = []
    for thing in things:
        mine = groups.get(thing, [])
        numbers = {one["order"] for one in mine}
        rows.append([thing, len(numbers), value(mine) - sum(refunds.get(order, 0.0) for order in numbers)])
    alias = name[0]
    inner = (
        f"SELECT {alias}.id AS thing, o.id AS number, SUM(l.quantity * p.price) - COALESCE((SELECT SUM(r.amount) "
        f"FROM refunds r WHERE r.order_id = o.id), 0) AS net FROM {JOINED} WHERE {where(conditions)} "
        f"GROUP BY {alias}.id, o.id"
    )
    return Question(
        words=f"for every {name} for which {kind.words}, also those that nothing is found for: the name, the number of "
        f"different orders, and what the lines come to (quantity times price) less the refunds of those orders, each "
        f"order's refund once for a {name}; 0 where there is nothing. Only lines count for which {said(conditions)}",
        rows=rows,
        sql=f"SELECT {alias}.name, COUNT(t.number), COALESCE(SUM(t.net), 0.0) FROM {name}s {alias} "
        f"LEFT JOIN ({inner}) t ON t.thing = {alias}.id WHERE {kind.sql} GROUP BY {alias}.id",
    )


PAIRS = (
    ("city", "customer"),
    ("segment", "customer"),
    ("category", "product"),
    ("city", "product"),
    ("segment", "category"),
    ("month", "product"),
)


def ranked(rng: random.Random, shop: Shop, year: int) -> Question:
    """Ask for the best of each group, with its share of the group."""
    outer, inner = rng.choice(PAIRS)
    conditions = draw_conditions(rng, ("order", "line", "product", "customer"), 2, year)
    rows: Rows = []
    for name, facts in sorted(by(kept(facts_of(shop), conditions), COLUMNS[outer]).items()):
        sums = {thing: value(lines) for thing, lines in by(facts, COLUMNS[inner]).items()}
        best = max(sums, key=sums.__getitem__)
        rows.append([name, best, sums[best], 100 * sums[best] / sum(sums.values())])
    a, b = COLUMNS[outer], COLUMNS[inner]
    return Question(
        words=f"for each {a.words}: itself, the {b.words} of which the lines come to the most (quantity times price), "
        "how much that is, and its share of all in per cent; in the order of the first column. Only lines count for "
        f"which {said(conditions)}",
        rows=rows,
        sql=f"WITH sums AS (SELECT {a.sql} AS a, {b.sql} AS b, SUM(l.quantity * p.price) AS total FROM {JOINED} "
        f"WHERE {where(conditions)} GROUP BY {a.sql}, {b.sql}) SELECT a, b, total, 100.0 * total / whole "
        "FROM (SELECT *, SUM(total) OVER (PARTITION BY a) AS whole, ROW_NUMBER() OVER (PARTITION BY a ORDER BY total "
        "DESC) AS place FROM sums) WHERE place = 1 ORDER BY a",
        ordered=True,
    )


LEVELS: tuple[Callable[[random.Random, Shop, int], Question], ...] = (listed, grouped, with_absent, ranked)
OPENERS = (
    "A shop keeps these tables in SQLite:\n",
    "This is the schema of an order system (SQLite):\n",
    "You answer questions of the sales team on this SQLite database:\n",
)
SAMPLES = ("customers", "products", "orders", "order_lines", "refunds")


@domain(family="data", levels=4, max_tokens=700)
def data_join(rng: random.Random, level: int) -> Item:
    """Write a query that joins tables of a database."""
    year = rng.randint(2022, 2025)
    shop, other, shown = (draw_shop(rng, num, year) for num in (18 + 5 * level, 10, 2))
    for _ in range(5):
        seed = rng.getrandbits(32)
        question, again = (LEVELS[level](random.Random(seed), one, year) for one in (shop, other))
        if len({str(row[1:]) for row in question.rows}) >= 3 and again.rows:
            break
    else:
        return data_join(rng, level)
    also = [{"setup": other.setup, "expected": again.rows}]
    samples = "\n".join(f"{name}: {shown.sample(name, 1)}" for name in SAMPLES)
    part = Part(
        kind="sql", name="rows", extract="fenced", expected=question.rows,
        options={"setup": shop.setup, "also": also, "ordered": question.ordered, "absolute": 1e-6},
    )  # fmt: skip
    return Item(
        prompt=rng.choice(OPENERS) + "\n".join(DDL) + f"\nRows look like these (first of each):\n"
        f"{samples}\nWrite one query that gives {question.words}. It is run on other data. Answer with the query in a "
        "block between lines of three backquotes.",
        gold=(f"```sql\n{question.sql};\n```",),
        verifier=verdict(part),
        partials=((f"```sql\nSELECT * FROM ({question.sql}) LIMIT {len(question.rows) - 1}\n```",),),
        wrongs=(("```sql\nSELECT 1, 2, 3\n```",), ("```sql\nSELECT * FROM customers\n```",)),
        difficulty=(5, 8, 12, 16)[level],
    )
