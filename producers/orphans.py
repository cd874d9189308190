"""Events of tasks that nobody issued: to `deadletters`, whole, and then acknowledged."""

from collections import deque
from typing import Any

from consumers.open_tasks import OpenTask, OpenTasks
from consumers.raw import RawRecord
from producers.publisher import Publisher
from schemas.codec import encode_headers, encode_value
from schemas.errors import DecodeError, RollogError
from schemas.events import Event


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
    """Puts aside what waited for its task in vain. One thread owns it."""

    def __init__(self, tasks: OpenTasks, publisher: Publisher) -> None:
        self._tasks, self._publisher = tasks, publisher
        self._num_left: dict[str, int] = {}
        """Dead letters on their way, by task."""
        self._written: deque[tuple[str, RollogError | None]] = deque()
        """Filled by the publisher's thread."""

    @property
    def num_writing(self) -> int:
        """Return how many dead letters are on their way."""
        return sum(self._num_left.values())

    def tick(self, now_s: float) -> None:
        """Finish what is durable as a dead letter; send what has become an orphan. Raises what failed to be written."""
        while self._written:
            self._note(*self._written.popleft())
        for task in self._tasks.orphans(now_s):
            if task.task_id not in self._num_left:
                self._num_left[task.task_id] = len(task.inputs)
                for event in task.inputs:
                    self._send(event, task)

    def _send(self, event: Event[Any], task: OpenTask) -> None:
        why = DecodeError(f"{event.position}: belongs to task {event.key!r}, which nobody issued")
        letter = self._publisher.dead_letter(raw_of(event), stage="generator", error=why)
        self._publisher.publish(letter, lambda error: self._written.append((task.task_id, error)))

    def _note(self, task_id: str, error: RollogError | None) -> None:
        if error is not None:
            raise error
        self._num_left[task_id] -= 1
        if self._num_left[task_id]:
            return
        del self._num_left[task_id]
        task = self._tasks.open.get(task_id)
        if task is not None and task.group.task is None:
            self._tasks.finish(task_id)
