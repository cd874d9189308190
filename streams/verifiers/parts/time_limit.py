"""A time limit on a piece of work in the main thread, which leaves a clock that was running as it was."""

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LEAST_S = 1e-3


class TimeOverError(BaseException):
    """The time is over; no library catches it by accident."""


def _ring(_signal: int, _frame: object) -> None:
    raise TimeOverError


@contextmanager
def time_limit(limit_s: float) -> Iterator[None]:
    """Raise TimeoutError from the block after `limit_s`.

    The process' one clock may be somebody else's already, as that by which a worker ends itself. Where it rings sooner,
    it is left alone; else it runs on afterwards, with its own handler. Outside the main thread, where signals do not
    arrive, there is no limit.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    left_s, every_s = signal.getitimer(signal.ITIMER_REAL)
    if 0 < left_s <= limit_s:
        yield
        return
    before = signal.signal(signal.SIGALRM, _ring)
    started_s = time.monotonic()
    signal.setitimer(signal.ITIMER_REAL, limit_s)
    try:
        yield
    except TimeOverError:
        raise TimeoutError(f"no answer within {limit_s} s") from None
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if left_s:
            signal.setitimer(signal.ITIMER_REAL, max(left_s - (time.monotonic() - started_s), LEAST_S), every_s)
