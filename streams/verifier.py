"""The verifier: whole rollouts to rewards.

    tasks, rollouts, executions --take--> open tasks --whole--> scoring pool --finding--> RewardScored --durable--> ack

What must hold: every sample of every task gets exactly one reward under the scoring that the task was issued under, and
one of each shadow: a value, or invalid with its reason (`infrastructure`, `deadline`, `verifier_timeout`,
`verifier_error`). A task's events are acknowledged once all of its rewards are on the log. Shadows have lanes of their
own, so that none holds up a reward that trains.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

import msgspec

from consumers.open_tasks import OpenTask, OpenTasks
from consumers.orphans import Orphanage
from consumers.runtime import Runtime
from consumers.telemetry import Telemetry
from schemas.config import VerifierSettings
from schemas.events import Event
from schemas.rewards import RewardScored
from schemas.tasks import TaskIssued
from schemas.trajectory import sample_of
from streams.lanes import Lanes
from streams.outbox import Outbox, Writer
from streams.rescoring.in_use import check_today, read_in_use
from streams.scoring import Finding, Job, is_scored, job_of, reward_id, reward_in, reward_of, without_worth
from streams.shadows import Shadows, Wanted, declare_shadows, note_pair

Ack = Callable[[], None]
OUT_OF_TIME = Finding(invalid_reason="deadline", detail="the rollout was not whole by the task's deadline and grace")


class Asked(msgspec.Struct, frozen=True):
    """One reward that is being found."""

    issued: TaskIssued
    cause: Event[Any]
    sample: int
    wanted: Wanted


class Scorer(Protocol):
    """What the verifier needs of `Lanes`."""

    def submit(self, job: Job, then: Callable[[Finding], None]) -> None:
        """Queue a job; `then` gets a finding on the event loop."""
        ...

    async def close(self) -> None:
        """Give up what is open."""
        ...


class RewardStage:
    """The verifier's stage."""

    name = "verifier"
    inputs: tuple[str, ...] = ("tasks", "rollouts", "executions")
    outputs: tuple[str, ...] = ("rewards",)

    def __init__(
        self,
        settings: VerifierSettings,
        writer: Writer,
        telemetry: Telemetry,
        scorer: Scorer | None = None,
        shadow_scorer: Scorer | None = None,
    ) -> None:
        """Raise ConfigError where the settings name shadows that are not known."""
        self._telemetry = telemetry
        self._outbox = Outbox(writer, telemetry)
        self._tasks = OpenTasks(is_finished=self._is_finished, grace_s=settings.grace_s)
        self._orphanage = Orphanage(self._tasks, partial(self._outbox.put_aside, self.name))
        self._shadows = Shadows.of(settings)
        self._scorer = scorer or Lanes(settings, on_error=self._outbox.fail)
        self._shadow_scorer = shadow_scorer or Lanes(settings, on_error=self._outbox.fail)
        self._in_hand: set[tuple[str, int, str]] = set()
        """(task id, sample, scoring id) that are being scored or whose reward is on its way."""
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
                for wanted in self._shadows.wanted(issued):
                    if self._is_open(task, sample, wanted):
                        self._in_hand.add((task.task_id, sample, wanted.scoring_id))
                        self._send(Asked(issued, task.issued, sample, wanted), OUT_OF_TIME)
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
            await self._shadow_scorer.close()

    def _is_finished(self, task: OpenTask) -> bool:
        issued = task.group.task
        return issued is not None and all(
            is_scored(issued, task.group, wanted.scoring_id) for wanted in self._shadows.wanted(issued)
        )

    def _is_open(self, task: OpenTask, sample: int, wanted: Wanted) -> bool:
        is_in_hand = (task.task_id, sample, wanted.scoring_id) in self._in_hand
        return not is_in_hand and reward_in(task.group.sample(sample), wanted.scoring_id) is None

    def _consider(self, task: OpenTask, issued: TaskIssued, sample: int) -> None:
        """Score a sample if it is whole and nothing is being done about it."""
        trajectory = task.group.sample(sample)
        if sample >= issued.num_samples or not trajectory.is_whole:
            return
        cause = trajectory.ended[None]
        finding = without_worth(trajectory)
        for wanted in self._shadows.wanted(issued):
            if not self._is_open(task, sample, wanted):
                continue
            self._in_hand.add((task.task_id, sample, wanted.scoring_id))
            if finding is not None:
                self._send(Asked(issued, cause, sample, wanted), finding)
                continue
            busy = self._telemetry.busy()
            busy.__enter__()
            scorer = self._scorer if wanted.scoring_id == issued.scoring_id else self._shadow_scorer
            then = partial(self._scored, Asked(issued, cause, sample, wanted), busy)
            scorer.submit(job_of(wanted.spec, trajectory), then)

    def _scored(self, asked: Asked, busy: AbstractContextManager[None], finding: Finding) -> None:
        busy.__exit__(None, None, None)
        issued, scoring_id = asked.issued, asked.wanted.scoring_id
        stage = "verify" if scoring_id == issued.scoring_id else "shadow"
        self._telemetry.seconds.labels(stage, issued.domain).observe(finding.score_s)
        if issued.task_id in self._tasks.open:
            self._send(asked, finding)
        else:
            # Its partition went to another instance, and so did the work.
            self._release(issued.task_id, asked.sample, scoring_id)

    def _send(self, asked: Asked, finding: Finding) -> None:
        issued, wanted = asked.issued, asked.wanted
        reward = reward_of(issued, asked.sample, finding, spec=wanted.spec, scoring_id=wanted.scoring_id)
        if reward.invalid_reason is not None and reward.is_own:
            self._telemetry.invalid.labels(reward.invalid_reason).inc()
        event = self._outbox.writer.event(
            reward,
            id=reward_id(reward),
            key=issued.task_id,
            subject=reward.rollout_id,
            cause=asked.cause,
            correlation_id=issued.task_id,
        )
        self._outbox.send(event, partial(self._written, event, asked.sample))

    def _written(self, event: Event[Any], sample: int) -> None:
        self._release(event.key, sample, event.record.scoring_id)
        task = self._tasks.open.get(event.key)
        if task is not None:
            self._compare(task, event.record)
        self._tasks.note_output(event)

    def _compare(self, task: OpenTask, reward: RewardScored) -> None:
        """Count each pair of a reward that trains and a shadow's, when the second of the two is written."""
        trajectory = task.group.sample(reward.sample)
        own = reward_in(trajectory, task.issued.record.scoring_id)
        if not reward.is_own:
            if own is not None:
                note_pair(self._telemetry, own, reward)
            return
        for event in trajectory.rewards.values():
            if not event.record.is_own:
                note_pair(self._telemetry, reward, event.record)

    def _release(self, task_id: str, sample: int, scoring_id: str) -> None:
        self._in_hand.discard((task_id, sample, scoring_id))
        self._telemetry.progress(len(self._in_hand))
        if not self._in_hand:
            self._is_idle.set()


def run_verifier(runtime: Runtime) -> None:
    """Run the service until it is told to stop."""
    from streams.app import run_stage  # here, so that the stage itself needs no stream processor

    settings = runtime.settings.verifier
    for scoring in read_in_use(runtime.log, runtime.settings.run, blob_dir=runtime.blob_dir).scorings:
        check_today(scoring)
    source = f"rollog/{runtime.instance}"
    declare_shadows(runtime.log, Shadows.of(settings), source=source, blob_dir=runtime.blob_dir)
    run_stage(runtime, lambda publisher: RewardStage(settings, publisher, runtime.telemetry))
