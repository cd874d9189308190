"""The only reader without a group: any topics, from a given place, up to their end or for ever.

What must hold: it starts exactly where it is told or fails; events come in the order of their partition; an event that
was written twice is handed out once, as long as the window of remembered ids reaches; nothing aborted is handed out.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol

import msgspec
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition

from consumers.offsets import (
    EARLIEST,
    LATEST,
    At,
    Start,
    offsets_at,
    open_consumer,
    out_of_range,
    partitions_of,
    starts,
    unreachable,
)
from consumers.partitions import partition_of
from consumers.raw import Decoding, OnUndecodable, RawRecord
from producers.blobs import BlobStore
from schemas.config import LogSettings
from schemas.connection import in_catalogue, on_cluster
from schemas.errors import LogError
from schemas.events import Event, Position
from schemas.limits import FETCH_BYTES

__all__ = ["EventReader", "OnUndecodable", "RawRecord", "Reader", "Start", "end_offsets", "partition_of"]
AHEAD_KBYTES, SCAN_FETCH_BYTES = 1 << 10, 64 << 10
"""For what is read in one go: the client would hold more beside the caller. A larger batch comes all the same."""


class EventReader(Protocol):
    """What reads events: `Reader` from a broker, `TapeReader` (consumers/tapes) from a file, to one contract."""

    positions: dict[At, int]
    """Next offset by partition, of what was handed out."""

    @property
    def at_end(self) -> bool:
        """Whether all was handed out that was there at the start; only bounded reading ends."""
        ...

    def poll(self, *, max_events: int = 500, timeout_s: float = 0.1) -> list[Event[Any]]:
        """Return what is there, waiting so long for the first."""
        ...

    def __iter__(self) -> Iterator[Event[Any]]:
        """Yield events until the end, or until `close`."""
        ...

    def records(self) -> Iterator[RawRecord]:
        """Yield records as they stand, repeats and what is no event too, until the end or `close`."""
        ...

    def decode(self, raw: RawRecord) -> Event[Any] | None:
        """Return the event of a record, a repeat too; None for what is none, of which `on_undecodable` hears."""
        ...

    def lag(self) -> dict[str, int]:
        """Return how many offsets were not handed out yet, by topic."""
        ...

    def close(self) -> None:
        """Let go. Harmless when done before."""
        ...


class Reader:
    """Reads events. Not thread-safe, but for `close`, which ends an iteration in another thread."""

    def __init__(
        self,
        log: LogSettings,
        topics: Sequence[str],
        *,
        blob_dir: Path,
        start: Start,
        bounded: bool = False,
        on_undecodable: OnUndecodable | None = None,
        dedupe: int = 65_536,
        headers_only: bool = False,
        fetch_bytes: int = FETCH_BYTES,
    ) -> None:
        """Open it; raises LogError where `start` is not on the log.

        `start` is an end of the topics, a time in seconds since the epoch, or the next offset of every partition to
        read; partitions that it does not name are not read. With `headers_only` events have no record, and values that
        cannot be decoded don't matter. `fetch_bytes` are asked of a partition at once: few where few are wanted.
        """
        self._log = log
        self._decoding = Decoding(
            BlobStore(blob_dir), on_undecodable=on_undecodable, headers_only=headers_only, dedupe=dedupe
        )
        self._is_open = True
        self._buffer: deque[Message] = deque()
        self._consumer = open_consumer(log, **{"fetch.message.max.bytes": fetch_bytes})
        self.positions: dict[At, int] = {}
        """Next offset by partition, of what was handed out."""
        self._ends: dict[At, int] | None = None
        self._open: set[At] = set()
        self._begin(starts(self._consumer, log, topics, start), bounded=bounded)

    def go_to(self, start: Mapping[At, int]) -> None:
        """Read from there on instead, other partitions or the same. Raises LogError where the log does not have it."""
        self._buffer.clear()
        self._consumer.resume(self._consumer.assignment())
        self._begin(starts(self._consumer, self._log, [], start), bounded=self._ends is not None)

    def _begin(self, positions: dict[At, int], *, bounded: bool) -> None:
        log, self.positions = self._log, positions
        self._ends = offsets_at(self._consumer, log, dict.fromkeys(positions, LATEST)) if bounded else None
        self._open = {at for at, end in (self._ends or {}).items() if positions[at] < end}
        wanted = positions if self._ends is None else {at: positions[at] for at in self._open}
        self._consumer.assign([TopicPartition(on_cluster(log, t), p, offset) for (t, p), offset in wanted.items()])

    @property
    def at_end(self) -> bool:
        """Whether all was handed out that was there at the start; only bounded reading ends."""
        return self._ends is not None and not self._open

    def poll(self, *, max_events: int = 500, timeout_s: float = 0.1) -> list[Event[Any]]:
        """Return what is there, waiting so long for the first. Raises LogError, and DecodeError where none takes it."""
        if not self._buffer:
            self._fetch(max_events, timeout_s)
        events: list[Event[Any]] = []
        while self._buffer and len(events) < max_events:
            raw = self._take(self._buffer.popleft())
            event = None if raw is None else self._decoding.new(raw)
            if event is not None:
                events.append(event)
        return events

    def poll_records(self, *, max_records: int = 500, timeout_s: float = 0.1) -> list[RawRecord]:
        """Return what is there as it stands on the log, waiting so long for the first. Raises LogError."""
        if not self._buffer:
            self._fetch(max_records, timeout_s)
        taken = [self._take(self._buffer.popleft()) for _ in range(min(max_records, len(self._buffer)))]
        return [raw for raw in taken if raw is not None]

    def __iter__(self) -> Iterator[Event[Any]]:
        """Yield events until the end, or until `close`. Raises as `poll` does."""
        return self._decoding.events(self.records())

    def records(self) -> Iterator[RawRecord]:
        """Yield records as they stand on the log, repeats and what is no event too, until the end or `close`.

        Raises LogError.
        """
        while self._is_open and not self.at_end:
            if not self._buffer:
                self._fetch(500, 0.1)
            while self._buffer and self._is_open:
                raw = self._take(self._buffer.popleft())
                if raw is not None:
                    yield raw

    def decode(self, raw: RawRecord) -> Event[Any] | None:
        """Return the event of a record; None for what is none, of which `on_undecodable` hears. Raises DecodeError."""
        return self._decoding.decode(raw)

    def lag(self) -> dict[str, int]:
        """Return how many offsets were not handed out yet, by topic, as far as the client knows."""
        lags: dict[str, int] = {}
        for (topic, partition), position in self.positions.items():
            at = TopicPartition(on_cluster(self._log, topic), partition)
            _, end = self._consumer.get_watermark_offsets(at, cached=True)
            lags[topic] = lags.get(topic, 0) + max(0, end - position)
        return lags

    def close(self) -> None:
        """Let go. Harmless when done before."""
        if self._is_open:
            self._is_open = False
            self._consumer.close()

    def _fetch(self, max_events: int, timeout_s: float) -> None:
        try:
            first = self._consumer.poll(timeout_s)
            if first is not None:
                self._buffer.append(first)
                # A batch call waits its time out even where there is something: so only what is at hand.
                self._buffer.extend(self._consumer.consume(max_events, 0))
        except KafkaException as error:
            raise unreachable(self._log, error) from error
        except RuntimeError:
            if self._is_open:
                raise

    def _take(self, message: Message) -> RawRecord | None:
        """Return the message's record; None for what is no record or is beyond the end."""
        error = message.error()
        at = (in_catalogue(self._log, str(message.topic())), int(message.partition() or 0))
        if error is not None:
            self._take_error(error, at, message)
            return None
        offset = int(message.offset() or 0)
        if self._ends is not None and offset >= self._ends.get(at, 0):
            self._reach(at, offset)
            return None
        self._reach(at, offset + 1)
        return raw_record(message, Position(*at, offset))

    def _take_error(self, error: KafkaError, at: At, message: Message) -> None:
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # Transaction markers have offsets too: only the broker knows that nothing follows.
            self._reach(at, int(message.offset() or 0))
            if at in self._open:
                self._open.discard(at)
        elif code == KafkaError._AUTO_OFFSET_RESET:
            raise out_of_range(Position(*at, self.positions.get(at, -1)), error.str())
        elif error.fatal() or not error.retriable():
            raise LogError(f"{at[0]}[{at[1]}]: {error.str()} ({error.name()})")

    def _reach(self, at: At, position: int) -> None:
        """Note the next offset to hand out, and whether that is the end."""
        if self._ends is not None:
            position = min(position, self._ends.get(at, position))  # what came later was not handed out
        self.positions[at] = max(self.positions.get(at, 0), position)
        if self._ends is not None and at in self._open and position >= self._ends[at]:
            self._open.discard(at)
            self._consumer.pause([TopicPartition(on_cluster(self._log, at[0]), at[1])])


