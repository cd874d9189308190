"""Waits for a run to end, reads what it prints, and says which limit ended it."""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import os
import select
import time

from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .capture import Capture

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_MIN_CHECK_S = 0.05
_NEVER_S = 1e9


class Watch:
    """One run: its pipes, what becomes readable at its end, and the host's connection, whose end is also the run's."""

    def __init__(
        self,
        request: wire.Request,
        captures: list[Capture],
        ends: list[int],
        control: int | None,
        cpu_used: Callable[[], float],
    ) -> None:
        self._request = request
        self._captures = {capture.fd: capture for capture in captures}
        self._control = control
        self._cpu_used = cpu_used
        self._poll = select.poll()
        for fd in (*self._captures, *ends):
            self._poll.register(fd, select.POLLIN)
        if control is not None:
            self._poll.register(control, 0)  # a hang-up is told unasked

    def until_over(self, started_s: float) -> int:
        """Block until the run is over (ENDED; not all output may be read yet) or a limit is passed (kill it)."""
        deadline_s = started_s + self._request.wall_s
        check_s = started_s + _cpu_check_after_s(self._request.cpu_s)
        while True:
            now_s = time.monotonic()
            if now_s >= deadline_s:
                return wire.WALL
            if now_s >= check_s:
                left_s = self._request.cpu_s - self._cpu_used()
                if left_s <= 0:
                    return wire.CPU
                check_s = now_s + _cpu_check_after_s(left_s)
            is_ended = False
            for fd, _ in self._poll.poll(max(1.0, 1e3 * (min(deadline_s, check_s) - now_s))):
                if fd == self._control:
                    os._exit(0)
                if fd not in self._captures:
                    is_ended = True
                elif not self._read(self._captures[fd]):
                    return wire.OUTPUT
            if is_ended:
                return wire.ENDED

    def _read(self, capture: Capture) -> bool:
        if not capture.read():
            self._poll.unregister(capture.fd)
        return capture.num_bytes <= self._request.output_bytes


def _cpu_check_after_s(left_s: float) -> float:
    """Return when to look: until then not even all processors together could have used it up."""
    return max(_MIN_CHECK_S, left_s / len(os.sched_getaffinity(0))) if left_s else _NEVER_S


def cpu_of_others() -> float:
    """Return processor seconds of all processes seen here but this, with the children that they waited for."""
    return sum(sum(map(int, fields[11:15])) for fields in _stat_of_others()) / _TICKS_PER_S


def largest_rss_of_others() -> int:
    """Return resident bytes of the largest process that this one sees but itself."""
    return max((int(fields[21]) for fields in _stat_of_others()), default=0) * _PAGE_BYTES


def _stat_of_others() -> Iterator[list[bytes]]:
    """Yield `/proc/N/stat` of each, from the state on."""
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                fd = os.open(f"/proc/{name}/stat", os.O_RDONLY)
            except FileNotFoundError:
                continue
            try:
                yield os.read(fd, 1024).rpartition(b")")[2].split()
            except ProcessLookupError:
                continue
            finally:
                os.close(fd)
