"""A run's recorded groups, assembled again for a fork: under a scoring, with a mix of domains, in one order.

What must hold: the same range of the log, scoring and mix give the same batches with the same numbers, byte for byte; a
number says the place in the order in which the groups were over, the partitions merged by when their tasks were issued.
Facts are not copied: a batch names the reward that completed it, on the log forked from.
"""

import heapq
import math
from array import array
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from consumers.history.ranges import At, Range
from consumers.history.reader import History
from consumers.history.rollouts import OpenGroup, Rollouts
from consumers.reader import Reader
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
from schemas.scorings import Scoring
from schemas.tasks import TaskIssued
from schemas.trajectory import Group, Trajectory
from streams.assembly import assemble
from streams.rescoring.known import Known, read_known
from streams.rescoring.rebatch import NUM_AT_ONCE, Rebatching, at, barred_in, scored_group
from streams.scoring import Finding, reward_id, reward_of

Numbers = dict[int, npt.NDArray[np.int64]]
"""By partition, for each batch that its groups give: its number, or -1 where the mix leaves it out."""
OnProgress = Callable[[int], None]
"""Hears how many records were read since it was called last."""
EVERY = 5_000


class Forking(msgspec.Struct, frozen=True, kw_only=True):
    """What is forked, and into what."""

    log: LogSettings
    """Of the source."""
    blob_dir: Path
    range: Range
    source_run: str
    run_id: str
    scoring: Scoring | None
    """None is each group's own."""
    known_from: dict[At, int] = {}
    assembler: AssemblerSettings
    context_tokens: int | None = None
    mix: dict[str, float] = {}
    behind: frozenset[str] = frozenset()
    """Ids of batches that the checkpoint has trained on; their groups do not come again."""
    recalls: Recalls | None = None
    """What the source called back, as far as its commands were read."""
    trained_under: str = ""
    """The scoring whose rebuilt batches the source's learner took, where it did."""


class Sifted(msgspec.Struct, kw_only=True):
    """What the groups of a source come to, before the mix."""

    num_groups: int = 0
    num_behind: int = 0
    num_open: int = 0
    decisions: Counter[str] = msgspec.field(default_factory=Counter)
    """Groups that give no batch, by reason."""
    domains: list[str] = []
    keys: dict[int, "array[int]"] = {}
    """By partition, for each batch: when its task was issued, in ms."""
    codes: dict[int, "array[int]"] = {}
    """By partition, for each batch: the index of its domain."""

    def add(self, partition: int, issued_ms: int, domain: str) -> None:
        """Take a batch."""
        if domain not in self.domains:
            self.domains.append(domain)
        self.keys.setdefault(partition, array("q")).append(issued_ms)
        self.codes.setdefault(partition, array("q")).append(self.domains.index(domain))

    @property
    def by_domain(self) -> dict[str, int]:
        """Return how many batches there are of each domain."""
        counts = Counter(self.domains[code] for codes in self.codes.values() for code in codes)
        return dict(sorted(counts.items()))


def sift(plan: Forking, on_progress: OnProgress = lambda num: None) -> Sifted:
    """Go through the range once and say what there is; writes nothing. Raises LogError, ConfigError."""
    said = Sifted()
    for partition in plan.range.partitions:
        for group, end in ends_of(plan, partition, said, on_progress):
            if isinstance(end, Decision):
                said.decisions[end.reason] += 1
            else:
                said.add(partition, group.time_ms, end.domain)
    return said