def records_between(
    log: LogSettings, at: At, span: tuple[int, int], *, blob_dir: Path
) -> Generator[RawRecord, None, None]:
    """Yield a partition's records from an offset to before another, as they stand on the log. Raises LogError."""
    with closing(Stretches(log, blob_dir=blob_dir)) as stretches:
        yield from stretches.records(at, span)


class Stretches:
    """One stretch of the log after the other, through one client: opening one for each costs time and memory."""

    def __init__(self, log: LogSettings, *, blob_dir: Path) -> None:
        self._open = scanner(log, blob_dir=blob_dir)
        self._reader: Reader | None = None

    def records(self, at: At, span: tuple[int, int]) -> Iterator[RawRecord]:
        """Yield a partition's records from an offset to before another, as they stand. Raises LogError."""
        start, end = span
        if start >= end:
            return
        if self._reader is None:
            self._reader = self._open([at[0]], start={at: start}, bounded=True)
        else:
            self._reader.go_to({at: start})
        yield from takewhile(lambda raw: raw.position.offset < end, self._reader.records())

    def close(self) -> None:
        """Let go."""
        if self._reader is not None:
            self._reader.close()


def scanner(log: LogSettings, *, blob_dir: Path) -> Callable[..., Reader]:
    """Return `Reader` for much of the log in one go: what is read ahead is little, whatever there is."""
    little = {"queued.max.messages.kbytes": str(AHEAD_KBYTES), "fetch.min.bytes": "1"}
    frugal = msgspec.structs.replace(log, client={**little, **log.client})
    return partial(Reader, frugal, blob_dir=blob_dir, fetch_bytes=SCAN_FETCH_BYTES)


