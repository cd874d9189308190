import threading
from pathlib import Path

import msgspec
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient

from consumers.raw import RawRecord
from consumers.reader import Reader, Stretches, end_offsets
from producers.publisher import Publisher
from schemas.codec import encode_headers, encode_value
from schemas.config import LogSettings
from schemas.errors import DecodeError, LogError
from schemas.events import Event
from schemas.limits import INLINE_BYTES, MAX_RECORD_BYTES
from tests import samples
from tests.logs import new_log, produce_raw, read_all, task_ids, turns, wait_for


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace)


def written(log: LogSettings, tmp_path: Path, num: int) -> list[Event[object]]:
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    events = publisher.send_all(turns(publisher, task_ids(num)))
    publisher.close()
    return events


def test_a_bounded_reader_ends_with_what_was_there(log: LogSettings, tmp_path: Path) -> None:
    first = written(log, tmp_path, 50)
    reader = Reader(log, ["rollouts", "tasks"], blob_dir=tmp_path, start="beginning", bounded=True)
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    publisher.send_all([publisher.event(samples.turn(text="later"), id="later", key=samples.TASK_ID)])
    publisher.close()

    read = list(reader)

    assert {e.id for e in read} == {e.id for e in first}
    assert reader.at_end
    assert {at: n for at, n in reader.positions.items() if at[0] == "rollouts"} == {
        ("rollouts", p): sum(e.position is not None and e.position.partition == p for e in first) for p in range(2)
    }
    reader.close()


def test_an_empty_topic_is_at_its_end(log: LogSettings, tmp_path: Path) -> None:
    reader = Reader(log, ["tasks"], blob_dir=tmp_path, start="beginning", bounded=True)
    assert reader.at_end
    assert list(reader) == []
    reader.close()


def test_positions_resume_exactly_where_they_were_taken(log: LogSettings, tmp_path: Path) -> None:
    events = written(log, tmp_path, 60)
    reader = Reader(log, ["rollouts"], blob_dir=tmp_path, start="beginning", bounded=True)
    iterator = iter(reader)
    first = [next(iterator).id for _ in range(23)]
    positions = dict(reader.positions)
    reader.close()

    resumed = Reader(log, ["rollouts"], blob_dir=tmp_path, start=positions, bounded=True)
    rest = [e.id for e in resumed]
    resumed.close()

    assert len(first) + len(rest) == 60
    assert set(first) | set(rest) == {e.id for e in events}


def test_a_time_starts_at_the_first_event_that_is_not_older(log: LogSettings, tmp_path: Path) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    for time_s in (1000.0, 2000.0, 3000.0):
        event = publisher.event(samples.turn(), id=f"at {time_s:.0f}", key=samples.TASK_ID)
        publisher.send_all([msgspec.structs.replace(event, time_s=time_s)])
    publisher.close()

    reader = Reader(log, ["rollouts"], blob_dir=tmp_path, start=2000.0, bounded=True)
    assert [e.id for e in reader] == ["at 2000", "at 3000"]
    reader.close()


def test_a_live_reader_from_the_end_sees_only_what_comes(log: LogSettings, tmp_path: Path) -> None:
    written(log, tmp_path, 5)
    reader = Reader(log, ["rollouts"], blob_dir=tmp_path, start="end")
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    publisher.send_all([publisher.event(samples.turn(text="new"), id="new", key=samples.TASK_ID)])
    publisher.close()

    got: list[Event[object]] = []
    wait_for(lambda: bool(got.extend(reader.poll()) or got), "the new event")
    assert [e.id for e in got] == ["new"]
    assert reader.lag() == {"rollouts": 0}
    reader.close()


def test_closing_ends_a_live_iteration(log: LogSettings, tmp_path: Path) -> None:
    reader = Reader(log, ["rollouts"], blob_dir=tmp_path, start="beginning")
    ended = threading.Event()

    def iterate() -> None:
        for _ in reader:
            pass
        ended.set()

    threading.Thread(target=iterate, daemon=True).start()
    reader.close()
    assert ended.wait(20)


def test_what_was_written_twice_is_handed_out_once(log: LogSettings, tmp_path: Path) -> None:
    written(log, tmp_path, 20)
    written(log, tmp_path, 20)

    assert len(read_all(log, "rollouts", tmp_path)) == 20
    assert len(read_all(log, "rollouts", tmp_path, dedupe=0)) == 40


def test_only_the_last_ids_are_remembered(log: LogSettings, tmp_path: Path) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    event = turns(publisher, task_ids(1))[0]
    other = publisher.event(samples.turn(task_id=event.key, rollout_id=f"{event.key}/0"), id="other", key=event.key)
    publisher.send_all([event, event, other, event])
    publisher.close()

    assert [e.id for e in read_all(log, "rollouts", tmp_path, dedupe=1)] == [event.id, "other", event.id]


@pytest.mark.parametrize("offset", [0, 999])
def test_a_position_that_is_not_on_the_log_is_an_error_that_says_which(
    log: LogSettings, tmp_path: Path, offset: int
) -> None:
    written(log, tmp_path, 30)
    client = AdminClient({"bootstrap.servers": log.bootstrap})
    at = TopicPartition(f"{log.namespace}rollouts", 0, 3)
    for future in client.delete_records([at]).values():
        future.result(20)

    with pytest.raises(LogError, match=rf"rollouts\[0\]@{offset} is not on the log: it has 3 to"):
        Reader(log, ["rollouts"], blob_dir=tmp_path, start={("rollouts", 0): offset})


