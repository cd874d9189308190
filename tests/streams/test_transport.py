import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from consumers.reader import end_offsets
from producers.publisher import Publisher
from schemas.config import LogSettings
from schemas.errors import LogError, RollogError
from schemas.events import Event
from streams.app import run_stage
from tests.logs import committed, new_log, produce_raw, read_all, reward_of, task_ids, turns, wait_for
from tests.streams.join_stage import runtime_of

Ack = Callable[[], None]


class Scripted:
    """A stage that does with each event what the test says, and tells the test."""

    name = "scripted"
    inputs = ("rollouts",)
    outputs = ("rewards",)

    def __init__(self, publisher: Publisher) -> None:
        self.publisher = publisher
        self.taken: SimpleQueue[tuple[Event[Any], Ack]] = SimpleQueue()
        self.recalled: SimpleQueue[list[Event[Any]]] = SimpleQueue()
        self.revoked: SimpleQueue[set[int]] = SimpleQueue()

    async def take(self, event: Event[Any], ack: Ack) -> None:
        self.taken.put((event, ack))

    def recall(self, outputs: list[Event[Any]]) -> None:
        self.recalled.put(outputs)

    def revoke(self, partitions: set[int]) -> None:
        self.revoked.put(partitions)

    async def tick(self, now_s: float) -> None: ...

    async def drain(self, timeout_s: float) -> None: ...

    def take_all(self, num: int) -> dict[str, Ack]:
        """Wait for so many events; their acknowledgements by event id."""
        return {event.id: ack for event, ack in (self.taken.get(timeout=40) for _ in range(num))}


class Running:
    """A stage in a thread of its own, as the conductor runs it."""

    def __init__(
        self, log: LogSettings, home: Path, make: Callable[[Publisher], Any] = Scripted, **options: float
    ) -> None:
        self.stop = threading.Event()
        self.stages: SimpleQueue[Any] = SimpleQueue()
        self.error: BaseException | None = None
        runtime = runtime_of(log, home, "scripted-0", self.stop)

        def make_stage(publisher: Publisher) -> Any:
            stage = make(publisher)
            self.stages.put(stage)
            return stage

        def run() -> None:
            try:
                run_stage(runtime, make_stage, **options)
            except BaseException as error:  # noqa: BLE001 the test asks for it
                self.error = error

        self.thread = threading.Thread(target=run, daemon=True)
        self.thread.start()
        self.stage = self.stages.get(timeout=20)

    def end(self) -> BaseException | None:
        """Stop it and return what it raised."""
        self.stop.set()
        return self.join()

    def join(self) -> BaseException | None:
        self.thread.join(40)
        assert not self.thread.is_alive(), "the stage did not return"
        return self.error


@contextmanager
def running(log: LogSettings, home: Path, make: Callable[[Publisher], Any] = Scripted) -> Iterator[Any]:
    """Run a stage for a while; it must end well."""
    run = Running(log, home, make)
    try:
        yield run.stage
    finally:
        assert run.end() is None


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace, partitions=1)


@pytest.fixture
def events(log: LogSettings, tmp_path: Path) -> list[Event[Any]]:
    """Ten turns on the log, in order."""
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    written = publisher.send_all(turns(publisher, task_ids(10)))
    publisher.close()
    return written


def test_the_commit_waits_for_an_event_in_flight_while_later_ones_finish(
    log: LogSettings, events: list[Event[Any]], tmp_path: Path
) -> None:
    with running(log, tmp_path) as stage:
        acks = stage.take_all(10)
        for event in [*events[:4], *events[5:]]:
            acks[event.id]()
        wait_for(lambda: committed(log, "scripted", "rollouts") == {0: 4}, "the commit of what may be committed")
    assert committed(log, "scripted", "rollouts") == {0: 4}

    with running(log, tmp_path) as stage:
        again = stage.take_all(6)
        assert list(again) == [event.id for event in events[4:]]
        for ack in again.values():
            ack()
    assert committed(log, "scripted", "rollouts") == {0: 10}


def test_own_outputs_are_recalled_before_the_first_event(
    log: LogSettings, events: list[Event[Any]], tmp_path: Path
) -> None:
    with running(log, tmp_path) as stage:
        assert stage.recalled.get(timeout=40) == []
        stage.take_all(10)
        outputs = stage.publisher.send_all([reward_of(stage.publisher, event) for event in events[:3]])

    order: list[str] = []

    class Ordered(Scripted):
        async def take(self, event: Event[Any], ack: Ack) -> None:
            order.append("take")
            self.taken.put((event, ack))

        def recall(self, outputs: list[Event[Any]]) -> None:
            order.append("recall")
            self.recalled.put(outputs)

    with running(log, tmp_path, Ordered) as stage:
        stage.take_all(10)
        assert [e.id for e in stage.recalled.get(timeout=1)] == [e.id for e in outputs]
    assert order[0] == "recall"


