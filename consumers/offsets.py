"""Where to start and where to stop: offsets asked of the broker, all partitions in one request."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from schemas.config import LogSettings
from schemas.connection import client_options, in_catalogue, on_cluster, refused
from schemas.errors import LogError
from schemas.events import Position
from schemas.limits import FETCH_BYTES, GATHER_BYTES, GATHER_MS

TIMEOUT_S = 15.0
EARLIEST, LATEST = -2, -1
"""What the protocol's ListOffsets takes for a time, for the two ends of a partition."""
LEADERLESS = (
    KafkaError.NOT_LEADER_FOR_PARTITION,
    KafkaError.LEADER_NOT_AVAILABLE,
    KafkaError.REPLICA_NOT_AVAILABLE,
    KafkaError.FENCED_LEADER_EPOCH,
    KafkaError.UNKNOWN_LEADER_EPOCH,
    KafkaError.OFFSET_NOT_AVAILABLE,
)
"""For a moment so, right after a topic was created or a broker came back."""
At = tuple[str, int]
Start = Literal["beginning", "end"] | float | Mapping[At, int]


def consumer_options(log: LogSettings) -> dict[str, Any]:
    """Return how every consumer of the log reads: committed records only, from where it is told, nothing by itself."""
    return {
        "fetch.wait.max.ms": GATHER_MS,
        "fetch.min.bytes": GATHER_BYTES,
        "queued.max.messages.kbytes": 64 << 10,
        **client_options(log),
        "group.id": on_cluster(log, "reader"),
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "auto.offset.reset": "error",
        "enable.partition.eof": True,
        "isolation.level": "read_committed",
        "fetch.message.max.bytes": FETCH_BYTES,
    }


def open_consumer(log: LogSettings, **options: Any) -> Consumer:
    """Return a client that reads the log. Raises ConfigError where the client settings cannot work."""
    try:
        return Consumer({**consumer_options(log), **options})
    except KafkaException as error:
        # Without its cause, whose text may quote a secret.
        raise refused(log, error.args[0].name()) from None


def partitions_of(consumer: Consumer, log: LogSettings, topics: Sequence[str]) -> list[At]:
    """Return every partition of the topics. Raises LogError where a topic is not there."""
    found: list[At] = []
    for topic in topics:
        name = on_cluster(log, topic)
        try:
            metadata = consumer.list_topics(name, timeout=TIMEOUT_S).topics[name]
        except KafkaException as error:
            raise unreachable(log, error) from error
        if metadata.error is not None:
            raise LogError(f"topic {name}: {metadata.error.str()}; create the log's topics first")
        found += [(topic, partition) for partition in sorted(metadata.partitions)]
    return found


def offsets_at(consumer: Consumer, log: LogSettings, partitions: Mapping[At, int]) -> dict[At, int]:
    """Return the first offset at or after each time in ms, or `EARLIEST` or `LATEST`; -1 where there is none."""
    asked = [TopicPartition(on_cluster(log, topic), p, at_ms) for (topic, p), at_ms in partitions.items()]
    if not asked:
        return {}
    deadline_s = time.monotonic() + TIMEOUT_S
    while True:
        try:
            answers = consumer.offsets_for_times(asked, timeout=TIMEOUT_S)
            error = next((answer.error for answer in answers if answer.error is not None), None)
        except KafkaException as refused:
            error = refused.args[0]
        if error is None:
            return {(in_catalogue(log, a.topic), a.partition): a.offset for a in answers}
        if error.code() not in LEADERLESS or time.monotonic() > deadline_s:
            raise unreachable(log, KafkaException(error))
        consumer.list_topics(timeout=TIMEOUT_S)  # asks again who leads


def starts(consumer: Consumer, log: LogSettings, topics: Sequence[str], start: Start) -> dict[At, int]:
    """Return the first offset to read, by partition. Raises LogError for a position that the log does not have."""
    if isinstance(start, Mapping):
        check_in_range(consumer, log, start)
        return dict(start)
    partitions = partitions_of(consumer, log, topics)
    ends = offsets_at(consumer, log, dict.fromkeys(partitions, LATEST))
    if start == "end":
        return ends
    time_ms = EARLIEST if start == "beginning" else int(float(start) * 1000)
    found = offsets_at(consumer, log, dict.fromkeys(partitions, time_ms))
    return {at: offset if offset >= 0 else ends[at] for at, offset in found.items()}


def check_in_range(consumer: Consumer, log: LogSettings, start: Mapping[At, int]) -> None:
    """Raise LogError where a position is before the first or after the last record that the log has."""
    first = offsets_at(consumer, log, dict.fromkeys(start, EARLIEST))
    last = offsets_at(consumer, log, dict.fromkeys(start, LATEST))
    for at, offset in start.items():
        if not first[at] <= offset <= last[at]:
            raise out_of_range(Position(*at, offset), f"it has {first[at]} to {last[at]}")


def out_of_range(where: Position, what: str) -> LogError:
    """Return what to tell of a position that the log does not have."""
    return LogError(
        f"{where} is not on the log: {what}. Retention removed it, or the topic was made anew: start from a later "
        "position, or restore the topic, and say so; what is missing is not skipped silently"
    )


def unreachable(log: LogSettings, error: KafkaException) -> LogError:
    """Return what to tell where the broker does not answer."""
    return LogError(f"no answer from the broker at {log.bootstrap}: {error.args[0].str()}; is it running?")


def spans(
    log: LogSettings, topics: Sequence[str], *, since: Start = "beginning", until_s: float | None = None
) -> dict[At, tuple[int, int]]:
    """Return by partition the first offset of a piece of the log and one past its last. Raises LogError.

    The ends are captured first. With `until_s` a partition ends before its first record that is not older.
    """
    consumer = open_consumer(log)
    try:
        partitions = partitions_of(consumer, log, topics)
        ends = offsets_at(consumer, log, dict.fromkeys(partitions, LATEST))
        if until_s is not None:
            found = offsets_at(consumer, log, dict.fromkeys(partitions, int(until_s * 1000)))
            ends |= {at: min(offset, ends[at]) for at, offset in found.items() if offset >= 0}
        first = starts(consumer, log, topics, since)
        return {at: (min(start, ends[at]), ends[at]) for at, start in first.items()}
    finally:
        consumer.close()
