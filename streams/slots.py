"""Threads that run blocking work and hand results to the event loop.

Cheaper per piece than an executor of futures: one queue in, one hand-off out, no object in between.
"""

from collections.abc import Callable
from functools import partial
from queue import SimpleQueue
from threading import Thread
from typing import Generic, TypeVar

from streams.handoff import Handoff

W = TypeVar("W")
R = TypeVar("R")


class Slots(Generic[W, R]):
    """`num_slots` threads, each doing one piece of work at a time, in the order of arrival."""

    def __init__(
        self,
        num_slots: int,
        *,
        work: Callable[[W], R],
        on_done: Callable[[W, R], None],
        on_error: Callable[[BaseException], None],
    ) -> None:
        """`work` runs on the threads; `on_done` and `on_error` on the event loop that makes this."""
        self._queue: SimpleQueue[W | None] = SimpleQueue()
        self._work, self._on_done, self._on_error = work, on_done, on_error
        self._handoff = Handoff()
        self._threads = [Thread(target=self._serve, name=f"slot-{i}", daemon=True) for i in range(num_slots)]
        for thread in self._threads:
            thread.start()

    def submit(self, piece: W) -> None:
        """Queue one piece of work."""
        self._queue.put(piece)

    def close(self) -> None:
        """Let each thread end after the piece that it has in hand; what is queued behind is not done."""
        while not self._queue.empty():
            self._queue.get_nowait()
        for _ in self._threads:
            self._queue.put(None)

    def _serve(self) -> None:
        while (piece := self._queue.get()) is not None:
            try:
                result = self._work(piece)
            except BaseException as error:  # noqa: BLE001 the loop raises it: a thread has nobody to raise it to
                self._handoff.post(partial(self._on_error, error))
                return
            self._handoff.post(partial(self._on_done, piece, result))