def ends_of(
    plan: Forking, partition: int, said: Sifted, on_progress: OnProgress = lambda num: None
) -> Iterator[tuple[OpenGroup, Batch | Decision]]:
    """Yield how each training group of a partition ends, in the order in which they were over."""
    known = None
    if plan.scoring is not None:
        known = read_known(plan.log, plan.scoring, blob_dir=plan.blob_dir, start=plan.known_from, partition=partition)

    def wants(task: TaskIssued, _time_ms: int) -> bool:
        return task.split == "train" and task.run_id == plan.source_run

    rollouts = Rollouts(wants=wants)
    history = History(plan.log, blob_dir=plan.blob_dir, whole=frozenset({TurnGenerated, RewardScored}))
    num_told = 0
    try:
        for _ in history.read(partition, plan.range, rollouts):
            yield from ends_in(plan, rollouts, known, said)
            if history.num_read - num_told >= EVERY:
                on_progress(history.num_read - num_told)
                num_told = history.num_read
        on_progress(history.num_read - num_told)
    finally:
        history.close()
    said.num_open += rollouts.end()
    yield from ends_in(plan, rollouts, known, said)


def ends_in(
    plan: Forking, rollouts: Rollouts, known: Known | None, said: Sifted
) -> Iterator[tuple[OpenGroup, Batch | Decision]]:
    """Keep what is finished, and yield the ends of the groups that are closed."""
    for finished in rollouts.finished:
        finished.group.found[finished.sample] = finished.trajectory
    rollouts.finished.clear()
    for group in rollouts.closed:
        assert group.task is not None
        if len(group.rewards) < group.task.num_samples:
            continue
        said.num_groups += 1
        if is_behind(plan, group.task):
            said.num_behind += 1
            continue
        end = assemble(
            own_group(group) if known is None else scored_group(as_rebatching(plan), group, known),
            settings=plan.assembler,
            now_s=math.inf,
            context_tokens=plan.context_tokens,
            scoring_id=group.task.scoring_id if plan.scoring is None else plan.scoring.scoring_id,
            barred=partial(barred_in, plan.recalls, group),
        )
        if end is not None:
            yield group, end
    rollouts.closed.clear()


def is_behind(plan: Forking, task: TaskIssued) -> bool:
    """Return whether the checkpoint has trained on the task's group."""
    makers = (task.scoring_id, plan.trained_under)
    return any(derive_id(task.task_id, "batch", 0, maker) in plan.behind for maker in makers if maker)


def own_group(group: OpenGroup) -> Group:
    """Return the group with the rewards that it was issued to end by."""
    assert group.task is not None
    made = Group()
    made.tasks[None] = at(group.task, group.time_ms / 1000)
    for sample, trajectory in group.found.items():
        copy = Trajectory()
        copy.turns, copy.ended, copy.executions = trajectory.turns, trajectory.ended, trajectory.executions
        if sample in group.rewards:
            copy.rewards["one"] = at(group.rewards[sample], 0.0)
        made.samples[sample] = copy
    return made


def as_rebatching(plan: Forking) -> Rebatching:
    """Return the plan as `scored_group` takes it."""
    assert plan.scoring is not None
    return Rebatching(
        log=plan.log,
        blob_dir=plan.blob_dir,
        range=plan.range,
        scoring=plan.scoring,
        known_from=plan.known_from,
        assembler=plan.assembler,
    )


def number(said: Sifted, mix: Mapping[str, float]) -> Numbers:
    """Return what becomes of each batch: the partitions merged by time, and thinned out to the mix."""
    order = list(merged(said.keys))
    kept = thinned([said.domains[said.codes[partition][index]] for partition, index in order], mix)
    numbers: Numbers = {partition: np.full(len(keys), -1, np.int64) for partition, keys in said.keys.items()}
    place = 0
    for (partition, index), is_kept in zip(order, kept, strict=True):
        if is_kept:
            numbers[partition][index] = place
            place += 1
    return numbers


def merged(keys: Mapping[int, "array[int]"]) -> Iterator[tuple[int, int]]:
    """Yield partition and index of all batches: each partition's in their order, the earliest head first."""
    heads = [(times[0], partition, 0) for partition, times in keys.items() if times]
    heapq.heapify(heads)
    while heads:
        _, partition, index = heapq.heappop(heads)
        yield partition, index
        if index + 1 < len(keys[partition]):
            heapq.heappush(heads, (keys[partition][index + 1], partition, index + 1))


