"""A record as the broker gave it, and the one way from there to an event: claim check first, then the codec."""

from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from producers.blobs import DATAREF, Blobs, ClaimCheck, decode_claim
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


class RecentIds:
    """The last ids of events, by which repeats are known."""

    def __init__(self, num: int) -> None:
        """Remember so many; with 0 nothing is a repeat."""
        self._num = num
        self._seen: OrderedDict[str, None] = OrderedDict()

    def add(self, event_id: str) -> bool:
        """Note an id and return whether it is new."""
        if event_id in self._seen:
            self._seen.move_to_end(event_id)
            return False
        if self._num > 0:
            self._seen[event_id] = None
            if len(self._seen) > self._num:
                self._seen.popitem(last=False)
        return True


OnUndecodable = Callable[[RawRecord, DecodeError], None]


class Decoding:
    """From a reader's records to its events: what every reader does alike."""

    def __init__(self, blobs: Blobs, *, on_undecodable: OnUndecodable | None, headers_only: bool, dedupe: int) -> None:
        self._blobs, self._on_undecodable, self._headers_only = blobs, on_undecodable, headers_only
        self._seen = RecentIds(dedupe)

    def decode(self, raw: RawRecord) -> Event[Any] | None:
        """Return the event of a record; None for what is none, of which `on_undecodable` hears. Raises DecodeError."""
        try:
            return to_outline(raw) if self._headers_only else to_event(raw, self._blobs)
        except DecodeError as undecodable:
            if self._on_undecodable is None:
                raise
            self._on_undecodable(raw, undecodable)
            return None

    def new(self, raw: RawRecord) -> Event[Any] | None:
        """Return the event of a record; None for what is none or was seen before. Raises DecodeError."""
        event = self.decode(raw)
        return event if event is not None and self._seen.add(event.id) else None

    def events(self, records: Iterable[RawRecord]) -> Iterator[Event[Any]]:
        """Yield the events of the records that are new."""
        for raw in records:
            event = self.new(raw)
            if event is not None:
                yield event


def to_event(raw: RawRecord, blobs: Blobs) -> Event[Any]:
    """Return the event that the record holds. Raises DecodeError, also where its blob is missing or broken."""
    return decode(raw.key, value_of(raw, blobs), raw.headers, where=raw.position)


def value_of(raw: RawRecord, blobs: Blobs) -> bytes | None:
    """Return the record's value, from the blob store where only a claim check is on the log. Raises DecodeError."""
    try:
        claim = claim_of(raw)
        return raw.value if claim is None else blobs.get(claim)
    except DecodeError as error:
        raise DecodeError(f"{raw.position}: {error}") from error


def claim_of(raw: RawRecord) -> ClaimCheck | None:
    """Return the claim check that the record's value is; None where it is the value itself. Raises DecodeError."""
    reference = next((value for name, value in raw.headers if name == DATAREF), None)
    if reference is None or raw.value is None:
        return None
    claim = decode_claim(raw.value)
    if claim.reference.encode() != reference:
        raise DecodeError(f"header {DATAREF} is {reference!r}, the claim check {claim.reference}")
    return claim


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
