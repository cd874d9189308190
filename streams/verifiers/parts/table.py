"""A table, as CSV with a header or as a JSON array of objects, against the rows that are expected.

Columns go by name, in any order; a column that is missing or too many makes rows wrong. What is a number on the
expected side is compared as one.

Example: `Part(kind="table", of="file:out.csv", expected=[{"name": "anna", "sum": 12.5}])`.
"""

import csv
import io
from typing import Annotated, Any, Literal

import msgspec

from streams.verifiers.parts.extraction import read_json
from streams.verifiers.parts.interface import Found, PartKind
from streams.verifiers.parts.rows import MOST_ROWS, Row, f1, is_close, is_number, num_matched, ordered_share, share

Cell = str | int | float | bool | None
Rows = Annotated[list[dict[str, Cell]], msgspec.Meta(min_length=1)]


class TableOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the table is written and compared."""

    written: Literal["auto", "csv", "json"] = "auto"
    ordered: bool = False
    partial: Literal["none", "rows", "cells"] = "rows"
    """Credit for part of it: by row, or by cell, which needs `ordered`."""
    absolute: float = 0.0
    relative: float = 0.0
    """Tolerance of numbers; the larger of the two holds."""
    ignore_case: bool = False


def score(text: str, expected: Rows, options: TableOptions) -> Found:
    """Return how much of the table is right."""
    try:
        got = rows_in(text, options.written)
    except ValueError as error:
        return Found(0.0, f"no table: {error}"[:200])
    if len(got) > len(expected) + MOST_ROWS:
        return Found(0.0, f"it has {len(got)} rows; wanted {len(expected)}")
    columns = list(expected[0])
    wanted = [[row[name] for name in columns] for row in expected]
    types = [next((row[name] for row in expected if row[name] is not None), None) for name in columns]
    table = [typed(row, columns, types) if row.keys() == set(columns) else [Ellipsis] for row in got]
    value = agreement(table, wanted, options)
    if options.partial == "none" and value < 1:
        value = 0.0
    return Found(value, f"{len(got)} rows; wanted {len(wanted)}")


def agreement(table: list[list[Any]], wanted: list[list[Any]], options: TableOptions) -> float:
    """Return the share of cells or rows that agree."""

    def same(a: Row, b: Row) -> bool:
        return len(a) == len(b) and all(map(same_cell, a, b))

    def same_cell(a: Any, b: Any) -> bool:
        return is_same(a, b, options)

    if options.partial == "cells":
        num_same = sum(sum(map(same_cell, a, b)) for a, b in zip(table, wanted, strict=False))
        return share(num_same, sum(map(len, table)), sum(map(len, wanted)))
    if options.ordered:
        return ordered_share(table, wanted, same)
    return f1(num_matched(table, wanted, same), len(table), len(wanted))


def is_same(got: Any, expected: Any, options: TableOptions) -> bool:
    """Return whether a cell is right; one of CSV is text, and read as what is expected there."""
    if isinstance(got, str) and not isinstance(expected, str):
        got = as_cell(got.strip(), expected)
    if isinstance(got, str) and isinstance(expected, str):
        got, expected = got.strip(), expected.strip()
        return bool(got.casefold() == expected.casefold()) if options.ignore_case else bool(got == expected)
    return is_close(got, expected, absolute=options.absolute, relative=options.relative)


def typed(row: dict[str, Any], columns: list[str], types: list[Any]) -> list[Any]:
    """Return the cells of a row, text as what its column holds where it is that."""
    cells = [(row[name], like) for name, like in zip(columns, types, strict=True)]
    return [as_cell(cell.strip(), like) if isinstance(cell, str) and cell.strip() else cell for cell, like in cells]


def as_cell(text: str, expected: Any) -> Any:
    """Return a cell's text as the type that is expected, as it is where it is no such thing."""
    if expected is None:
        return text or None
    if isinstance(expected, bool):
        return {"true": True, "false": False}.get(text.lower(), text)
    if is_number(expected) and text.isascii() and "_" not in text:
        try:
            return float(text)
        except ValueError:
            return text
    return text


def rows_in(text: str, written: str) -> list[dict[str, Any]]:
    """Return the rows by column. Raises ValueError where it is no table."""
    text = text.strip()
    if written == "json" or (written == "auto" and text.startswith("[")):
        value = read_json(text)
        if not (isinstance(value, list) and all(isinstance(row, dict) for row in value)):
            raise ValueError("wanted a JSON array of objects")
        return value
    try:
        lines = [line for line in csv.reader(io.StringIO(text), strict=True) if line]
    except csv.Error as error:
        raise ValueError(str(error)) from error
    if not lines:
        raise ValueError("it is empty")
    names = [name.strip() for name in lines[0]]
    if len(set(names)) < len(names):
        raise ValueError("two columns have one name")
    return [dict(zip(names, line, strict=True)) if len(line) == len(names) else {} for line in lines[1:]]


def check(expected: Rows, options: TableOptions) -> None:
    """Refuse rows of several shapes, and credit by cell where rows have no places."""
    for place, row in enumerate(expected):
        if not row or row.keys() != expected[0].keys():
            raise ValueError(f"expected[{place}]: got columns {list(row)}; wanted those of the first row, and some")
    if options.partial == "cells" and not options.ordered:
        raise ValueError('partial: got "cells" without ordered = true; cells are compared place by place')
    if not (0 <= options.absolute < float("inf") and 0 <= options.relative < float("inf")):
        raise ValueError(f"absolute, relative: got {options.absolute}, {options.relative}; wanted numbers from 0")


TABLE = PartKind(name="table", version=1, expects=Rows, options=TableOptions, score=score, check=check)
