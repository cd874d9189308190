"""What tests on a broker share: a log of one's own with its topics, and what to put on it."""

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

from consumers.offsets import consumer_options
from consumers.reader import Reader
from producers.publisher import Publisher
from rollog.topics import create_topics
from schemas.config import LogSettings
from schemas.events import Event
from schemas.ids import derive_id, task_id
from tests import samples

DEADLINE_S = 40.0


def new_log(
    broker: str, namespace: str, *, partitions: int = 2, client: Mapping[str, str] | None = None
) -> LogSettings:
    """Return a log with all topics of the catalogue on it."""
    log = LogSettings(bootstrap=broker, namespace=namespace, partitions=partitions, client=dict(client or {}))
    create_topics(log)
    return log


def wait_for(condition: Callable[[], bool], what: str, deadline_s: float = DEADLINE_S) -> None:
    """Call `condition`, which waits a little itself, until it holds."""
    end_s = time.monotonic() + deadline_s
    while not condition():
        assert time.monotonic() < end_s, f"{what}: not within {deadline_s} s"


def task_ids(num: int) -> list[str]:
    return [task_id("test", "train", index) for index in range(num)]


def turns(publisher: Publisher, keys: Sequence[str]) -> list[Event[Any]]:
    """Return the first turn of each task, yet to be written."""
    return [
        publisher.event(
            samples.turn(0, 0, task_id=key, rollout_id=f"{key}/0"),
            id=derive_id(f"{key}/0", "turn_generated", 0),
            key=key,
        )
        for key in keys
    ]


def reward_of(publisher: Publisher, event: Event[Any]) -> Event[Any]:
    """Return what a stage makes of an event, by a deterministic id."""
    reward = samples.reward(0, task_id=event.key, rollout_id=f"{event.key}/0")
    return publisher.event(reward, id=derive_id(event.id, "reward_scored", 0), key=event.key, cause=event)


def read_all(log: LogSettings, topic: str, blob_dir: Path, *, dedupe: int = 65_536) -> list[Event[Any]]:
    """Return everything that is on a topic."""
    reader = Reader(log, [topic], blob_dir=blob_dir, start="beginning", bounded=True, dedupe=dedupe)
    try:
        return list(reader)
    finally:
        reader.close()


def committed(log: LogSettings, group: str, topic: str) -> dict[int, int]:
    """Return a group's committed offsets, where it has any."""
    consumer = Consumer({**consumer_options(log), "group.id": log.namespace + group})
    try:
        asked = [TopicPartition(log.namespace + topic, p) for p in range(log.partitions)]
        return {tp.partition: tp.offset for tp in consumer.committed(asked, timeout=10) if tp.offset >= 0}
    finally:
        consumer.close()


def produce_raw(log: LogSettings, topic: str, value: bytes, *, key: bytes, headers: Mapping[str, bytes]) -> None:
    """Write a record that no publisher would write."""
    producer = Producer(
        {"bootstrap.servers": log.bootstrap, "partitioner": "murmur2_random", "compression.type": "zstd"}
    )
    producer.produce(log.namespace + topic, value=value, key=key, headers=dict(headers))
    assert producer.flush(10) == 0