def test_an_exception_stops_the_service_and_the_event_comes_again(
    log: LogSettings, events: list[Event[Any]], tmp_path: Path
) -> None:
    class Failing(Scripted):
        async def take(self, event: Event[Any], ack: Ack) -> None:
            if event.id == events[3].id:
                raise ValueError("a defect")
            ack()

    run = Running(log, tmp_path, Failing)
    assert repr(run.join()) == "ValueError('a defect')"
    assert committed(log, "scripted", "rollouts") in ({}, {0: 3})

    with running(log, tmp_path) as stage:
        taken, _ = stage.taken.get(timeout=40)
        assert taken.id in (events[0].id, events[3].id)
        while taken.id != events[3].id:
            taken, _ = stage.taken.get(timeout=40)


def test_what_cannot_be_decoded_is_put_aside_and_passed(log: LogSettings, tmp_path: Path) -> None:
    produce_raw(log, "rollouts", b"\xc1junk", key=b"k", headers={"ce_id": b"\xff"})
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    publisher.send_all(turns(publisher, task_ids(1)))
    publisher.close()

    with running(log, tmp_path) as stage:
        for ack in stage.take_all(1).values():
            ack()
        wait_for(lambda: committed(log, "scripted", "rollouts") == {0: 2}, "the commit past it")

    letter = read_all(log, "deadletters", tmp_path)[0].record
    assert (letter.stage, letter.topic, letter.offset, letter.error) == ("scripted", "rollouts", 0, "DecodeError")
    assert (letter.key, letter.value, letter.headers) == (b"k", b"\xc1junk", (("ce_id", b"\xff"),))


def test_a_send_that_fails_stops_the_service_and_its_cause_comes_again(
    log: LogSettings, events: list[Event[Any]], tmp_path: Path
) -> None:
    nowhere = LogSettings(
        bootstrap=log.bootstrap,
        namespace=log.namespace + "none.",
        client={"topic.metadata.propagation.max.ms": "200", "topic.metadata.refresh.interval.ms": "100"},
    )

    class Sending(Scripted):
        def __init__(self, publisher: Publisher) -> None:
            super().__init__(publisher)
            self.lost = Publisher(nowhere, source="test", blob_dir=tmp_path)

        async def take(self, event: Event[Any], ack: Ack) -> None:
            await self.lost.send(reward_of(self.lost, event))
            ack()

    error = Running(log, tmp_path, Sending).join()
    assert isinstance(error, LogError)
    assert "was not written" in str(error)
    assert committed(log, "scripted", "rollouts") in ({}, {0: 0})

    with running(log, tmp_path) as stage:
        assert list(stage.take_all(10)) == [event.id for event in events]


def test_a_stop_is_over_in_time_though_a_handler_is_stuck_and_ignores_it(
    log: LogSettings, events: list[Event[Any]], tmp_path: Path
) -> None:
    class Stuck(Scripted):
        async def take(self, event: Event[Any], ack: Ack) -> None:
            self.taken.put((event, ack))
            while True:
                try:
                    await asyncio.Event().wait()
                except asyncio.CancelledError:
                    if self.taken.qsize() > 2:
                        raise
                    self.taken.put((event, ack))

        async def drain(self, timeout_s: float) -> None:
            await asyncio.Event().wait()

    run = Running(log, tmp_path, Stuck, drain_s=0.2, stop_s=0.5)
    run.stage.taken.get(timeout=40)
    assert run.end() is None
    assert committed(log, "scripted", "rollouts") in ({}, {0: 0})

    with running(log, tmp_path) as stage:
        assert list(stage.take_all(10)) == [event.id for event in events]


def test_a_service_that_gets_nowhere_ends_itself(log: LogSettings, events: list[Event[Any]], tmp_path: Path) -> None:
    class Blocked(Scripted):
        async def take(self, event: Event[Any], ack: Ack) -> None:
            await asyncio.Event().wait()

    error = Running(log, tmp_path, Blocked, stall_s=1.0).join()
    assert isinstance(error, RollogError)
    assert "nothing moved" in str(error)


def test_waiting_for_a_partner_is_not_being_stuck(log: LogSettings, events: list[Event[Any]], tmp_path: Path) -> None:
    ticks: SimpleQueue[float] = SimpleQueue()

    class Holding(Scripted):
        async def tick(self, now_s: float) -> None:
            ticks.put(now_s)

    run = Running(log, tmp_path, Holding, stall_s=0.1)
    run.stage.take_all(10)
    for _ in range(4):
        ticks.get(timeout=40)
    assert run.end() is None


def test_a_log_without_its_topics_is_an_error_and_not_a_wait(broker: str, namespace: str, tmp_path: Path) -> None:
    log = LogSettings(bootstrap=broker, namespace=namespace)
    error = Running(log, tmp_path).join()
    assert isinstance(error, RollogError)


def test_the_end_of_the_log_is_what_is_committed_when_all_is_done(
    log: LogSettings, events: list[Event[Any]], tmp_path: Path
) -> None:
    class Eager(Scripted):
        async def take(self, event: Event[Any], ack: Ack) -> None:
            await self.publisher.send(reward_of(self.publisher, event))
            ack()
            self.taken.put((event, ack))

    with running(log, tmp_path, Eager) as stage:
        stage.take_all(10)
    ends = end_offsets(log, ["rollouts"])
    assert committed(log, "scripted", "rollouts") == {p: offset for (_, p), offset in ends.items()}
    assert [e.causation_id for e in read_all(log, "rewards", tmp_path)] == [e.id for e in events]
