"""A fixed number of slots, kept alive: a slot that failed or did its share of jobs is replaced in the background."""

import contextlib
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future

from schemas.errors import SandboxError
from streams.sandbox.slot import Slot, SlotFailedError

_CLOSED = "sandbox: it was closed"
_WAIT_S = 30.0
_FIRST_RETRY_S, _LAST_RETRY_S = 0.1, 10.0


class Pool:
    """Slots to take and give back, by any thread.

    One thread of the pool starts all slots, because a slot dies with the thread that started it.

    Raises:
        SlotFailedError: the first slot did not start. The others start in the background.
    """

    def __init__(self, start: Callable[[int], Slot], num_slots: int, *, jobs_per_slot: int) -> None:
        self._start = start
        self._num_slots = num_slots
        self._jobs_per_slot = jobs_per_slot
        self._idle: queue.SimpleQueue[Slot | None] = queue.SimpleQueue()
        self._orders: queue.SimpleQueue[tuple[int, Future[Slot]] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._is_closed = False
        self._last_error = ""
        self._next_extra = num_slots
        self._keeper = threading.Thread(target=self._keep, name="sandbox-slots", daemon=True)
        self._keeper.start()
        try:
            first = self._order(0)
            for number in range(1, num_slots):
                self._replace(number)
            self._idle.put(first.result())
        except BaseException:
            self.close()
            raise

    def take(self) -> Slot:
        """Wait for a slot, which is this thread's until it gives it back.

        Raises:
            SandboxError: the pool was closed.
            SlotFailedError: none became free; says why none could be started.
        """
        try:
            slot = self._idle.get(timeout=_WAIT_S)
        except queue.Empty as error:
            msg = f"no slot became free within {_WAIT_S:g} s; the last one to fail: {self._last_error or 'none did'}"
            raise SlotFailedError(msg) from error
        if slot is None:
            self._idle.put(None)
            raise SandboxError(_CLOSED)
        return slot

    def give_back(self, slot: Slot, *, is_sound: bool) -> None:
        """Free it for the next, or end it and start another in its place."""
        if self._is_closed:
            slot.kill()
        elif is_sound and slot.num_jobs < self._jobs_per_slot:
            self._idle.put(slot)
        else:
            slot.close() if is_sound else slot.kill()
            self._replace(slot.number)

    def start_extra(self) -> Slot:
        """Start a slot beside the pool's, which its owner closes.

        Raises:
            SlotFailedError: it did not start.
        """
        self._next_extra += 1
        return self._order(self._next_extra).result()

    def close(self) -> None:
        """End all slots; whoever waits for one is told."""
        with self._closing:
            self._is_closed = True
            self._orders.put(None)
        self._keeper.join()
        for slot in self._drain():
            slot.close()
        self._idle.put(None)

    def _drain(self) -> list[Slot]:
        found: list[Slot] = []
        while True:
            try:
                slot = self._idle.get_nowait()
            except queue.Empty:
                return found
            if slot is not None:
                found.append(slot)

    def _order(self, number: int) -> "Future[Slot]":
        future: Future[Slot] = Future()
        with self._closing:  # so that no order comes after the end
            if not self._is_closed:
                self._orders.put((number, future))
                return future
        future.set_exception(SandboxError(_CLOSED))
        return future

    def _replace(self, number: int) -> None:
        self._order(number).add_done_callback(lambda future: self._placed(number, future))

    def _placed(self, number: int, future: "Future[Slot]") -> None:
        error = future.exception()
        if error is None:
            self._idle.put(future.result())
        elif not self._is_closed:
            self._last_error = str(error)
            self._replace(number)

    def _keep(self) -> None:
        """Start what is ordered; after a failure each next attempt waits longer, unless the pool is closed."""
        retry_s, not_before_s = 0.0, 0.0
        held: list[tuple[int, Future[Slot]]] = []
        is_open = True
        while is_open:
            wait_s = not_before_s - time.monotonic()
            if self._is_closed or not held or wait_s > 0:
                with contextlib.suppress(queue.Empty):
                    order = self._orders.get(timeout=max(wait_s, 0) if held and not self._is_closed else None)
                    is_open = order is not None  # close puts the last one
                    held += [order] if order else []
                continue
            number, future = held.pop(0)
            try:
                slot = self._start(number)
            except Exception as error:  # noqa: BLE001  whoever ordered it is told; the thread serves the next order
                retry_s = min(max(2 * retry_s, _FIRST_RETRY_S), _LAST_RETRY_S)
                not_before_s = time.monotonic() + retry_s
                future.set_exception(error)
            else:
                retry_s = not_before_s = 0.0
                future.set_result(slot)
        for _, future in held:
            future.set_exception(SandboxError(_CLOSED))
