"""Waits for what another process does and nothing announces: a file lock let go, a port bound."""

import threading
import time
from collections.abc import Callable

EVERY_S = 0.02


def wait_for(condition: Callable[[], bool], *, deadline_s: float) -> bool:
    """Return whether `condition` came true within `deadline_s`; it is asked at least once."""
    never = threading.Event()
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() >= end:
            return False
        never.wait(EVERY_S)
    return True
