"""A query: the text is one SQL statement that reads, and the rows that it gives are compared.

It runs in a database of its own in memory, made by `options.setup`. It may read and nothing else, calls no function
that draws lots or says what time it is, and stops after a number of steps that does not depend on the machine: a query
that is refused or goes too far is worth 0. A query that only writes down the rows that it should find is found out by
other databases, in `also`, that the policy has not seen: the least of all is what counts.

Example: `Part(kind="sql", extract="fenced", expected=[["anna", 3]], options={"setup": "CREATE TABLE t ..."})`.
"""

import sqlite3
from typing import Annotated, Any

import msgspec

from streams.verifiers.parts.interface import Found, PartKind
from streams.verifiers.parts.rows import MOST_ROWS, Row, f1, is_close, num_matched, ordered_share

STEPS_PER_CALL = 1000
MOST_TEXT = 20_000
MOST_BYTES = 1 << 20
"""Of any text that the database makes."""
MAY = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE, sqlite3.SQLITE_FUNCTION})
MAY_NOT_CALL = frozenset(
    {"random", "randomblob", "load_extension", "current_date", "current_time", "current_timestamp", "changes"}
)
Value = str | int | float | None
Rows = Annotated[list[list[Value]], msgspec.Meta(min_length=1)]


class Also(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Another database, and what the query gives there."""

    setup: str
    expected: Rows


class SqlOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The database, and how rows are compared."""

    setup: str
    """Statements that make it."""
    also: list[Also] = []
    """Others that the same query is run in."""
    ordered: bool = False
    partial: bool = True
    """Whether some of the rows earn something: the F1 of rows, or with `ordered` the share of equal places."""
    absolute: float = 1e-9
    relative: float = 1e-9
    """Tolerance of numbers; the larger of the two holds."""
    most_steps: int = 5_000_000
    """Steps of the database's machine."""


class RefusedError(Exception):
    """The query is none that may run, or went too far."""


def score(text: str, expected: Rows, options: SqlOptions) -> Found:
    """Return how far the query's rows are the expected ones, everywhere. Raises ValueError where a setup fails."""
    found = agreement(text, options.setup, expected, options)
    for other in options.also:
        if found.value > 0:
            there = agreement(text, other.setup, other.expected, options)
            found = min(found, there, key=lambda one: one.value)
    return found


def agreement(text: str, setup: str, expected: Rows, options: SqlOptions) -> Found:
    """Return how far the query's rows are the expected ones in one database."""
    try:
        got = rows_of(text, setup, options.most_steps, most_rows=len(expected) + MOST_ROWS)
    except RefusedError as error:
        return Found(0.0, str(error)[:200])

    def same(a: Row, b: Row) -> bool:
        return len(a) == len(b) and all(
            is_close(x, y, absolute=options.absolute, relative=options.relative) for x, y in zip(a, b, strict=True)
        )

    if options.ordered:
        value = ordered_share(got, expected, same)
    else:
        value = f1(num_matched(got, expected, same), len(got), len(expected))
    return Found(value if options.partial or value == 1 else 0.0, f"{len(got)} rows; wanted {len(expected)}")


def rows_of(text: str, setup: str, most_steps: int, *, most_rows: int) -> list[Row]:
    """Return the rows that a query gives. Raises RefusedError, and ValueError where the setup fails."""
    if len(text) > MOST_TEXT:
        raise RefusedError(f"{len(text)} characters; at most {MOST_TEXT} are read")
    database = sqlite3.connect(":memory:", isolation_level=None)
    try:
        try:
            database.executescript(setup)
        except sqlite3.Error as error:
            raise ValueError(f"setup: {error}") from error
        left = confine(database, most_steps)
        return fetch(database, text, most_rows, left)
    finally:
        database.close()


def confine(database: sqlite3.Connection, most_steps: int) -> list[int]:
    """Let it read from now on, and only so much; returns how much is left, as it falls below 0."""
    left = [most_steps // STEPS_PER_CALL]

    def count() -> int:
        left[0] -= 1
        return int(left[0] < 0)

    def authorize(action: int, _table: str | None, name: str | None, *_rest: Any) -> int:
        if action not in MAY or (action == sqlite3.SQLITE_FUNCTION and (name or "").lower() in MAY_NOT_CALL):
            return sqlite3.SQLITE_DENY
        return sqlite3.SQLITE_OK

    database.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_BYTES)
    database.set_progress_handler(count, STEPS_PER_CALL)
    database.set_authorizer(authorize)
    return left


def fetch(database: sqlite3.Connection, text: str, most_rows: int, left: list[int]) -> list[Row]:
    """Return the rows; raises RefusedError for whatever the statement cannot do, TimeoutError where time is over."""
    try:
        rows = database.execute(text.strip().rstrip(";").encode(errors="replace").decode()).fetchmany(most_rows + 1)
    except (sqlite3.Error, sqlite3.Warning, ValueError, OverflowError) as error:
        if "interrupted" in str(error) and left[0] >= 0:
            # The library swallows what a clock raises in its callbacks; that time is over says nothing about the query.
            raise TimeoutError("the query was interrupted before its steps were used up") from error
        raise RefusedError(f"{type(error).__name__}: {error}") from error
    except MemoryError as error:
        raise RefusedError("it makes a value that is too large") from error
    if len(rows) > most_rows:
        raise RefusedError(f"over {most_rows} rows")
    return rows


def check(expected: Rows, options: SqlOptions) -> None:
    """Refuse a database that cannot be made, and rows of several lengths."""
    if options.most_steps < STEPS_PER_CALL:
        raise ValueError(f"most_steps: got {options.most_steps}; wanted at least {STEPS_PER_CALL}")
    for setup, rows in ((options.setup, expected), *((other.setup, other.expected) for other in options.also)):
        if any(len(row) != len(rows[0]) or not row for row in rows):
            raise ValueError("expected: got rows of several lengths, or of none; wanted rows of one length")
        rows_of("SELECT 1", setup, options.most_steps, most_rows=1)


SQL = PartKind(name="sql", version=1, expects=Rows, options=SqlOptions, score=score, check=check)
