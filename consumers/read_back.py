"""A stage's memory: its own outputs, read back from the log when it is given partitions.

An input that does not come again was committed, and that was after its output was durable. Outputs are younger than
what they are made of. So all outputs since the time of the oldest input that will come again are all that can concern
what will come again.
"""

from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from consumers.offsets import EARLIEST, LATEST, TIMEOUT_S, At, offsets_at, open_consumer, unreachable
from consumers.raw import RawRecord
from consumers.reader import Reader
from schemas.config import LogSettings
from schemas.connection import in_catalogue, on_cluster
from schemas.errors import DecodeError, LogError
from schemas.events import Event

CLOCK_SLACK_MS = 5_000
"""How far the clocks of two writers may differ."""


def read_back(
    log: LogSettings,
    *,
    group: str,
    inputs: Sequence[str],
    outputs: Sequence[str],
    partitions: Collection[int],
    blob_dir: Path,
) -> list[Event[Any]]:
    """Return the group's own outputs that may concern inputs that come again, in the order of their partitions.

    `group` is the id on the cluster. Undecodable outputs concern nobody and are left out. Raises LogError.
    """
    consumer = open_consumer(log, **{"group.id": group})
    try:
        since_ms = oldest_ms(consumer, log, [(topic, p) for topic in inputs for p in partitions])
        wanted = {(topic, p): max(0, ms - CLOCK_SLACK_MS) for topic in outputs for p, ms in since_ms.items()}
        start = {at: offset for at, offset in offsets_at(consumer, log, wanted).items() if offset >= 0}
    finally:
        consumer.close()
    if not start:
        return []
    reader = Reader(log, outputs, blob_dir=blob_dir, start=start, bounded=True, on_undecodable=leave_out)
    try:
        return list(reader)
    finally:
        reader.close()


def leave_out(raw: RawRecord, error: DecodeError) -> None:
    """Pass over what is no event: readers of that topic put it aside, for a memory it means nothing."""


def oldest_ms(consumer: Consumer, log: LogSettings, inputs: Collection[At]) -> dict[int, int]:
    """Return the time of the oldest input that will come again, by partition; none where nothing will."""
    asked = [TopicPartition(on_cluster(log, topic), p) for topic, p in inputs]
    try:
        committed = consumer.committed(asked, timeout=TIMEOUT_S)
    except KafkaException as error:
        raise unreachable(log, error) from error
    first = offsets_at(consumer, log, dict.fromkeys(inputs, EARLIEST))
    last = offsets_at(consumer, log, dict.fromkeys(inputs, LATEST))
    oldest: dict[At, int] = {}
    for tp in committed:
        at = (in_catalogue(log, tp.topic), tp.partition)
        offset = max(tp.offset, first[at])
        if offset < last[at]:
            oldest[at] = offset
    return times_at(consumer, log, oldest)


def times_at(consumer: Consumer, log: LogSettings, offsets: dict[At, int]) -> dict[int, int]:
    """Return the smallest time in ms of the records at or after these offsets, by partition. One assign for all."""
    since_ms: dict[int, int] = {}
    waiting = set(offsets)
    consumer.assign([TopicPartition(on_cluster(log, topic), p, offset) for (topic, p), offset in offsets.items()])
    while waiting:
        message = consumer.poll(TIMEOUT_S)
        if message is None:
            raise LogError(
                f"no record of {sorted(waiting)} within {TIMEOUT_S} s, though the broker says there are some"
            )
        at = (in_catalogue(log, str(message.topic())), int(message.partition() or 0))
        error = message.error()
        if error is not None and error.code() != KafkaError._PARTITION_EOF:
            raise LogError(f"{at[0]}[{at[1]}]: {error.str()}")
        if at in waiting:
            waiting.discard(at)
            consumer.pause([TopicPartition(on_cluster(log, at[0]), at[1])])
            if error is None:
                since_ms[at[1]] = min(since_ms.get(at[1], 1 << 62), message.timestamp()[1])
    return since_ms
