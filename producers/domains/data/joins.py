"""Queries over several tables, judged by the rows that they give on data that nobody has seen."""

import random
from collections import defaultdict
from collections.abc import Callable

import msgspec

from producers.domains.catalogue import domain
from producers.domains.data.shops import CATEGORIES, DDL, SEGMENTS, Shop, draw_shop
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


def totals(shop: Shop) -> dict[int, float]:
    """Return what each order's lines come to."""
    prices = {row[0]: row[3] for row in shop.products}
    sums: dict[int, float] = defaultdict(float)
    for order, product, num in shop.order_lines:
        sums[order] += num * prices[product]
    return sums


def listed(rng: random.Random, shop: Shop) -> Question:
    """Ask for a join of two tables with a condition."""
    segment, status = rng.choice(SEGMENTS), rng.choice(("open", "cancelled", "shipped"))
    names = {row[0]: row[1] for row in shop.customers if row[3] == segment}
    rows: Rows = [[row[0], names[row[1]], row[2]] for row in shop.orders if row[1] in names and row[3] == status]
    sql = "SELECT o.id, c.name, o.ordered_on FROM orders o JOIN customers c ON c.id = o.customer_id"
    return Question(
        words=f"id, customer's name and date of every order with status '{status}' of a customer of segment "
        f"'{segment}'",
        rows=rows,
        sql=f"{sql} WHERE c.segment = '{segment}' AND o.status = '{status}'",
    )


def grouped(rng: random.Random, shop: Shop) -> Question:
    """Ask for sums over three tables by group."""
    category = rng.choice(CATEGORIES)
    shipped = {row[0]: row[1] for row in shop.orders if row[3] == "shipped"}
    names = {row[0]: row[1] for row in shop.customers}
    prices = {row[0]: row[3] for row in shop.products if row[2] == category}
    sums: dict[str, float] = defaultdict(float)
    for order, product, num in shop.order_lines:
        if order in shipped and product in prices:
            sums[names[shipped[order]]] += num * prices[product]
    base = (
        "SELECT c.name, SUM(l.quantity * p.price) FROM customers c JOIN orders o ON o.customer_id = c.id "
        "JOIN order_lines l ON l.order_id = o.id JOIN products p ON p.id = l.product_id"
    )
    return Question(
        words=f"the name of each customer who has bought products of category '{category}' in shipped orders, and what "
        "these come to (quantity times price)",
        rows=[[name, total] for name, total in sorted(sums.items())],
        sql=f"{base} WHERE p.category = '{category}' AND o.status = 'shipped' GROUP BY c.id",
    )


def with_absent(rng: random.Random, shop: Shop) -> Question:
    """Ask for counts by group where nothing counts as 0, refunds taken off once an order."""
    segment = rng.choice(SEGMENTS)
    refunds, worth = dict(shop.refunds), totals(shop)
    rows: Rows = []
    for customer, name, _, of in shop.customers:
        if of == segment:
            mine = [row[0] for row in shop.orders if row[1] == customer and row[3] != "cancelled"]
            rows.append([name, len(mine), sum(worth[order] - refunds.get(order, 0.0) for order in mine)])
    inner = (
        "SELECT o.customer_id AS cid, o.id AS oid, (SELECT SUM(l.quantity * p.price) FROM order_lines l "
        "JOIN products p ON p.id = l.product_id WHERE l.order_id = o.id) - COALESCE((SELECT SUM(r.amount) FROM refunds "
        "r "
        "WHERE r.order_id = o.id), 0) AS net FROM orders o WHERE o.status <> 'cancelled'"
    )
    columns = "SELECT c.name, COUNT(t.oid), COALESCE(SUM(t.net), 0.0) FROM customers c"
    rest = f"JOIN ({inner}) t ON t.cid = c.id WHERE c.segment = '{segment}' GROUP BY c.id"
    return Question(
        words=f"for every customer of segment '{segment}', also those without orders: name, number of orders that "
        "were not cancelled, and what these come to (quantity times price of all lines, less refunds; 0 where there is "
        "nothing)",
        rows=rows,
        sql=f"{columns} LEFT {rest}",
    )


def ranked(rng: random.Random, shop: Shop) -> Question:
    """Ask for the best customer of each city, with the share of the city's sales."""
    segment = rng.choice(SEGMENTS)
    sums: dict[str, dict[str, float]] = defaultdict(dict)
    worth = totals(shop)
    for customer, name, city, of in shop.customers:
        mine = [row[0] for row in shop.orders if row[1] == customer and row[3] == "shipped"]
        if of != segment and mine:
            sums[city][name] = sum(worth[order] for order in mine)
    rows: Rows = []
    for city in sorted(sums):
        best = max(sums[city], key=sums[city].__getitem__)
        rows.append([city, best, sums[city][best], 100 * sums[city][best] / sum(sums[city].values())])
    inner = (
        "SELECT c.city AS city, c.name AS name, SUM(l.quantity * p.price) AS total FROM customers c "
        "JOIN orders o ON o.customer_id = c.id JOIN order_lines l ON l.order_id = o.id "
        "JOIN products p ON p.id = l.product_id WHERE o.status = 'shipped'"
    )
    outer = (
        "SELECT city, name, total, 100.0 * total / whole FROM (SELECT *, SUM(total) OVER (PARTITION BY city) AS whole, "
        "ROW_NUMBER() OVER (PARTITION BY city ORDER BY total DESC) AS place FROM sums) WHERE place = 1 ORDER BY city"
    )
    return Question(
        words=f"for each city, without customers of segment '{segment}': the city, the customer whose shipped orders "
        "come to the most (quantity times price), how much that is, and its share of that city's total in per cent; in "
        "the "
        "order of cities",
        rows=rows,
        sql=f"WITH sums AS ({inner} AND c.segment <> '{segment}' GROUP BY c.id) {outer}",
        ordered=True,
    )


LEVELS: tuple[Callable[[random.Random, Shop], Question], ...] = (listed, grouped, with_absent, ranked)
OPENERS = (
    "A shop keeps these tables in SQLite:\n",
    "This is the schema of an order system (SQLite):\n",
    "You answer questions of the sales team on this SQLite database:\n",
)
SAMPLES = ("customers", "products", "orders", "order_lines", "refunds")


@domain(family="data", levels=4, max_tokens=700)
def data_join(rng: random.Random, level: int) -> Item:
    """Write a query that joins tables of a database."""
    shop, other, shown = (draw_shop(rng, num) for num in (20 + 6 * level, 14, 2))
    for _ in range(5):
        seed = rng.getrandbits(32)
        question, again = (LEVELS[level](random.Random(seed), one) for one in (shop, other))
        if len(question.rows) >= 3 and again.rows:
            break
    else:
        return data_join(rng, level)
    also = [{"setup": other.setup, "expected": again.rows}]
    samples = "\n".join(f"{name}: {shown.sample(name, 1) or '(empty)'}" for name in SAMPLES)
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
