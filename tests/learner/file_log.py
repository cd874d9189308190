"""A log in files, with the publisher's and the reader's methods: what one process wrote, the next one reads."""

import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from schemas.codec import TOPIC_OF, decode_record, encode_value, new_event
from schemas.errors import DecodeError, LogError
from schemas.events import Event, Position


class Line(msgspec.Struct):
    id: str
    type: str
    source: str
    time_s: float
    key: str
    value: bytes
    causation_id: str


def append(folder: Path, topic: str, event: Event[Any], *, partition: int = 0) -> Event[Any]:
    line = msgspec.msgpack.encode(
        Line(
            event.id, event.type, event.source, event.time_s, event.key, encode_value(event.record), event.causation_id
        )
    )
    folder.mkdir(parents=True, exist_ok=True)
    offset = sum(1 for _ in lines(folder, topic, partition))
    with (folder / f"{topic}-{partition}").open("ab", buffering=0) as file:
        file.write(struct.pack("<I", len(line)) + line)
        os.fsync(file.fileno())
    return msgspec.structs.replace(event, position=Position(topic, partition, offset))


def lines(folder: Path, topic: str, partition: int) -> Iterator[Line]:
    path = folder / f"{topic}-{partition}"
    content = path.read_bytes() if path.exists() else b""
    start = 0
    while start < len(content):
        (size,) = struct.unpack_from("<I", content, start)
        yield msgspec.msgpack.decode(content[start + 4 : start + 4 + size], type=Line)
        start += 4 + size


def read_all(folder: Path, topic: str, num_partitions: int = 2) -> list[Event[Any]]:
    return [event for partition in range(num_partitions) for event in read_partition(folder, topic, partition)]


def read_partition(folder: Path, topic: str, partition: int) -> list[Event[Any]]:
    return [
        Event(
            id=line.id,
            type=line.type,
            source=line.source,
            time_s=line.time_s,
            key=line.key,
            causation_id=line.causation_id,
            record=decode_record(line.type, line.value, where=Position(topic, partition, offset)),
            position=Position(topic, partition, offset),
        )
        for offset, line in enumerate(lines(folder, topic, partition))
    ]


class FilePublisher:
    """Writes to partition 0; `on_written` hears of every event once it is durable."""

    def __init__(self, folder: Path, on_written: Callable[[Event[Any]], None] = lambda event: None) -> None:
        self.folder, self.on_written = folder, on_written

    def event(self, record: Any, **fields: Any) -> Event[Any]:
        return new_event(record, source="rollog/test", **fields)

    def send_all(self, events: Iterable[Event[Any]]) -> list[Event[Any]]:
        written = []
        for event in events:
            written.append(append(self.folder, TOPIC_OF[type(event.record)], event))
            self.on_written(event)
        return written


class FileReader:
    """Partitions in turn, one event of each, so that the order of arrival is the same every time."""

    def __init__(
        self,
        folder: Path,
        topics: Sequence[str],
        *,
        start: str | Mapping[tuple[str, int], int],
        bounded: bool = False,
        on_undecodable: Callable[[Any, DecodeError], None] | None = None,
        dedupe: int = 65536,
        num_partitions: int = 2,
    ) -> None:
        self.folder = folder
        self.positions: dict[tuple[str, int], int] = {}
        for topic in topics:
            for partition in range(num_partitions):
                if start == "beginning":
                    self.positions[topic, partition] = 0
                elif not isinstance(start, str) and (topic, partition) in start:
                    self.positions[topic, partition] = start[topic, partition]

    def __iter__(self) -> Iterator[Event[Any]]:
        return iter(self.poll(max_events=1 << 30))

    def poll(self, *, max_events: int = 500, timeout_s: float = 0.0) -> list[Event[Any]]:
        polled: list[Event[Any]] = []
        fresh = {at: read_partition(self.folder, *at)[offset:] for at, offset in self.positions.items()}
        while any(fresh.values()) and len(polled) < max_events:
            for at, events in fresh.items():
                if events:
                    polled.append(events.pop(0))
                    self.positions[at] += 1
        return polled

    def lag(self) -> dict[str, int]:
        return {}

    def close(self) -> None:
        if not self.folder.exists():
            raise LogError(f"{self.folder} is gone")
