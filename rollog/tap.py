"""Prints events of a topic, past or as they come, as lines for people or JSON for machines. Reads only; joins no group.

`--where` is a comparison of one field with one value, no language: `domain=verbs`, `value>0.5`, `outcome.status!=ok`.
"""

import json
import re
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TextIO

import msgspec
import numpy as np

from schemas.arrays import PackedArray
from schemas.conditions import ENVELOPE, Condition, parse_where
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.events import Event
from schemas.topics import get_topic

if TYPE_CHECKING:
    from consumers.reader import EventReader

__all__ = ["Condition", "Query", "parse_since", "parse_where", "print_events", "print_read"]
UNIT_S = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
DURATION = re.compile(r"(\d+(?:\.\d+)?)([smhd])")
TEXT_CHARS, ARRAY_ITEMS = 80, 6
Start = Literal["beginning", "end"] | float


class Query(msgspec.Struct, frozen=True, kw_only=True):
    """What to print."""

    topic: str
    start: Start = "beginning"
    conditions: tuple[Condition, ...] = ()
    limit: int = 0
    """0 is no limit."""
    follow: bool = False


def parse_since(text: str, *, now_s: float | None = None) -> Start:
    """Return where to start: `10m` ago, an RFC 3339 time, `beginning` or `now`. Raises ConfigError."""
    if text == "beginning":
        return "beginning"
    if text in ("now", "end"):
        return "end"
    duration = DURATION.fullmatch(text)
    if duration:
        return (time.time() if now_s is None else now_s) - float(duration[1]) * UNIT_S[duration[2]]
    try:
        moment = datetime.fromisoformat(text)
    except ValueError as error:
        raise ConfigError(
            f"--since {text!r}: wanted a duration (10m, 2h), an RFC 3339 time (2026-01-31T12:00:00Z), "
            "`beginning` or `now`"
        ) from error
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def matching(events: Iterator[Event[Any]], query: Query) -> Iterator[Event[Any]]:
    """Yield the events that satisfy the query, up to its limit."""
    num_printed = 0
    for event in events:
        if all(condition.holds(event) for condition in query.conditions):
            yield event
            num_printed += 1
            if num_printed == query.limit:
                return


def print_events(log: LogSettings, query: Query, *, blob_dir: Path, as_json: bool, out: TextIO) -> None:
    """Print what the query asks for. Raises ConfigError for an unknown topic, LogError where the log cannot be read."""
    from consumers.reader import Reader

    get_topic(query.topic)
    print_read(partial(Reader, log, blob_dir=blob_dir), [query.topic], query, as_json=as_json, out=out)


def print_read(
    open_reader: Callable[..., "EventReader"], topics: Sequence[str], query: Query, *, as_json: bool, out: TextIO
) -> None:
    """Print what a reader hands out of these topics, as the query asks. Raises as the reader does.

    A record that cannot be decoded is a line of its own, and the tap goes on. Ends quietly on Ctrl-C or a closed pipe.
    """

    def undecodable(raw: Any, error: Exception) -> None:
        print(json.dumps({"undecodable": str(error)}) if as_json else f"undecodable: {error}", file=out, flush=True)

    reader = open_reader(topics, start=query.start, bounded=not query.follow, on_undecodable=undecodable)
    try:
        for event in matching(iter(reader), query):
            print(json_of(event) if as_json else line_of(event), file=out, flush=query.follow)
    except (KeyboardInterrupt, BrokenPipeError):
        return
    finally:
        reader.close()


def plain(value: Any, *, brief: bool) -> Any:
    """Return a field as JSON can hold it: packed arrays unpacked, bytes as text; `brief` cuts what is long."""
    if isinstance(value, PackedArray):
        return plain_array(value, brief=brief)
    if isinstance(value, msgspec.Struct):
        fields = {name: getattr(value, name) for name in value.__struct_fields__}
        return {name: plain(item, brief=brief) for name, item in fields.items()}
    if isinstance(value, dict):
        return {str(name): plain(item, brief=brief) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        items = [plain(item, brief=brief) for item in value]
        return [*items[:2], f"... {len(items)} in all"] if brief and len(items) > 2 else items
    if isinstance(value, bytes):
        value = value.decode(errors="backslashreplace")
    if brief and isinstance(value, str) and len(value) > TEXT_CHARS:
        return f"{value[:TEXT_CHARS]}... {len(value)} characters"
    return round(value, 4) if brief and isinstance(value, float) else value


def plain_array(packed: PackedArray, *, brief: bool) -> Any:
    """Return the numbers of a packed array; `brief` gives the first few as text."""
    array = packed.unpack()
    if not brief:
        return array.tolist()
    shown = " ".join(f"{value:.3g}" if array.dtype.kind == "f" else str(value) for value in array[:ARRAY_ITEMS])
    if np.all(array == array[:1]) and len(array) > ARRAY_ITEMS:
        return f"[{array[0]:g} x {len(array)}]"
    return f"[{shown}{' ...' if len(array) > ARRAY_ITEMS else ''}] {len(array)}"


def json_of(event: Event[Any]) -> str:
    """Return the event as one line of JSON, whole."""
    envelope = {name: getattr(event, name) for name in ENVELOPE}
    position = str(event.position) if event.position else None
    return json.dumps({**envelope, "position": position, "record": plain(event.record, brief=False)}, allow_nan=False)


def line_of(event: Event[Any]) -> str:
    """Return the event as one line for people, long fields cut."""
    moment = datetime.fromtimestamp(event.time_s, UTC).strftime("%H:%M:%S.%f")[:-3]
    fields = plain(event.record, brief=True)
    shown = " ".join(f"{name}={text_of(value)}" for name, value in fields.items() if value not in ("", None, [], {}))
    return f"{moment} {event.position} {type(event.record).__name__} {shown}"


def text_of(value: Any) -> str:
    """Return a field's value on one line; text that holds spaces or control characters in quotes."""
    if isinstance(value, str):
        return value if re.fullmatch(r"[^\s\"'\\]+|\[.*\] ?\d*", value) else json.dumps(value, ensure_ascii=False)
    if isinstance(value, dict):
        return "{" + " ".join(f"{name}={text_of(item)}" for name, item in value.items()) + "}"
    return json.dumps(value, ensure_ascii=False)
