"""The assembler: groups of scored rollouts to batches, or to decisions why not.

    tasks, rollouts, rewards --take--> open tasks --complete or late--> Batch | Decision --durable--> ack

What must hold: every task ends exactly once here. Its events are acknowledged once that end is on the log.
"""

import asyncio
import json
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

from consumers.commands import CommandFeed
from consumers.open_tasks import OpenTask, OpenTasks
from consumers.orphans import Orphanage
from consumers.reader import Reader
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from schemas.batches import Batch
from schemas.config import AssemblerSettings
from schemas.decisions import Decision
from schemas.events import Event
from schemas.ids import derive_id
from schemas.rewards import RewardScored
from schemas.scorings import LIVE
from schemas.trajectory import Group
from streams.assembly import assemble
from streams.outbox import Outbox, Writer
from streams.recalling import barred

Ack = Callable[[], None]


def has_ended(task: OpenTask) -> bool:
    """Return whether the task's batch or decision is on the log."""
    return bool(task.outputs)


def is_end(record: Batch | Decision) -> bool:
    """Return whether it is how a task ended: the learner's decisions are about batches, rebuilt ones about history."""
    return record.stage == "assembler" if isinstance(record, Decision) else not record.is_rebuilt


def end_id(end: Batch | Decision) -> str:
    """Return the event id of a group's end."""
    if isinstance(end, Batch):
        return derive_id(end.task_id, "batch", 0, end.scoring_id)
    return derive_id(end.task_id, "decision", 0, LIVE)  # whatever the scoring: a task has one


def read_context_tokens(policy: Path) -> int | None:
    """Return the longest sequence that a policy's `config.json` allows, None where it says nothing or is not here."""
    path = policy / "config.json"
    fields = json.loads(path.read_text()) if path.is_file() else {}
    tokens = fields.get("max_position_embeddings")
    return tokens if isinstance(tokens, int) else None


class GroupStage:
    """The assembler's stage."""

    name = "assembler"
    inputs: tuple[str, ...] = ("tasks", "rollouts", "rewards")
    outputs: tuple[str, ...] = ("batches", "decisions")

    def __init__(
        self,
        settings: AssemblerSettings,
        writer: Writer,
        telemetry: Telemetry,
        *,
        context_tokens: int | None = None,
        commands: CommandFeed | None = None,
    ) -> None:
        """`commands` says what is quarantined; it has read all that was on the log before the first group ends."""
        self._settings, self._telemetry, self._context_tokens = settings, telemetry, context_tokens
        self._commands = commands
        self._outbox = Outbox(writer, telemetry)
        self._tasks = OpenTasks(is_finished=has_ended, grace_s=settings.grace_s)
        self._orphanage = Orphanage(self._tasks, partial(self._outbox.put_aside, self.name))
        self._ending: set[str] = set()
        """Tasks whose end is on its way."""
        self._is_stopping = False

    async def take(self, event: Event[Any], ack: Ack) -> None:
        """Hold the event until its group ends; end the group that it completed."""
        self._outbox.check()
        if self._is_stopping:
            return
        assert event.position is not None
        self._telemetry.events.labels(event.position.topic, "in").inc()
        if isinstance(event.record, RewardScored) and not event.record.is_own:
            ack()  # a shadow's, or of history that was scored again: its tasks may be long over
            return
        now_s = time.time()
        task = self._tasks.take(event, ack, now_s=now_s)
        if task is not None:
            self._end_if_due(task, now_s)

    def recall(self, outputs: list[Event[Any]]) -> None:
        """Learn which tasks have ended."""
        self._tasks.recall(output for output in outputs if is_end(output.record))

    def revoke(self, partitions: set[int]) -> None:
        """Forget the tasks of partitions that another instance has now."""
        self._tasks.forget(partitions)

    async def tick(self, now_s: float) -> None:
        """End what is out of time, and put orphans aside."""
        self._outbox.check()
        if self._commands is not None:
            self._commands.poll()
        for task in self._tasks.overdue(now_s):
            self._end_if_due(task, now_s)
        self._orphanage.tick(now_s)
        self._telemetry.pending(len(self._ending))

    async def drain(self, timeout_s: float) -> None:
        """Take no more; wait until what is on its way is written. Open groups come again."""
        self._is_stopping = True
        try:
            async with asyncio.timeout(timeout_s):
                await self._outbox.drained()
        except TimeoutError:
            pass

    def _end_if_due(self, task: OpenTask, now_s: float) -> None:
        if task.task_id in self._ending:
            return
        with self._telemetry.busy():
            started_s = time.perf_counter()
            end = assemble(
                task.group,
                settings=self._settings,
                now_s=now_s,
                context_tokens=self._context_tokens,
                barred=self._barred,
                commands_end=0 if self._commands is None else self._commands.recalls.end,
            )
            if end is None:
                return
            self._telemetry.seconds.labels("assemble", end.domain).observe(time.perf_counter() - started_s)
            if isinstance(end, Decision):
                self._telemetry.dropped.labels(end.reason).inc()
            event = self._outbox.writer.event(
                end,
                id=end_id(end),
                key=task.task_id,
                subject=task.task_id,
                cause=task.inputs[-1],
                correlation_id=task.task_id,
            )
            self._ending.add(task.task_id)
            self._outbox.send(event, partial(self._written, event))

    def _barred(self, group: Group) -> Mapping[int, str]:
        if self._commands is None or group.task is None:
            return {}
        quarantines = self._commands.recalls.in_force(group.task.run_id)
        return barred(quarantines, group) if quarantines else {}

    def _written(self, event: Event[Any]) -> None:
        self._ending.discard(event.key)
        self._tasks.note_output(event)
        self._telemetry.progress(len(self._ending))


def run_assembler(runtime: Runtime) -> None:
    """Run the service until it is told to stop."""
    from streams.app import run_stage  # here, so that the stage itself needs no stream processor

    settings, telemetry = runtime.settings, runtime.telemetry
    context_tokens = read_context_tokens(Path(settings.policy.base))
    open_reader = partial(Reader, runtime.log, blob_dir=runtime.blob_dir)
    with closing(CommandFeed(open_reader)) as commands:
        run_stage(
            runtime,
            lambda log: GroupStage(
                settings.assembler, log, telemetry, context_tokens=context_tokens, commands=commands
            ),
        )