def test_a_topic_that_is_not_there_is_an_error(log: LogSettings, tmp_path: Path) -> None:
    with pytest.raises(LogError, match="create the log's topics"):
        Reader(log, ["nowhere"], blob_dir=tmp_path, start="beginning")


def test_transaction_markers_and_aborted_records_neither_show_nor_hold_up_the_end(
    log: LogSettings, tmp_path: Path
) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    kept, aborted = turns(publisher, task_ids(2))
    publisher.close()
    producer = Producer({"bootstrap.servers": log.bootstrap, "transactional.id": log.namespace})
    producer.init_transactions(20)
    for event, end in ((kept, producer.commit_transaction), (aborted, producer.abort_transaction)):
        producer.begin_transaction()
        producer.produce(
            f"{log.namespace}rollouts",
            encode_value(event.record),
            key=event.key,
            headers=encode_headers(event),
            partition=0,
        )
        producer.flush(20)
        end(20)

    reader = Reader(log, ["rollouts"], blob_dir=tmp_path, start="beginning", bounded=True)
    assert [e.id for e in reader] == [kept.id]
    assert reader.positions[("rollouts", 0)] == end_offsets(log, ["rollouts"])[("rollouts", 0)] == 4
    reader.close()


def test_a_record_that_is_no_event_raises_or_is_put_aside(log: LogSettings, tmp_path: Path) -> None:
    produce_raw(log, "rollouts", b"junk", key=samples.TASK_ID.encode(), headers={"ce_id": b"x"})
    written(log, tmp_path, 3)

    with pytest.raises(DecodeError, match="no header ce_type"):
        read_all(log, "rollouts", tmp_path)

    aside: list[RawRecord] = []
    reader = Reader(
        log,
        ["rollouts"],
        blob_dir=tmp_path,
        start="beginning",
        bounded=True,
        on_undecodable=lambda raw, error: aside.append(raw),
    )
    assert len(list(reader)) == 3
    assert [(raw.value, raw.headers) for raw in aside] == [(b"junk", [("ce_id", b"x")])]
    reader.close()


def test_a_claim_check_without_its_blob_is_undecodable(log: LogSettings, tmp_path: Path) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path / "gone")
    publisher.send_all([publisher.event(samples.turn(text="x" * INLINE_BYTES), id="large", key=samples.TASK_ID)])
    publisher.close()

    with pytest.raises(DecodeError, match=r"rollouts\[\d\]@0: blob sha256:.* is missing"):
        read_all(log, "rollouts", tmp_path / "other")


def test_a_value_beyond_the_limit_is_undecodable_however_well_it_compresses(log: LogSettings, tmp_path: Path) -> None:
    headers = {"ce_id": b"x", "ce_type": b"rollog.turn_generated.v1", "ce_source": b"x", "ce_time": b"2026-01-01"}
    options = {
        "bootstrap.servers": log.bootstrap,
        "compression.type": "zstd",
        "message.max.bytes": 2 * MAX_RECORD_BYTES,
    }
    producer = Producer(options)
    producer.produce(f"{log.namespace}rollouts", b"\0" * (MAX_RECORD_BYTES + 1), key=b"k", headers=headers)
    assert producer.flush(20) == 0

    with pytest.raises(DecodeError, match=f"at most {MAX_RECORD_BYTES}"):
        read_all(log, "rollouts", tmp_path)


def test_headers_only_needs_no_values(log: LogSettings, tmp_path: Path) -> None:
    events = written(log, tmp_path, 3)
    headers = {"ce_id": b"x", "ce_type": b"rollog.unknown.v9", "ce_source": b"x", "ce_time": b"2026-01-01"}
    produce_raw(log, "rollouts", b"junk", key=b"k", headers=headers)

    reader = Reader(log, ["rollouts"], blob_dir=tmp_path, start="beginning", bounded=True, headers_only=True)
    read = {e.id: e for e in reader}
    reader.close()

    assert set(read) == {e.id for e in events} | {"x"}
    assert all(e.record is None for e in read.values())
    assert read[events[0].id].key == events[0].key


def test_stretches_of_one_partition_after_another_come_through_one_client(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    log = new_log(broker, namespace, partitions=3)
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    written = publisher.send_all(turns(publisher, task_ids(60)))
    publisher.close()
    places: dict[int, list[int]] = {partition: [] for partition in range(3)}
    for event in written:
        assert event.position is not None
        places[event.position.partition].append(event.position.offset)
    stretches = Stretches(log, blob_dir=tmp_path)
    for partition in (0, 1, 2, 0, 0):
        end = len(places[partition])
        for span in ((0, end), (1, end - 1), (2, 2), (end - 1, end)):
            found = [raw.position.offset for raw in stretches.records(("rollouts", partition), span)]
            assert found == list(range(*span))
    with pytest.raises(LogError, match="not on the log"):
        list(stretches.records(("rollouts", 0), (999, 1000)))
    stretches.close()
