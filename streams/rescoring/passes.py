"""One pass of a scoring over partitions of the log: read, score, compare and, if asked, write.

    history --finished--> judge --value--> group --closed--> comparison
                              +-- RewardScored --> log

What must hold: a pass that was killed anywhere and begun again leaves the rewards of one that was not; a rollout that
cannot be judged by what the log has gets no reward and is counted with the reason.
"""

import gc
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import msgspec

from consumers.history.ranges import At, Range
from consumers.history.reader import History
from consumers.history.rollouts import Finished, Rollouts
from producers.bulk import BulkPublisher
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.events import Position
from schemas.scorings import LIVE, Scoring
from schemas.tasks import TaskIssued
from streams.rescoring.comparison import Comparison
from streams.rescoring.forms import RewardForm
from streams.rescoring.judge import Judge, records_read
from streams.rescoring.known import Known, read_known
from streams.rescoring.writing import RewardWriter

CHECK_EVERY = 2_000
"""Records between two reports of progress."""
COLLECT_EVERY = 50_000
"""Objects that are made between two looks for cycles; 700 without a word."""


class Selection(Protocol):
    """Which rollouts are scored. Goes to other processes."""

    @property
    def needs_reward(self) -> bool:
        """Return whether the reward that a rollout had is a part of the question."""
        ...

    @property
    def wants_all(self) -> bool:
        """Return whether every rollout of the tasks that count does."""
        ...

    @property
    def reads(self) -> frozenset[type[Any]]:
        """Return the records that it needs with all their fields."""
        ...

    def wants_task(self, task: TaskIssued, time_ms: int) -> bool:
        """Return whether the task's rollouts count."""
        ...

    def wants(self, rollout: Finished) -> bool:
        """Return whether this one does."""
        ...


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What a pass is to do, whoever does which partitions."""

    log: LogSettings
    blob_dir: Path
    range: Range
    scoring: Scoring
    selection: Selection
    against: str = LIVE
    applies: bool = False
    only_known: bool = False
    """Whether nothing is scored: the rewards that the scoring has are compared, and that is all."""
    known_from: dict[At, int] = {}
    """Where the scoring's own rewards begin; empty where it has none."""
    min_valid: int = 2
    timeout_s: float = 10.0
    environment: dict[str, str] = {}
    """By which verifiers know what is served to them."""
    source: str = "rollog/rescore"


class Outcome(msgspec.Struct, kw_only=True):
    """What a pass found and did."""

    comparison: Comparison = msgspec.field(default_factory=Comparison)
    num_records: int = 0
    num_scored: int = 0
    num_written: int = 0
    num_known: int = 0
    """Rewards that were on the log already."""
    num_open: int = 0
    """Groups that are not over yet."""
    num_orphans: int = 0
    num_undecodable: int = 0
    undecodable: list[str] = []
    refused: Counter[str] = msgspec.field(default_factory=Counter)
    """Rollouts that the log says too little about, by reason."""

    def merge(self, other: "Outcome") -> None:
        """Take all of another's."""
        self.comparison.merge(other.comparison)
        for field in self.__struct_fields__:
            if field.startswith("num_"):
                setattr(self, field, getattr(self, field) + getattr(other, field))
        self.undecodable = sorted(self.undecodable + other.undecodable)[:5]
        self.refused += other.refused


OnProgress = Callable[[int], None]
"""Hears how many records were read since it was called last."""


