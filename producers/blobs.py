"""Values that are too large for the log: zstandard files in a folder, named by the digest of what they hold.

What must hold: a blob is durable before the event that refers to it is written; a blob never changes, so writing it
twice is harmless; what is read is what the claim check says, byte for byte.
"""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import Protocol

import msgspec
import zstandard

from schemas.errors import DecodeError
from schemas.limits import MAX_RECORD_BYTES

DATAREF = "ce_dataref"
"""Header of an event whose value is a claim check."""
CODEC = "zstd"
LEVEL = 3
MAX_BLOB_BYTES = 32 * MAX_RECORD_BYTES
"""No claim check may ask a reader for more memory than this."""


class ClaimCheck(msgspec.Struct, frozen=True, kw_only=True):
    """What travels on the log in a value's place."""

    sha256: str
    """Hex digest of the value, uncompressed."""
    size: int
    """Bytes of the value, uncompressed."""
    codec: str = CODEC

    @property
    def reference(self) -> str:
        """Return it as the header `ce_dataref` has it."""
        return f"sha256:{self.sha256}"


class Blobs(Protocol):
    """Where the values of claim checks come from: a folder, or a tape."""

    def get(self, claim: ClaimCheck) -> bytes:
        """Return the value. Raises DecodeError where it is not there or not what it should be."""
        ...


class BlobStore:
    """One folder of blobs. Any number of processes may use it at once."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def path(self, sha256: str) -> Path:
        """Return where the blob of that digest lies."""
        return self.folder / sha256[:2] / f"{sha256}.zst"

    def put(self, value: bytes) -> ClaimCheck:
        """Make the value durable and return its claim check. Raises OSError."""
        claim = ClaimCheck(sha256=hashlib.sha256(value).hexdigest(), size=len(value))
        path = self.path(claim.sha256)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            _write(path, zstandard.ZstdCompressor(level=LEVEL, write_checksum=True).compress(value))
        return claim

    def get(self, claim: ClaimCheck) -> bytes:
        """Return the value of a claim check. Raises DecodeError where it is not there or not what it should be."""
        if not _is_digest(claim.sha256) or claim.codec != CODEC or not 0 <= claim.size <= MAX_BLOB_BYTES:
            raise DecodeError(f"claim check {claim}: wanted a sha256 of at most {MAX_BLOB_BYTES} bytes as {CODEC}")
        path = self.path(claim.sha256)
        try:
            stored = path.read_bytes()
            # The library asks for as much memory as the file says, so that is looked at first.
            is_of_size = zstandard.frame_content_size(stored) == claim.size
            value = zstandard.ZstdDecompressor().decompress(stored) if is_of_size else b""
        except FileNotFoundError as error:
            raise DecodeError(f"blob {claim.reference} is missing: restore {path} from a copy of the store") from error
        except (OSError, zstandard.ZstdError) as error:
            raise DecodeError(f"blob {claim.reference} cannot be read: {path}: {error}") from error
        if not is_of_size or hashlib.sha256(value).hexdigest() != claim.sha256:
            raise DecodeError(f"blob {claim.reference} holds something else: restore {path} from a copy of the store")
        return bytes(value)


def encode_claim(claim: ClaimCheck) -> bytes:
    """Return the value that stands on the log."""
    return msgspec.msgpack.encode(claim)


def decode_claim(value: bytes) -> ClaimCheck:
    """Return the claim check that a value is. Raises DecodeError."""
    try:
        return msgspec.msgpack.decode(value, type=ClaimCheck)
    except msgspec.DecodeError as error:
        raise DecodeError(f"claim check: {error}") from error


def _is_digest(text: str) -> bool:
    return len(text) == 64 and all(digit in "0123456789abcdef" for digit in text)


def _write(path: Path, content: bytes) -> None:
    """Write the whole file or none of it, durably."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".", suffix=".part", delete=False) as file:
        try:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        except OSError:
            Path(file.name).unlink()
            raise
    Path(file.name).replace(path)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
