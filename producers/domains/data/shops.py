"""A database of several tables: customers, products, orders, their lines and refunds."""

import random
from datetime import date, timedelta

import msgspec

from producers.domains.entities import CITIES, GOODS, people

DDL = (
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, city TEXT, segment TEXT);",
    "CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT, category TEXT, price REAL);",
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, ordered_on TEXT, status TEXT);",
    "CREATE TABLE order_lines (order_id INTEGER, product_id INTEGER, quantity INTEGER);",
    "CREATE TABLE refunds (order_id INTEGER, amount REAL);",
)
SEGMENTS = ("retail", "trade", "public")
CATEGORIES = ("tools", "office", "electrical", "safety")
STATUSES = ("shipped", "shipped", "shipped", "open", "cancelled")


class Shop(msgspec.Struct, frozen=True, kw_only=True):
    """What the tables hold, rows by table in the order of their columns."""

    customers: list[tuple[int, str, str, str]]
    products: list[tuple[int, str, str, float]]
    orders: list[tuple[int, int, str, str]]
    order_lines: list[tuple[int, int, int]]
    refunds: list[tuple[int, float]]

    @property
    def setup(self) -> str:
        """Return statements that make the database."""
        lines = [*DDL]
        for name in self.__struct_fields__:
            # No text here has a quote in it, so that a tuple of Python reads as a row of SQL.
            rows = ", ".join(map(str, getattr(self, name)))
            lines.append(f"INSERT INTO {name} VALUES {rows};")  # noqa: S608  made of our own data
        return "\n".join(lines)

    def sample(self, table: str, num: int = 2) -> str:
        """Return the first rows of a table, for a prompt."""
        return "\n".join(" | ".join(map(str, row)) for row in getattr(self, table)[:num])


def draw_shop(rng: random.Random, num_orders: int, year: int) -> Shop:
    """Draw a shop; some customers have no orders, some products are never sold, few orders are refunded."""
    names, cities = people(rng, 12), rng.sample(CITIES, 4)
    customers = [
        (place, name, rng.choice(cities), rng.choice(SEGMENTS)) for place, name in enumerate(names, rng.randint(1, 90))
    ]
    products = [
        (place, name, rng.choice(CATEGORIES), rng.randint(100, 9000) / 100)
        for place, name in enumerate(rng.sample(GOODS, 8), rng.randint(100, 190))
    ]
    start, buyers, first = date(year, 1, 1), customers[:10], rng.randint(1000, 5000)
    orders = [
        (number, rng.choice(buyers)[0], (start + timedelta(days=rng.randrange(365))).isoformat(), rng.choice(STATUSES))
        for number in range(first, first + num_orders)
    ]
    lines = [
        (order[0], product[0], rng.randint(1, 12))
        for order in orders
        for product in rng.sample(products[:7], rng.randint(1, 3))
    ]
    refunds = [
        (order[0], rng.randint(100, 5000) / 100) for order in orders if order is orders[0] or rng.random() < 0.25
    ]
    return Shop(customers=customers, products=products, orders=orders, order_lines=lines, refunds=refunds)
