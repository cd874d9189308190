import asyncio
from pathlib import Path
from queue import SimpleQueue

import aiokafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from consumers.partitions import partition_of
from consumers.raw import RawRecord
from producers.publisher import Publisher
from schemas.codec import encode_headers
from schemas.config import LogSettings
from schemas.errors import ConfigError, LogError
from schemas.events import Position
from schemas.limits import INLINE_BYTES, MAX_RECORD_BYTES
from tests import samples
from tests.logs import new_log, produce_raw, read_all, task_ids, turns


def test_an_event_is_read_as_it_was_written(broker: str, namespace: str, tmp_path: Path) -> None:
    log = new_log(broker, namespace)
    publisher = Publisher(log, source="test/one", blob_dir=tmp_path)
    cause = publisher.event(samples.task(), id="cause", key=samples.TASK_ID, correlation_id=samples.TASK_ID)
    event = publisher.event(samples.turn(), id="turn", key=samples.TASK_ID, subject="about", cause=cause)

    written = publisher.send_all([event])
    publisher.close()

    read = read_all(log, "rollouts", tmp_path)
    assert [e.id for e in read] == ["turn"]
    assert read[0].position == written[0].position
    assert read[0].record == event.record
    assert encode_headers(read[0]) == encode_headers(event)
    assert (read[0].causation_id, read[0].correlation_id, read[0].source) == ("cause", samples.TASK_ID, "test/one")


async def test_many_coroutines_wait_at_once_and_each_gets_its_own_position(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    log = new_log(broker, namespace)
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    events = turns(publisher, task_ids(300))

    written = await asyncio.gather(*map(publisher.send, events))
    publisher.close()

    assert [w.id for w in written] == [e.id for e in events]
    assert len({w.position for w in written}) == 300
    assert {e.id: e.position for e in read_all(log, "rollouts", tmp_path)} == {w.id: w.position for w in written}


async def test_librdkafka_aiokafka_and_our_own_function_agree_on_partitions(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    log = new_log(broker, namespace, partitions=7)
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    keys = [*task_ids(40), "a", "ab", "abc", "abcd", "abcde", "ü", "policy"]
    ours = {key: partition_of(key, 7) for key in keys}

    events = [publisher.event(samples.turn(task_id=k, rollout_id=f"{k}/0"), id=k, key=k) for k in keys]
    librdkafka = {e.key: e.position.partition for e in publisher.send_all(events) if e.position}
    publisher.close()
    async with aiokafka.AIOKafkaProducer(bootstrap_servers=broker) as producer:
        acks = [await producer.send_and_wait(f"{namespace}rollouts", b"", key=key.encode()) for key in keys]

    assert librdkafka == ours
    assert dict(zip(keys, (ack.partition for ack in acks), strict=True)) == ours
    assert len(set(ours.values())) > 1


@given(st.binary(max_size=40))
def test_murmur2_is_the_java_clients(key: bytes) -> None:
    from aiokafka.partitioner import murmur2 as reference

    from consumers.partitions import murmur2

    assert murmur2(key) == reference(key) & 0xFFFFFFFF


def test_a_large_value_travels_as_a_claim_check(broker: str, namespace: str, tmp_path: Path) -> None:
    log = new_log(broker, namespace)
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    text = "x" * (INLINE_BYTES + 1)

    publisher.send_all([publisher.event(samples.turn(text=text), id="large", key=samples.TASK_ID)])
    publisher.close()

    assert [path.suffix for path in tmp_path.rglob("*") if path.is_file()] == [".zst"]
    assert read_all(log, "rollouts", tmp_path)[0].record.text == text


def test_a_value_that_no_reader_takes_is_not_written(broker: str, namespace: str, tmp_path: Path) -> None:
    publisher = Publisher(new_log(broker, namespace), source="test", blob_dir=tmp_path)
    event = publisher.event(samples.turn(text="x" * (MAX_RECORD_BYTES + 1)), id="huge", key=samples.TASK_ID)

    with pytest.raises(LogError, match="no reader takes more"):
        publisher.publish(event)
    publisher.close()


async def test_what_the_broker_does_not_take_is_an_error_every_way(broker: str, namespace: str, tmp_path: Path) -> None:
    client = {"topic.metadata.propagation.max.ms": "200", "topic.metadata.refresh.interval.ms": "100"}
    log = LogSettings(bootstrap=broker, namespace=namespace + "none.", client=client)
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    event = publisher.event(samples.turn(), id="lost", key=samples.TASK_ID)

    # Before the client knows that the topic is missing, it hears so later; after that, at once.
    heard: SimpleQueue[Exception | None] = SimpleQueue()
    publisher.publish(event, heard.put)
    publisher.publish(event)
    assert isinstance(heard.get(timeout=20), LogError)
    with pytest.raises(LogError, match="lost was not written"):
        publisher.flush(20)
    with pytest.raises(LogError, match="lost was not written"):
        await publisher.send(event)
    with pytest.raises(LogError, match="lost was not written"):
        publisher.send_all([event])
    publisher.close()


def test_no_address_is_the_users_to_mend(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"log\.bootstrap"):
        Publisher(LogSettings(), source="test", blob_dir=tmp_path)


def test_a_dead_letter_holds_a_record_byte_for_byte_whatever_its_size(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    from producers.blobs import BlobStore, decode_claim

    log = new_log(broker, namespace)
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    small = RawRecord(
        position=Position("rollouts", 1, 5), key=b"\xff", value=b"\xc1", headers=[("h", None)], timestamp_ms=0
    )
    huge = RawRecord(
        position=Position("rollouts", 1, 6), key=None, value=b"y" * (MAX_RECORD_BYTES + 9), headers=[], timestamp_ms=0
    )

    letters = [publisher.dead_letter(raw, stage="verifier", error=ValueError("bad")) for raw in (small, huge)]
    publisher.send_all(letters)
    publisher.close()

    first, second = read_all(log, "deadletters", tmp_path)
    assert (first.record.key, first.record.value, first.record.headers) == (b"\xff", b"\xc1", (("h", None),))
    assert (first.record.offset, first.record.error, first.record.reason) == (5, "ValueError", "bad")
    assert second.record.headers[0][0] == "ce_dataref"
    assert BlobStore(tmp_path).get(decode_claim(second.record.value)) == huge.value


def test_a_foreign_record_is_told_from_an_event(broker: str, namespace: str, tmp_path: Path) -> None:
    log = new_log(broker, namespace)
    produce_raw(log, "rollouts", b"?", key=b"k", headers={})
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    publisher.send_all(turns(publisher, task_ids(1)))
    publisher.close()

    from consumers.reader import Reader

    aside: list[RawRecord] = []
    reader = Reader(
        log,
        ["rollouts"],
        blob_dir=tmp_path,
        start="beginning",
        bounded=True,
        on_undecodable=lambda raw, error: aside.append(raw),
    )
    assert len(list(reader)) == 1
    reader.close()
    assert [raw.value for raw in aside] == [b"?"]
