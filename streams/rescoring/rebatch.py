"""Batches from a scoring, made again from the log: what the assembler would have written had it been the live one.

What must hold: the same scoring and the same log give the same batches, byte for byte and in the same order on each
partition, under ids that hold the scoring's; a reward of another configuration is in none of them. Decisions are not
written anew, since each task ended once already; they are counted.
"""

import math
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from consumers.history.ranges import At, Range
from consumers.history.reader import History
from consumers.history.rollouts import OpenGroup, Rollouts
from consumers.reader import whole_partition
from producers.publisher import Publisher
from schemas.batches import Batch
from schemas.config import AssemblerSettings, LogSettings
from schemas.content import record_digest
from schemas.decisions import Decision
from schemas.events import Event
from schemas.ids import derive_id
from schemas.recalls import Recalls
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.scorings import LIVE, Scoring
from schemas.tasks import TaskIssued
from schemas.trajectory import Group, Trajectory
from streams.assembler import end_id
from streams.assembly import assemble
from streams.recalling import barred
from streams.rescoring.comparison import Scored
from streams.rescoring.known import Known, read_known
from streams.scoring import Finding, reward_id, reward_of
from streams.verifiers.interface import Score

NUM_AT_ONCE = 200
"""Batches that are on their way together."""


class Rebatching(msgspec.Struct, frozen=True, kw_only=True):
    """What to make batches of."""

    log: LogSettings
    blob_dir: Path
    range: Range
    scoring: Scoring
    known_from: dict[At, int]
    assembler: AssemblerSettings
    context_tokens: int | None = None
    run_id: str = ""
    """Only this run's tasks; empty is every run's."""
    recalls: Recalls | None = None
    """What is quarantined, and how far that was read; None leaves nothing out."""
    fills: str = ""
    """Where the scoring re-asked only what was invalid: whose rewards of the same configuration stand in."""


class Rebatched(msgspec.Struct, kw_only=True):
    """What came of it."""

    num_batches: int = 0
    num_written: int = 0
    num_known: int = 0
    """Batches that were on the log already."""
    num_open: int = 0
    decisions: Counter[str] = msgspec.field(default_factory=Counter)
    """Groups that give no batch, by reason."""


def rebatch(plan: Rebatching, publisher: Publisher | None) -> Rebatched:
    """Make all batches and, given a publisher, write those that are not there. Raises LogError, ConfigError."""
    said = Rebatched()
    for partition in plan.range.partitions:
        present = frozenset(present_batches(plan, partition)) if publisher else frozenset[str]()
        waiting: list[Event[Any]] = []
        for end in ends_of(plan, partition, said):
            if isinstance(end, Decision):
                said.decisions[end.reason] += 1
                continue
            said.num_batches += 1
            if publisher is None:
                continue
            if end_id(end) in present:
                said.num_known += 1
                continue
            waiting.append(publisher.event(end, id=end_id(end), key=end.task_id, correlation_id=end.task_id))
            if len(waiting) == NUM_AT_ONCE:
                said.num_written += len(publisher.send_all(waiting))
                waiting = []
        if publisher is not None:
            said.num_written += len(publisher.send_all(waiting))
    return said


def ends_of(plan: Rebatching, partition: int, said: Rebatched | None = None) -> Iterator[Batch | Decision]:
    """Yield how each training group of a partition ends under the scoring, in the order in which they were over."""
    known = read_known(plan.log, plan.scoring, blob_dir=plan.blob_dir, start=plan.known_from, partition=partition)

    def wants(task: TaskIssued, _time_ms: int) -> bool:
        # What was issued under the scoring has its batch already.
        is_history = task.scoring_id != plan.scoring.scoring_id
        return is_history and task.split == "train" and plan.run_id in ("", task.run_id)

    rollouts = Rollouts(wants=wants)
    history = History(plan.log, blob_dir=plan.blob_dir, whole=frozenset({TurnGenerated, RewardScored}))
    try:
        for _ in history.read(partition, plan.range, rollouts):
            yield from ends_in(plan, rollouts, known)
    finally:
        history.close()
    # What is not over on the log is not over here; what only waits for late events is.
    num_open = rollouts.end()
    yield from ends_in(plan, rollouts, known)
    if said is not None:
        said.num_open += num_open


