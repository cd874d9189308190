"""What a tape is, byte by byte: the one place that knows.

    head    magic, format version
    frame   marker, stored size, size, digest; then a zstandard frame around a MessagePack array of [item, crc32]
    ...
    index   MessagePack: every frame, every range of a partition
    footer  where the index is, its digest, the tape's digest, magic

An item is a record as the broker gave it, a run of offsets at which the log has none, or a blob that records refer to.
A frame holds items of one partition, in the order of their offsets, or one blob, which stands before what refers to it.
What must hold: a frame's digest is over the one before it, its sizes and its bytes, so that no frame can be changed,
left out or moved alone; the tape's digest is over the last of them and all of the index and footer.
"""

import hashlib
import struct
import zlib
from pathlib import Path

import msgspec
import zstandard

from consumers.raw import Headers, RawRecord
from producers.blobs import MAX_BLOB_BYTES
from schemas.errors import TapeError
from schemas.events import Position

MAGIC, END_MAGIC = b"\x93RLGTAPE", b"EPATGLR\x93"
VERSION = 1
HEAD = struct.Struct("<8sI")
MARKER = b"FRAM"
FRAME = struct.Struct("<4sII32s")
FOOTER = struct.Struct("<QI32s32s8s")
FRAME_BYTES = 256 << 10
"""A frame is closed once it holds that much, uncompressed: so it is this and one record at most."""
MAX_FRAME_BYTES = MAX_BLOB_BYTES + (1 << 20)
"""No tape may ask a reader for more memory than this."""
MAX_INDEX_BYTES = 1 << 30
LEVEL = 3
ARRAY = struct.Struct(">BI")


class TapeRecord(msgspec.Struct, frozen=True, array_like=True, tag="record"):
    """One record of the log."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: Headers
    problem: str = ""
    """Why it could not be decoded when the tape was made; empty where it could."""

    def raw(self) -> RawRecord:
        """Return it as the broker gave it."""
        return RawRecord(
            position=Position(self.topic, self.partition, self.offset),
            key=self.key,
            value=self.value,
            headers=self.headers,
            timestamp_ms=self.timestamp_ms,
        )


class TapeSkip(msgspec.Struct, frozen=True, array_like=True, tag="skip"):
    """Offsets at which the broker had nothing to hand out: marks of transactions, and what was aborted or compacted."""

    topic: str
    partition: int
    offset: int
    end: int
    """One past the last."""


class TapeBlob(msgspec.Struct, frozen=True, array_like=True, tag="blob"):
    """A value that is too large for the log."""

    sha256: str
    value: bytes


Item = TapeRecord | TapeSkip | TapeBlob


class Sealed(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """An item's bytes and their crc32, by which an edited record can be told from its neighbours."""

    item: msgspec.Raw
    check: int


class FrameEntry(msgspec.Struct, frozen=True, array_like=True):
    """One frame in the index."""

    at: int
    """Byte in the file at which it starts."""
    stored_size: int
    size: int
    digest: bytes
    topic: str = ""
    partition: int = 0
    offset: int = 0
    """First that it covers."""
    end: int = 0
    """One past the last."""
    num_records: int = 0
    min_ms: int = 0
    max_ms: int = 0
    """Times of its records; both 0 where it has none."""
    blob: str = ""
    """sha256 of its blob; empty in a frame of records."""

    @property
    def covers(self) -> str:
        """Return what it holds, for messages."""
        if self.blob:
            return f"blob sha256:{self.blob}"
        return f"{self.topic}[{self.partition}]@{self.offset}..{self.end - 1}"


class Range(msgspec.Struct, frozen=True, array_like=True):
    """All that a tape has of one partition: every offset from `start` to before `end`."""

    topic: str
    partition: int
    start: int
    end: int


class Index(msgspec.Struct, frozen=True, array_like=True):
    """The end of a tape."""

    frames: list[FrameEntry]
    ranges: list[Range]


ENCODER = msgspec.msgpack.Encoder()
BODY = msgspec.msgpack.Decoder(list[Sealed])
ITEM: msgspec.msgpack.Decoder[Item] = msgspec.msgpack.Decoder(Item)
INDEX = msgspec.msgpack.Decoder(Index)


def seal(item: Item) -> bytes:
    """Return an item as it stands in a frame."""
    content = ENCODER.encode(item)
    return b"\x92" + content + ENCODER.encode(zlib.crc32(content))


def body_of(sealed: list[bytes]) -> bytes:
    """Return the MessagePack array of sealed items."""
    return ARRAY.pack(0xDD, len(sealed)) + b"".join(sealed)


def chain(previous: bytes, stored: bytes, size: int) -> bytes:
    """Return a frame's digest: sha256 over the digest before it, its sizes and its bytes."""
    return hashlib.sha256(previous + struct.pack("<II", len(stored), size) + stored).digest()


def tape_digest(last: bytes, index_at: int, index_digest: bytes, index_size: int) -> bytes:
    """Return the digest of a whole tape; equal only where every byte is."""
    return hashlib.sha256(last + struct.pack("<QI", index_at, index_size) + index_digest).digest()


def first_digest() -> bytes:
    """Return what the first frame's digest is chained to: the head."""
    return hashlib.sha256(HEAD.pack(MAGIC, VERSION)).digest()


def unpack_body(stored: bytes, size: int) -> list[Sealed]:
    """Return the sealed items of a frame's bytes. Raises ValueError."""
    try:
        # Before it is unpacked: the library asks for as much memory as this says.
        if zstandard.frame_content_size(stored) != size:
            raise ValueError(f"holds {zstandard.frame_content_size(stored)} bytes; its head says {size}")
        body = zstandard.ZstdDecompressor().decompress(stored)
    except zstandard.ZstdError as error:
        raise ValueError(f"cannot be decompressed: {error}") from error
    try:
        return BODY.decode(body)
    except msgspec.DecodeError as error:
        raise ValueError(f"is no array of items: {error}") from error


def open_seal(sealed: Sealed) -> Item:
    """Return the item. Raises ValueError where it is not what was sealed."""
    content = bytes(sealed.item)
    try:
        item = ITEM.decode(content)
    except msgspec.DecodeError as error:
        raise ValueError(f"is no item of a tape: {error}") from error
    if zlib.crc32(content) != sealed.check:
        raise ValueError(f"{name_of(item)}: its crc32 is {zlib.crc32(content):08x}, sealed as {sealed.check:08x}")
    return item


def name_of(item: Item) -> str:
    """Return where an item stands on the log."""
    if isinstance(item, TapeBlob):
        return f"blob sha256:{item.sha256}"
    return str(Position(item.topic, item.partition, item.offset))


def damaged(path: Path, what: str, *, at: int, frame: int | None = None) -> TapeError:
    """Return what to tell of a tape that is not what was written."""
    place = f"byte {at}" if frame is None else f"frame {frame} at byte {at}"
    return TapeError(f"{path}: {place}: {what}; take another copy, or export it again", at=at)
