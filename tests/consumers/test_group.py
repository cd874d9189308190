from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from consumers.group import Delivery, GroupReader
from producers.publisher import Publisher
from schemas.config import LogSettings
from schemas.events import Event
from tests.logs import committed, new_log, produce_raw, read_all, reward_of, task_ids, turns, wait_for


class Member:
    """A group's member, and what it was told."""

    def __init__(self, log: LogSettings, tmp_path: Path, instance: str = "generator-0") -> None:
        self.told: list[tuple[str, set[int], int]] = []
        self.got: list[Delivery] = []
        self.publisher = Publisher(log, source=f"test/{instance}", blob_dir=tmp_path)
        self.reader = GroupReader(
            log,
            group="generator",
            instance=instance,
            topics=("tasks", "rollouts"),
            blob_dir=tmp_path,
            outputs=("rewards",),
            publisher=self.publisher,
            on_recall=lambda partitions, outputs: self.told.append(("recall", partitions, len(outputs))),
            on_revoked=lambda partitions: self.told.append(("revoke", partitions, 0)),
        )

    def poll(self) -> list[Delivery]:
        new = self.reader.poll(timeout_s=0.1)
        if new:
            self.told.append(("events", {d.event.position.partition for d in new if d.event.position}, len(new)))
        self.got += new
        return new

    def take(self, num: int) -> dict[str, Callable[[], None]]:
        """Poll until so many events came; their acknowledgements by event id."""
        wait_for(lambda: bool(self.poll() and False) or len(self.got) >= num, f"{num} events")
        return {d.event.id: d.ack for d in self.got}

    def partitions(self) -> set[int]:
        return next((partitions for what, partitions, _ in reversed(self.told) if what == "recall"), set())

    def close(self) -> None:
        self.reader.close()
        self.publisher.close()


@contextmanager
def member(log: LogSettings, tmp_path: Path, instance: str = "generator-0") -> Iterator[Member]:
    one = Member(log, tmp_path, instance)
    try:
        yield one
    finally:
        one.close()


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace)


def written(log: LogSettings, tmp_path: Path, num: int) -> list[Event[Any]]:
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    events = publisher.send_all(turns(publisher, task_ids(num)))
    publisher.close()
    return events


def test_what_is_not_acknowledged_comes_again_and_nothing_else(log: LogSettings, tmp_path: Path) -> None:
    events = written(log, tmp_path, 40)
    held = {p: [e for e in events if e.position and e.position.partition == p][7] for p in range(2)}
    with member(log, tmp_path) as first:
        for event_id, ack in first.take(40).items():
            if event_id not in {e.id for e in held.values()}:
                ack()
    offsets = {p: e.position.offset for p, e in held.items() if e.position}
    assert committed(log, "generator", "rollouts") == offsets

    with member(log, tmp_path) as second:
        again = second.take(40 - sum(offsets.values()))
        for ack in again.values():
            ack()
    assert len(again) == 40 - sum(offsets.values())
    assert {e.id for e in held.values()} <= set(again)
    assert sum(committed(log, "generator", "rollouts").values()) == 40


def test_commits_go_out_while_it_polls(log: LogSettings, tmp_path: Path) -> None:
    written(log, tmp_path, 5)
    with member(log, tmp_path) as one:
        for ack in one.take(5).values():
            ack()
        wait_for(
            lambda: bool(one.poll() and False) or sum(committed(log, "generator", "rollouts").values()) == 5,
            "the commit",
        )


def test_own_outputs_are_recalled_before_the_first_event_of_an_assignment(log: LogSettings, tmp_path: Path) -> None:
    events = written(log, tmp_path, 10)
    with member(log, tmp_path) as first:
        first.take(10)
        first.publisher.send_all([reward_of(first.publisher, event) for event in events[:4]])
    assert first.told[0] == ("recall", {0, 1}, 0)

    with member(log, tmp_path) as second:
        second.take(10)
    assert second.told[0] == ("recall", {0, 1}, 4)


def test_once_all_is_done_nothing_is_recalled(log: LogSettings, tmp_path: Path) -> None:
    events = written(log, tmp_path, 10)
    with member(log, tmp_path) as first:
        acks = first.take(10)
        first.publisher.send_all([reward_of(first.publisher, event) for event in events])
        for ack in acks.values():
            ack()

    with member(log, tmp_path) as second:
        wait_for(lambda: bool(second.poll()) or bool(second.told), "the assignment")
    assert second.told[0] == ("recall", {0, 1}, 0)


def test_two_members_share_partitions_of_all_topics_alike(log: LogSettings, tmp_path: Path) -> None:
    with member(log, tmp_path, "generator-0") as one:
        wait_for(lambda: bool(one.poll() and False) or one.partitions() == {0, 1}, "all partitions for the first")
        two = Member(log, tmp_path, "generator-1")

        def shared() -> bool:
            one.poll()
            two.poll()
            return {frozenset(one.partitions()), frozenset(two.partitions())} == {frozenset({0}), frozenset({1})}

        wait_for(shared, "one partition for each")
        written(log, tmp_path, 30)
        wait_for(lambda: bool(one.poll() + two.poll() and False) or len(one.got) + len(two.got) >= 30, "all events")
        for who in (one, two):
            assert {d.event.position.partition for d in who.got if d.event.position} == who.partitions()
        two.close()
    assert one.told[:2] == [("recall", {0, 1}, 0), ("revoke", {0, 1}, 0)]


def test_what_cannot_be_decoded_is_put_aside_and_passed(log: LogSettings, tmp_path: Path) -> None:
    produce_raw(log, "rollouts", b"junk", key=b"k", headers={})
    written(log, tmp_path, 3)
    with member(log, tmp_path) as one:
        for ack in one.take(3).values():
            ack()
        wait_for(
            lambda: bool(one.poll() and False) or sum(committed(log, "generator", "rollouts").values()) == 4,
            "the commit past it",
        )
    letters = read_all(log, "deadletters", tmp_path)
    assert [(e.record.stage, e.record.value) for e in letters] == [("generator", b"junk")]
