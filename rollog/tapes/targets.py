"""A namespace that a tape's records are to be written to, and the writing."""

from collections.abc import Callable, Iterable
from pathlib import Path

import msgspec

from consumers.offsets import spans
from consumers.raw import RawRecord
from consumers.tapes.file import TapeFile
from producers.blobs import BlobStore
from producers.publisher import Publisher
from rollog.topics import describe_topics
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.topics import TOPICS, get_topic

OnProgress = Callable[[int, int], None]
DELIVERY_S = 130.0
"""Longer than the client tries to deliver."""
PROGRESS_EVERY = 1_000


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """A log that can hold a tape: with its number of partitions, in topics that are there or missing."""

    log: LogSettings
    there: tuple[str, ...]
    """Topics of the catalogue."""
    missing: tuple[str, ...]
    """Topics, by the names that the cluster will know them by."""


def target_for(tape: TapeFile, log: LogSettings) -> Target:
    """Return where the tape's records go. Raises ConfigError where no log, or not this one, can hold them."""
    common = {count for name, count in tape.topics.items() if get_topic(name).by_task}
    if len(common) > 1:
        raise ConfigError(f"{tape.path} has task-keyed topics of {sorted(common)} partitions; a log has one count")
    log = msgspec.structs.replace(log, partitions=min(common, default=log.partitions))
    states = dict(zip(TOPICS, describe_topics(log), strict=True))
    for name, topic in TOPICS.items():
        wanted, got = topic.partitions(log.partitions), states[name].partitions
        if tape.topics.get(name, wanted) != wanted:
            raise ConfigError(f"{tape.path} has {tape.topics[name]} partitions of {name}, the catalogue {wanted}")
        if got not in (0, wanted):
            raise ConfigError(f"{states[name].name} has {got} partitions, the tape {wanted}: choose another namespace")
    return Target(
        log=log,
        there=tuple(name for name, state in states.items() if state.partitions),
        missing=tuple(state.name for state in states.values() if not state.partitions),
    )


def check_empty(target: Target) -> None:
    """Raise ConfigError where the namespace holds, or ever held, a record."""
    for (topic, partition), (_, end) in spans(target.log, target.there).items():
        if end:
            raise ConfigError(
                f"namespace {target.log.namespace!r} is not empty: {topic}[{partition}] has {end} records; "
                "choose another one"
            )


def write(
    log: LogSettings,
    records: Iterable[RawRecord],
    *,
    tape: TapeFile,
    blob_dir: Path,
    num_records: int,
    on_progress: OnProgress,
) -> int:
    """Write the tape's blobs, then the records, and wait for the broker. Returns how many. Raises LogError."""
    blobs = BlobStore(blob_dir)
    for value in tape.blobs():
        blobs.put(value)
    publisher = Publisher(log, source="rollog/tape", blob_dir=blob_dir)
    num_written = 0
    try:
        for raw in records:
            publisher.publish_raw(raw)
            num_written += 1
            if num_written % PROGRESS_EVERY == 0:
                on_progress(num_written, num_records)
        publisher.flush(DELIVERY_S)
    finally:
        publisher.close()
    on_progress(num_written, num_records)
    return num_written
