"""Records to bytes and back: MessagePack values under CloudEvents headers (binary mode of its Kafka binding).

The type header names record and version, so that a topic may carry several and old ones stay readable. Decoding is
strict: what a topic does not promise raises DecodeError, and the reader puts it aside.
"""

import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, TypeVar

import msgpack
import msgspec

from schemas.errors import DecodeError
from schemas.events import Event, Position
from schemas.limits import MAX_RECORD_BYTES
from schemas.topics import TOPICS, get_topic
from schemas.upcasts import current_version, upcast

R = TypeVar("R")
RawHeaders = Iterable[tuple[str, bytes | str | None]]
CONTENT_TYPE = b"application/msgpack"
TYPE_PATTERN = re.compile(r"rollog\.([a-z_]+)\.v([0-9]{1,6})")


def snake_case(name: str) -> str:
    """Return `TurnGenerated` as `turn_generated`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()


RECORDS: dict[str, type[Any]] = {snake_case(r.__name__): r for topic in TOPICS.values() for r in topic.records}
TOPIC_OF: dict[type[Any], str] = {record: topic.name for topic in TOPICS.values() for record in topic.records}


def type_of(record: type[Any]) -> str:
    """Return the CloudEvents type that a record class is written as."""
    name = snake_case(record.__name__)
    return f"rollog.{name}.v{current_version(name)}"


TYPES: dict[type[Any], str] = {record: type_of(record) for record in TOPIC_OF}
ENCODER = msgspec.msgpack.Encoder()
DECODERS: dict[str, msgspec.msgpack.Decoder[Any]] = {n: msgspec.msgpack.Decoder(r) for n, r in RECORDS.items()}


def encode_value(record: object) -> bytes:
    """Return the record's MessagePack."""
    return ENCODER.encode(record)


@lru_cache(maxsize=16)
def encode_time(time_s: float) -> bytes:
    """Return the RFC 3339 time of seconds since the epoch; what is written at once has one time."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z").encode()


def encode_headers(event: Event[Any]) -> list[tuple[str, bytes]]:
    """Return the event's envelope."""
    headers = [
        ("ce_specversion", b"1.0"),
        ("ce_id", event.id.encode()),
        ("ce_type", event.type.encode()),
        ("ce_source", event.source.encode()),
        ("ce_time", encode_time(event.time_s)),
        ("content-type", CONTENT_TYPE),
    ]
    if event.subject:
        headers.append(("ce_subject", event.subject.encode()))
    if event.causation_id:
        headers.append(("ce_causationid", event.causation_id.encode()))
    if event.correlation_id:
        headers.append(("ce_correlationid", event.correlation_id.encode()))
    if event.traceparent:
        headers.append(("traceparent", event.traceparent.encode()))
    return headers


class EnvelopeForm:
    """`encode_headers` for many events of one type and one source, of which many have one time."""

    def __init__(self, record: type[Any], *, source: str) -> None:
        self._type, self._source = ("ce_type", TYPES[record].encode()), ("ce_source", source.encode())
        self._content_type = ("content-type", CONTENT_TYPE)
        self.set_time(0.0)

    def set_time(self, time_s: float) -> None:
        """Give what follows this time, in seconds since the epoch."""
        self._time = ("ce_time", encode_time(time_s))

    def headers(
        self, event_id: str, *, subject: str, cause: bytes, correlation: bytes, trace: bytes
    ) -> list[tuple[str, bytes]]:
        """Return the envelope of an event about something, with a cause; `trace` may be empty."""
        headers = [
            ("ce_specversion", b"1.0"),
            ("ce_id", event_id.encode()),
            self._type,
            self._source,
            self._time,
            self._content_type,
            ("ce_subject", subject.encode()),
            ("ce_causationid", cause),
            ("ce_correlationid", correlation),
        ]
        if trace:
            headers.append(("traceparent", trace))
        return headers


def new_event(
    record: R,
    *,
    id: str,  # noqa: A002 the envelope's own name for it
    key: str,
    source: str,
    subject: str = "",
    cause: Event[Any] | None = None,
    correlation_id: str = "",
    time_s: float | None = None,
) -> Event[R]:
    """Return an event that is yet to be written; trace and correlation come from its cause."""
    return Event(
        id=id,
        type=TYPES[type(record)],
        source=source,
        time_s=time.time() if time_s is None else time_s,
        key=key,
        subject=subject,
        causation_id=cause.id if cause else "",
        correlation_id=correlation_id or (cause.correlation_id if cause else ""),
        traceparent=cause.traceparent if cause else "",
        record=record,
    )


