"""Plays a tape again into a namespace of its own, in the order of time.

What must hold: nothing is written to a namespace that holds anything, so never to the one that the records come from.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec

from consumers.raw import RawRecord
from consumers.tapes.file import TapeFile
from consumers.tapes.reader import TapeReader
from producers.pacing import Pace
from rollog.tapes.targets import OnProgress, check_empty, target_for, write
from rollog.topics import create_topics
from schemas.config import LogSettings
from schemas.errors import ConfigError


class Replay(msgspec.Struct, frozen=True, kw_only=True):
    """What a replay did, or would do."""

    applied: bool
    namespace: str
    partitions: int
    """Of every task-keyed topic; services that use the namespace need `log.partitions` so."""
    speed: float
    num_records: int
    num_written: int
    original_s: float
    """From the oldest record to the newest, as they were written."""
    late_s: float
    """How far behind its time the last record was written."""


def scratch(log: LogSettings, into: str) -> LogSettings:
    """Return the log to write to. Raises ConfigError for the source's own namespace, or none."""
    if not into:
        raise ConfigError("--into is empty: name a scratch namespace, `replay.`, say")
    if into == log.namespace:
        raise ConfigError(f"--into {into!r} is where the records come from; choose another namespace, `replay.`, say")
    return msgspec.structs.replace(log, namespace=into)


def replay(
    log: LogSettings,
    path: Path,
    topics: Sequence[str],
    *,
    pace: Pace,
    blob_dir: Path,
    apply: bool,
    on_progress: OnProgress = lambda done, of: None,
) -> Replay:
    """Write these topics of a tape to the scratch log, each record when it is due.

    Raises ConfigError where the namespace cannot take them, LogError, TapeError.
    """
    tape = TapeFile(path)
    reader = TapeReader(path, topics, start="beginning", bounded=True)
    try:
        target = target_for(tape, log)
        check_empty(target)
        entries = [entry for entry in tape.index.frames if entry.topic in topics and entry.num_records]
        num_records, num_written = sum(entry.num_records for entry in entries), 0
        if apply:
            create_topics(target.log)
            records = due(reader.records(), pace)
            num_written = write(
                target.log,
                records,
                tape=tape,
                blob_dir=blob_dir,
                num_records=num_records,
                on_progress=on_progress,
            )
        times = [time_ms for entry in entries for time_ms in (entry.min_ms, entry.max_ms)] or [0]
        return Replay(
            applied=apply,
            namespace=target.log.namespace,
            partitions=target.log.partitions,
            speed=pace.speed,
            num_records=num_records,
            num_written=num_written,
            original_s=(max(times) - min(times)) / 1000,
            late_s=round(pace.late_s, 3),
        )
    finally:
        reader.close()
        tape.close()


def due(records: Iterator[RawRecord], pace: Pace) -> Iterator[RawRecord]:
    """Yield each record when it is due."""
    for raw in records:
        pace.keep(raw.timestamp_ms)
        yield raw
