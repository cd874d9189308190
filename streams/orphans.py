"""Events of tasks that nobody issued: to `deadletters`, whole, and then acknowledged."""

from typing import Any

from consumers.open_tasks import OpenTask, OpenTasks
from schemas.codec import encode_headers, encode_value
from schemas.deadletters import DeadLetter
from schemas.events import Event
from schemas.ids import derive_id
from streams.outbox import Outbox


def dead_letter_of(event: Event[Any], *, stage: str) -> DeadLetter:
    """Return the event as a dead letter."""
    assert event.position is not None
    return DeadLetter(
        stage=stage,
        topic=event.position.topic,
        partition=event.position.partition,
        offset=event.position.offset,
        key=event.key.encode(),
        value=encode_value(event.record),
        headers=tuple(encode_headers(event)),
        error="OrphanError",
        reason=f"{event.position}: belongs to task {event.key!r}, which nobody issued",
    )


class Orphanage:
    """Puts aside what waited for its task in vain."""

    def __init__(self, tasks: OpenTasks, outbox: Outbox, *, stage: str) -> None:
        self._tasks, self._outbox, self._stage = tasks, outbox, stage
        self._num_open: dict[str, int] = {}
        """Dead letters on their way, by task."""

    def tick(self, now_s: float) -> None:
        """Send what is an orphan by now."""
        for task in self._tasks.orphans(now_s):
            if task.task_id not in self._num_open:
                self._num_open[task.task_id] = len(task.inputs)
                for event in task.inputs:
                    self._send(event, task)

    def _send(self, event: Event[Any], task: OpenTask) -> None:
        letter = dead_letter_of(event, stage=self._stage)
        out = self._outbox.writer.event(
            letter, id=derive_id(str(event.position), "dead_letter", 0, self._stage), key=event.key, cause=event
        )
        self._outbox.send(out, lambda: self._sent(task))

    def _sent(self, task: OpenTask) -> None:
        self._num_open[task.task_id] -= 1
        if self._num_open[task.task_id]:
            return
        del self._num_open[task.task_id]
        if task.group.task is None and self._tasks.open.get(task.task_id) is task:
            self._tasks.finish(task.task_id)
