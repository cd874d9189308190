"""One contract of all readers of events: the broker's, and a tape's of the same piece of the log."""

import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.raw import RawRecord
from consumers.reader import EventReader, Reader
from consumers.tapes.exporting import export
from consumers.tapes.reader import TapeReader
from producers.publisher import Publisher
from schemas.codec import encode_headers, encode_value
from schemas.config import LogSettings
from schemas.errors import DecodeError, LogError
from schemas.events import Event
from schemas.limits import INLINE_BYTES
from tests import samples
from tests.logs import new_log, produce_raw, task_ids, turns

Open = Callable[..., EventReader]
NUM = 60


class World:
    """A log to write on, and a way to open it."""

    def __init__(self, kind: str, log: LogSettings, folder: Path) -> None:
        self.kind, self.log, self.folder = kind, log, folder

    @property
    def blobs(self) -> Path:
        return self.folder / "blobs"

    def write(self, events: Callable[[Publisher], list[Event[object]]]) -> list[Event[object]]:
        publisher = Publisher(self.log, source="test", blob_dir=self.blobs)
        written = publisher.send_all(events(publisher))
        publisher.close()
        return written

    def write_turns(self, num: int = NUM) -> list[Event[object]]:
        return self.write(lambda publisher: turns(publisher, task_ids(num)))

    def opener(self) -> Open:
        """Return the door to what is on the log now."""
        if self.kind == "broker":
            return partial(Reader, self.log, blob_dir=self.blobs)
        path = self.folder / "log.tape"
        export(self.log, path, ["tasks", "rollouts", "deadletters"], blob_dir=self.blobs)
        return partial(TapeReader, path)


@pytest.fixture(params=["broker", "tape"])
def world(request: pytest.FixtureRequest, broker: str, namespace: str, tmp_path: Path) -> World:
    return World(request.param, new_log(broker, namespace), tmp_path)


def test_a_bounded_reader_hands_out_all_in_the_order_of_partitions_and_is_at_its_end(world: World) -> None:
    written = world.write_turns()
    reader = world.opener()(["rollouts", "tasks"], start="beginning", bounded=True)

    assert not reader.at_end
    read = list(reader)

    assert reader.at_end
    assert {e.id: (e.position, e.record, e.source) for e in read} == {
        e.id: (e.position, e.record, e.source) for e in written
    }
    for partition in range(2):
        offsets = [e.position.offset for e in read if e.position is not None and e.position.partition == partition]
        assert offsets == list(range(len(offsets)))
        assert reader.positions["rollouts", partition] == len(offsets)
        assert reader.positions["tasks", partition] == 0
    assert reader.lag() == {"rollouts": 0, "tasks": 0}
    reader.close()
    reader.close()


def test_an_empty_topic_is_at_its_end(world: World) -> None:
    reader = world.opener()(["tasks"], start="beginning", bounded=True)
    assert reader.at_end
    assert list(reader) == []
    assert reader.poll(timeout_s=0.01) == []
    reader.close()


def test_positions_resume_exactly_where_they_were_taken(world: World) -> None:
    written = world.write_turns()
    door = world.opener()
    reader = door(["rollouts"], start="beginning", bounded=True)
    iterator = iter(reader)
    first = [next(iterator).id for _ in range(23)]
    positions = dict(reader.positions)
    reader.close()

    resumed = door(["rollouts"], start=positions, bounded=True)
    rest = [e.id for e in resumed]
    resumed.close()

    assert sorted([*first, *rest]) == sorted(e.id for e in written)


def test_partitions_that_a_start_does_not_name_are_not_read(world: World) -> None:
    world.write_turns()
    reader = world.opener()(["rollouts"], start={("rollouts", 1): 3}, bounded=True)
    read = [e.position for e in reader]
    assert {position.partition for position in read if position} == {1}
    assert read[0] is not None
    assert read[0].offset == 3
    assert set(reader.positions) == {("rollouts", 1)}
    reader.close()


def test_a_poll_hands_out_no_more_than_asked_and_goes_on_where_it_stopped(world: World) -> None:
    written = world.write_turns()
    reader = world.opener()(["rollouts"], start="beginning", bounded=True)
    read: list[str] = []
    while not reader.at_end:
        events = reader.poll(max_events=7, timeout_s=1.0)
        assert len(events) <= 7
        read += [e.id for e in events]
    assert sorted(read) == sorted(e.id for e in written)
    reader.close()


@pytest.mark.parametrize(("start_s", "expected"), [(1000.0, 3), (1000.5, 2), (2000.0, 2), (3000.0, 1), (3000.1, 0)])
def test_a_time_starts_at_the_first_event_that_is_not_older(world: World, start_s: float, expected: int) -> None:
    def timed(publisher: Publisher) -> list[Event[object]]:
        events = [publisher.event(samples.turn(), id=f"at {s}", key=samples.TASK_ID) for s in (1000, 2000, 3000)]
        return [msgspec.structs.replace(e, time_s=1000.0 * n) for n, e in enumerate(events, 1)]

    world.write(timed)
    reader = world.opener()(["rollouts"], start=start_s, bounded=True)
    assert [e.id for e in reader] == ["at 1000", "at 2000", "at 3000"][3 - expected :]
    reader.close()


