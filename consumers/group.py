"""Membership of a consumer group without Faust: for services that own their loop, such as the generator.

What must hold: the same commit rule as everywhere (`acknowledgements`); before the first event of an assignment the
service is given its own outputs back; events of partitions that were taken away are not handed out; a restart within
the session timeout is no rebalance, since membership is static.
"""

import logging
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from consumers.acknowledgements import Ack, Acknowledgements, At
from consumers.offsets import open_consumer, unreachable
from consumers.raw import to_event
from consumers.read_back import read_back
from consumers.reader import raw_record
from producers.blobs import BlobStore
from producers.publisher import Publisher
from schemas.config import LogSettings
from schemas.connection import in_catalogue, on_cluster
from schemas.errors import DecodeError, LogError, RollogError
from schemas.events import Event, Position

LOGGER = logging.getLogger("rollog.log")
SESSION_S = 6.0
"""After this long without a sign of life a member's partitions go to others; a restart must be quicker."""
HEARTBEAT_S = 1.0
COMMIT_S = 0.5
MAX_POLL_S = 600.0
REBALANCED = {
    KafkaError._NO_OFFSET,
    KafkaError._WAIT_COORD,
    KafkaError.ILLEGAL_GENERATION,
    KafkaError.UNKNOWN_MEMBER_ID,
    KafkaError.REBALANCE_IN_PROGRESS,
}
"""What a commit may fail with: whoever has the partitions by now, the events come again there."""


class Delivery(msgspec.Struct, frozen=True):
    """An event, and the call that says that all it leads to is durable."""

    event: Event[Any]
    ack: Ack