def thinned(domains: list[str], mix: Mapping[str, float]) -> list[bool]:
    """Return which batches are kept: as many as the mix allows, of each domain evenly spread. No mix keeps all."""
    if not mix:
        return [True] * len(domains)
    counts = Counter(domains)
    wanted = {domain: weight for domain, weight in mix.items() if weight > 0}
    scale = min((counts[domain] / weight for domain, weight in wanted.items()), default=0.0)
    # Above by less than rounding could take away.
    num_kept = {domain: math.floor(scale * weight + 1e-9) for domain, weight in wanted.items()}
    met: Counter[str] = Counter()
    kept = []
    for domain in domains:
        before, num = met[domain], num_kept.get(domain, 0)
        met[domain] += 1
        kept.append(num * (before + 1) // counts[domain] > num * before // counts[domain])
    return kept


def num_kept(numbers: Numbers) -> int:
    """Return how many batches have a number."""
    return int(sum((of_partition >= 0).sum() for of_partition in numbers.values()))


class Seeded(msgspec.Struct, frozen=True, kw_only=True):
    """What came of writing."""

    num_written: int
    num_known: int


def seed(
    plan: Forking, numbers: Numbers, publisher: Publisher, into: LogSettings, on_progress: OnProgress = lambda num: None
) -> Seeded:
    """Write the batches that are not on the fork's log yet, each partition's in the order of their numbers.

    Raises LogError.
    """
    num_written = num_known = 0
    present = frozenset(present_batches(into, plan))
    for partition, of_partition in numbers.items():
        waiting: list[Event[Batch]] = []
        index = 0
        for group, end in ends_of(plan, partition, Sifted(), on_progress):
            if isinstance(end, Decision):
                continue
            place, index = int(of_partition[index]), index + 1
            if place < 0:
                continue
            event = seed_event(plan, group, end, place, publisher)
            if event.id in present:
                num_known += 1
                continue
            waiting.append(event)
            if len(waiting) == NUM_AT_ONCE:
                num_written += len(publisher.send_all(waiting))
                waiting = []
        num_written += len(publisher.send_all(waiting))
    return Seeded(num_written=num_written, num_known=num_known)


def seed_event(plan: Forking, group: OpenGroup, batch: Batch, place: int, publisher: Publisher) -> Event[Batch]:
    """Return the event of a fork's batch, caused by the reward of its last row."""
    assert group.task is not None
    made = msgspec.structs.replace(batch, run_id=plan.run_id, rebuilt=True, number=place)
    event = publisher.event(
        made,
        id=derive_id(made.task_id, "batch", 0, f"{made.scoring_id}/{made.run_id}"),  # as producers/admission.py has it
        key=made.task_id,
        subject=made.task_id,
        correlation_id=made.task_id,
    )
    return msgspec.structs.replace(event, causation_id=cause_of(plan, group, batch.rows[-1].sample))


def cause_of(plan: Forking, group: OpenGroup, sample: int) -> str:
    """Return the id of the reward that a row has."""
    assert group.task is not None
    if plan.scoring is None:
        return reward_id(group.rewards[sample])
    spec = plan.scoring.spec_for(group.task)
    unknown = Finding(invalid_reason="?")
    scoring_id = plan.scoring.scoring_id
    return reward_id(
        reward_of(group.task, sample, unknown, spec=spec, digest=record_digest(spec), scoring_id=scoring_id)
    )


def present_batches(into: LogSettings, plan: Forking) -> Iterator[str]:
    """Yield the ids of the fork's batches that are on its log. Raises LogError."""
    reader = Reader(
        into,
        ["batches"],
        blob_dir=plan.blob_dir,
        start="beginning",
        bounded=True,
        headers_only=True,
        on_undecodable=lambda _raw, _error: None,
    )
    try:
        for event in reader:
            yield event.id
    finally:
        reader.close()
