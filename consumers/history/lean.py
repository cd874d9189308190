"""Records with only the fields that most questions about history need, decoded without building the rest.

They stand in for the whole records in a `Trajectory`. What must hold: each field means what it means in its record.
Such a record is known by its shape: it begins as today's version does and has every field that is wanted here, and
names keep their meaning in all versions (schemas/upcasts.py). Its envelope, which costs more to read than all else, is
not read. A record that is wanted whole is known by its shape and asked for its type. What has another shape is asked
for its type alone, and what is no such record in today's version, or is a claim check, goes the whole way through the
codec. Token arrays are skipped unseen, so that a turn whose arrays are broken is
held here and refused by who needs them.
"""

from collections.abc import Callable
from typing import Any

import msgspec
from confluent_kafka import Message

from consumers.raw import RawRecord, to_event
from producers.blobs import DATAREF, BlobStore
from schemas.codec import TYPES
from schemas.executions import ExecutionFinished
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.topics import get_topic

Headers = list[tuple[str, Any]]
Envelope = Callable[[], Headers | None]
"""A record's headers, once somebody asks: reading them is work."""


class Something(msgspec.Struct, frozen=True, gc=False):
    """Any map, of which nothing is kept."""


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A `TurnGenerated` without its arrays."""

    task_id: str
    sample: int
    turn: int
    policy: str
    text: str
    action: Something | None


class LeanOutcome(msgspec.Struct, frozen=True, gc=False):
    """An `Outcome` without what was printed."""

    status: str
    error: str


class Execution(msgspec.Struct, frozen=True, gc=False):
    """An `ExecutionFinished` of which only the status matters."""

    task_id: str
    rollout_id: str
    turn: int
    outcome: LeanOutcome


class Reward(msgspec.Struct, frozen=True, gc=False):
    """A `RewardScored` of which only what was found matters."""

    task_id: str
    sample: int
    value: float | None
    invalid_reason: str | None
    scoring_id: str
    own: bool = False


class Held(msgspec.Struct, frozen=True, gc=False):
    """A record in its slot, in place of an event."""

    record: Any
    envelope: Envelope | None = None
    """Where somebody will ask for it."""


LEAN: dict[type[Any], type[Any]] = {TurnGenerated: Turn, ExecutionFinished: Execution, RewardScored: Reward}
FIXMAP, MOST_IN_FIXMAP, MAP16 = 0x80, 15, 0xDE
"""MessagePack's two ways to begin a map, by how many fields it has."""
Decode = Callable[[Any], Any]
NOT_LEAN = (LookupError, TypeError, ValueError, msgspec.MsgspecError)
"""No such header, no value, no known type, no such record."""


class LeanDecoder:
    """From what a client read to a record, lean where that is enough."""

    def __init__(self, topic: str, blobs: BlobStore, *, whole: frozenset[type[Any]] = frozenset()) -> None:
        """Make one for a topic; records of the classes in `whole` are decoded whole, with all checks of the codec."""
        self._blobs = blobs
        self._by_shape: dict[int, tuple[Decode, bytes | None]] = {}
        """Also the type that the envelope has to say, where it is read."""
        self._by_type: dict[Any, Decode] = {}
        for record in get_topic(topic).records:
            is_lean, type_name = record in LEAN and record not in whole, TYPES[record].encode()
            decode = msgspec.msgpack.Decoder(LEAN[record] if is_lean else record).decode
            self._by_type[type_name] = decode
            self._by_shape[first_byte_of(record)] = decode, None if is_lean else type_name

    def records(self, keys: list[Any], messages: list[Message]) -> list[Any]:
        """Return `record` of each message; many at a time cost less."""
        by_shape, found = self._by_shape, []
        try:
            for message in messages:
                value = message.value()
                decode, type_name = by_shape[value[0]]
                if type_name is None or is_plain(message.headers(), type_name):
                    found.append(decode(value))
            if [record.task_id.encode() for record in found] == keys:
                return found
        except NOT_LEAN:
            pass
        return [self.record(key, m.value(), m.headers) for key, m in zip(keys, messages, strict=True)]

    def record(self, key: Any, value: Any, envelope: Envelope) -> Any:
        """Return the record, None where the codec has to look at it."""
        try:
            decode, type_name = self._by_shape[value[0]]
            record = decode(value)
            if record.task_id.encode() == key and (type_name is None or is_plain(envelope(), type_name)):
                return record
        except NOT_LEAN:
            pass
        return self._record_by_type(key, value, envelope() or [])

    def _record_by_type(self, key: Any, value: Any, headers: Headers) -> Any:
        try:
            type_name = headers[2][1]
            record = self._by_type[type_name](value)
            return record if is_plain(headers, type_name) and record.task_id.encode() == key else None
        except NOT_LEAN:
            return None

    def whole(self, raw: RawRecord) -> Any:
        """Return the record as the codec reads it. Raises DecodeError."""
        return to_event(raw, self._blobs).record


def is_plain(headers: Headers | None, type_name: bytes) -> bool:
    """Return whether a record's envelope says that type, and that the value is there itself. May raise NOT_LEAN."""
    # The publisher writes the type third, and a claim check's header last.
    return headers is not None and headers[2] == ("ce_type", type_name) and headers[-1][0] != DATAREF


def first_byte_of(record: type[Any]) -> int:
    """Return how the map of a record's fields begins; no two records of a topic begin alike."""
    num_fields = len(record.__struct_fields__)
    return FIXMAP + num_fields if num_fields <= MOST_IN_FIXMAP else MAP16
