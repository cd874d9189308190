"""In-memory twins of what stages write to and run on, and events as if read from the log."""

import itertools
from collections.abc import Callable
from threading import Lock, Semaphore
from typing import Any

from consumers.reader import RawRecord
from consumers.telemetry import Telemetry
from schemas.codec import TOPIC_OF, new_event
from schemas.deadletters import DeadLetter
from schemas.errors import LogError, RollogError
from schemas.events import Event, Position
from schemas.executions import Action, Outcome
from schemas.ids import derive_id
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.tasks import TaskIssued
from tests import samples

OFFSETS = itertools.count()


def telemetry() -> Telemetry:
    return Telemetry("test")


def id_of(record: Any) -> str:
    match record:
        case TaskIssued():
            return record.task_id
        case TurnGenerated():
            return derive_id(record.rollout_id, "turn_generated", record.turn)
        case RolloutEnded():
            return derive_id(record.rollout_id, "rollout_ended", 0)
    return derive_id(repr(record), "test", 0)


def read(record: Any, *, offset: int | None = None, partition: int = 0, time_s: float = 0.0) -> Event[Any]:
    """Return the record's event as it would be read from the log."""
    event = new_event(record, id=id_of(record), key=record.task_id, source="test", time_s=time_s)
    return placed(event, offset=next(OFFSETS) if offset is None else offset, partition=partition)


def placed(event: Event[Any], *, offset: int, partition: int = 0) -> Event[Any]:
    position = Position(TOPIC_OF[type(event.record)], partition, offset)
    fields = {name: getattr(event, name) for name in event.__struct_fields__}
    return Event(**(fields | {"position": position}))


class FakeWriter:
    """Keeps what is published; delivers at once, or when `deliver` is called."""

    def __init__(self, *, is_held: bool = False) -> None:
        self.events: list[Event[Any]] = []
        self.is_held = is_held
        self.fails = False
        self._waiting: list[Callable[[RollogError | None], None]] = []

    @property
    def records(self) -> list[Any]:
        return [event.record for event in self.events]

    def event(self, record: Any, *, id: str, key: str, **fields: Any) -> Event[Any]:  # noqa: A002
        return new_event(record, id=id, key=key, source="rollog/test-0", **fields)

    def dead_letter(self, raw: RawRecord, *, stage: str, error: Exception) -> Event[DeadLetter]:
        where = raw.position
        letter = DeadLetter(
            stage=stage,
            topic=where.topic,
            partition=where.partition,
            offset=where.offset,
            key=raw.key,
            value=raw.value,
            error=type(error).__name__,
            reason=str(error),
        )
        return self.event(letter, id=derive_id(str(where), "dead_letter", 0, stage), key=str(where))

    def publish(self, event: Event[Any], on_delivered: Callable[[RollogError | None], None] | None = None) -> None:
        self.events.append(event)
        if on_delivered is not None:
            self._waiting.append(on_delivered)
        if not self.is_held:
            self.deliver()

    def deliver(self) -> None:
        waiting, self._waiting = self._waiting, []
        for on_delivered in waiting:
            on_delivered(LogError("the broker refused") if self.fails else None)


class Acks:
    """Counts acknowledgements by event id."""

    def __init__(self) -> None:
        self.ids: list[str] = []

    def of(self, event: Event[Any]) -> Callable[[], None]:
        return lambda: self.ids.append(event.id)


class GatedRunner:
    """A sandbox whose actions each wait for the gate that their code names; `ok` otherwise."""

    def __init__(self, *gates: str) -> None:
        self.gates = {name: Semaphore(0) for name in gates}
        self.codes: list[str] = []
        self.outcomes: dict[str, list[Outcome]] = {}
        """What to answer by code, in turn; the last one stays."""
        self._lock = Lock()

    def run(self, action: Action) -> Outcome:
        with self._lock:
            self.codes.append(action.code)
        if action.code in self.gates:
            assert self.gates[action.code].acquire(timeout=30)
        with self._lock:
            answers = self.outcomes.get(action.code, [ok(action.code)])
            return answers.pop(0) if len(answers) > 1 else answers[0]


def ok(stdout: str | bytes) -> Outcome:
    content = stdout.encode() if isinstance(stdout, str) else stdout
    return Outcome(status="ok", exit_code=0, stdout=content, stdout_bytes=len(content), isolation="fake")


def turn(code: str | None, *, sample: int = 0, index: int = 0, task_id: str = samples.TASK_ID) -> TurnGenerated:
    return samples.turn(
        sample,
        index,
        task_id=task_id,
        rollout_id=f"{task_id}/{sample}",
        text=code or "",
        action=None if code is None else Action(code=code),
    )
