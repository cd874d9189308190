"""What could not be processed, byte for byte, and why."""

import msgspec


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True):
    """A record that a stage put aside."""

    stage: str
    """Who put it aside."""
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    error: str
    """Class of the error."""
    reason: str
    code_version: str = ""
