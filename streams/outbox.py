"""A stage's writing: events go out without waiting, and the loop hears of each once it is durable.

What must hold: `then` runs only after the broker has the event, and never after a failure. A send that failed stops the
service (`check`, which every stage calls before it takes more), since its cause stays unacknowledged and comes again.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from consumers.reader import RawRecord
from consumers.telemetry import Telemetry
from schemas.codec import TOPIC_OF
from schemas.deadletters import DeadLetter
from schemas.errors import DecodeError, RollogError
from schemas.events import Event
from streams.handoff import Handoff


class Writer(Protocol):
    """What a stage needs of `producers.publisher.Publisher`."""

    def event(
        self,
        record: Any,
        *,
        id: str,  # noqa: A002 the envelope's own name for it
        key: str,
        subject: str = "",
        cause: Event[Any] | None = None,
        correlation_id: str = "",
    ) -> Event[Any]:
        """Return an event that is yet to be written."""
        ...

    def dead_letter(self, raw: RawRecord, *, stage: str, error: Exception) -> Event[DeadLetter]:
        """Return the event that puts a record aside; not yet written."""
        ...

    def publish(self, event: Event[Any], on_delivered: Callable[[RollogError | None], None] | None = None) -> None:
        """Write it; the callback may come from any thread."""
        ...


class Outbox:
    """Events on their way to the log. One event loop owns it."""

    def __init__(self, writer: Writer, telemetry: Telemetry) -> None:
        self.writer = writer
        self.num_sending = 0
        self._telemetry = telemetry
        self._handoff: Handoff | None = None
        self._failure: BaseException | None = None
        self._is_empty = asyncio.Event()

    def send(self, event: Event[Any], then: Callable[[], None]) -> None:
        """Publish the event; `then` runs on the loop once it is durable."""
        if self._handoff is None:
            self._handoff = Handoff()
        handoff = self._handoff
        self.num_sending += 1
        self._is_empty.clear()
        self.writer.publish(event, lambda error: handoff.post(partial(self._delivered, event, error, then)))

    def put_aside(self, stage: str, raw: RawRecord, why: DecodeError, then: Callable[[], None]) -> None:
        """Publish a record as a dead letter; `then` runs on the loop once it is durable."""
        self.send(self.writer.dead_letter(raw, stage=stage, error=why), then)

    def fail(self, error: BaseException) -> None:
        """Remember what went wrong away from the loop's own calls, for `check` to raise."""
        self._failure = self._failure or error

    def check(self) -> None:
        """Raise what went wrong since: the service is to stop, and its open events come again."""
        if self._failure is not None:
            raise self._failure

    async def drained(self) -> None:
        """Wait until nothing is on its way, or a send failed."""
        while self.num_sending and self._failure is None:
            await self._is_empty.wait()

    def _delivered(self, event: Event[Any], error: RollogError | None, then: Callable[[], None]) -> None:
        self.num_sending -= 1
        if error is not None:
            self.fail(error)
        if self.num_sending == 0 or error is not None:
            self._is_empty.set()
        if error is None:
            self._telemetry.events.labels(TOPIC_OF[type(event.record)], "out").inc()
            then()
