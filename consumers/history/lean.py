"""Records with only the fields that most questions about history need, decoded without building the rest.

They stand in for the whole records in a `Trajectory`. What must hold: each field means what it means in its record. A
value that is no such record in today's version, or is a claim check, goes the whole way through the codec. Token arrays
are skipped unseen, so that a turn whose arrays are broken is held here and refused by who needs them.
"""

from typing import Any

import msgspec

from consumers.raw import RawRecord, to_event
from producers.blobs import DATAREF, BlobStore
from schemas.codec import TYPES
from schemas.executions import ExecutionFinished
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.topics import get_topic

Headers = list[tuple[str, Any]]


class Something(msgspec.Struct, frozen=True, gc=False):
    """Any map, of which nothing is kept."""


class Turn(msgspec.Struct, frozen=True, gc=False):
    """A `TurnGenerated` without its arrays."""

    task_id: str
    rollout_id: str
    sample: int
    turn: int
    policy: str
    text: str
    action: Something | None = None


class LeanOutcome(msgspec.Struct, frozen=True, gc=False):
    """An `Outcome` without what was printed."""

    status: str
    error: str = ""


class Execution(msgspec.Struct, frozen=True, gc=False):
    """An `ExecutionFinished` of which only the status matters."""

    task_id: str
    rollout_id: str
    turn: int
    outcome: LeanOutcome


class Reward(msgspec.Struct, frozen=True, gc=False):
    """A `RewardScored` without what only people read."""

    task_id: str
    sample: int
    domain: str
    value: float | None
    verifier: str
    verifier_version: int
    config_digest: str
    invalid_reason: str | None = None
    scoring_id: str = "live"
    own: bool = False


class Held(msgspec.Struct, frozen=True, gc=False):
    """A record in its slot, in place of an event."""

    record: Any
    headers: Headers = []
    """The envelope, where somebody will ask for it."""


LEAN: dict[type[Any], type[Any]] = {TurnGenerated: Turn, ExecutionFinished: Execution, RewardScored: Reward}
Decoders = dict[bytes, "msgspec.msgpack.Decoder[Any]"]


class LeanDecoder:
    """From what a client read to a record, lean where that is enough."""

    def __init__(self, topic: str, blobs: BlobStore, *, whole: frozenset[type[Any]] = frozenset()) -> None:
        """Make one for a topic; records of the classes in `whole` are decoded whole, with all checks of the codec."""
        self._blobs = blobs
        self._decoders: Decoders = {
            TYPES[record].encode(): msgspec.msgpack.Decoder(record if record in whole else LEAN.get(record, record))
            for record in get_topic(topic).records
        }

    def record(self, key: bytes | None, value: bytes | None, headers: Headers) -> Any:
        """Return the record, None where the codec has to look at it."""
        # The publisher writes the type third, and a claim check's header last.
        if not key or value is None or len(headers) < 3 or headers[2][0] != "ce_type" or headers[-1][0] == DATAREF:
            return None
        decoder = self._decoders.get(headers[2][1])
        if decoder is None:
            return None
        try:
            record = decoder.decode(value)
        except (msgspec.MsgspecError, ValueError):
            return None
        return record if record.task_id.encode() == key else None

    def whole(self, raw: RawRecord) -> Any:
        """Return the record as the codec reads it. Raises DecodeError."""
        return to_event(raw, self._blobs).record
