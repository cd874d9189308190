"""JSON that gives back what was put in: tuples, sets, and keys that are no text, which plain JSON turns into others.

For what libraries say of their items, and later want to see again exactly. `{"!tuple": [...]}`, `{"!set": [...]}`,
`{"!map": [[key, value], ...]}` and `{"!fraction": "1/3"}`, with the like for decimals and moments, stand for what JSON
does not have.
"""

import json
from collections.abc import Callable
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from types import MappingProxyType
from typing import Any

TUPLE, SET, MAP = "!tuple", "!set", "!map"
AS_TEXT: MappingProxyType[str, tuple[type[Any], Callable[[Any], str], Callable[[str], Any]]] = MappingProxyType(
    {
        "!fraction": (Fraction, str, Fraction),
        "!decimal": (Decimal, str, Decimal),
        "!datetime": (datetime, datetime.isoformat, datetime.fromisoformat),
        "!date": (date, date.isoformat, date.fromisoformat),
        "!time": (time, time.isoformat, time.fromisoformat),
    }
)
"""By tag: the type, and how it is written and read. A datetime is a date, too, and so comes before it."""


def dumps(value: Any) -> str:
    """Return a value as text. Raises TypeError for what is neither JSON nor one of those."""
    return json.dumps(written(value))


def loads(text: str) -> Any:
    """Return the value again."""
    return read(json.loads(text))


def written(value: Any) -> Any:
    """Return a value as JSON has it; numbers of other libraries as plain ones."""
    if value is None or isinstance(value, str | bool):
        return value
    if isinstance(value, tuple):
        return {TUPLE: [written(one) for one in value]}
    if isinstance(value, list):
        return [written(one) for one in value]
    if isinstance(value, set | frozenset):
        return {SET: sorted((written(one) for one in value), key=json.dumps)}
    if isinstance(value, dict):
        if all(isinstance(key, str) and not key.startswith("!") for key in value):
            return {key: written(one) for key, one in value.items()}
        return {MAP: [[written(key), written(one)] for key, one in value.items()]}
    return written_alone(value)


def written_alone(value: Any) -> Any:
    """Return a value that holds no others, as JSON has it."""
    for tag, (kind, write, _) in AS_TEXT.items():
        if isinstance(value, kind):
            return {tag: write(value)}
    if hasattr(value, "tolist"):
        return written(value.tolist())
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    raise TypeError(f"{type(value).__name__}: {value!r:.80} is nothing that JSON can say")


def read(value: Any) -> Any:
    """Return what JSON stands for."""
    if isinstance(value, list):
        return [read(one) for one in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {TUPLE}:
        return tuple(read(one) for one in value[TUPLE])
    if value.keys() == {SET}:
        return {read(one) for one in value[SET]}
    if value.keys() == {MAP}:
        return {read(key): read(one) for key, one in value[MAP]}
    for tag, (_, _, read_text) in AS_TEXT.items():
        if value.keys() == {tag}:
            return read_text(value[tag])
    return {key: read(one) for key, one in value.items()}
