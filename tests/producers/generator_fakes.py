"""A log in memory, a generator on it, and everyone else's part played by the test."""

from collections.abc import Callable
from typing import Any

from consumers.raw import RawRecord
from consumers.telemetry import Telemetry
from producers.generation import Generator
from producers.samplers.interface import Sampler
from producers.samplers.scripted import ScriptedSampler
from schemas.codec import TOPIC_OF, new_event
from schemas.config import Settings
from schemas.deadletters import DeadLetter
from schemas.errors import RollogError
from schemas.events import Event, Position
from schemas.executions import ExecutionFinished, Outcome
from schemas.ids import derive_id, task_id
from schemas.policies import PolicyPublished
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.tasks import TaskIssued
from tests import samples

OnDelivered = Callable[[RollogError | None], None]
SETTINGS = Settings(run="golden")


class MemoryLog:
    """Topics with one partition. As a publisher it holds events until `deliver`."""

    def __init__(self) -> None:
        self.events: list[Event[Any]] = []
        self.pending: list[tuple[Event[Any], OnDelivered | None]] = []
        self.acked: set[str] = set()

    def event(self, record: Any, *, id: str, key: str, **fields: Any) -> Event[Any]:  # noqa: A002
        return new_event(record, id=id, key=key, source="rollog/test-0", **fields)

    def publish(self, event: Event[Any], on_delivered: OnDelivered | None = None) -> None:
        self.pending.append((event, on_delivered))

    def dead_letter(self, raw: RawRecord, *, stage: str, error: Exception) -> Event[DeadLetter]:
        where = raw.position
        letter = DeadLetter(
            stage=stage, topic=where.topic, partition=where.partition, offset=where.offset, key=raw.key,
            value=raw.value, error=type(error).__name__, reason=str(error),
        )  # fmt: skip
        return self.event(letter, id=derive_id(str(where), "dead_letter", 0, stage), key=(raw.key or b"").decode())

    def append(self, event: Event[Any]) -> Event[Any]:
        topic = TOPIC_OF[type(event.record)]
        fields = {name: getattr(event, name) for name in event.__struct_fields__}
        written = Event(**(fields | {"position": Position(topic, 0, len(self.events))}))
        self.events.append(written)
        return written

    def write(self, record: Any, event_id: str, *, time_s: float = 0.0) -> Event[Any]:
        key = getattr(record, "task_id", "key")
        return self.append(new_event(record, id=event_id, key=key, source="rollog/other-0", time_s=time_s))

    def deliver(self, count: int | None = None, *, error: RollogError | None = None) -> None:
        count = len(self.pending) if count is None else count
        now, self.pending = self.pending[:count], self.pending[count:]
        for event, on_delivered in now:
            if error is None:
                self.append(event)
            if on_delivered is not None:
                on_delivered(error)

    def ack_of(self, event: Event[Any]) -> Callable[[], None]:
        return lambda: self.acked.add(event.id)

    def of(self, record: type[Any]) -> list[Any]:
        return [event.record for event in self.events if isinstance(event.record, record)]


class World:
    """A generator over a `MemoryLog`."""

    def __init__(
        self,
        log: MemoryLog | None = None,
        *,
        sampler: Sampler | None = None,
        num_slots: int = 64,
        version: int | None = 0,
    ) -> None:
        self.log = log or MemoryLog()
        self.now_s = 0.0
        self.sampler = sampler or ScriptedSampler(num_slots=num_slots)
        self.telemetry = Telemetry("generator")
        publisher: Any = self.log
        self.generator = Generator(
            SETTINGS, sampler=self.sampler, publisher=publisher, telemetry=self.telemetry, clock=lambda: self.now_s
        )
        if version is not None:
            self.policy(version)

    def policy(self, version: int, *, address: str = "nowhere", digest: str = "sha256:", run: str = "golden") -> None:
        record = PolicyPublished(
            policy="policy", version=version, parent=None, run_id=run, step=version, address=address, digest=digest,
            num_bytes=0,
        )  # fmt: skip
        self.generator.policies.take(record)
        self.generator.load_newest()

    def deliver(self, event: Event[Any]) -> None:
        self.generator.take(event, self.log.ack_of(event))

    def task(self, index: int = 0, *, time_s: float = 0.0, **changes: Any) -> TaskIssued:
        record = samples.task(**({"task_id": task_id("golden", "train", index), "index": index} | changes))
        self.deliver(self.log.write(record, record.task_id, time_s=time_s))
        return record

    def execute(self, turn: TurnGenerated, outcome: Outcome) -> ExecutionFinished:
        record = execution_of(turn, outcome)
        self.deliver(self.log.write(record, execution_id(turn)))
        return record

    def run(self, rounds: int = 200) -> None:
        """Work until nothing more can be done without news."""
        for _ in range(rounds):
            self.generator.work(2)
            self.log.deliver()
            if not self.generator.has_work and not self.log.pending:
                return
        raise AssertionError(f"still at work after {rounds} rounds")

    @property
    def turns(self) -> list[TurnGenerated]:
        return self.log.of(TurnGenerated)

    @property
    def ends(self) -> list[RolloutEnded]:
        return self.log.of(RolloutEnded)


def execution_id(turn: TurnGenerated) -> str:
    return derive_id(derive_id(turn.rollout_id, "turn_generated", turn.turn), "execution_finished", 0)


def execution_of(turn: TurnGenerated, outcome: Outcome) -> ExecutionFinished:
    return ExecutionFinished(
        task_id=turn.task_id, rollout_id=turn.rollout_id, turn=turn.turn, domain=turn.domain, outcome=outcome
    )


def ok(stdout: bytes = b"12\n") -> Outcome:
    return Outcome(status="ok", exit_code=0, stdout=stdout)


def failed(line: bytes = b"ValueError: mode q\n") -> Outcome:
    return Outcome(status="nonzero", exit_code=1, stderr=line)


def infra_error() -> Outcome:
    return Outcome(status="infra_error", error="no sandbox")
