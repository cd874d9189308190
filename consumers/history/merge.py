"""One partition of several topics as one sequence, merged by the records' times.

What must hold: records of one topic come in the order of their offsets; the sequence is a function of the log alone and
not of how it was fetched; what is read ahead is bounded by bytes, whatever the topics' sizes; a range ends where the
ends say that were asked for before.
"""

from collections.abc import Iterator, Mapping, Sequence

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from consumers.offsets import At, open_consumer, out_of_range, unreachable
from schemas.config import LogSettings
from schemas.connection import on_cluster
from schemas.errors import LogError
from schemas.events import Position

NUM_AT_ONCE = 500
WAIT_S = 0.2
QUEUE_KBYTES = 128
"""Read ahead per topic: the merge takes from one topic at a time, and the others' queues fill meanwhile."""
FETCH_BYTES = 64 << 10
BACKOFF_MS = 10
"""Until the client looks again whether a queue that was full has room; its own second would be most of the time."""
MOST_WAIT_MS = 5
"""All is there already; what a broker is asked for at the end of one partition delays the next one's beginning."""
TOGETHER_MS = 2_000
"""Of records within such a stretch those of the first topic come first: causes before effects, and many at a time."""
END = 1 << 62
Run = tuple[str, list[Message], list[int]]


class TopicStream:
    """One topic's records of one partition at a time."""

    def __init__(self, log: LogSettings, topic: str, *, place: int, num_places: int) -> None:
        """`place` of `num_places` says which topic goes first where times are equal."""
        self.topic = topic
        self._log, self._place, self._num_places = log, place, num_places
        self._consumer: Consumer = open_consumer(
            log,
            **{
                "queued.max.messages.kbytes": QUEUE_KBYTES,
                "fetch.message.max.bytes": FETCH_BYTES,
                "fetch.queue.backoff.ms": BACKOFF_MS,
                "fetch.min.bytes": 1,
                "fetch.wait.max.ms": MOST_WAIT_MS,
            },
        )
        self._position = self._end = 0
        self._partition, self._is_over = 0, True
        self.messages: list[Message] = []
        self.times_ms: list[int] = []
        self.next = 0
        """Index of the first message that was not handed out."""

    def start(self, partition: int, start: int, end: int) -> None:
        """Go to a partition's range."""
        self._partition, self._position, self._end = partition, start, end
        self.messages, self.times_ms, self.next = [], [], 0
        self._is_over = start >= end
        if not self._is_over:
            self._consumer.assign([TopicPartition(on_cluster(self._log, self.topic), partition, start)])

    def fill(self) -> bool:
        """Have at least one message in hand; returns False at the end. Raises LogError."""
        if self.next < len(self.messages):
            return True
        if self._is_over:
            return False
        while self._position < self._end:
            if self._fetch():
                return True
        self.messages, self.times_ms, self.next = [], [], 0
        self._consumer.unassign()
        self._is_over = True
        return False

    def rank(self) -> int:
        """Return the rank of the next message, END at the end: its stretch of time, and below it the topic's place.

        So no two topics' are equal. Raises LogError.
        """
        if self.next == len(self.times_ms) and not self.fill():
            return END
        return self.times_ms[self.next] // TOGETHER_MS * self._num_places + self._place

    def take(self, limit: int) -> tuple[list[Message], list[int]]:
        """Take the messages in hand, and their times, up to the first whose rank is over the limit."""
        # What has a lower rank is of a stretch before this one.
        end_ms = -((self._place - limit) // self._num_places) * TOGETHER_MS
        times_ms, start = self.times_ms, self.next
        stop, end = start + 1, len(times_ms)
        while stop < end and times_ms[stop] < end_ms:
            stop += 1
        self.next = stop
        return self.messages[start:stop], times_ms[start:stop]

    def close(self) -> None:
        """Let go."""
        self._consumer.close()

    def _fetch(self) -> bool:
        try:
            found: list[Message] = self._consumer.consume(NUM_AT_ONCE, 0)
            if not found:
                # Waits for one, since a batch call waits for all, and takes what came with it.
                found = self._consumer.consume(1, WAIT_S) + self._consumer.consume(NUM_AT_ONCE, 0)
        except KafkaException as error:
            raise unreachable(self._log, error) from error
        self.messages = messages = [m for m in found if m.error() is None or self._note(m)]
        if not messages:
            return False
        last = int(messages[-1].offset() or 0)
        self._position = max(self._position, last + 1)
        if last >= self._end:
            self.messages = messages = [m for m in messages if int(m.offset() or 0) < self._end]
        self.times_ms, self.next = [m.timestamp()[1] for m in messages], 0
        return bool(messages)

    def _note(self, message: Message) -> bool:
        """Take what is no record: the end of the partition, or trouble; always False."""
        error = message.error()
        code = error.code()
        if code == KafkaError._PARTITION_EOF:
            # Transaction markers have offsets too: only the broker knows that nothing follows.
            self._position = max(self._position, int(message.offset() or 0))
        elif code == KafkaError._AUTO_OFFSET_RESET:
            raise out_of_range(Position(self.topic, self._partition, self._position), error.str())
        elif error.fatal() or not error.retriable():
            raise LogError(f"{self.topic}[{self._partition}]: {error.str()} ({error.name()})")
        return False


class MergedTopics:
    """The same partition of several topics, one partition after the other. Not thread-safe."""

    def __init__(self, log: LogSettings, topics: Sequence[str]) -> None:
        """Open it; topics that come first go first where times are equal."""
        self.streams = [TopicStream(log, t, place=i, num_places=len(topics)) for i, t in enumerate(topics)]

    def runs(self, partition: int, starts: Mapping[At, int], ends: Mapping[At, int]) -> Iterator[Run]:
        """Yield topic, messages that follow each other, and their times in ms, up to the ends. Raises LogError."""
        for stream in self.streams:
            at = (stream.topic, partition)
            stream.start(partition, starts[at], ends[at])
        while True:
            first, least, limit = self.streams[0], END, END
            for stream in self.streams:
                rank = stream.rank()
                if rank < least:
                    first, least, limit = stream, rank, least
                elif rank < limit:
                    limit = rank
            if least == END:
                return
            yield first.topic, *first.take(limit)

    def close(self) -> None:
        """Let go."""
        for stream in self.streams:
            stream.close()