class GroupReader:
    """One member. Not thread-safe, but acknowledgements may come from any thread."""

    def __init__(
        self,
        log: LogSettings,
        *,
        group: str,
        instance: str,
        topics: Sequence[str],
        blob_dir: Path,
        outputs: Sequence[str],
        publisher: Publisher,
        on_recall: Callable[[set[int], list[Event[Any]]], None],
        on_revoked: Callable[[set[int]], None],
    ) -> None:
        """Join `group`, a service's name, as its member `instance`; the log's namespace goes before both."""
        self._log, self._group, self._service = log, on_cluster(log, group), group
        self._topics, self._outputs = tuple(topics), tuple(outputs)
        self._blob_dir, self._blobs, self._publisher = blob_dir, BlobStore(blob_dir), publisher
        self._on_recall, self._on_revoked = on_recall, on_revoked
        self._books = Acknowledgements()
        self._assigned: set[At] = set()
        self._committed: dict[At, int] = {}
        self._must_recall = False
        self._failure: Exception | None = None
        self._next_commit_s = 0.0
        self._is_open = True
        self._consumer = open_consumer(log, **self._options(instance))
        self._consumer.subscribe(
            [on_cluster(log, topic) for topic in topics],
            on_assign=self._assign,
            on_revoke=self._revoke,
            on_lost=self._lose,
        )

    def poll(self, *, max_events: int = 500, timeout_s: float = 0.0) -> list[Delivery]:
        """Return what is there, waiting so long for the first. Commits now and then. Raises LogError."""
        if self._failure is not None:
            raise self._failure
        if time.monotonic() >= self._next_commit_s:
            self.commit(wait=False)
        messages = self._fetch(max_events, timeout_s)
        if self._must_recall:
            self._recall()
            self._must_recall = False
        return [delivery for message in messages if (delivery := self._deliver(message)) is not None]

    def commit(self, *, wait: bool = True) -> None:
        """Commit all that may be. Raises LogError where the broker refuses for good."""
        self._next_commit_s = time.monotonic() + COMMIT_S
        ready = {at: o for at, o in self._books.committable().items() if o > self._committed.get(at, -1)}
        if not ready:
            return
        offsets = [TopicPartition(on_cluster(self._log, topic), p, offset) for (topic, p), offset in ready.items()]
        self._committed |= ready
        try:
            if wait:
                self._consumer.commit(offsets=offsets, asynchronous=False)
            else:
                self._consumer.commit(offsets=offsets, asynchronous=True)
        except KafkaException as error:
            self._note_commit(error.args[0], offsets)
            if self._failure is not None:
                raise self._failure from error

    def lag(self) -> dict[str, int]:
        """Return how many offsets were not handed out yet, by topic, as far as the client knows."""
        lags = dict.fromkeys(self._topics, 0)
        for at in self._consumer.position([TopicPartition(on_cluster(self._log, t), p) for t, p in self._assigned]):
            _, end = self._consumer.get_watermark_offsets(TopicPartition(at.topic, at.partition), cached=True)
            lags[in_catalogue(self._log, at.topic)] += max(0, end - max(0, at.offset))
        return lags

    @property
    def num_in_flight(self) -> int:
        """Return how many events are handed out and not acknowledged."""
        return self._books.num_in_flight

    def close(self) -> None:
        """Commit and let go; the partitions stay this member's until the session timeout. Harmless when done before."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            self.commit()
        finally:
            self._consumer.close()

    def _options(self, instance: str) -> dict[str, Any]:
        return {
            "group.id": self._group,
            "group.instance.id": on_cluster(self._log, instance),
            "partition.assignment.strategy": "range",
            "session.timeout.ms": int(SESSION_S * 1000),
            "heartbeat.interval.ms": int(HEARTBEAT_S * 1000),
            "max.poll.interval.ms": int(MAX_POLL_S * 1000),
            "auto.offset.reset": "earliest",
            "enable.partition.eof": False,
            "on_commit": self._note_commit,
        }

    def _fetch(self, max_events: int, timeout_s: float) -> list[Message]:
        try:
            first = self._consumer.poll(timeout_s)
            # A batch call waits its time out even where there is something: so only what is at hand.
            return [] if first is None else [first, *self._consumer.consume(max_events - 1, 0)]
        except KafkaException as error:
            raise unreachable(self._log, error) from error

    def _deliver(self, message: Message) -> Delivery | None:
        at = (in_catalogue(self._log, str(message.topic())), int(message.partition() or 0))
        error = message.error()
        if error is not None:
            if error.fatal() or not error.retriable():
                raise LogError(f"{at[0]}[{at[1]}]: {error.str()} ({error.name()})")
            return None
        if at not in self._assigned:
            return None
        offset = int(message.offset() or 0)
        raw = raw_record(message, Position(*at, offset))
        ack = self._books.deliver(at, offset)
        try:
            return Delivery(to_event(raw, self._blobs), ack)
        except DecodeError as undecodable:
            letter = self._publisher.dead_letter(raw, stage=self._service, error=undecodable)
            self._publisher.publish(letter, partial(self._put_aside, ack))
            return None

    def _put_aside(self, ack: Ack, error: RollogError | None) -> None:
        """Hear, from the publisher's thread, that a dead letter is durable or not."""
        if error is None:
            ack()
        else:
            self._failure = self._failure or error

    def _recall(self) -> None:
        partitions = {partition for _, partition in self._assigned}
        outputs = read_back(
            self._log,
            group=self._group,
            inputs=self._topics,
            outputs=self._outputs,
            partitions=partitions,
            blob_dir=self._blob_dir,
        )
        self._on_recall(partitions, outputs)

    def _assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._books.clear()
        self._committed.clear()
        self._assigned = {(in_catalogue(self._log, tp.topic), tp.partition) for tp in partitions}
        self._must_recall = bool(partitions)

    def _revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.commit()
        self._lose(consumer, partitions)

    def _lose(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._books.clear()
        self._committed.clear()
        taken = {partition for _, partition in self._assigned}
        self._assigned = set()
        self._must_recall = False
        if taken:
            self._on_revoked(taken)

    def _note_commit(self, error: KafkaError | None, offsets: list[TopicPartition]) -> None:
        if error is None or error.code() in REBALANCED or error.retriable():
            if error is not None:
                self._committed.clear()
            return
        places = ", ".join(f"{tp.topic}[{tp.partition}]@{tp.offset}" for tp in offsets)
        self._failure = LogError(f"group {self._group}: could not commit {places}: {error.str()} ({error.name()})")
