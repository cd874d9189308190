"""Events of tasks that nobody issued: to `deadletters`, whole, and then acknowledged."""

from collections.abc import Callable
from typing import Any

from consumers.open_tasks import OpenTask, OpenTasks
from consumers.raw import RawRecord
from schemas.codec import encode_headers, encode_value
from schemas.errors import DecodeError
from schemas.events import Event

PutAside = Callable[[RawRecord, DecodeError, Callable[[], None]], None]
"""Writes a dead letter without waiting; the last argument is called, where the stage runs, once it is durable."""


def raw_of(event: Event[Any]) -> RawRecord:
    """Return the event as it stands on the log."""
    assert event.position is not None
    return RawRecord(
        position=event.position,
        key=event.key.encode(),
        value=encode_value(event.record),
        headers=list(encode_headers(event)),
        timestamp_ms=int(event.time_s * 1000),
    )


class Orphanage:
    """Puts aside what waited for its task in vain. One event loop or thread owns it."""

    def __init__(self, tasks: OpenTasks, put_aside: PutAside) -> None:
        self._tasks, self._put_aside = tasks, put_aside
        self._num_left: dict[str, int] = {}
        """Dead letters on their way, by task."""

    @property
    def num_writing(self) -> int:
        """Return how many dead letters are on their way."""
        return sum(self._num_left.values())

    def tick(self, now_s: float) -> None:
        """Send what has become an orphan."""
        for task in self._tasks.orphans(now_s):
            if task.task_id not in self._num_left:
                self._num_left[task.task_id] = len(task.inputs)
                for event in task.inputs:
                    self._send(event, task)

    def _send(self, event: Event[Any], task: OpenTask) -> None:
        why = DecodeError(f"{event.position}: belongs to task {event.key!r}, which nobody issued")
        self._put_aside(raw_of(event), why, lambda: self._sent(task))

    def _sent(self, task: OpenTask) -> None:
        self._num_left[task.task_id] -= 1
        if self._num_left[task.task_id]:
            return
        del self._num_left[task.task_id]
        if task.group.task is None and self._tasks.open.get(task.task_id) is task:
            self._tasks.finish(task.task_id)
