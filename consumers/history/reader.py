"""History, partition by partition: the four topics of rollouts, read once and folded as they come."""

from collections.abc import Callable, Iterator
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
        self,
        log: LogSettings,
        *,
        blob_dir: Path,
        whole: frozenset[type[Any]] = frozenset(),
        watched: str = "",
        on_watched: OnReward = lambda _reward, _where: None,
    ) -> None:
        """Open it; `whole` are the records that are wanted with all fields, `watched` is a scoring to hear of."""
        blobs = BlobStore(blob_dir)
        self.num_read = 0
        """Records, events or not."""
        self.undecodable: list[str] = []
        """What is wrong with the first few records that are no events."""
        self.num_undecodable = 0
        self._watched, self._on_watched = watched, on_watched
        self._merged = MergedTopics(log, TOPICS)
        self._decoders = {topic: LeanDecoder(topic, blobs, whole=whole) for topic in TOPICS}

    def read(self, partition: int, found: Range, into: Rollouts) -> Iterator[None]:
        """Fold a partition's range, and yield each time that something is finished or closed. Raises LogError."""
        finished, closed, add, watched = into.finished, into.closed, into.add, self._watched
        for topic, messages in self._merged.runs(partition, found.starts, found.ends):
            decoder = self._decoders[topic]
            decode = decoder.record
            self.num_read += len(messages)
            for message in messages:
                key, headers = message.key(), message.headers() or []
                record = decode(key, message.value(), headers)
                if record is None:
                    record = self._decode(decoder, as_raw(topic, message))
                    if record is None:
                        continue
                if topic == "rewards" and record.scoring_id == watched:
                    self._on_watched(record, Position(topic, partition, int(message.offset() or 0)))
                add(key, record, message.timestamp()[1], headers)
                if finished or closed:
                    yield

    def close(self) -> None:
        """Let go."""
        self._merged.close()

    def _decode(self, decoder: LeanDecoder, raw: RawRecord) -> Any:
        """Return the record, None where it is no event of its topic."""
        try:
            return decoder.whole(raw)
        except DecodeError as error:
            self.num_undecodable += 1
            if len(self.undecodable) < 5:
                self.undecodable.append(str(error)[:300])
            return None


def as_raw(topic: str, message: Message) -> RawRecord:
    """Return the message as a raw record."""
    return raw_record(message, Position(topic, int(message.partition() or 0), int(message.offset() or 0)))
