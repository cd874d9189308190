"""The catalogue's topics in a namespace of one's own, usable when this returns."""

import time

from consumers.reader import end_offsets
from rollog.topics import create_topics
from schemas.config import LogSettings
from schemas.errors import LogError
from schemas.topics import TOPICS


def make_topics(log: LogSettings) -> None:
    """Create the topics and wait until every partition has a leader."""
    create_topics(log)
    deadline_s = time.monotonic() + 30
    while True:
        try:
            end_offsets(log, list(TOPICS))
        except LogError:
            if time.monotonic() > deadline_s:
                raise
        else:
            return
