"""A record as the broker gave it, and the one way from there to an event: claim check first, then the codec."""

from typing import Any

import msgspec

from producers.blobs import DATAREF, BlobStore, decode_claim
from schemas.codec import decode, decode_time, read_headers
from schemas.errors import DecodeError
from schemas.events import Event, Position

Headers = list[tuple[str, bytes | None]]


class RawRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One record, undecoded."""

    position: Position
    key: bytes | None
    value: bytes | None
    headers: Headers
    timestamp_ms: int


def to_event(raw: RawRecord, blobs: BlobStore) -> Event[Any]:
    """Return the event that the record holds. Raises DecodeError, also where its blob is missing or broken."""
    return decode(raw.key, value_of(raw, blobs), raw.headers, where=raw.position)


def value_of(raw: RawRecord, blobs: BlobStore) -> bytes | None:
    """Return the record's value, from the blob store where only a claim check is on the log. Raises DecodeError."""
    reference = next((value for name, value in raw.headers if name == DATAREF), None)
    if reference is None or raw.value is None:
        return raw.value
    try:
        claim = decode_claim(raw.value)
        if claim.reference.encode() != reference:
            raise DecodeError(f"header {DATAREF} is {reference!r}, the claim check {claim.reference}")
        return blobs.get(claim)
    except DecodeError as error:
        raise DecodeError(f"{raw.position}: {error}") from error


def to_outline(raw: RawRecord) -> Event[None]:
    """Return the record's envelope as an event without a record. Raises DecodeError."""
    found = read_headers(raw.headers, where=raw.position)
    key = raw.key or b""
    try:
        key_text = key.decode()
    except UnicodeDecodeError as error:
        raise DecodeError(f"{raw.position}: key is not UTF-8: {error}") from error
    return Event(
        id=found["ce_id"],
        type=found["ce_type"],
        source=found["ce_source"],
        time_s=decode_time(found["ce_time"], where=raw.position),
        key=key_text,
        subject=found.get("ce_subject", ""),
        causation_id=found.get("ce_causationid", ""),
        correlation_id=found.get("ce_correlationid", ""),
        traceparent=found.get("traceparent", ""),
        record=None,
        position=raw.position,
        num_bytes=len(key) + len(raw.value or b"") + sum(len(n) + len(v or b"") for n, v in raw.headers),
    )
