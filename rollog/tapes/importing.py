"""From a tape into a namespace of a cluster, record by record as they were.

What must hold: a namespace that holds anything but the first of the tape's records is refused, so that doing it again,
or going on after a crash, adds only what is missing; afterwards every record was read back and compared.
"""

import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from consumers.offsets import At, spans
from consumers.tapes.file import TapeFile
from consumers.tapes.reader import TapeReader
from producers.blobs import BlobStore
from producers.publisher import Publisher
from rollog.tapes.comparing import Comparison, compare
from rollog.topics import TopicState, create_topics, describe_topics
from schemas.config import LogSettings
from schemas.errors import ConfigError, LogError
from schemas.topics import TOPICS, get_topic

OnProgress = Callable[[int, int], None]
DELIVERY_S = 130.0
"""Longer than the client tries to deliver."""


class Import(msgspec.Struct, frozen=True, kw_only=True):
    """What an import did, or would do."""

    applied: bool
    file: str
    namespace: str
    partitions: int
    """Of every task-keyed topic; services that use the namespace need `log.partitions` so."""
    num_records: int
    """On the tape."""
    num_there: int
    """Of them in the namespace before."""
    num_written: int
    created: tuple[str, ...]
    """Topics that were missing."""
    moved: tuple[str, ...]
    """Partitions whose records stand at other offsets than on the tape, since that starts late or has gaps. Steps name
    batches by offset: to recompute them, use the tape."""
    expiring: tuple[str, ...]
    """Topics of which the broker will soon delete records again, by the catalogue's retention."""


class Importer:
    """One import of a tape into `log.namespace`."""

    def __init__(self, log: LogSettings, path: Path, *, blob_dir: Path) -> None:
        """Open the tape. Raises ConfigError where no log can hold it, TapeError."""
        self.path, self.blob_dir, self.tape = path, blob_dir, TapeFile(path)
        common = {count for name, count in self.tape.topics.items() if get_topic(name).by_task}
        if len(common) > 1:
            raise ConfigError(f"{path} has task-keyed topics of {sorted(common)} partitions; a log has one count")
        self.log = msgspec.structs.replace(log, partitions=min(common, default=log.partitions))

    def run(self, *, apply: bool, on_progress: OnProgress = lambda done, of: None) -> Import:
        """Look, and with `apply` write and look again. Raises ConfigError where the namespace cannot take the tape."""
        states = describe_topics(self.log)
        self._check_partitions(states)
        missing = [state.name for state in states if not state.partitions]
        there = self._compare([name for name in TOPICS if self.log.namespace + name not in missing])
        counts = {at: there[at].num_same if at in there else 0 for at in self.tape.ranges}
        num_written = 0
        if apply:
            create_topics(self.log)
            num_written = self._write(counts, on_progress)
            self._check_written()
        return Import(
            applied=apply,
            file=str(self.path),
            namespace=self.log.namespace,
            partitions=self.log.partitions,
            num_records=sum(entry.num_records for entry in self.tape.index.frames),
            num_there=sum(counts.values()),
            num_written=num_written,
            created=tuple(missing),
            moved=tuple(f"{t}[{p}]" for (t, p) in self.tape.ranges if self._moves((t, p))),
            expiring=tuple(self._expiring()),
        )

    def _check_partitions(self, states: list[TopicState]) -> None:
        for topic, state in zip(TOPICS.values(), states, strict=True):
            wanted = self.tape.topics.get(topic.name, topic.partitions(self.log.partitions))
            if wanted != topic.partitions(self.log.partitions):
                raise ConfigError(f"{self.path} has {wanted} partitions of {topic.name}, the catalogue 1")
            if state.partitions not in (0, wanted):
                raise ConfigError(
                    f"{state.name} has {state.partitions} partitions, the tape {wanted}: choose another namespace"
                )

    def _compare(self, topics: list[str]) -> dict[At, Comparison]:
        found = compare(self.log, self.tape, spans(self.log, topics), blob_dir=self.blob_dir)
        differences = [comparison.difference for comparison in found.values() if comparison.difference]
        if differences:
            raise ConfigError(
                f"namespace {self.log.namespace!r} holds events that are not the tape's: {differences[0]}"
                f"{f', and {len(differences) - 1} more' if differences[1:] else ''}; choose an empty namespace"
            )
        return found

    def _write(self, counts: Mapping[At, int], on_progress: OnProgress) -> int:
        """Write what is missing, in the order of time. Returns how many."""
        blobs = BlobStore(self.blob_dir)
        for value in self.tape.blobs():
            blobs.put(value)
        left, num_written = dict(counts), 0
        num_records = sum(entry.num_records for entry in self.tape.index.frames)
        publisher = Publisher(self.log, source="rollog/tape", blob_dir=self.blob_dir)
        reader = TapeReader(self.path, list(self.tape.topics), start="beginning", bounded=True)
        try:
            for number, raw in enumerate(reader.records()):
                at = (raw.position.topic, raw.position.partition)
                if left[at]:
                    left[at] -= 1
                    continue
                publisher.publish_raw(raw)
                num_written += 1
                if number % 1000 == 0:
                    on_progress(number, num_records)
            publisher.flush(DELIVERY_S)
            on_progress(num_records, num_records)
        finally:
            reader.close()
            publisher.close()
        return num_written

    def _check_written(self) -> None:
        found = compare(self.log, self.tape, spans(self.log, list(self.tape.topics)), blob_dir=self.blob_dir)
        wrong = [f"{topic}[{p}]: {c.difference or 'ends early'}" for (topic, p), c in found.items() if not c.is_whole]
        if wrong:
            raise LogError(f"{self.log.namespace!r} does not hold what {self.path} does: {', '.join(wrong[:3])}")

    def _moves(self, at: At) -> bool:
        start, _ = self.tape.ranges[at]
        last = None
        for number in self.tape.frames_of(at, start):
            entry = self.tape.index.frames[number]
            if entry.end - entry.offset != entry.num_records:
                return True
            last = entry
        return start > 0 and last is not None

    def _expiring(self) -> list[str]:
        now_ms = time.time() * 1000
        return sorted(
            {
                entry.topic
                for entry in self.tape.index.frames
                if entry.num_records and 0 <= get_topic(entry.topic).retention_ms < now_ms - entry.min_ms
            }
        )

    def close(self) -> None:
        """Let go."""
        self.tape.close()