def read_headers(headers: RawHeaders, *, where: Position) -> dict[str, str]:
    """Return the envelope's headers as text. Raises DecodeError where one that must be there is not."""
    found: dict[str, str] = {}
    for name, value in headers:
        if name in found or value is None:
            continue
        try:
            found[name] = value if isinstance(value, str) else value.decode()
        except UnicodeDecodeError as error:
            raise DecodeError(f"{where}: header {name!r} is not UTF-8: {error}") from error
    missing = [name for name in ("ce_id", "ce_type", "ce_source", "ce_time") if not found.get(name)]
    if missing:
        raise DecodeError(f"{where}: no header {', '.join(missing)}; wanted a CloudEvents envelope")
    return found


def decode_record(type_name: str, value: bytes, *, where: Position) -> Any:
    """Return the record that `value` holds. Raises DecodeError."""
    match = TYPE_PATTERN.fullmatch(type_name)
    if match is None or match[1] not in RECORDS:
        raise DecodeError(f"{where}: unknown type {type_name!r}; wanted one of rollog's records")
    name, version = match[1], int(match[2])
    if RECORDS[name] not in get_topic(where.topic).records:
        raise DecodeError(f"{where}: a {name} does not belong on topic {where.topic}")
    try:
        if version == current_version(name):
            return DECODERS[name].decode(value)
        fields = msgpack.unpackb(value)
        if not isinstance(fields, dict):
            raise DecodeError(f"{where}: {type_name}: got {type(fields).__name__}, wanted a map")
        return msgspec.convert(upcast(name, version, fields), RECORDS[name])
    except DecodeError as error:
        raise DecodeError(f"{where}: {error}") from error
    except (msgspec.DecodeError, msgpack.UnpackException, ValueError, RecursionError) as error:
        raise DecodeError(f"{where}: {type_name}: {error}") from error


def decode_time(text: str, *, where: Position) -> float:
    """Return seconds since the epoch of an RFC 3339 time. Raises DecodeError."""
    try:
        moment = datetime.fromisoformat(text)
        return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()
    except (ValueError, OverflowError) as error:
        raise DecodeError(f"{where}: header ce_time {text!r} is no RFC 3339 time") from error


def decode(key: bytes | None, value: bytes | None, headers: RawHeaders | None, *, where: Position) -> Event[Any]:
    """Return the event that stands at `where`. Raises DecodeError for anything that its topic does not promise."""
    envelope = list(headers or ())
    if not key or value is None:
        raise DecodeError(f"{where}: got no {'value' if key else 'key'}; wanted both")
    if len(value) > MAX_RECORD_BYTES:
        raise DecodeError(f"{where}: value of {len(value)} bytes; at most {MAX_RECORD_BYTES} are read")
    found = read_headers(envelope, where=where)
    try:
        key_text = key.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"{where}: key is not UTF-8: {error}") from error
    record = decode_record(found["ce_type"], value, where=where)
    check_key(record, key_text, where=where)
    return Event(
        id=found["ce_id"],
        type=found["ce_type"],
        source=found["ce_source"],
        time_s=decode_time(found["ce_time"], where=where),
        key=key_text,
        subject=found.get("ce_subject", ""),
        causation_id=found.get("ce_causationid", ""),
        correlation_id=found.get("ce_correlationid", ""),
        traceparent=found.get("traceparent", ""),
        record=record,
        position=where,
        num_bytes=len(key) + len(value) + sum(len(n) + len(v or b"") for n, v in envelope),
    )


def check_key(record: object, key: str, *, where: Position) -> None:
    """Raise DecodeError where a task-keyed record has another task's key: its events would not meet."""
    expected = getattr(record, "task_id", key)
    if get_topic(where.topic).by_task and expected != key:
        raise DecodeError(f"{where}: key {key!r}, but the record's task_id is {expected!r}")


def known_types() -> Mapping[str, type[Any]]:
    """Return every CloudEvents type that is written today, with its record."""
    return {TYPES[record]: record for record in TOPIC_OF}
