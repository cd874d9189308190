"""`rollog fork` that kills itself once so many events of one kind are durable: `batch:5` after the sixth batch."""

import os
import signal
import sys
from collections.abc import Iterable
from typing import Any

from producers.publisher import Publisher
from rollog import cli
from schemas.events import Event

KIND, NUMBER = sys.argv[1].split(":")
SEND_ALL = Publisher.send_all
SEEN: list[str] = []


def send_all(self: Publisher, events: Iterable[Event[Any]]) -> list[Event[Any]]:
    """Write one after the other, and die after the one."""
    written = []
    for event in events:
        written += SEND_ALL(self, [event])
        if event.type.split(".")[1] == KIND:
            if len(SEEN) == int(NUMBER):
                os.kill(os.getpid(), signal.SIGKILL)
            SEEN.append(event.id)
    return written


Publisher.send_all = send_all  # type: ignore[method-assign]
sys.argv[1:] = sys.argv[2:]
cli.main()
