"""History, partition by partition: the four topics of rollouts, read once and folded as they come."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from confluent_kafka import Message

from consumers.history.lean import LeanDecoder
from consumers.history.merge import MergedTopics
from consumers.history.ranges import Range
from consumers.history.rollouts import Rollouts
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
        """Fold a partition's range, and yield soon after something is finished or closed. Raises LogError."""
        add, open_groups, take, watched = into.add, into.open, into.take, self._watched
        for topic, messages, times_ms in self._merged.runs(partition, found.starts, found.ends):
            decoder, is_watched = self._decoders[topic], topic == "rewards" and watched != ""
            keys = [message.key() for message in messages]
            records = decoder.records(keys, messages)
            self.num_read += len(messages)
            into.pass_to(times_ms[0])
            for message, key, found_record, time_ms in zip(messages, keys, records, times_ms, strict=True):
                record = found_record or self._whole(decoder, topic, message)
                if record is None:
                    continue
                if is_watched and record.scoring_id == watched:
                    self._on_watched(self._whole(decoder, topic, message), position_of(topic, message))
                group = open_groups.get(key)
                if group is None:
                    add(key, record, time_ms, message.headers)
                else:
                    take[type(record)](group, record, time_ms, message.headers)
            if into.finished or into.closed:
                yield

    def close(self) -> None:
        """Let go."""
        self._merged.close()

    def _whole(self, decoder: LeanDecoder, topic: str, message: Message) -> Any:
        """Return the whole record, None where it is no event of its topic."""
        try:
            return decoder.whole(raw_record(message, position_of(topic, message)))
        except DecodeError as error:
            self.num_undecodable += 1
            if len(self.undecodable) < 5:
                self.undecodable.append(str(error)[:300])
            return None


def position_of(topic: str, message: Message) -> Position:
    """Return where a message of the topic stands."""
    return Position(topic, int(message.partition() or 0), int(message.offset() or 0))
