"""Reads what the fold takes, stretch by stretch: all that stands before given offsets, in one order whoever reads.

What must hold: a stretch is handed out topic by topic in the order of `lean.ORDER`, then by partition and offset. Each
topic has a reader of its own, which goes no further than the stretch needs; what is read beyond it in other partitions
waits in lean form.
"""

import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from consumers.reader import Reader
from producers.blobs import BlobStore
from schemas.config import LogSettings
from schemas.errors import LogError
from streams.curriculum.lean import ADAPTED, FOLDED, ORDER, lean_record

At = tuple[str, int]
OpenReader = Callable[..., Reader]
POLL_S = 0.1
AHEAD_KBYTES, FETCH_BYTES = 4 << 10, 256 << 10
"""Less, and refolding waits for the broker; more, and it takes memory for nothing."""
PATIENCE_S = 60.0
"""Without a record for so long, what was said to be on the log is not."""


def door(log: LogSettings, blob_dir: Path) -> OpenReader:
    """Return what opens a reader of one topic of several, all of which are read from their beginning: little ahead."""
    little = {"queued.max.messages.kbytes": str(AHEAD_KBYTES), "fetch.min.bytes": "1"}
    frugal = msgspec.structs.replace(log, client={**little, **log.client})
    return partial(Reader, frugal, blob_dir=blob_dir, fetch_bytes=FETCH_BYTES)


def topics_of(*, adapts: bool) -> tuple[str, ...]:
    """Return what is folded."""
    return (*FOLDED, ADAPTED) if adapts else FOLDED


def name_of(at: At) -> str:
    """Return how a revision names a partition."""
    return f"{at[0]}[{at[1]}]"


def parse_name(name: str) -> At:
    """Return the partition that a revision names."""
    topic, _, rest = name.partition("[")
    return topic, int(rest.removesuffix("]"))


class Follower:
    """The folded topics of a log, from their beginning."""

    def __init__(self, open_reader: OpenReader, topics: Iterable[str], blobs: BlobStore, *, bounded: bool) -> None:
        """Open them; a bounded one ends where the log ends now. Raises LogError."""
        self._readers = {topic: open_reader([topic], start="beginning", bounded=bounded) for topic in topics}
        self._blobs = blobs
        self.waiting: dict[At, deque[tuple[int, Any]]] = {}
        """Offset and record, of what was read and not handed out."""

    @property
    def positions(self) -> dict[At, int]:
        """Return the next offset to read, by partition."""
        return {at: offset for reader in self._readers.values() for at, offset in reader.positions.items()}

    def poll(self, timeout_s: float = 0.0) -> int:
        """Read what is there; returns how many records that was."""
        return sum(self._poll(topic, timeout_s) for topic in self._readers)

    def stretch(self, ends: Mapping[str, int]) -> Iterable[Any]:
        """Yield all that stands before these ends and was not handed out. Raises LogError where it is not there."""
        wanted = {parse_name(name): end for name, end in ends.items()}
        self._catch_up(wanted)
        for at in sorted(wanted, key=lambda one: (ORDER[one[0]], one[1])):
            records = self.waiting.get(at, deque())
            while records and records[0][0] < wanted[at]:
                yield records.popleft()[1]

    def close(self) -> None:
        """Let go."""
        for reader in self._readers.values():
            reader.close()

    def _poll(self, topic: str, timeout_s: float) -> int:
        raws = self._readers[topic].poll_records(timeout_s=timeout_s)
        for raw in raws:
            record = lean_record(raw, self._blobs)
            if record is not None:
                at = raw.position.topic, raw.position.partition
                self.waiting.setdefault(at, deque()).append((raw.position.offset, record))
        return len(raws)

    def _catch_up(self, wanted: Mapping[At, int]) -> None:
        heard_s = time.monotonic()
        while behind := {at for at, end in wanted.items() if self._position(at) < end}:
            num_read = sum(self._poll(topic, POLL_S) for topic in {topic for topic, _ in behind})
            if num_read:
                heard_s = time.monotonic()
            elif time.monotonic() - heard_s > PATIENCE_S or all(self._readers[topic].at_end for topic, _ in behind):
                missing = ", ".join(f"{name_of(at)} at {self._position(at)} of {wanted[at]}" for at in sorted(behind))
                raise LogError(
                    f"what a mix was folded from is not on the log: {missing}; retention removed it, or a topic was "
                    "made anew; restore it, or set curriculum.enabled = false"
                )

    def _position(self, at: At) -> int:
        reader = self._readers.get(at[0])
        return -1 if reader is None else reader.positions.get(at, -1)
