"""A comparison of one field of a record with one value, as text that everybody reads alike; no language.

`domain=verbs`, `value>0.5`, `outcome.status!=ok`, `text~import sys` (holds that piece).
"""

import operator
import re
from collections.abc import Callable
from typing import Any

import msgspec

from schemas.errors import ConfigError

CONDITION = re.compile(r"\s*([A-Za-z_][\w.]*)\s*(!=|<=|>=|=|<|>|~)\s*(.*?)\s*", re.DOTALL)
OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "~": lambda got, wanted: isinstance(got, str | bytes) and wanted in got,
}
ENVELOPE = ("id", "type", "source", "time_s", "key", "subject", "causation_id", "correlation_id")
LITERALS = {"true": True, "false": False, "none": None, "null": None}
MISSING = object()


class Condition(msgspec.Struct, frozen=True, kw_only=True):
    """One comparison."""

    field: str
    """Of the record, dots lead inward; else of the envelope."""
    symbol: str
    value: str

    def holds(self, event: Any) -> bool:
        """Return whether the event has the field and it compares so."""
        got = field_of(event, self.field)
        if got is MISSING:
            return False
        wanted = convert(self.value, like=got)
        if self.symbol not in ("=", "!=") and (got is None or type(wanted) is not type(got)):
            return False
        return OPERATORS[self.symbol](got, wanted)

    @property
    def text(self) -> str:
        """Return what `parse_where` reads as this condition."""
        return f'{self.field}{self.symbol}"{self.value}"'


def parse_where(text: str) -> Condition:
    """Return the condition. Raises ConfigError."""
    match = CONDITION.fullmatch(text)
    if match is None:
        raise ConfigError(f"--where {text!r}: wanted FIELD OP VALUE with one of {' '.join(OPERATORS)}, value>0.5, say")
    value = match[3]
    if len(value) > 1 and value[0] == value[-1] and value[0] in "'\"":
        value = value[1:-1]
    return Condition(field=match[1], symbol=match[2], value=value)


def field_of(event: Any, path: str) -> Any:
    """Return a field of the record, else of the envelope; MISSING where neither has it."""
    found: Any = event.record
    for name in path.split("."):
        if isinstance(found, dict):
            found = found.get(name, MISSING)
        else:
            found = getattr(found, name, MISSING) if isinstance(found, msgspec.Struct) else MISSING
    if found is MISSING and path in ENVELOPE:
        return getattr(event, path)
    return float(found) if isinstance(found, int) and not isinstance(found, bool) else found


def convert(text: str, *, like: Any) -> Any:
    """Return the text as what it is to be compared with."""
    if text.lower() in LITERALS and not isinstance(like, str):
        return LITERALS[text.lower()]
    if isinstance(like, float):
        try:
            return float(text)
        except ValueError:
            return text
    return text.encode() if isinstance(like, bytes) else text
