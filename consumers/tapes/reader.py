"""Reads the events of a tape to the contract of `consumers.reader.Reader`, with no broker and no blob folder.

What must hold: what `Reader` promises of order, positions, repeats and what is no event. Across partitions events come
by their time, so that a tape plays as it was recorded.
"""

import heapq
import threading
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from consumers.offsets import At, Start
from consumers.raw import Decoding, OnUndecodable, RawRecord
from consumers.tapes.file import TapeFile
from consumers.tapes.format import TapeRecord
from schemas.errors import LogError, TapeError
from schemas.events import Event, Position

Head = tuple[int, int, TapeRecord, At, Iterator[TapeRecord]]
"""A partition's next record: time, order among equals, record, partition, and what follows."""


class TapeReader:
    """Reads events of one tape. Not thread-safe, but for `close`, which ends an iteration in another thread."""

    def __init__(
        self,
        path: Path,
        topics: Sequence[str],
        *,
        start: Start,
        bounded: bool = False,
        on_undecodable: OnUndecodable | None = None,
        dedupe: int = 65_536,
        headers_only: bool = False,
    ) -> None:
        """Open it; arguments as `Reader`'s. Raises LogError where `start` is not on the tape, TapeError if damaged."""
        self._tape = TapeFile(path)
        self._decoding = Decoding(self._tape, on_undecodable=on_undecodable, headers_only=headers_only, dedupe=dedupe)
        self._bounded = bounded
        self._closed = threading.Event()
        try:
            self.positions: dict[At, int] = starts(self._tape, topics, start)
            """Next offset by partition, of what was handed out."""
            self._ends = {at: self._tape.ranges[at][1] for at in self.positions}
            self._heads: list[Head] = []
            self._failure: TapeError | None = None
            for order, (at, offset) in enumerate(self.positions.items()):
                self._push(order, at, self._tape.records(at, offset))
        except BaseException:
            self._tape.close()
            raise

    @property
    def at_end(self) -> bool:
        """Whether all was handed out; only bounded reading ends."""
        return self._bounded and not self._heads

    def poll(self, *, max_events: int = 500, timeout_s: float = 0.1) -> list[Event[Any]]:
        """Return what is there; waits where nothing is left. Raises TapeError, and DecodeError where none takes it."""
        events: list[Event[Any]] = []
        while self._heads and len(events) < max_events and not self._closed.is_set():
            event = self._decoding.new(self._pop())
            if event is not None:
                events.append(event)
        if not events and not self.at_end:
            self._closed.wait(timeout_s)
        return events

    def __iter__(self) -> Iterator[Event[Any]]:
        """Yield events until the end, or until `close`. Raises as `poll` does."""
        return self._decoding.events(self.records())

    def records(self) -> Iterator[RawRecord]:
        """Yield records as they stood on the log, repeats and what is no event too. Raises TapeError."""
        while self._heads and not self._closed.is_set():
            yield self._pop()
        if not self._bounded:
            self._closed.wait()

    def decode(self, raw: RawRecord) -> Event[Any] | None:
        """Return the event of a record; None for what is none, of which `on_undecodable` hears. Raises DecodeError."""
        return self._decoding.decode(raw)

    def lag(self) -> dict[str, int]:
        """Return how many offsets were not handed out yet, by topic."""
        lags: dict[str, int] = {}
        for (topic, partition), position in self.positions.items():
            lags[topic] = lags.get(topic, 0) + max(0, self._ends[topic, partition] - position)
        return lags

    def close(self) -> None:
        """Let go. Harmless when done before."""
        self._closed.set()
        self._tape.close()

    def _pop(self) -> RawRecord:
        if self._failure is not None:
            raise self._failure
        _, order, record, at, following = self._heads[0]
        try:
            head = next(following, None)
        except TapeError as error:
            self._failure = error
            raise
        heapq.heappop(self._heads)
        self.positions[at] = self._ends[at] if head is None else record.offset + 1
        if head is not None:
            heapq.heappush(self._heads, (head.timestamp_ms, order, head, at, following))
        return record.raw()

    def _push(self, order: int, at: At, following: Iterator[TapeRecord]) -> None:
        head = next(following, None)
        if head is None:
            self.positions[at] = self._ends[at]
        else:
            heapq.heappush(self._heads, (head.timestamp_ms, order, head, at, following))


def starts(tape: TapeFile, topics: Sequence[str], start: Start) -> dict[At, int]:
    """Return the first offset to read, by partition. Raises LogError for a position that the tape does not have."""
    if isinstance(start, Mapping):
        for at, offset in start.items():
            first, end = tape.ranges.get(at, (0, -1))
            if not first <= offset <= end:
                has = f"it has {first} to {end}" if at in tape.ranges else "it has nothing of that partition"
                raise LogError(f"{Position(*at, offset)} is not on the tape {tape.path}: {has}; export a longer piece")
        return dict(start)
    missing = [topic for topic in topics if topic not in tape.topics]
    if missing:
        raise LogError(f"topic {', '.join(missing)} is not on the tape {tape.path}; it has {', '.join(tape.topics)}")
    found: dict[At, int] = {}
    for topic in topics:
        for at, (first, end) in tape.ranges.items():
            if at[0] == topic:
                found[at] = (
                    {"beginning": first, "end": end}[start] if isinstance(start, str) else since(tape, at, start)
                )
    return found


def since(tape: TapeFile, at: At, start_s: float) -> int:
    """Return the first offset of a partition that is not older than a time."""
    return tape.first_since(at, int(start_s * 1000))
