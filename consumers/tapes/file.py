"""A tape that is there: its index, any frame and any blob of it by a few reads. Reads only; safe in several threads.

What must hold: nothing is handed out whose digest is not that of the index, and no index whose digest is not that of
the footer.
"""

import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from consumers.offsets import At
from consumers.tapes.format import (
    END_MAGIC,
    FOOTER,
    FRAME,
    HEAD,
    INDEX,
    MAGIC,
    MARKER,
    MAX_FRAME_BYTES,
    MAX_INDEX_BYTES,
    VERSION,
    FrameEntry,
    Index,
    Item,
    TapeBlob,
    TapeRecord,
    chain,
    damaged,
    first_digest,
    open_seal,
    tape_digest,
    unpack_body,
)
from producers.blobs import ClaimCheck
from schemas.errors import DecodeError, TapeError


class TapeFile:
    """One tape. `get` makes it a source of blobs."""

    def __init__(self, path: Path) -> None:
        """Open it and read its index. Raises TapeError where it is no tape, or its ends are damaged."""
        self.path = path
        try:
            self._descriptor = os.open(path, os.O_RDONLY)
        except OSError as error:
            raise TapeError(f"{path} cannot be read: {error}") from error
        try:
            self.num_bytes = os.fstat(self._descriptor).st_size
            check_head(path, self.read(0, min(HEAD.size, self.num_bytes)))
            self.index, self.digest = self._read_index()
        except BaseException:
            self.close()
            raise
        self.ranges: dict[At, tuple[int, int]] = {(r.topic, r.partition): (r.start, r.end) for r in self.index.ranges}
        """First offset and one past the last, by partition."""
        self._blobs = {entry.blob: number for number, entry in enumerate(self.index.frames) if entry.blob}
        self._frames: dict[At, list[int]] = {at: [] for at in self.ranges}
        for number, entry in enumerate(self.index.frames):
            if not entry.blob:
                self._frames.setdefault((entry.topic, entry.partition), []).append(number)

    @property
    def topics(self) -> dict[str, int]:
        """Return the number of partitions by topic."""
        counts: dict[str, int] = {}
        for topic, partition in self.ranges:
            counts[topic] = max(counts.get(topic, 0), partition + 1)
        return counts

    def frames_of(self, at: At, offset: int) -> list[int]:
        """Return the numbers of a partition's frames from that which covers an offset."""
        return [number for number in self._frames[at] if self.index.frames[number].end > offset]

    def items(self, number: int) -> list[Item]:
        """Return what a frame holds. Raises TapeError where it is damaged."""
        entry = self.index.frames[number]
        stored = self.stored(number, entry)
        previous = self.index.frames[number - 1].digest if number else first_digest()
        if chain(previous, stored, entry.size) != entry.digest:
            raise self._bad(number, "its bytes do not have its digest")
        try:
            return [open_seal(sealed) for sealed in unpack_body(stored, entry.size)]
        except ValueError as error:
            raise self._bad(number, str(error)) from error

    def records(self, at: At, offset: int) -> Iterator[TapeRecord]:
        """Yield a partition's records from an offset on. Raises TapeError."""
        for number in self.frames_of(at, offset):
            for item in self.items(number):
                if isinstance(item, TapeRecord) and item.offset >= offset:
                    yield item

    def first_since(self, at: At, time_ms: int) -> int:
        """Return the first offset whose record is not older; one past the last where none is. Raises TapeError."""
        for number in self._frames[at]:
            entry = self.index.frames[number]
            if not entry.num_records or entry.max_ms < time_ms:
                continue
            for item in self.items(number):
                if isinstance(item, TapeRecord) and item.timestamp_ms >= time_ms:
                    return item.offset
        return self.ranges[at][1]

    def get(self, claim: ClaimCheck) -> bytes:
        """Return the value of a claim check. Raises DecodeError where the tape has none, TapeError where damaged."""
        number = self._blobs.get(claim.sha256)
        if number is None:
            raise DecodeError(f"blob {claim.reference} is not on {self.path}: it was missing when the tape was made")
        blob = next((item for item in self.items(number) if isinstance(item, TapeBlob)), None)
        if blob is None or hashlib.sha256(blob.value).hexdigest() != claim.sha256:
            raise self._bad(number, "its blob does not have its digest")
        if len(blob.value) != claim.size:
            raise DecodeError(f"blob {claim.reference} has {len(blob.value)} bytes, its claim check says {claim.size}")
        return blob.value

    def blobs(self) -> Iterator[bytes]:
        """Yield every blob. Raises TapeError."""
        for number in self._blobs.values():
            yield from (item.value for item in self.items(number) if isinstance(item, TapeBlob))

    def stored(self, number: int, entry: FrameEntry) -> bytes:
        """Return a frame's bytes as they lie, once its head is as the index says. Raises TapeError."""
        head = self.read(entry.at, FRAME.size)
        if head != FRAME.pack(MARKER, entry.stored_size, entry.size, entry.digest):
            raise self._bad(number, "its head is not as the index says")
        return self.read(entry.at + FRAME.size, entry.stored_size)

    def read(self, at: int, size: int) -> bytes:
        """Return bytes of the file. Raises TapeError where it ends before."""
        try:
            content = b""
            while len(content) < size and (more := os.pread(self._descriptor, size - len(content), at + len(content))):
                content += more
        except OSError as error:
            raise TapeError(f"{self.path}: byte {at}: cannot be read: {error}") from error
        if len(content) < size:
            raise damaged(self.path, f"the file ends here; wanted {size} bytes from {at}", at=at + len(content))
        return content

    def close(self) -> None:
        """Let go. Harmless when done before."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _read_index(self) -> tuple[Index, str]:
        footer_at = self.num_bytes - FOOTER.size
        if footer_at < HEAD.size:
            raise damaged(self.path, "the file ends here; a tape has a footer", at=self.num_bytes)
        index_at, size, index_digest, digest, magic = FOOTER.unpack(self.read(footer_at, FOOTER.size))
        if magic != END_MAGIC or index_at + size != footer_at or size > MAX_INDEX_BYTES:
            raise damaged(self.path, "footer: the file does not end as a tape; cut short or added to", at=footer_at)
        content = self.read(index_at, size)
        if hashlib.sha256(content).digest() != index_digest:
            raise damaged(self.path, f"index of {size} bytes does not have the digest in the footer", at=index_at)
        try:
            index = INDEX.decode(content)
        except msgspec.DecodeError as error:
            raise damaged(self.path, f"index: {error}", at=index_at) from error
        for number, entry in enumerate(index.frames):
            # Before anything is read or asked of memory by what it says.
            fits = HEAD.size <= entry.at <= entry.at + FRAME.size + entry.stored_size <= index_at
            if not (fits and 0 <= entry.stored_size <= MAX_FRAME_BYTES and 0 <= entry.size <= MAX_FRAME_BYTES):
                raise damaged(self.path, f"index: frame {number} cannot be where it says, or so large", at=index_at)
        last = index.frames[-1].digest if index.frames else first_digest()
        if tape_digest(last, index_at, index_digest, size) != digest:
            raise damaged(self.path, "footer: its digest is not that of frames and index", at=footer_at)
        return index, digest.hex()

    def _bad(self, number: int, what: str) -> TapeError:
        entry = self.index.frames[number]
        return damaged(self.path, f"{entry.covers}: {what}", at=entry.at, frame=number)


def check_head(path: Path, head: bytes) -> None:
    """Raise TapeError for a file that is no tape, or one of another format version."""
    if len(head) < HEAD.size or head[: len(MAGIC)] != MAGIC:
        raise TapeError(f"{path}: byte 0: no tape: it starts with {head[: len(MAGIC)]!r}, wanted {MAGIC!r}")
    _, version = HEAD.unpack(head)
    if version != VERSION:
        raise TapeError(
            f"{path}: byte {len(MAGIC)}: a tape of format {version}; this rollog reads {VERSION}", at=len(MAGIC)
        )
