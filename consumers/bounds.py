"""What a cluster has of a log at one moment: its identity, and each partition's first offset and one past its last.

Whoever reads history asks this first, so that what is written meanwhile does not move its end.
"""

from collections.abc import Mapping

import msgspec

from consumers.offsets import EARLIEST, LATEST, TIMEOUT_S, At, offsets_at, open_consumer
from schemas.config import LogSettings
from schemas.connection import on_cluster
from schemas.errors import LogError
from schemas.topics import TOPICS

Bounds = Mapping[At, tuple[int, int]]
"""First offset and one past the last, by topic of the catalogue and partition."""


class LogState(msgspec.Struct, frozen=True, kw_only=True):
    """A log as it is now."""

    cluster_id: str
    bounds: dict[At, tuple[int, int]]

    @property
    def num_offsets(self) -> int:
        """Return how many offsets there are."""
        return sum(end - first for first, end in self.bounds.values())


def read_state(log: LogSettings) -> LogState:
    """Return what there is of the catalogue's topics; those that were never created are left out. Raises LogError."""
    consumer = open_consumer(log)
    try:
        metadata = consumer.list_topics(timeout=TIMEOUT_S)
        names = {topic: on_cluster(log, topic) for topic in TOPICS}
        found = [
            (topic, partition)
            for topic, name in names.items()
            if name in metadata.topics
            for partition in sorted(metadata.topics[name].partitions)
        ]
        if not found:
            raise LogError(f"{log.bootstrap}: no topic of the log {log.namespace!r} is there; create its topics first")
        first = offsets_at(consumer, log, dict.fromkeys(found, EARLIEST))
        last = offsets_at(consumer, log, dict.fromkeys(found, LATEST))
    finally:
        consumer.close()
    return LogState(cluster_id=str(metadata.cluster_id or ""), bounds={at: (first[at], last[at]) for at in found})
