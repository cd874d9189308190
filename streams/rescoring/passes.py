"""One pass of a scoring over partitions of the log: read, score, compare and, if asked, write.

    history --finished--> judge --value--> group --closed--> comparison
                              +-- RewardScored --> log

What must hold: a pass that was killed anywhere and begun again leaves the rewards of one that was not; a rollout that
cannot be judged by what the log has gets no reward and is counted with the reason.
"""

from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

import msgspec

from consumers.history.ranges import At, Range
from consumers.history.reader import History
from consumers.history.rollouts import Finished, OpenGroup, Rollouts
from producers.publisher import Publisher
from schemas.config import LogSettings
from schemas.content import record_digest
from schemas.errors import ConfigError
from schemas.events import Position
from schemas.ids import derive_id
from schemas.scorings import LIVE, Scoring
from schemas.tasks import TaskIssued, VerifierSpec
from streams.rescoring.comparison import Comparison, Scored
from streams.rescoring.judge import Judge, lack_of, records_read
from streams.rescoring.known import Known, read_known
from streams.rescoring.writing import RewardWriter
from streams.scoring import reward_of
from streams.verifiers import VERIFIERS

CHECK_EVERY = 2_000
"""Records between two reports of progress."""
LINGER_MS = "50"


class Selection(Protocol):
    """Which rollouts are scored. Goes to other processes."""

    @property
    def needs_reward(self) -> bool:
        """Return whether the reward that a rollout had is a part of the question."""
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


class Applied(msgspec.Struct, frozen=True, gc=False):
    """What is the same for all rollouts of a task."""

    spec: VerifierSpec
    digest: str
    maker: str
    """Of event ids, as `scoring.reward_id` has it."""
    lack: str | None


class Pass:
    """One process' share of a pass."""

    def __init__(self, plan: Plan, publisher: Publisher | None, on_progress: OnProgress = lambda _num: None) -> None:
        """Take a share; `publisher` is None where nothing is to be written."""
        self._plan, self._on_progress = plan, on_progress
        self._writer = None if publisher is None else RewardWriter(publisher)
        self._judge = Judge(timeout_s=plan.timeout_s)
        self._known = Known()
        self._versions = {name: verifier.version for name, verifier in VERIFIERS.items()}
        self._applied: tuple[OpenGroup | None, Applied | None] = (None, None)
        self.outcome = Outcome()

    def run(self, partitions: Iterable[int]) -> Outcome:
        """Do these partitions, one after the other. Raises LogError, ConfigError."""
        plan = self._plan
        history = History(
            plan.log,
            blob_dir=plan.blob_dir,
            whole=records_read(plan.scoring.choice) | plan.selection.reads,
            watched=plan.scoring.scoring_id,
            on_watched=self._check,
        )
        try:
            with self._judge.deadline():
                for partition in partitions:
                    self._do(partition, history)
            if self._writer is not None:
                self._writer.flush()
                self.outcome.num_written = self._writer.num_written
        finally:
            history.close()
        self.outcome.num_records, self.outcome.num_undecodable = history.num_read, history.num_undecodable
        self.outcome.undecodable = history.undecodable
        return self.outcome

    def _do(self, partition: int, history: History) -> None:
        plan = self._plan
        self._known = read_known(
            plan.log, plan.scoring, blob_dir=plan.blob_dir, start=plan.known_from, partition=partition
        )
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
        for finished in rollouts.finished:
            self._score(finished)
        rollouts.finished.clear()
        for group in rollouts.closed:
            self.outcome.comparison.add_group(group, min_valid=self._plan.min_valid)
        rollouts.closed.clear()

    def _score(self, finished: Finished) -> None:
        group, task = finished.group, finished.group.task
        assert task is not None
        if not self._plan.selection.wants(finished):
            return
        applied = self._apply(group, task)
        if applied.lack is not None:
            self.outcome.refused[applied.lack] += 1
            return
        rollout_id = f"{task.task_id}/{finished.sample}"
        event_id = derive_id(rollout_id, "reward_scored", 0, applied.maker)
        known = self._known.get(event_id) if self._known else None
        if known is not None:
            self.outcome.num_known += 1
            group.found[finished.sample] = known
            return
        if self._plan.only_known:
            return
        finding = self._judge.finding(applied.spec, finished.trajectory)
        reward = reward_of(
            task,
            finished.sample,
            finding,
            spec=applied.spec,
            digest=applied.digest,
            scoring_id=self._plan.scoring.scoring_id,
        )
        self.outcome.num_scored += 1
        group.found[finished.sample] = Scored(reward.value, reward.invalid_reason, reward.detail)
        if self._writer is not None:
            self._writer.write(reward, event_id=event_id, cause=finished.cause)

    def _apply(self, group: OpenGroup, task: TaskIssued) -> Applied:
        if self._applied[0] is not group:
            spec = self._plan.scoring.spec_for(task.verifier)
            version = self._versions.get(spec.kind, 0)
            digest = record_digest(spec)
            maker = f"{spec.kind}@{version}/{digest}/{self._plan.scoring.scoring_id}"
            self._applied = (group, Applied(spec, digest, maker, lack_of(task, spec)))
        applied = self._applied[1]
        assert applied is not None
        return applied

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


def run_pass(plan: Plan, partitions: Iterable[int], on_progress: OnProgress = lambda _num: None) -> Outcome:
    """Do a share of a pass in this process. Raises LogError, ConfigError."""
    if not plan.applies:
        return Pass(plan, None, on_progress).run(partitions)
    # Nobody waits for a single reward, and a request costs as much as many of them.
    client = {"linger.ms": LINGER_MS, **plan.log.client}
    publisher = Publisher(msgspec.structs.replace(plan.log, client=client), source=plan.source, blob_dir=plan.blob_dir)
    try:
        return Pass(plan, publisher, on_progress).run(partitions)
    finally:
        publisher.close()
