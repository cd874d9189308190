"""History, partition by partition: the four topics of rollouts, read once and folded as they come."""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from consumers.history.lean import LeanDecoder
from consumers.history.merge import MergedTopics
from consumers.history.ranges import Range
from consumers.history.rollouts import Rollouts
from consumers.raw import RawRecord
from consumers.reader import raw_record
from producers.blobs import BlobStore
from schemas.config import LogSettings
from schemas.errors import DecodeError
from schemas.events import Position

TOPICS = ("tasks", "rollouts", "executions", "rewards")
"""In the order of cause and effect, which decides where times are equal."""
OnReward = Callable[[Any, Position], None]


class History:
    """Reads ranges of the log's past. Not thread-safe."""

    def __init__(
        self, log: LogSettings, *, blob_dir: Path, whole: frozenset[type[Any]] = frozenset(), on_reward: OnReward
    ) -> None:
        """`whole` are the records that are wanted with all fields; `on_reward` sees each reward, of any scoring."""
        blobs = BlobStore(blob_dir)
        self.num_read = 0
        """Records, events or not."""
        self.undecodable: list[str] = []
        """What is wrong with the first few records that are no events."""
        self.num_undecodable = 0
        self._on_reward = on_reward
        self._merged = MergedTopics(log, TOPICS)
        self._decoders = {topic: LeanDecoder(topic, blobs, whole=whole) for topic in TOPICS}

    def read(self, partition: int, found: Range, into: Rollouts) -> Iterator[None]:
        """Fold a partition's range, and yield each time that something is finished or closed. Raises LogError."""
        finished, closed, add = into.finished, into.closed, into.add
        decode = {topic: decoder.record for topic, decoder in self._decoders.items()}
        for topic, message in self._merged.read(partition, found.starts, found.ends):
            self.num_read += 1
            key, headers = message.key(), message.headers() or []
            try:
                record = decode[topic](key, message.value(), headers, partial(as_raw, topic, message))
            except DecodeError as error:
                self._note(error)
                continue
            if topic == "rewards":
                self._on_reward(record, Position(topic, partition, int(message.offset() or 0)))
            add(key, record, message.timestamp()[1], headers)
            if finished or closed:
                yield

    def close(self) -> None:
        """Let go."""
        self._merged.close()

    def _note(self, error: DecodeError) -> None:
        self.num_undecodable += 1
        if len(self.undecodable) < 5:
            self.undecodable.append(str(error)[:300])


def as_raw(topic: str, message: Message) -> RawRecord:
    """Return the message as a raw record."""
    return raw_record(message, Position(topic, int(message.partition() or 0), int(message.offset() or 0)))
