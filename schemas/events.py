"""An event: a record, what the envelope says about it, and where on the log it stands."""

from typing import Generic, TypeVar

import msgspec

R_co = TypeVar("R_co", covariant=True)


class Position(msgspec.Struct, frozen=True, order=True):
    """Where a record stands."""

    topic: str
    """Without the namespace."""
    partition: int
    offset: int

    def __str__(self) -> str:
        """Return `topic[partition]@offset`, the form that every message uses."""
        return f"{self.topic}[{self.partition}]@{self.offset}"


class Event(msgspec.Struct, Generic[R_co], frozen=True, kw_only=True):
    """One immutable fact of the log."""

    id: str
    type: str
    """CloudEvents type: `rollog.<record>.v<version>`."""
    source: str
    """Service and instance that wrote it."""
    time_s: float
    """Seconds since the epoch, UTC."""
    key: str
    """Decides the partition."""
    subject: str = ""
    """What it is about: a rollout, a run, a policy."""
    causation_id: str = ""
    """Event that led to this one."""
    correlation_id: str = ""
    """Task or run that both belong to."""
    traceparent: str = ""
    """W3C trace context."""
    record: R_co
    position: Position | None = None
    """None before it is written."""
    num_bytes: int = 0
    """Bytes of key, value and headers as read, before the batch's compression."""