def ends_in(plan: Rebatching, rollouts: Rollouts, known: Known) -> Iterator[Batch | Decision]:
    """Keep what is finished, and yield the ends of the groups that are closed."""
    for finished in rollouts.finished:
        finished.group.found[finished.sample] = finished.trajectory
    rollouts.finished.clear()
    for group in rollouts.closed:
        assert group.task is not None
        if len(group.rewards) < group.task.num_samples:
            continue
        end = assemble(
            scored_group(plan, group, known),
            settings=plan.assembler,
            now_s=math.inf,
            context_tokens=plan.context_tokens,
            scoring_id=plan.scoring.scoring_id,
            barred=partial(barred_in, plan.recalls, group),
            commands_end=plan.recalls.end if plan.recalls else 0,
        )
        if end is not None:
            yield end
    rollouts.closed.clear()


def barred_in(recalls: Recalls | None, group: OpenGroup, made: Group) -> dict[int, str]:
    """Return, by sample, what is quarantined, judged by the tasks' own rewards."""
    assert group.task is not None
    quarantines = recalls.in_force(group.task.run_id) if recalls else []
    return barred(quarantines, made, group.rewards) if quarantines else {}


def scored_group(plan: Rebatching, group: OpenGroup, known: Known) -> Group:
    """Return the group with the scoring's rewards, and no others."""
    task = group.task
    assert task is not None
    made = Group()
    made.tasks[None] = at(task, group.time_ms / 1000)
    spec = plan.scoring.spec_for(task)
    digest = record_digest(spec)
    for sample, trajectory in group.found.items():
        copy = Trajectory()
        copy.turns, copy.ended, copy.executions = trajectory.turns, trajectory.ended, trajectory.executions
        unknown = reward_of(
            task, sample, Finding(invalid_reason="?"), spec=spec, digest=digest, scoring_id=plan.scoring.scoring_id
        )
        scored = known.get(reward_id(unknown)) or stand_in(plan, group.rewards.get(sample), unknown)
        if scored is not None:
            finding = Finding(
                score=None if scored.value is None else Score(value=scored.value), invalid_reason=scored.reason
            )
            reward = reward_of(task, sample, finding, spec=spec, digest=digest, scoring_id=plan.scoring.scoring_id)
            copy.rewards["one"] = at(reward, 0.0)
        made.samples[sample] = copy
    return made


def stand_in(plan: Rebatching, reward: RewardScored | None, wanted: RewardScored) -> Scored | None:
    """Return the reward of before where the scoring was only to fill gaps, and it is of the same configuration."""
    if plan.fills != LIVE or reward is None:
        return None
    got = (reward.verifier, reward.verifier_version, reward.config_digest)
    if got != (wanted.verifier, wanted.verifier_version, wanted.config_digest):
        return None
    return Scored(reward.value, reward.invalid_reason)


def at(record: Any, time_s: float) -> Event[Any]:
    """Return the record as an event that stands nowhere."""
    return Event(id=derive_id("", type(record).__name__, 0), type="", source="", time_s=time_s, key="", record=record)


def present_batches(plan: Rebatching, partition: int) -> Iterator[str]:
    """Yield the ids of the batches that are on a partition; each scoring has ids of its own. Raises LogError."""
    reader = whole_partition(
        plan.log,
        ("batches", partition),
        blob_dir=plan.blob_dir,
        headers_only=True,
        on_undecodable=lambda _raw, _error: None,
    )
    try:
        for event in reader:
            yield event.id
    finally:
        reader.close()
