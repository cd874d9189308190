"""From the log to a tape: a piece of any topics, partition after partition, and the blobs that it refers to.

What must hold: the ends are captured before anything is read; what the tape says it has of a partition it has, but for
what the broker does not hand out.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path

import msgspec

from consumers.offsets import At, Start, spans
from consumers.raw import RawRecord, claim_of, to_event
from consumers.reader import Stretches
from consumers.tapes.writer import TapeWriter
from producers.blobs import BlobStore
from schemas.config import LogSettings
from schemas.deadletters import DeadLetter
from schemas.errors import DecodeError
from schemas.events import Position

OnProgress = Callable[[int, int], None]
"""Hears of offsets done and offsets in all."""
NUM_NAMED = 20
PROGRESS_EVERY = 1_000


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """What was written."""

    file: str
    digest: str
    """Of the whole tape: to keep elsewhere, since it tells this tape from any other."""
    num_bytes: int
    num_records: int
    num_undecodable: int
    undecodable: tuple[str, ...]
    """Why, of the first few. They are on the tape byte for byte all the same."""
    spans: dict[str, tuple[int, int]]
    """First offset and one past the last, by `topic[partition]`."""


class Exporter:
    """One export."""

    def __init__(self, log: LogSettings, writer: TapeWriter, *, blob_dir: Path, on_progress: OnProgress) -> None:
        self._writer, self._on_progress = writer, on_progress
        self._stretches = Stretches(log, blob_dir=blob_dir)
        self._blobs = BlobStore(blob_dir)
        self.num_records = self.num_undecodable = 0
        self.undecodable: list[str] = []

    def run(self, pieces: Mapping[At, tuple[int, int]]) -> None:
        """Write all pieces. Raises LogError, TapeError."""
        num_offsets, num_done = sum(end - start for start, end in pieces.values()), 0
        with closing(self._stretches):
            for (topic, partition), (start, end) in pieces.items():
                self._writer.begin(topic, partition, start)
                self._partition((topic, partition), start, end, partial(self._tell, num_done - start, num_offsets))
                self._writer.end(end)
                num_done += end - start
        self._on_progress(num_done, num_offsets)

    def _tell(self, base: int, of: int, offset: int) -> None:
        if offset % PROGRESS_EVERY == 0:
            self._on_progress(base + offset, of)

    def _partition(self, at: At, start: int, end: int, tell: Callable[[int], None]) -> None:
        for raw in self._stretches.records(at, (start, end)):
            problem = self._prepare(raw)
            self._writer.add(raw, problem=problem)
            self.num_records += 1
            tell(raw.position.offset)

    def _prepare(self, raw: RawRecord) -> str:
        """Put the record's blobs on the tape; returns why it cannot be decoded, empty where it can."""
        try:
            event = to_event(raw, self._blobs)
            self._take_blob(raw)
            if isinstance(event.record, DeadLetter):
                self._take_blob(inner(event.record, raw))
        except DecodeError as error:
            self.num_undecodable += 1
            if len(self.undecodable) < NUM_NAMED:
                self.undecodable.append(str(error))
            return str(error)
        return ""

    def _take_blob(self, raw: RawRecord) -> None:
        claim = claim_of(raw)
        if claim is not None:
            self._writer.add_blob(self._blobs.get(claim))


def inner(letter: DeadLetter, raw: RawRecord) -> RawRecord:
    """Return the record that a dead letter holds."""
    return RawRecord(
        position=Position(letter.topic, letter.partition, letter.offset),
        key=letter.key,
        value=letter.value,
        headers=list(letter.headers),
        timestamp_ms=raw.timestamp_ms,
    )


def export(
    log: LogSettings,
    path: Path,
    topics: Sequence[str],
    *,
    blob_dir: Path,
    since: Start = "beginning",
    until_s: float | None = None,
    on_progress: OnProgress = lambda done, of: None,
) -> Export:
    """Write a piece of the log to a tape. Raises ConfigError where the file is there, LogError, TapeError."""
    pieces = spans(log, topics, since=since, until_s=until_s)
    return export_pieces(log, path, pieces, blob_dir=blob_dir, on_progress=on_progress)


def export_pieces(
    log: LogSettings,
    path: Path,
    pieces: Mapping[At, tuple[int, int]],
    *,
    blob_dir: Path,
    on_progress: OnProgress = lambda done, of: None,
) -> Export:
    """Write pieces of partitions to a tape, from an offset to before another. Raises as `export` does."""
    with TapeWriter(path) as writer:
        exporter = Exporter(log, writer, blob_dir=blob_dir, on_progress=on_progress)
        exporter.run(pieces)
        digest = writer.finish()
    return Export(
        file=str(path),
        digest=digest,
        num_bytes=path.stat().st_size,
        num_records=exporter.num_records,
        num_undecodable=exporter.num_undecodable,
        undecodable=tuple(exporter.undecodable),
        spans={f"{topic}[{partition}]": span for (topic, partition), span in pieces.items()},
    )
