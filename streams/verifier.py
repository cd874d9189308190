"""The verifier: whole rollouts to rewards.

    tasks, rollouts, executions --take--> open tasks --whole--> scoring pool --finding--> RewardScored --durable--> ack

What must hold: every sample of every task gets exactly one live reward: a value, or invalid with its reason
(`infrastructure`, `deadline`, `verifier_timeout`, `verifier_error`). A task's events are acknowledged once all of its
rewards are on the log.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from consumers.open_tasks import OpenTask, OpenTasks
from consumers.orphans import Orphanage
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from schemas.config import VerifierSettings
from schemas.events import Event
from schemas.tasks import TaskIssued
from schemas.trajectory import sample_of
from streams.outbox import Outbox, Writer
from streams.scoring import Finding, Job, is_scored, job_of, live_reward, reward_id, reward_of, without_worth
from streams.scoring_pool import ScoringPool

Ack = Callable[[], None]
OUT_OF_TIME = Finding(invalid_reason="deadline", detail="the rollout was not whole by the task's deadline and grace")


class Scorer(Protocol):
    """What the verifier needs of `ScoringPool`."""

    def submit(self, job: Job, then: Callable[[Finding], None]) -> None:
        """Queue a job; `then` gets a finding on the event loop."""
        ...

    async def close(self) -> None:
        """Give up what is open."""
        ...


def is_finished(task: OpenTask) -> bool:
    """Return whether the verifier has nothing more to do for the task."""
    issued = task.group.task
    return issued is not None and is_scored(issued, task.group)


class RewardStage:
    """The verifier's stage."""

    name = "verifier"
    inputs: tuple[str, ...] = ("tasks", "rollouts", "executions")
    outputs: tuple[str, ...] = ("rewards",)

    def __init__(
        self, settings: VerifierSettings, writer: Writer, telemetry: Telemetry, scorer: Scorer | None = None
    ) -> None:
        self._telemetry = telemetry
        self._outbox = Outbox(writer, telemetry)
        self._tasks = OpenTasks(is_finished=is_finished, grace_s=settings.grace_s)
        self._orphanage = Orphanage(self._tasks, partial(self._outbox.put_aside, self.name))
        self._scorer = scorer or ScoringPool(
            num_processes=settings.num_processes,
            timeout_s=settings.timeout_s,
            attempts=settings.attempts,
            on_error=self._outbox.fail,
        )
        self._in_hand: set[tuple[str, int]] = set()
        """(task id, sample) that are being scored or whose reward is on its way."""
        self._is_idle = asyncio.Event()
        self._is_stopping = False

    async def take(self, event: Event[Any], ack: Ack) -> None:
        """Hold the event until its task is over; score what it made whole."""
        self._outbox.check()
        if self._is_stopping:
            return
        assert event.position is not None
        self._telemetry.events.labels(event.position.topic, "in").inc()
        task = self._tasks.take(event, ack, now_s=time.time())
        if task is None or task.group.task is None:
            return
        sample = sample_of(event.record)
        for index in (*task.group.samples,) if sample is None else (sample,):
            self._consider(task, task.group.task, index)

    def recall(self, outputs: list[Event[Any]]) -> None:
        """Learn which rewards there are."""
        self._tasks.recall(outputs)

    def revoke(self, partitions: set[int]) -> None:
        """Forget the tasks of partitions that another instance has now."""
        self._tasks.forget(partitions)

    async def tick(self, now_s: float) -> None:
        """End what is out of time, and put orphans aside."""
        self._outbox.check()
        for task in self._tasks.overdue(now_s):
            issued = task.group.task
            assert issued is not None
            for sample in range(issued.num_samples):
                if self._is_open(task, sample):
                    self._in_hand.add((task.task_id, sample))
                    self._send(issued, task.issued, sample, OUT_OF_TIME)
        self._orphanage.tick(now_s)
        self._telemetry.pending(len(self._in_hand))

    async def drain(self, timeout_s: float) -> None:
        """Take no more; let scorings finish until the time is over. The rest comes again."""
        self._is_stopping = True
        try:
            async with asyncio.timeout(timeout_s):
                while self._in_hand:
                    self._outbox.check()
                    self._is_idle.clear()
                    await self._is_idle.wait()
        except TimeoutError:
            pass
        finally:
            await self._scorer.close()

    def _is_open(self, task: OpenTask, sample: int) -> bool:
        return (task.task_id, sample) not in self._in_hand and live_reward(task.group.sample(sample)) is None

    def _consider(self, task: OpenTask, issued: TaskIssued, sample: int) -> None:
        """Score a sample if it is whole and nothing is being done about it."""
        trajectory = task.group.sample(sample)
        if sample >= issued.num_samples or not trajectory.is_whole or not self._is_open(task, sample):
            return
        self._in_hand.add((task.task_id, sample))
        cause = trajectory.ended[None]
        finding = without_worth(trajectory)
        if finding is not None:
            self._send(issued, cause, sample, finding)
            return
        busy = self._telemetry.busy()
        busy.__enter__()
        self._scorer.submit(job_of(issued.verifier, trajectory), partial(self._scored, issued, cause, sample, busy))

    def _scored(
        self,
        issued: TaskIssued,
        cause: Event[Any],
        sample: int,
        busy: AbstractContextManager[None],
        finding: Finding,
    ) -> None:
        busy.__exit__(None, None, None)
        self._telemetry.seconds.labels("verify", issued.domain).observe(finding.score_s)
        if issued.task_id in self._tasks.open:
            self._send(issued, cause, sample, finding)
        else:
            self._release(issued.task_id, sample)  # its partition went to another instance, and so did the work

    def _send(self, issued: TaskIssued, cause: Event[Any], sample: int, finding: Finding) -> None:
        reward = reward_of(issued, sample, finding)
        if reward.invalid_reason is not None:
            self._telemetry.invalid.labels(reward.invalid_reason).inc()
        event = self._outbox.writer.event(
            reward,
            id=reward_id(reward),
            key=issued.task_id,
            subject=reward.rollout_id,
            cause=cause,
            correlation_id=issued.task_id,
        )
        self._outbox.send(event, partial(self._written, event, sample))

    def _written(self, event: Event[Any], sample: int) -> None:
        self._release(event.key, sample)
        self._tasks.note_output(event)

    def _release(self, task_id: str, sample: int) -> None:
        self._in_hand.discard((task_id, sample))
        self._telemetry.progress(len(self._in_hand))
        if not self._in_hand:
            self._is_idle.set()


def run_verifier(runtime: Runtime) -> None:
    """Run the service until it is told to stop."""
    from streams.app import run_stage  # here, so that the stage itself needs no stream processor

    settings = runtime.settings.verifier
    run_stage(runtime, lambda publisher: RewardStage(settings, publisher, runtime.telemetry))
