"""A stage that joins two topics by key and holds what has no partner yet; also runs as a process to be killed.

python -m tests.streams.join_stage BOOTSTRAP NAMESPACE PARTITIONS INSTANCE HOME SESSION_S
"""

import signal
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from consumers.open_tasks import OpenTask, OpenTasks
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from producers.publisher import Publisher
from schemas.config import LogSettings, Settings
from schemas.decisions import Decision
from schemas.events import Event
from schemas.ids import derive_id
from streams import app
from streams.outbox import Outbox


class JoinStage:
    """One decision for each task whose rollout ended."""

    name = "join"
    inputs = ("tasks", "rollouts")
    outputs = ("decisions",)

    def __init__(self, publisher: Publisher, telemetry: Telemetry, instance: str) -> None:
        self.publisher, self.instance = publisher, instance
        self.outbox = Outbox(publisher, telemetry)
        self.open = OpenTasks(is_finished=lambda task: bool(task.outputs), grace_s=1e9, orphan_s=1e9)
        self.sending: set[str] = set()

    async def take(self, event: Event[Any], ack: Callable[[], None]) -> None:
        self.outbox.check()
        task = self.open.take(event, ack, now_s=0.0)
        if task is not None and self.is_ready(task) and task.task_id not in self.sending:
            self.sending.add(task.task_id)
            decision = self.decision(task)
            self.outbox.send(decision, partial(self.note, decision))

    def note(self, decision: Event[Any]) -> None:
        self.sending.discard(decision.key)
        self.open.note_output(decision)

    def is_ready(self, task: OpenTask) -> bool:
        return task.group.task is not None and task.group.sample(0).end is not None

    def decision(self, task: OpenTask) -> Event[Any]:
        record = Decision(
            task_id=task.task_id,
            run_id="chaos",
            domain="repair",
            stage="assembler",
            reason="held_out",
            detail=self.instance,
        )
        return self.publisher.event(record, id=derive_id(task.task_id, "decision", 0, "live"), key=task.task_id)

    def recall(self, outputs: list[Event[Any]]) -> None:
        self.open.recall(outputs)

    def revoke(self, partitions: set[int]) -> None:
        for task in self.open.forget(partitions):
            self.sending.discard(task.task_id)

    async def tick(self, now_s: float) -> None:
        self.outbox.check()

    async def drain(self, timeout_s: float) -> None:
        await self.outbox.drained()


def runtime_of(log: LogSettings, home: Path, instance: str, stop: threading.Event) -> Runtime:
    return Runtime(settings=Settings(log=log), home=home, instance=instance, telemetry=Telemetry(instance), stop=stop)


def main() -> None:
    bootstrap, namespace, partitions, instance, home, session_s = sys.argv[1:]
    log = LogSettings(bootstrap=bootstrap, namespace=namespace, partitions=int(partitions))
    app.SESSION_S = float(session_s)
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    runtime = runtime_of(log, Path(home), instance, stop)
    app.run_stage(runtime, lambda publisher: JoinStage(publisher, runtime.telemetry, instance))


if __name__ == "__main__":
    main()
