"""From other threads to the event loop, many at a time.

Waking a loop costs a system call, and a thread that hands over thousands of small results pays it each time. Here only
the first of a burst wakes the loop; what is posted until it runs comes along.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from threading import Lock

Call = Callable[[], None]


class Handoff:
    """Calls posted by any thread, made in order on one event loop. Belongs to the loop that made it."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._calls: deque[Call] = deque()
        self._lock = Lock()
        self._is_woken = False

    def post(self, call: Call) -> None:
        """Have the loop make this call soon. Once the loop is closed, calls are dropped: nobody is left to care."""
        with self._lock:
            self._calls.append(call)
            if self._is_woken or self._loop.is_closed():
                return
            self._is_woken = True
        self._loop.call_soon_threadsafe(self._run)

    def _run(self) -> None:
        with self._lock:
            self._is_woken = False
            calls, self._calls = self._calls, deque()
        for call in calls:
            call()
