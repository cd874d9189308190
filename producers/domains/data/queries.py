"""Questions about a shop in words, as rows worked out here, and as SQL: conditions, groups, measures."""

import random
from collections.abc import Callable
from typing import Any

import msgspec

from producers.domains.data.shops import CATEGORIES, SEGMENTS, Shop

Fact = dict[str, Any]
"""A line of an order with all that belongs to it."""
JOINED = (
    "customers c JOIN orders o ON o.customer_id = c.id JOIN order_lines l ON l.order_id = o.id "
    "JOIN products p ON p.id = l.product_id"
)


class Condition(msgspec.Struct, frozen=True):
    """What facts have to be."""

    words: str
    sql: str
    holds: Callable[[Fact], bool]
    of: str
    """`customer`, `order`, `product` or `line`."""


class Measure(msgspec.Struct, frozen=True):
    """A number of a group of facts."""

    words: str
    sql: str
    of: Callable[[list[Fact]], float]


class Column(msgspec.Struct, frozen=True):
    """Something that a fact says."""

    words: str
    sql: str
    of: Callable[[Fact], Any]


def value(facts: list[Fact]) -> float:
    """Return what lines come to."""
    return float(sum(one["quantity"] * one["price"] for one in facts))


MEASURES = (
    Measure("what the lines come to (quantity times price)", "SUM(l.quantity * p.price)", value),
    Measure("the number of units", "SUM(l.quantity)", lambda facts: sum(one["quantity"] for one in facts)),
    Measure("the number of orders", "COUNT(DISTINCT o.id)", lambda facts: len({one["order"] for one in facts})),
    Measure("the largest quantity of a line", "MAX(l.quantity)", lambda facts: max(one["quantity"] for one in facts)),
    Measure(
        "the mean price of a unit (what the lines come to over their units)",
        "SUM(l.quantity * p.price) / SUM(l.quantity)",
        lambda facts: value(facts) / sum(one["quantity"] for one in facts),
    ),
)
COLUMNS = {
    "customer": Column("name of the customer", "c.name", lambda one: one["customer"]),
    "city": Column("city", "c.city", lambda one: one["city"]),
    "segment": Column("segment", "c.segment", lambda one: one["segment"]),
    "product": Column("name of the product", "p.name", lambda one: one["product"]),
    "category": Column("category", "p.category", lambda one: one["category"]),
    "month": Column("month (as 2024-07)", "substr(o.ordered_on, 1, 7)", lambda one: one["date"][:7]),
    "order": Column("id of the order", "o.id", lambda one: one["order"]),
    "date": Column("date of the order", "o.ordered_on", lambda one: one["date"]),
    "status": Column("status", "o.status", lambda one: one["status"]),
}


def facts_of(shop: Shop) -> list[Fact]:
    """Return every line of every order with what belongs to it."""
    customers = {row[0]: row for row in shop.customers}
    products = {row[0]: row for row in shop.products}
    orders = {row[0]: row for row in shop.orders}
    facts = []
    for order, product, quantity in shop.order_lines:
        _, of, date, status = orders[order]
        _, name, city, segment = customers[of]
        _, what, category, price = products[product]
        facts.append(
            {"order": order, "date": date, "status": status, "customer": name, "city": city, "segment": segment,
             "product": what, "category": category, "price": price, "quantity": quantity}
        )  # fmt: skip
    return facts


def draw_condition(rng: random.Random, of: str, year: int) -> Condition:
    """Draw a condition on a customer, an order, a product or a line."""
    if of == "customer":
        return equal(rng, "segment", "c.segment", SEGMENTS, of)
    if of == "product":
        if rng.random() < 0.6:
            return equal(rng, "category", "p.category", CATEGORIES, of)
        cut = rng.randint(10, 45)
        return Condition(f"the price is above {cut}", f"p.price > {cut}", lambda one: one["price"] > cut, of)
    if of == "line":
        least = rng.randint(2, 6)
        words = f"the quantity is at least {least}"
        return Condition(words, f"l.quantity >= {least}", lambda one: one["quantity"] >= least, of)
    if rng.random() < 0.5:
        return equal(rng, "status", "o.status", ("shipped", "open", "cancelled"), of)
    month, after = rng.randint(3, 9), rng.random() < 0.5
    day = f"{year}-{month:02}-01"
    if after:
        words = f"the order is of {day} or later"
        return Condition(words, f"o.ordered_on >= '{day}'", lambda one: one["date"] >= day, of)
    return Condition(f"the order is from before {day}", f"o.ordered_on < '{day}'", lambda one: one["date"] < day, of)


def equal(rng: random.Random, name: str, column: str, values: tuple[str, ...], of: str) -> Condition:
    """Draw a condition that something is a value, or is not."""
    wanted = rng.choice(values)
    if name != "category" and rng.random() < 0.5:
        words = f"the {name} is not '{wanted}'"
        return Condition(words, f"{column} <> '{wanted}'", lambda one: one[name] != wanted, of)
    return Condition(f"the {name} is '{wanted}'", f"{column} = '{wanted}'", lambda one: one[name] == wanted, of)


def draw_conditions(rng: random.Random, of: tuple[str, ...], num: int, year: int) -> list[Condition]:
    """Draw conditions, each on something else."""
    return [draw_condition(rng, one, year) for one in rng.sample(of, num)]


def said(conditions: list[Condition]) -> str:
    """Return conditions in words."""
    return " and ".join(one.words for one in conditions)


def where(conditions: list[Condition]) -> str:
    """Return conditions as SQL."""
    return " AND ".join(one.sql for one in conditions)


def kept(facts: list[Fact], conditions: list[Condition]) -> list[Fact]:
    """Return the facts for which all conditions hold."""
    return [one for one in facts if all(condition.holds(one) for condition in conditions)]


def by(facts: list[Fact], column: Column) -> dict[Any, list[Fact]]:
    """Return facts by what a column says of them."""
    groups: dict[Any, list[Fact]] = {}
    for one in facts:
        groups.setdefault(column.of(one), []).append(one)
    return groups