class Pass:
    """One process' share of a pass."""

    def __init__(
        self, plan: Plan, publisher: BulkPublisher | None, on_progress: OnProgress = lambda _num: None
    ) -> None:
        """Take a share; `publisher` is None where nothing is to be written."""
        self._plan, self._on_progress = plan, on_progress
        self._writer = None if publisher is None else RewardWriter(publisher)
        self._judge = Judge(timeout_s=plan.timeout_s)
        self._find, self._num_scored = self._judge.finding, 0
        self._known, self._has_known = Known(), False
        self.outcome = Outcome()

    def run(self, partitions: Iterable[int]) -> Outcome:
        """Do these partitions, one after the other. Raises LogError, ConfigError."""
        plan = self._plan
        os.environ.update(plan.environment)
        history = History(
            plan.log,
            blob_dir=plan.blob_dir,
            whole=records_read(plan.scoring.choice) | plan.selection.reads,
            watched=plan.scoring.scoring_id,
            on_watched=self._check,
        )
        try:
            with self._judge.deadline(), rare_collection():
                for partition in partitions:
                    self._do(partition, history)
            self.outcome.comparison.settle()
            if self._writer is not None:
                self._writer.flush()
                self.outcome.num_written = self._writer.num_written
        finally:
            history.close()
        self.outcome.num_scored = self._num_scored
        self.outcome.num_records, self.outcome.num_undecodable = history.num_read, history.num_undecodable
        self.outcome.undecodable = history.undecodable
        return self.outcome

    def _do(self, partition: int, history: History) -> None:
        plan = self._plan
        self._known = read_known(
            plan.log, plan.scoring, blob_dir=plan.blob_dir, start=plan.known_from, partition=partition
        )
        self._has_known = len(self._known) > 0
        rollouts = Rollouts(
            against=plan.against, wants=plan.selection.wants_task, waits_for_rewards=plan.selection.needs_reward
        )
        num_before = history.num_read
        for _ in history.read(partition, plan.range, rollouts):
            self._settle(rollouts)
            if history.num_read - num_before >= CHECK_EVERY:
                self._on_progress(history.num_read - num_before)
                num_before = history.num_read
        self.outcome.num_open += rollouts.end()
        self._settle(rollouts)
        self.outcome.num_orphans += rollouts.num_orphans
        self._on_progress(history.num_read - num_before)

    def _settle(self, rollouts: Rollouts) -> None:
        """Score what is finished, then compare what is closed."""
        wants = None if self._plan.selection.wants_all else self._plan.selection.wants
        for finished in rollouts.finished:
            if wants is None or wants(finished):
                self._score(finished)
        rollouts.finished.clear()
        add_group, min_valid = self.outcome.comparison.add_group, self._plan.min_valid
        for group in rollouts.closed:
            add_group(group, min_valid=min_valid)
        rollouts.closed.clear()

    def _score(self, finished: Finished) -> None:
        group, task = finished.group, finished.group.task
        assert task is not None
        form: RewardForm | None = group.notes
        if form is None:
            group.notes = form = RewardForm(task, self._plan.scoring)
        if form.lack is not None:
            self.outcome.refused[form.lack] += 1
            return
        sample = finished.sample
        rollout_id = f"{task.task_id}/{sample}"
        event_id = form.event_id(rollout_id)
        known = self._known.get(event_id) if self._has_known else None
        if known is not None:
            self.outcome.num_known += 1
            group.found[sample] = known
            return
        if self._plan.only_known:
            return
        judgement = form.judgement(finished.trajectory, self._find)
        self._num_scored += 1
        group.found[sample] = judgement.scored
        if self._writer is not None:
            value = form.value(rollout_id, sample, judgement)
            self._writer.write(group.key, rollout_id, value, event_id, finished.cause)

    def _check(self, reward: Any, where: Position) -> None:
        """Refuse to add to a scoring that holds another verifier's rewards."""
        scoring = self._plan.scoring
        if scoring.choice is None:
            return
        got, wanted = (reward.verifier, reward.verifier_version), (scoring.choice.kind, scoring.verifier_version)
        if got != wanted:
            raise ConfigError(
                f"{where}: a reward of scoring {scoring.scoring_id!r} by {got[0]}@{got[1]}, and this pass is by "
                f"{wanted[0]}@{wanted[1]}: two configurations are not mixed; choose another --scoring-id"
            )


@contextmanager
def rare_collection() -> Iterator[None]:
    """Look for cycles seldom, and never among what was there before: a pass makes millions of objects and no cycle."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(COLLECT_EVERY, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def run_pass(plan: Plan, partitions: Iterable[int], on_progress: OnProgress = lambda _num: None) -> Outcome:
    """Do a share of a pass in this process. Raises LogError, ConfigError."""
    if not plan.applies:
        return Pass(plan, None, on_progress).run(partitions)
    publisher = BulkPublisher(plan.log, source=plan.source, blob_dir=plan.blob_dir)
    try:
        return Pass(plan, publisher, on_progress).run(partitions)
    finally:
        publisher.close()
