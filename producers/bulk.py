"""Many events written by one thread that waits for none of them: what a pass over history writes.

What must hold: nothing is lost in silence. `flush` returns once every replica in sync has all that was written, and
raises where an event was not taken; so does the next `write`. The client holds no more than `MOST_WAITING` events,
whatever is written. There is no thread here: who writes takes in the client's news, of failures alone.
"""

from pathlib import Path
from typing import Any

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from producers.blobs import BlobStore
from producers.publisher import LOGGER, checked_in, failed, producer_options
from schemas.codec import TOPIC_OF
from schemas.config import LogSettings
from schemas.connection import on_cluster, refused
from schemas.errors import LogError
from schemas.limits import INLINE_BYTES

Headers = list[tuple[str, bytes]]
PARTITION_UA = -1
"""The partitioner's choice."""
MOST_WAITING = 5_000
"""Events in the client's hands: twice what is written while it gathers."""
LINGER_MS = 50
"""Nobody waits for a single event, and a request costs as much as many of them."""
POLL_EVERY = 250
WAIT_S = 0.05
DELIVERY_S = 180.0
"""Longer than the client tries to deliver."""


class BulkPublisher:
    """Writes events in their order. Not thread-safe; open it in the process that uses it."""

    def __init__(self, log: LogSettings, *, source: str, blob_dir: Path) -> None:
        """`source` says who writes. Raises ConfigError where the client settings cannot work."""
        self.source = source
        self.num_written = 0
        self._blobs = BlobStore(blob_dir)
        self._topics = {record: on_cluster(log, topic) for record, topic in TOPIC_OF.items()}
        self._failure: LogError | None = None
        self._is_open = True
        gathering = {"linger.ms": LINGER_MS, "queue.buffering.max.messages": MOST_WAITING}
        options = {**producer_options(log, **gathering), "delivery.report.only.error": True}
        try:
            self._producer = Producer(options, logger=LOGGER)
        except KafkaException as error:
            # Without its cause, whose text may quote a secret.
            raise refused(log, error.args[0].name()) from None

    def write(self, record: type[Any], key: bytes, value: bytes, headers: Headers, time_ms: int) -> None:
        """Write an event of that record, encoded, without waiting for the broker.

        Raises LogError, also where an event before was not taken.
        """
        if len(value) > INLINE_BYTES:
            value = checked_in(f"an event with key {key!r}", value, headers, self._blobs)
        topic, produce = self._topics[record], self._producer.produce
        while True:
            try:
                produce(topic, value, key, PARTITION_UA, self._note, None, time_ms, headers)
                break
            except BufferError:
                self._producer.poll(WAIT_S)
                self._check()
            except KafkaException as error:
                raise failed(f"an event with key {key!r}", error.args[0]) from error
        self.num_written += 1
        if not self.num_written % POLL_EVERY:
            self._producer.poll(0)
            self._check()

    def flush(self, timeout_s: float = DELIVERY_S) -> None:
        """Wait until all is durable. Raises LogError where it is not, or not in time."""
        num_left = self._producer.flush(timeout_s)
        self._check()
        if num_left:
            raise LogError(f"{num_left} events were not delivered within {timeout_s} s; is the broker reachable?")

    def close(self, timeout_s: float = 10.0) -> None:
        """Wait a while for what is on its way, then let go; only `flush` says whether it arrived."""
        if self._is_open:
            self._is_open = False
            self._producer.flush(timeout_s)

    def _note(self, error: KafkaError | None, message: Message) -> None:
        """Hear of an event that was not taken; of others nothing is said."""
        if error is not None and self._failure is None:
            self._failure = failed(f"an event of {message.topic()} with key {message.key()!r}", error)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure
