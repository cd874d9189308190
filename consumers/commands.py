"""Follows `commands`: all of it once, from its beginning, and then what comes; a small topic, read by every instance.

What must hold: whoever opens it has read all that was there at that moment, so that nothing is decided without it.
"""

import logging
from collections.abc import Callable

from consumers.reader import EventReader, RawRecord
from schemas.errors import DecodeError
from schemas.recalls import TOPIC, Recalls

OpenReader = Callable[..., EventReader]
LOGGER = logging.getLogger("consumers.commands")


class CommandFeed:
    """What was called back, kept up to date by `poll`. Not thread-safe."""

    def __init__(self, open_reader: OpenReader) -> None:
        """Read all that is there, and be ready for what comes. Raises LogError."""
        self.recalls = Recalls()
        self._num_unreadable = 0
        first = open_reader([TOPIC], start="beginning", bounded=True, on_undecodable=pass_over)
        try:
            for event in first:
                self.recalls.take(event)
            positions = dict(first.positions)
        finally:
            first.close()
        self._reader = open_reader([TOPIC], start=positions, on_undecodable=pass_over)
        self._note()

    def poll(self) -> bool:
        """Take what has come since, without waiting; returns whether anything did. Raises LogError."""
        events = self._reader.poll(timeout_s=0.0)
        for event in events:
            self.recalls.take(event)
        self._note()
        return bool(events)

    def close(self) -> None:
        """Let go."""
        self._reader.close()

    def _note(self) -> None:
        # Repeats and what is no event are read too, and stand for nothing.
        self.recalls.reach(max(self._reader.positions.values(), default=0))
        if len(self.recalls.unreadable) > self._num_unreadable:
            self._num_unreadable = len(self.recalls.unreadable)
            LOGGER.warning("not obeyed, since it cannot be read: %s", list(self.recalls.unreadable.values())[-1])


def read_recalls(open_reader: OpenReader, *, end: int | None = None) -> Recalls:
    """Return all that was called back, as the log has it now or had it up to an offset. Raises LogError."""
    if end is None:
        feed = CommandFeed(open_reader)
        feed.close()
        return feed.recalls
    recalls = Recalls()
    reader = open_reader([TOPIC], start="beginning", bounded=True, on_undecodable=pass_over)
    try:
        for event in reader:
            if event.position is not None and event.position.offset < end:
                recalls.take(event)
    finally:
        reader.close()
    recalls.reach(end)
    return recalls


def pass_over(raw: RawRecord, error: DecodeError) -> None:
    """Leave what is no command: it tells nobody anything."""
