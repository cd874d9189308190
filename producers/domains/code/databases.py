"""Small databases of two tables: who, and what they did. The same questions make sense in all of them."""

import random
import sqlite3
from functools import lru_cache

import msgspec

NUM_POOLED = 40
Row = tuple[str | int | None, ...]


class Theme(msgspec.Struct, frozen=True, kw_only=True):
    """Names of the tables and columns, and what stands in them."""

    parent: str
    label: str
    group: str
    child: str
    link: str
    amount: str
    state: str
    labels: tuple[str, ...]
    groups: tuple[str, ...]
    states: tuple[str, ...]
    highest: int
    """Of the amounts."""

    @property
    def tables(self) -> str:
        """Return the statements that make the tables."""
        return (
            f"CREATE TABLE {self.parent} (id INTEGER PRIMARY KEY, {self.label} TEXT NOT NULL, {self.group} TEXT);\n"
            f"CREATE TABLE {self.child} (id INTEGER PRIMARY KEY, {self.link} INTEGER NOT NULL REFERENCES {self.parent}"
            f"(id), {self.amount} INTEGER, day TEXT NOT NULL, {self.state} TEXT NOT NULL);"
        )


THEMES = (
    Theme(
        parent="customers",
        label="name",
        group="city",
        child="orders",
        link="customer_id",
        amount="total",
        state="state",
        labels=("Ahrens", "Bellini", "Costa", "Dubois", "Eklund", "Farkas", "Grieg", "Horvat", "Ibsen", "Jansen"),
        groups=("Lyon", "Porto", "Graz", "Turku"),
        states=("paid", "open", "returned"),
        highest=400,
    ),
    Theme(
        parent="drivers",
        label="name",
        group="depot",
        child="trips",
        link="driver_id",
        amount="km",
        state="kind",
        labels=("Ola", "Piet", "Quinn", "Rosa", "Sven", "Tara", "Uwe", "Vera", "Wim", "Xenia"),
        groups=("north", "harbour", "airport"),
        states=("freight", "passenger", "empty"),
        highest=600,
    ),
    Theme(
        parent="accounts",
        label="holder",
        group="branch",
        child="payments",
        link="account_id",
        amount="cents",
        state="channel",
        labels=("Lim", "Mora", "Nagy", "Ortiz", "Park", "Quist", "Rossi", "Saito", "Tran", "Ueda"),
        groups=("Main St", "Station", "Online", "Old Town"),
        states=("card", "transfer", "cash"),
        highest=9000,
    ),
    Theme(
        parent="machines",
        label="tag",
        group="hall",
        child="stops",
        link="machine_id",
        amount="minutes",
        state="cause",
        labels=("press-1", "press-2", "lathe-1", "lathe-2", "mill-1", "saw-1", "saw-2", "oven-1", "robot-1", "belt-1"),
        groups=("A", "B", "C"),
        states=("jam", "service", "no material"),
        highest=240,
    ),
    Theme(
        parent="authors",
        label="name",
        group="country",
        child="sales",
        link="author_id",
        amount="copies",
        state="format",
        labels=("Achebe", "Borges", "Calvino", "Duras", "Eco", "Fuentes", "Grass", "Handke", "Ishiguro", "Jelinek"),
        groups=("NG", "AR", "IT", "FR", "DE"),
        states=("paper", "audio", "ebook"),
        highest=5000,
    ),
    Theme(
        parent="employees",
        label="name",
        group="site",
        child="claims",
        link="employee_id",
        amount="euros",
        state="category",
        labels=("Kaya", "Levi", "Meyer", "Novak", "Osman", "Petrov", "Reyes", "Silva", "Toth", "Urban"),
        groups=("Oslo", "Delft", "Gent"),
        states=("travel", "meals", "hardware"),
        highest=900,
    ),
)


class Database(msgspec.Struct, frozen=True, kw_only=True):
    """Rows of both tables."""

    theme: Theme
    parents: tuple[Row, ...]
    children: tuple[Row, ...]
    setup: str
    """Statements that make it."""


def values(rows: tuple[Row, ...]) -> str:
    """Return rows as SQL writes them."""
    return ", ".join(f"({', '.join(map(literal, row))})" for row in rows)


def literal(value: str | int | None) -> str:
    """Return a value as SQL writes it."""
    if value is None:
        return "NULL"
    return str(value) if isinstance(value, int) else f"'{value}'"


def draw_database(theme: Theme, rng: random.Random, *, num_parents: int = 7, num_children: int = 18) -> Database:
    """Return a database, in which some of the first table have nothing in the second, and amounts repeat or lack."""
    labels = rng.sample(theme.labels, num_parents)
    parents = tuple((number, label, rng.choice(theme.groups)) for number, label in enumerate(labels, start=1))
    busy = rng.sample(range(1, num_parents + 1), num_parents - 2)
    amounts = [rng.randint(1, theme.highest) for _ in range(num_children * 3 // 4)]
    children = tuple(
        (
            number,
            rng.choice(busy),
            None if rng.random() < 0.06 else rng.choice(amounts),
            f"2026-{rng.randint(1, 6):02d}-{rng.randint(1, 28):02d}",
            rng.choice(theme.states),
        )
        for number in range(1, num_children + 1)
    )
    setup = (
        f"{theme.tables}\nINSERT INTO {theme.parent} VALUES {values(parents)};\n"
        f"INSERT INTO {theme.child} VALUES {values(children)};"
    )
    return Database(theme=theme, parents=parents, children=children, setup=setup)


@lru_cache(maxsize=len(THEMES))
def pool_of(place: int) -> tuple[Database, ...]:
    """Return the databases of a theme by which queries are judged, the same in every process.

    None is ever shown, and each question is asked of two of them that are drawn.
    """
    rng = random.Random(THEMES[place].child)
    return tuple(draw_database(THEMES[place], rng) for _ in range(NUM_POOLED))


def answer(database: Database, query: str) -> list[list[str | int | float | None]]:
    """Return the rows that a query gives. Raises sqlite3.Error."""
    connection = made(database.setup)
    return [list(row) for row in connection.execute(query).fetchmany(400)]


@lru_cache(maxsize=NUM_POOLED * len(THEMES))
def made(setup: str) -> sqlite3.Connection:
    """Return the database that these statements make; it is only read."""
    connection = sqlite3.connect(":memory:")
    connection.executescript(setup)
    return connection
