"""From a tape into a namespace of a cluster, record by record as they were.

What must hold: a namespace that holds anything but the first of the tape's records is refused, so that doing it again,
or going on after a crash, adds only what is missing; afterwards every record was read back and compared.
"""

import time
from collections.abc import Mapping
from pathlib import Path

import msgspec

from consumers.offsets import At, spans
from consumers.raw import RawRecord
from consumers.tapes.file import TapeFile
from consumers.tapes.reader import TapeReader
from rollog.tapes.comparing import Comparison, compare
from rollog.tapes.targets import OnProgress, target_for, write
from rollog.topics import create_topics
from schemas.config import LogSettings
from schemas.errors import ConfigError, LogError
from schemas.topics import get_topic


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
    """One import of a tape."""

    def __init__(self, log: LogSettings, path: Path, *, blob_dir: Path) -> None:
        """Look at tape and namespace. Raises ConfigError where the one cannot go into the other, TapeError."""
        self.path, self.blob_dir, self.tape = path, blob_dir, TapeFile(path)
        self.target = target_for(self.tape, log)
        self.num_records = sum(entry.num_records for entry in self.tape.index.frames)

    def run(self, *, apply: bool, on_progress: OnProgress = lambda done, of: None) -> Import:
        """Compare, and with `apply` write and compare again. Raises ConfigError where other events are there."""
        there = self._compare()
        counts = {at: there[at].num_same if at in there else 0 for at in self.tape.ranges}
        num_there, num_written = sum(counts.values()), 0
        log = self.target.log
        if apply:
            create_topics(log)
            num_written = self._write(counts, on_progress)
            self._check_written()
        return Import(
            applied=apply,
            file=str(self.path),
            namespace=log.namespace,
            partitions=log.partitions,
            num_records=self.num_records,
            num_there=num_there,
            num_written=num_written,
            created=self.target.missing,
            moved=tuple(f"{topic}[{p}]" for topic, p in self.tape.ranges if self._moves((topic, p))),
            expiring=tuple(self._expiring()),
        )

    def _compare(self) -> dict[At, Comparison]:
        log = self.target.log
        found = compare(log, self.tape, spans(log, self.target.there), blob_dir=self.blob_dir)
        differences = [comparison.difference for comparison in found.values() if comparison.difference]
        if differences:
            more = f", and {len(differences) - 1} more" if differences[1:] else ""
            raise ConfigError(
                f"namespace {log.namespace!r} holds events that are not the tape's: {differences[0]}{more}; "
                "choose an empty namespace"
            )
        return found

    def _write(self, counts: Mapping[At, int], on_progress: OnProgress) -> int:
        """Write what is missing, in the order of time. Returns how many."""
        left = dict(counts)

        def is_missing(raw: RawRecord) -> bool:
            at = (raw.position.topic, raw.position.partition)
            left[at] -= 1
            return left[at] < 0

        reader = TapeReader(self.path, list(self.tape.topics), start="beginning", bounded=True)
        try:
            return write(
                self.target.log,
                filter(is_missing, reader.records()),
                tape=self.tape,
                blob_dir=self.blob_dir,
                num_records=self.num_records - sum(counts.values()),
                on_progress=on_progress,
            )
        finally:
            reader.close()

    def _check_written(self) -> None:
        log = self.target.log
        found = compare(log, self.tape, spans(log, list(self.tape.topics)), blob_dir=self.blob_dir)
        wrong = [f"{topic}[{p}]: {c.difference or 'ends early'}" for (topic, p), c in found.items() if not c.is_whole]
        if wrong:
            raise LogError(f"{log.namespace!r} does not hold what {self.path} does: {', '.join(wrong[:3])}")

    def _moves(self, at: At) -> bool:
        """Return whether a partition's records get other offsets than they had."""
        start, _ = self.tape.ranges[at]
        entries = [self.tape.index.frames[number] for number in self.tape.frames_of(at, start)]
        num_records = sum(entry.num_records for entry in entries)
        return num_records > 0 and (start > 0 or num_records < entries[-1].end)

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
