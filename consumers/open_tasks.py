"""State without stores: the open tasks of a stage's partitions, in memory, rebuilt from the log after a crash.

What must hold, and why it is exact:
1. All events of a task stay unacknowledged until the stage's outputs for it are durable; then all are acknowledged.
   What was not acknowledged is delivered again.
2. On assignment, before the first event, the stage reads back its own outputs from the time of the oldest input
   that will come again. A task whose `TaskIssued` comes again has all its outputs back, since they are younger.
3. An event whose `TaskIssued` does not come again belongs to a finished task, since that was acknowledged after the
   last output; and the read-back holds that last output, which is younger than any of the task's inputs. An event with
   neither belongs to no task that was ever issued: it is an orphan, for `deadletters`.
"""

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import Any

from schemas.events import Event
from schemas.trajectory import Group

Ack = Callable[[], None]


class OpenTask:
    """A task that this stage has not finished."""

    def __init__(self, *, task_id: str, partition: int, since_s: float) -> None:
        self.task_id = task_id
        self.partition = partition
        self.since_s = since_s
        """Wall clock when its first event was delivered to this instance."""
        self.group = Group()
        self.outputs: dict[str, Event[Any]] = {}
        """This stage's durable outputs for it, by event id."""
        self.inputs: list[Event[Any]] = []
        self.acks: list[Ack] = []

    @property
    def deadline_s(self) -> float | None:
        """Return the wall clock at which its rollouts must have ended; None while the task is not known."""
        task = self.group.task
        return None if task is None else self.group.tasks[None].time_s + task.deadline_s

    @property
    def issued(self) -> Event[Any]:
        """Return the event that issued it. Only for tasks that are no orphans."""
        return self.group.tasks[None]


class OpenTasks:
    """Every open task of the partitions that this instance has. Not thread-safe: one event loop or thread owns it."""

    def __init__(
        self,
        *,
        is_finished: Callable[[OpenTask], bool],
        grace_s: float,
        orphan_s: float = 30.0,
        memory: int = 200_000,
    ) -> None:
        """`grace_s` follows a task's deadline; `orphan_s` is how long an event waits for its task to appear."""
        self.open: dict[str, OpenTask] = {}
        self._is_finished = is_finished
        self._grace_s, self._orphan_s, self._memory = grace_s, orphan_s, memory
        self._recalled: dict[str, list[Event[Any]]] = {}
        self._finished: OrderedDict[str, None] = OrderedDict()

    def recall(self, outputs: Iterable[Event[Any]]) -> None:
        """Take the stage's own outputs that were read back; before the first event of an assignment."""
        for output in outputs:
            self._recalled.setdefault(output.key, []).append(output)

    def take(self, event: Event[Any], ack: Ack, *, now_s: float) -> OpenTask | None:
        """Hold an input until its task is finished; returns the task, or None where that is so already."""
        if event.key in self._finished:
            ack()
            return None
        assert event.position is not None
        task = self.open.get(event.key)
        if task is None:
            task = OpenTask(task_id=event.key, partition=event.position.partition, since_s=now_s)
            self.open[event.key] = task
            for output in self._recalled.pop(event.key, ()):
                self._add_output(task, output)
        task.group.add(event)
        task.inputs.append(event)
        task.acks.append(ack)
        return None if self._finish_if_due(task) else task

    def note_output(self, output: Event[Any]) -> bool:
        """Take one of the stage's own outputs, now durable. Returns whether that finished its task."""
        task = self.open.get(output.key)
        if task is None:
            return False
        self._add_output(task, output)
        return self._finish_if_due(task)

    def finish(self, task_id: str) -> None:
        """Acknowledge everything of a task and remember that it is over."""
        task = self.open.pop(task_id)
        self._finished[task_id] = None
        while len(self._finished) > self._memory:
            self._finished.popitem(last=False)
        for ack in task.acks:
            ack()

    def forget(self, partitions: Collection[int]) -> list[OpenTask]:
        """Drop and return what belongs to partitions that were taken away; it comes again, here or elsewhere."""
        dropped = [task for task in self.open.values() if task.partition in partitions]
        for task in dropped:
            del self.open[task.task_id]
        self._recalled.clear()
        return dropped

    def overdue(self, now_s: float) -> list[OpenTask]:
        """Return the tasks whose deadline and grace are over."""
        return [t for t in self.open.values() if t.deadline_s is not None and t.deadline_s + self._grace_s <= now_s]

    def orphans(self, now_s: float) -> list[OpenTask]:
        """Finish what waits for a task in vain but has outputs; return what has none, for the caller to put aside."""
        lost = [t for t in self.open.values() if t.group.task is None and t.since_s + self._orphan_s <= now_s]
        for task in lost:
            if task.outputs:
                self.finish(task.task_id)
        return [task for task in lost if not task.outputs]

    def _add_output(self, task: OpenTask, output: Event[Any]) -> None:
        task.outputs.setdefault(output.id, output)
        task.group.add(output)

    def _finish_if_due(self, task: OpenTask) -> bool:
        if not self._is_finished(task):
            return False
        self.finish(task.task_id)
        return True