def test_the_end_is_after_all_that_is_there(world: World) -> None:
    world.write_turns()
    door = world.opener()
    bounded = door(["rollouts"], start="end", bounded=True)
    assert bounded.at_end
    bounded.close()
    live = door(["rollouts"], start="end")
    assert live.poll(timeout_s=0.01) == []
    assert not live.at_end
    live.close()


def test_closing_ends_a_live_iteration(world: World) -> None:
    world.write_turns(3)
    reader = world.opener()(["rollouts"], start="beginning")
    read_all, ended = threading.Event(), threading.Event()

    def iterate() -> None:
        for number, _ in enumerate(reader, 1):
            if number == 3:
                read_all.set()
        ended.set()

    threading.Thread(target=iterate, daemon=True).start()
    assert read_all.wait(20)
    assert not ended.is_set()
    reader.close()
    assert ended.wait(20)


@pytest.mark.parametrize(("dedupe", "expected"), [(65_536, 20), (0, 40)])
def test_what_was_written_twice_is_handed_out_once_as_far_as_asked(world: World, dedupe: int, expected: int) -> None:
    world.write_turns(20)
    world.write_turns(20)
    reader = world.opener()(["rollouts"], start="beginning", bounded=True, dedupe=dedupe)
    assert len(list(reader)) == expected
    reader.close()


@pytest.mark.parametrize("offset", [0, 999])
def test_a_position_that_is_not_there_is_an_error_that_says_which(world: World, offset: int) -> None:
    world.write_turns()
    at = TopicPartition(f"{world.log.namespace}rollouts", 0, 3)
    client = AdminClient({"bootstrap.servers": world.log.bootstrap})
    for future in client.delete_records([at]).values():
        future.result(20)
    door = world.opener()

    with pytest.raises(LogError, match=rf"rollouts\[0\]@{offset} is not on the (log|tape .*): it has 3 to"):
        door(["rollouts"], start={("rollouts", 0): offset})


def test_a_topic_that_is_not_there_is_an_error(world: World) -> None:
    with pytest.raises(LogError, match="nowhere"):
        world.opener()(["nowhere"], start="beginning")


def test_what_was_aborted_is_not_handed_out_and_offsets_stay_true(world: World) -> None:
    publisher = Publisher(world.log, source="test", blob_dir=world.blobs)
    kept, aborted = turns(publisher, task_ids(2))
    publisher.close()
    producer = Producer({"bootstrap.servers": world.log.bootstrap, "transactional.id": world.log.namespace})
    producer.init_transactions(20)
    for event, end in (
        (kept, producer.commit_transaction),
        (aborted, producer.abort_transaction),
        (kept, producer.commit_transaction),
    ):
        producer.begin_transaction()
        topic = f"{world.log.namespace}rollouts"
        producer.produce(topic, encode_value(event.record), key=event.key, headers=encode_headers(event), partition=0)
        producer.flush(20)
        end(20)

    reader = world.opener()(["rollouts"], start="beginning", bounded=True, dedupe=0)
    assert [e.position.offset for e in reader if e.position] == [0, 4]
    assert reader.positions["rollouts", 0] == 6
    reader.close()


def test_a_record_that_is_no_event_raises_or_is_put_aside_byte_for_byte(world: World) -> None:
    produce_raw(world.log, "rollouts", b"junk", key=samples.TASK_ID.encode(), headers={"ce_id": b"\xff\0"})
    world.write_turns(3)
    door = world.opener()

    reader = door(["rollouts"], start="beginning", bounded=True)
    with pytest.raises(DecodeError, match=r"rollouts\[\d\]@0"):
        list(reader)
    reader.close()

    aside: list[RawRecord] = []
    reader = door(["rollouts"], start="beginning", bounded=True, on_undecodable=lambda raw, error: aside.append(raw))
    assert len(list(reader)) == 3
    assert [(raw.key, raw.value, raw.headers) for raw in aside] == [
        (samples.TASK_ID.encode(), b"junk", [("ce_id", b"\xff\0")])
    ]
    reader.close()


def test_a_value_too_large_for_the_log_comes_whole(world: World) -> None:
    text = "x" * INLINE_BYTES
    world.write(lambda publisher: [publisher.event(samples.turn(text=text), id="large", key=samples.TASK_ID)])
    door = world.opener()
    if world.kind == "tape":
        world.blobs.rename(world.folder / "gone")

    reader = door(["rollouts"], start="beginning", bounded=True)
    assert [e.record.text == text for e in reader] == [True]
    reader.close()


def test_headers_only_needs_no_values(world: World) -> None:
    events = world.write_turns(3)
    headers = {"ce_id": b"x", "ce_type": b"rollog.unknown.v9", "ce_source": b"x", "ce_time": b"2026-01-01"}
    produce_raw(world.log, "rollouts", b"junk", key=b"k", headers=headers)

    reader = world.opener()(["rollouts"], start="beginning", bounded=True, headers_only=True)
    read = {e.id: e for e in reader}
    reader.close()

    assert set(read) == {e.id for e in events} | {"x"}
    assert all(e.record is None for e in read.values())
