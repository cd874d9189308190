"""The fold over history: records of many tasks, merged by time, to finished rollouts and closed groups.

    records --add--> open groups --whole--> finished --every reward there--> closed, and forgotten

What must hold: a rollout is finished exactly when `Trajectory.is_whole` says so, and is given out once; a group is
closed once each of its samples has a reward of the scoring that others are compared with; what is held is what is open
on the log itself, plus `SLACK_S` of log time for what comes late because clocks differ. Late twins are passed over.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

import msgspec

from consumers.history.lean import Envelope, Execution, Headers, Held, Reward, Turn
from consumers.history.ranges import SLACK_S
from schemas.executions import ExecutionFinished
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.scorings import LIVE
from schemas.tasks import TaskIssued
from schemas.trajectory import Trajectory

MEMORY = 16_384
"""Closed tasks that are remembered, so that twins of their events open nothing anew."""


class OpenGroup:
    """One task that is not over. `found` and `notes` are for whoever scores its rollouts."""

    __slots__ = ("found", "is_due", "is_wanted", "key", "notes", "rewards", "samples", "task", "time_ms")

    def __init__(self, key: bytes) -> None:
        self.key = key
        self.task: TaskIssued | None = None
        self.time_ms = 0
        """Of the task's issue."""
        self.is_wanted = True
        self.is_due = False
        """Whether every reward is there and only late events are waited for."""
        self.samples: dict[int, Trajectory | None] = {}
        """None once it was given out."""
        self.rewards: dict[int, Any] = {}
        """Of the scoring that others are compared with: the first on the log, by sample. `live` is each task's own."""
        self.found: dict[int, Any] = {}
        self.notes: Any = None


class Finished(msgspec.Struct, frozen=True, gc=False):
    """A whole rollout."""

    group: OpenGroup
    sample: int
    trajectory: Trajectory

    @property
    def cause(self) -> Headers:
        """Return the envelope of the event that ended it."""
        envelope: Envelope = self.trajectory.ended[None].envelope  # type: ignore[attr-defined]
        return envelope() or []


