"""The generator's mind: which rollouts need what, given what is on the log. It touches neither Kafka nor a clock.

What must hold:
1. A rollout is in one place only: queued, being sampled, being written, or waiting for the log (`Job`).
2. What it needs next is asked of the fold (`next_step`) and never remembered, so that a restart changes nothing.
3. A turn or an end counts once it is durable; a task's inputs are acknowledged when all its samples have ended.
4. Turns that go on come before new rollouts: slots that a group holds are the sooner free.
"""

import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, Literal

from consumers.open_tasks import Ack, OpenTask, OpenTasks
from consumers.orphans import Orphanage
from consumers.raw import RawRecord
from consumers.telemetry import Telemetry
from producers import turns
from producers.actions import action_of
from producers.policies import Policies
from producers.publisher import Publisher
from producers.samplers.interface import Finished, Ids, Request, Sampler
from schemas import ids
from schemas.config import Settings
from schemas.errors import CheckpointError, DecodeError, RollogError
from schemas.events import Event
from schemas.executions import ExecutionFinished
from schemas.rollouts import EndReason
from schemas.tasks import TaskIssued
from schemas.trajectory import End, Generate, Trajectory, next_step

log = logging.getLogger(__name__)
ENCODED_TEXTS = 4096
"""Prompts whose ids are kept: a group's samples share one."""


class Job:
    """A rollout that this generator has something to do for."""

    def __init__(self, task: OpenTask, sample: int, step: Generate | None) -> None:
        self.task, self.sample, self.step = task, sample, step
        self.rollout_id = ids.rollout_id(task.task_id, sample)
        self.state: Literal["queued", "sampling", "writing", "dropped"] = "queued"
        self.context_ids: Ids | None = None
        self.request: Request | None = None
        self.queued_s = 0.0
        """Seconds from being ready to being submitted."""
        self.ready_s = time.monotonic()

    @property
    def record(self) -> TaskIssued:
        """Return the task's record; it is there, since nothing is asked of a task before."""
        record = self.task.group.task
        assert record is not None
        return record

    @property
    def trajectory(self) -> Trajectory:
        """Return what is durable of the rollout."""
        return self.task.group.sample(self.sample)