def whole_partition(log: LogSettings, at: At, *, blob_dir: Path, **options: Any) -> Reader:
    """Return a bounded reader of one partition from its first record on. Raises LogError."""
    with closing(open_consumer(log)) as consumer:
        first = offsets_at(consumer, log, {at: EARLIEST})
    return scanner(log, blob_dir=blob_dir)([at[0]], start=first, bounded=True, **options)


def raw_record(message: Message, position: Position) -> RawRecord:
    """Return a client's message as a raw record."""
    headers = [(name, value.encode() if isinstance(value, str) else value) for name, value in message.headers() or ()]
    return RawRecord(
        position=position,
        key=as_bytes(message.key()),
        value=as_bytes(message.value()),
        headers=headers,
        timestamp_ms=message.timestamp()[1],
    )


def as_bytes(content: str | bytes | None) -> bytes | None:
    """Return the client's bytes, which its types call text or bytes."""
    return content.encode() if isinstance(content, str) else content


def end_offsets(log: LogSettings, topics: Sequence[str]) -> dict[At, int]:
    """Return one past the last committed record of every partition. Raises LogError."""
    consumer = open_consumer(log)
    try:
        return offsets_at(consumer, log, dict.fromkeys(partitions_of(consumer, log, topics), LATEST))
    finally:
        consumer.close()