class Rollouts:
    """Every open group of one partition. `add` records in order, drain `finished`, then `closed`; `end` at the end."""

    def __init__(
        self,
        *,
        against: str = LIVE,
        wants: Callable[[TaskIssued, int], bool] = lambda _task, _time_ms: True,
        waits_for_rewards: bool = False,
    ) -> None:
        """`wants` says by task and time of issue which groups count; rollouts may wait for the reward they had."""
        self.finished: list[Finished] = []
        self.closed: list[OpenGroup] = []
        self.num_orphans = 0
        """Events of tasks that are not in the range."""
        self.open: dict[bytes, OpenGroup] = {}
        self._against, self._wants, self._waits = against, wants, waits_for_rewards
        self._over: dict[bytes, None] = {}
        self._due: deque[tuple[int, bytes]] = deque()
        self._next_due_ms = 1 << 62
        self.take: dict[type[Any], Callable[[OpenGroup, Any, int, Envelope], None]] = {
            TaskIssued: self._add_task,
            Turn: self._add_turn,
            TurnGenerated: self._add_turn,
            RolloutEnded: self._add_end,
            Execution: self._add_execution,
            ExecutionFinished: self._add_execution,
            Reward: self._add_reward,
            RewardScored: self._add_reward,
        }
        """What a group that is open does with a record, by its class."""

    def add(self, key: bytes, record: Any, time_ms: int, envelope: Envelope) -> None:
        """Take the next record; `time_ms` is the log's."""
        self.pass_to(time_ms)
        group = self.open.get(key)
        if group is None:
            if key in self._over:
                return
            group = self.open[key] = OpenGroup(key)
            if type(record) is not TaskIssued:
                self._wait(time_ms, key)
        self.take[type(record)](group, record, time_ms, envelope)

    def pass_to(self, time_ms: int) -> None:
        """End the waiting that is over by the log's time."""
        if time_ms >= self._next_due_ms:
            self._sweep(time_ms)

    def end(self) -> int:
        """Give out what waited only for its reward, and close every group; returns how many were still open."""
        self._waits = False
        num_open = 0
        for group in list(self.open.values()):
            if group.task is None:
                self._drop(group)
                continue
            for sample in list(group.samples):
                self._finish_if_whole(group, sample, group.time_ms)
            num_open += group.is_wanted and not group.is_due and group.key in self.open
        for group in list(self.open.values()):
            self._close(group)
        return num_open

    def _add_task(self, group: OpenGroup, record: TaskIssued, time_ms: int, envelope: Envelope) -> None:
        if group.task is not None:
            return
        group.task, group.time_ms = record, time_ms
        group.is_wanted = self._wants(record, time_ms)
        if not group.is_wanted:
            group.samples.clear()
        for sample in list(group.samples):
            self._finish_if_whole(group, sample, time_ms)
        if group.key in self.open:
            self._close_if_over(group, time_ms)

    def _add_turn(self, group: OpenGroup, record: Any, time_ms: int, envelope: Envelope) -> None:
        if group.is_wanted:
            sample = record.sample
            trajectory = group.samples.get(sample) or trajectory_in(group, sample)
            if trajectory is not None:
                trajectory.turns.setdefault(record.turn, Held(record))  # type: ignore[arg-type]
                if trajectory.ended:
                    self._finish_if_whole(group, sample, time_ms)

    def _add_execution(self, group: OpenGroup, record: Any, time_ms: int, envelope: Envelope) -> None:
        if group.is_wanted:
            sample = int(record.rollout_id.rpartition("/")[2])
            trajectory = trajectory_in(group, sample)
            if trajectory is not None:
                trajectory.executions.setdefault(record.turn, Held(record))  # type: ignore[arg-type]
                if trajectory.ended:
                    self._finish_if_whole(group, sample, time_ms)

    def _add_end(self, group: OpenGroup, record: RolloutEnded, time_ms: int, envelope: Envelope) -> None:
        if group.is_wanted:
            sample = record.sample
            trajectory = group.samples.get(sample) or trajectory_in(group, sample)
            if trajectory is not None:
                trajectory.ended.setdefault(None, Held(record, envelope))  # type: ignore[arg-type]
                self._finish_if_whole(group, sample, time_ms)

    def _add_reward(self, group: OpenGroup, record: Any, time_ms: int, envelope: Envelope) -> None:
        if record.scoring_id != self._against and not (record.own and self._against == LIVE):
            return
        rewards, task = group.rewards, group.task
        rewards.setdefault(record.sample, record)
        if self._waits:
            self._finish_if_whole(group, record.sample, time_ms)
        if task is not None and len(rewards) >= task.num_samples and group.key in self.open:
            self._close_if_over(group, time_ms)

    def _finish_if_whole(self, group: OpenGroup, sample: int, time_ms: int) -> None:
        trajectory = group.samples.get(sample)
        if group.task is None or trajectory is None or sample >= group.task.num_samples:
            return
        if (self._waits and sample not in group.rewards) or not trajectory.is_whole:
            return
        group.samples[sample] = None
        self.finished.append(Finished(group, sample, trajectory))
        if group.is_due:
            self._close_if_over(group, time_ms)

    def _close_if_over(self, group: OpenGroup, time_ms: int) -> None:
        """Close the group if all is there; wait a while for late events where only rewards are."""
        if group.task is None or len(group.rewards) < group.task.num_samples:
            return
        samples = range(group.task.num_samples)
        if not all(sample in group.rewards for sample in samples):
            return
        if not group.is_wanted or all(group.samples.get(sample, group) is None for sample in samples):
            self._close(group)
        elif not group.is_due:
            group.is_due = True
            self._wait(time_ms, group.key)

    def _close(self, group: OpenGroup) -> None:
        del self.open[group.key]
        self._over[group.key] = None
        if len(self._over) > MEMORY:
            del self._over[next(iter(self._over))]
        if group.is_wanted:
            self.closed.append(group)

    def _drop(self, group: OpenGroup) -> None:
        del self.open[group.key]
        self.num_orphans += 1

    def _wait(self, time_ms: int, key: bytes) -> None:
        due_ms = time_ms + int(SLACK_S * 1000)
        self._due.append((due_ms, key))
        self._next_due_ms = self._due[0][0]

    def _sweep(self, time_ms: int) -> None:
        """End the waiting that is over by the log's time."""
        while self._due and self._due[0][0] <= time_ms:
            _, key = self._due.popleft()
            group = self.open.get(key)
            if group is None:
                continue
            if group.task is None:
                self._drop(group)
            elif group.is_due:
                self._close(group)
        self._next_due_ms = self._due[0][0] if self._due else 1 << 62


def trajectory_in(group: OpenGroup, sample: int) -> Trajectory | None:
    """Return the sample's trajectory to add to; None once it was given out."""
    samples = group.samples
    if sample in samples:
        return samples[sample]
    trajectory = samples[sample] = Trajectory()
    return trajectory