class Generator:
    """Every open rollout of this instance's partitions. One thread owns it."""

    def __init__(
        self,
        settings: Settings,
        *,
        sampler: Sampler,
        publisher: Publisher,
        telemetry: Telemetry,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives the seconds since the epoch that deadlines are compared with."""
        self.settings, self.sampler, self.telemetry = settings, sampler, telemetry
        self.policies = Policies(settings)
        self.tasks = OpenTasks(is_finished=all_ended, grace_s=0.0)
        self.jobs: dict[str, Job] = {}
        self._going_on: deque[Job] = deque()
        self._fresh: deque[Job] = deque()
        self._written: deque[tuple[Event[Any], Job, RollogError | None]] = deque()
        """Filled by the publisher's thread."""
        self._num_writing = 0
        self._publisher, self._clock = publisher, clock
        self._orphanage = Orphanage(self.tasks, self._put_aside)
        self._put: deque[tuple[Callable[[], None], RollogError | None]] = deque()
        """Dead letters that were written; filled by the publisher's thread."""
        self._texts: dict[str, Ids] = {}

    @property
    def num_writing(self) -> int:
        """Return how many turns and ends are on their way to the log."""
        return self._num_writing + self._orphanage.num_writing

    @property
    def has_work(self) -> bool:
        """Return whether something can be done without any news."""
        return bool(self.sampler.num_open or self._written)

    def recall(self, outputs: Iterable[Event[Any]]) -> None:
        """Take this stage's own outputs that were read back on assignment."""
        self.tasks.recall(outputs)

    def revoke(self, partitions: set[int]) -> None:
        """Let go of the tasks of partitions that were taken away."""
        for task in self.tasks.forget(partitions):
            for job in [job for job in self.jobs.values() if job.task is task]:
                self._drop(job)

    def take(self, event: Event[Any], ack: Ack) -> None:
        """Take a task or an execution."""
        task = self.tasks.take(event, ack, now_s=self._clock())
        if task is None or task.group.task is None:
            return
        if isinstance(event.record, ExecutionFinished):
            self._advance(task, int(event.record.rollout_id.rpartition("/")[2]))
            return
        for sample in range(task.group.task.num_samples):
            self._advance(task, sample)

    def load_newest(self) -> None:
        """Swap the newest usable policy version in; one whose files are not as published is passed over."""
        while (weights := self.policies.newer_than(self.sampler.version)) is not None:
            try:
                start_s = time.monotonic()
                self.sampler.load(weights)
                self.telemetry.seconds.labels("load", "").observe(time.monotonic() - start_s)
                return
            except CheckpointError as error:
                log.warning("policy version %d is passed over: %s", weights.version, error)
                self.telemetry.dropped.labels("policy_unusable").inc()
                self.policies.refuse(weights.version)

    def work(self, num_tokens: int) -> None:
        """Note what became durable, fill the slots, draw up to `num_tokens` tokens for each, write what is done."""
        self.note_written()
        self._start(self._going_on)
        self._start(self._fresh)
        for _ in range(num_tokens):
            if not self.sampler.num_open:
                return
            for finished in self.sampler.step():
                self._write_turn(finished)

    def note_written(self) -> None:
        """Count what the log has confirmed. Raises what kept the log from having it."""
        while self._put:
            then, error = self._put.popleft()
            if error is not None:
                raise error
            then()
        while self._written:
            event, job, error = self._written.popleft()
            if error is not None:
                raise error
            self._num_writing -= 1
            self.telemetry.events.labels("rollouts", "out").inc()
            if self.jobs.get(job.rollout_id) is job:
                del self.jobs[job.rollout_id]
            is_finished = self.tasks.note_output(event)
            if not is_finished and self.tasks.open.get(job.task.task_id) is job.task:
                self._advance(job.task, job.sample)
            self.telemetry.progress(num_pending=len(self.jobs))

    def tick(self) -> None:
        """End what is past its deadline and put orphans aside; about once a second."""
        self.note_written()
        now_s = self._clock()
        for task in self.tasks.overdue(now_s):
            record = task.group.task
            assert record is not None
            for sample in range(record.num_samples):
                job = self.jobs.get(ids.rollout_id(task.task_id, sample))
                if job is not None and job.state != "writing":
                    self._drop(job)
                self._advance(task, sample)
        self._orphanage.tick(now_s)
        self.telemetry.pending(len(self.jobs))

    def _put_aside(self, raw: RawRecord, why: DecodeError, then: Callable[[], None]) -> None:
        letter = self._publisher.dead_letter(raw, stage="generator", error=why)
        self._publisher.publish(letter, lambda error: self._put.append((then, error)))

    def _advance(self, task: OpenTask, sample: int) -> None:
        """Give a rollout what it needs next, unless that is under way."""
        record, trajectory = task.group.task, task.group.sample(sample)
        if record is None or trajectory.end is not None or ids.rollout_id(task.task_id, sample) in self.jobs:
            return
        step = next_step(record, trajectory)
        deadline_s = task.deadline_s
        if isinstance(step, End):
            self._write_end(task, sample, step.why)
        elif deadline_s is not None and deadline_s <= self._clock():
            self._write_end(task, sample, "deadline")
        elif (record.run_id, record.policy) != (self.settings.run, self.settings.policy.name):
            self._write_end(task, sample, "infrastructure")
        elif isinstance(step, Generate):
            job = Job(task, sample, step)
            self.jobs[job.rollout_id] = job
            (self._going_on if step.turn else self._fresh).append(job)

    def _start(self, queue: deque[Job]) -> None:
        """Submit from the queue while there are slots; what waits for a policy version keeps its place."""
        waiting: list[Job] = []
        while queue and self.sampler.num_free > 0:
            job = queue.popleft()
            if self.jobs.get(job.rollout_id) is not job:
                continue
            if self._has_policy(job):
                self._submit(job)
            elif job.state == "queued":
                waiting.append(job)
        queue.extendleft(reversed(waiting))

    def _has_policy(self, job: Job) -> bool:
        """Return whether the weights that a job asks for are in the sampler; loads them where that is possible."""
        version = job.record.policy_version
        if version is None:
            return self.sampler.version is not None
        if self.sampler.is_pinned(version):
            return True
        weights = self.policies.get(version)
        if weights is None:
            return False
        try:
            self.sampler.pin(weights)
        except CheckpointError as error:
            log.warning("%s ends: %s", job.rollout_id, error)
            self._drop(job)
            self._write_end(job.task, job.sample, "infrastructure")
            return False
        return True

    def _submit(self, job: Job) -> None:
        record, step = job.record, job.step
        assert step is not None
        job.context_ids = self._encode(step.context)
        prompt_ids = turns.join([*turns.sequence_so_far(job.trajectory), job.context_ids])
        if not 0 < len(prompt_ids) < self.sampler.context_length:
            self._drop(job)
            self._write_end(job.task, job.sample, "context_full")
            return
        job.request = Request(
            id=job.rollout_id,
            prompt_ids=prompt_ids,
            sampling=record.sampling,
            seed=turns.turn_seed(record, job.sample, step.turn),
            policy_version=record.policy_version,
            hint=record.gold[step.turn] if step.turn < len(record.gold) else "",
            is_last_hint=step.turn == len(record.gold) - 1,
        )
        job.queued_s = time.monotonic() - job.ready_s
        self.sampler.submit(job.request)
        job.state = "sampling"

    def _encode(self, text: str) -> Ids:
        found = self._texts.get(text)
        if found is None:
            if len(self._texts) >= ENCODED_TEXTS:
                self._texts.clear()
            found = self._texts[text] = self.sampler.encode(text)
        return found

    def _write_turn(self, finished: Finished) -> None:
        job = self.jobs[finished.id]
        assert job.request is not None
        assert job.step is not None
        assert job.context_ids is not None
        text, is_cut = self.sampler.decode(finished.token_ids), finished.finish_reason == "length"
        turn = turns.make_turn(
            job.record,
            sample=job.sample,
            turn=job.step.turn,
            context_ids=job.context_ids,
            request=job.request,
            finished=finished,
            queued_s=job.queued_s + finished.queued_s,
            text=text,
            action=None if is_cut else action_of(job.record, job.trajectory, text),
            logprob_dtype=self.settings.generator.logprob_dtype,
        )
        self.telemetry.seconds.labels("queue", turn.domain).observe(turn.queued_s)
        self.telemetry.seconds.labels("generate", turn.domain).observe(turn.generate_s)
        self.telemetry.generated_tokens.labels(turn.domain).inc(len(turn.token_ids))
        self._write(job, turn, turns.turn_id(job.rollout_id, turn.turn))

    def _write_end(self, task: OpenTask, sample: int, why: EndReason) -> None:
        job = Job(task, sample, None)
        self.jobs[job.rollout_id] = job
        end = turns.make_end(job.record, job.trajectory, sample=sample, why=why)
        if end.why in ("deadline", "infrastructure"):
            self.telemetry.dropped.labels(end.why).inc()
        self._write(job, end, turns.end_id(job.rollout_id))

    def _write(self, job: Job, record: Any, event_id: str) -> None:
        job.state = "writing"
        self._num_writing += 1
        cause = turns.cause_of(job.trajectory, job.task.issued)
        event = self._publisher.event(
            record,
            id=event_id,
            key=job.task.task_id,
            subject=job.rollout_id,
            cause=cause,
            correlation_id=job.task.task_id,
        )
        self._publisher.publish(event, lambda error: self._written.append((event, job, error)))

    def _drop(self, job: Job) -> None:
        """Stop working for a rollout; its place in a queue, if any, is passed over."""
        if job.state == "sampling":
            self.sampler.cancel(job.rollout_id)
        self.jobs.pop(job.rollout_id, None)
        job.state = "dropped"


def all_ended(task: OpenTask) -> bool:
    """Return whether every sample of a task has ended durably."""
    record = task.group.task
    return record is not None and all(task.group.sample(i).end is not None for i in range(record.num_samples))
