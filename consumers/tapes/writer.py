"""Writes a tape: partition after partition, each in the order of its offsets.

What must hold: the file has its name only once all of it is on the disk; of what is written no more than one frame is
in memory, but for the index, of which each frame takes some hundred bytes.
"""

import fcntl
import hashlib
import os
from pathlib import Path
from types import TracebackType

import msgspec
import zstandard

from consumers.raw import RawRecord
from consumers.tapes.format import (
    ENCODER,
    END_MAGIC,
    FOOTER,
    FRAME,
    FRAME_BYTES,
    HEAD,
    LEVEL,
    MAGIC,
    MARKER,
    VERSION,
    FrameEntry,
    Index,
    Item,
    Range,
    TapeBlob,
    TapeRecord,
    TapeSkip,
    body_of,
    chain,
    first_digest,
    seal,
    tape_digest,
)
from schemas.errors import ConfigError, TapeError


class TapeWriter:
    """Use it as a context: left by an exception, or before `finish`, it leaves no file."""

    def __init__(self, path: Path, *, frame_bytes: int = FRAME_BYTES) -> None:
        """Open it. Raises ConfigError where the file is there already, or another process writes it."""
        self.path, self._partial = path, path.with_name(f".{path.name}.partial")
        self._frame_bytes = frame_bytes
        if path.exists():
            raise ConfigError(f"{path} is there already; choose another name, or remove it")
        try:
            self._file = self._partial.open("ab")
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error}") from error
        self._own()
        self._digest = first_digest()
        self._frames: list[FrameEntry] = []
        self._ranges: list[Range] = []
        self._blobs: set[str] = set()
        self._compressor = zstandard.ZstdCompressor(level=LEVEL)
        self._times = (0, 0)
        self._open: Range | None = None
        self._next = 0
        self._clear(0)
        self._at = 0
        self._write(HEAD.pack(MAGIC, VERSION))

    def __enter__(self) -> "TapeWriter":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self._file.closed:
            self._partial.unlink(missing_ok=True)
            self._file.close()

    def begin(self, topic: str, partition: int, start: int) -> None:
        """Start a partition at an offset; `end` has to follow before the next."""
        assert self._open is None, f"{self._open} is open"
        assert all((topic, partition) != (known.topic, known.partition) for known in self._ranges)
        self._open, self._next = Range(topic, partition, start, start), start
        self._clear(start)

    def add(self, raw: RawRecord, *, problem: str = "") -> None:
        """Write a record of the partition; offsets before it that were not written are ones that the log has not."""
        where = raw.position
        assert self._open is not None
        assert (where.topic, where.partition) == (self._open.topic, self._open.partition), where
        if where.offset < self._next:
            raise TapeError(f"{self.path}: {where} comes after offset {self._next - 1}; wanted ascending offsets")
        self._skip_to(where.offset)
        item = TapeRecord(
            where.topic, where.partition, where.offset, raw.timestamp_ms, raw.key, raw.value, raw.headers, problem
        )
        self._next = where.offset + 1
        self._times = (
            min(self._times[0], raw.timestamp_ms) if self._num_records else raw.timestamp_ms,
            max(self._times[1], raw.timestamp_ms) if self._num_records else raw.timestamp_ms,
        )
        self._num_records += 1
        self._put(item)

    def add_blob(self, value: bytes) -> None:
        """Write a blob, before the record that refers to it; again is harmless."""
        sha256 = hashlib.sha256(value).hexdigest()
        if sha256 not in self._blobs:
            self._blobs.add(sha256)
            self._write_frame([seal(TapeBlob(sha256, value))], FrameEntry(0, 0, 0, b"", blob=sha256))

    def end(self, end: int) -> None:
        """End the partition before an offset."""
        assert self._open is not None
        self._skip_to(end)
        self._flush()
        self._ranges.append(Range(self._open.topic, self._open.partition, self._open.start, end))
        self._open = None

    def finish(self) -> str:
        """Make the tape durable under its name and return its digest, hexadecimal. Raises TapeError."""
        assert self._open is None, f"{self._open} is open"
        index = ENCODER.encode(Index(self._frames, self._ranges))
        index_digest = hashlib.sha256(index).digest()
        index_at = self._at
        digest = tape_digest(self._digest, index_at, index_digest, len(index))
        self._write(index)
        self._write(FOOTER.pack(index_at, len(index), index_digest, digest, END_MAGIC))
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            self._partial.rename(self.path)
            folder = os.open(self.path.absolute().parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        except OSError as error:
            raise TapeError(f"{self.path} cannot be written: {error}") from error
        self._file.close()
        return digest.hex()

    def _own(self) -> None:
        """Be the only writer. A file that another one finished meanwhile is not truncated."""
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if self.path.exists() or not os.path.samestat(os.fstat(self._file.fileno()), self._partial.stat()):
                raise FileExistsError(self.path)
        except OSError as error:
            self._file.close()
            raise ConfigError(f"{self.path}: another process writes it; choose another name") from error
        self._file.truncate(0)

    @property
    def num_bytes(self) -> int:
        """Return how much was written so far."""
        return self._at

    def _skip_to(self, offset: int) -> None:
        assert self._open is not None
        if offset > self._next:
            start, self._next = self._next, offset
            self._put(TapeSkip(self._open.topic, self._open.partition, start, offset))

    def _put(self, item: Item) -> None:
        sealed = seal(item)
        self._sealed.append(sealed)
        self._size += len(sealed)
        if self._size >= self._frame_bytes:
            self._flush()

    def _flush(self) -> None:
        if not self._sealed:
            return
        assert self._open is not None
        entry = FrameEntry(
            0,
            0,
            0,
            b"",
            topic=self._open.topic,
            partition=self._open.partition,
            offset=self._first,
            end=self._next,
            num_records=self._num_records,
            min_ms=self._times[0],
            max_ms=self._times[1],
        )
        self._write_frame(self._sealed, entry)
        self._clear(self._next)

    def _clear(self, first: int) -> None:
        self._first = first
        self._sealed: list[bytes] = []
        self._size = self._num_records = 0
        self._times = (0, 0)

    def _write_frame(self, sealed: list[bytes], entry: FrameEntry) -> None:
        body = body_of(sealed)
        stored = self._compressor.compress(body)
        self._digest = chain(self._digest, stored, len(body))
        at = self._at
        self._write(FRAME.pack(MARKER, len(stored), len(body), self._digest))
        self._write(stored)
        place = {"at": at, "stored_size": len(stored), "size": len(body), "digest": self._digest}
        self._frames.append(msgspec.structs.replace(entry, **place))

    def _write(self, content: bytes) -> None:
        try:
            self._file.write(content)
        except OSError as error:
            raise TapeError(f"{self.path} cannot be written: {error}") from error
        self._at += len(content)
