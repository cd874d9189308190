"""How many bytes a log takes on the embedded broker's disk."""

import re
from pathlib import Path

from rollog.broker import EmbeddedBroker
from schemas.config import LogSettings
from schemas.topics import TOPICS


def log_bytes(log: LogSettings, home: Path) -> dict[str, int] | None:
    """Return the size of the partitions' segment files by topic, all partitions together; None for a log elsewhere.

    Records and batch headers count, compressed as they lie; indexes, which are preallocated, do not.
    """
    broker = EmbeddedBroker(home=home)
    status = broker.status()
    if not status.running or status.bootstrap != log.bootstrap:
        return None
    return segment_bytes(broker.directory.data, log.namespace)


def segment_bytes(data: Path, namespace: str) -> dict[str, int]:
    """Return the size of a namespace's segment files by topic of the catalogue."""
    sizes = dict.fromkeys(TOPICS, 0)
    partition = re.compile(re.escape(namespace) + r"([a-z]+)-\d+")
    for folder in data.iterdir():
        match = partition.fullmatch(folder.name)
        if match and match[1] in sizes:
            sizes[match[1]] += sum(file.stat().st_size for file in folder.glob("*.log"))
    return sizes
