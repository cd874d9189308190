"""Plays records again at a multiple of the pace at which they were written."""

import math
import threading
import time
from collections.abc import Callable

from schemas.errors import ConfigError


class Pace:
    """When the next record is due: as long after the first one as it was written after it, divided by the speed."""

    def __init__(
        self,
        speed: float,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Callable[[float], object] | None = None,
    ) -> None:
        """`speed` 1 is the original pace, 0 as fast as it goes. Raises ConfigError for what is no speed."""
        if not (math.isfinite(speed) and speed >= 0):
            raise ConfigError(f"speed {speed}: wanted a number from 0, which is as fast as it goes")
        self.speed = speed
        self._clock, self._wait = clock, wait or threading.Event().wait
        self._first_ms = 0
        self._start_s: float | None = None
        self.late_s = 0.0
        """How far behind its time the last record was handed on; grows where the pace cannot be kept."""

    def keep(self, timestamp_ms: int) -> None:
        """Wait until a record of this time is due. One that is older than the one before it is due at once."""
        if self.speed == 0:
            return
        if self._start_s is None:
            self._start_s, self._first_ms = self._clock(), timestamp_ms
        due_s = self._start_s + (timestamp_ms - self._first_ms) / 1000 / self.speed
        while (left_s := due_s - self._clock()) > 0:
            self._wait(left_s)
        self.late_s = -left_s
