"""A whole history in small: tasks to rewards to steps and policies, with ids and causes as the services derive them.

`MemoryLog` keeps it as records of bytes, so that a test can edit, drop or double what it likes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from consumers.orphans import raw_of
from consumers.raw import RawRecord, to_event
from consumers.reader import partition_of
from learner.manifest import ref_of
from learner.publishing import policy_id, step_id
from producers.blobs import BlobStore
from producers.turns import end_id as rollout_end_id
from producers.turns import turn_id
from schemas.batches import Batch
from schemas.codec import TOPIC_OF, encode_value, new_event
from schemas.config import AssemblerSettings
from schemas.errors import DecodeError
from schemas.events import Event, Position
from schemas.ids import digest_of, task_id
from schemas.policies import PolicyPublished
from schemas.topics import TOPICS
from schemas.trajectory import fold
from streams.assembler import end_id
from streams.assembly import assemble
from streams.executor import execution_id
from streams.scoring import Finding, reward_id, reward_of
from streams.verifiers.interface import Score
from tests import samples

Events = list[Event[Any]]
SendAll = Callable[[Events], Events]
SOURCE = "rollog/test"
START_S = 1_000.0


class MemoryLog:
    """Records by partition, with the reader's methods for whoever opens it."""

    def __init__(self, blob_dir: Path, *, num_partitions: int = 2) -> None:
        self.blobs, self.num_partitions = BlobStore(blob_dir), num_partitions
        self.records: dict[tuple[str, int], list[RawRecord]] = {
            (topic.name, partition): []
            for topic in TOPICS.values()
            for partition in range(topic.partitions(num_partitions))
        }

    @property
    def bounds(self) -> dict[tuple[str, int], tuple[int, int]]:
        return {at: (0, records[-1].position.offset + 1 if records else 0) for at, records in self.records.items()}

    def send_all(self, events: Events) -> Events:
        return [self.send(event) for event in events]

    def send(self, event: Event[Any]) -> Event[Any]:
        topic = TOPIC_OF[type(event.record)]
        partition = partition_of(event.key, TOPICS[topic].partitions(self.num_partitions))
        records = self.records[topic, partition]
        offset = records[-1].position.offset + 1 if records else 0
        placed = msgspec.structs.replace(event, position=Position(topic, partition, offset))
        records.append(raw_of(placed))
        return placed

    def edit(self, where: Position | None, change: Callable[[Any], Any]) -> None:
        """Put another record's bytes where one stands; its envelope stays."""
        raw = self.raw(where)
        self.put(where, msgspec.structs.replace(raw, value=encode_value(change(to_event(raw, self.blobs).record))))

    def put(self, where: Position | None, raw: RawRecord) -> None:
        assert where is not None
        records = self.records[where.topic, where.partition]
        records[[kept.position for kept in records].index(where)] = raw

    def drop(self, where: Position | None) -> None:
        assert where is not None
        self.records[where.topic, where.partition].remove(self.raw(where))

    def raw(self, where: Position | None) -> RawRecord:
        assert where is not None
        return next(raw for raw in self.records[where.topic, where.partition] if raw.position == where)

    def event(self, raw: RawRecord) -> Event[Any]:
        return to_event(raw, self.blobs)

    def events(self, topic: str) -> Events:
        return [self.event(raw) for (name, _), kept in self.records.items() if name == topic for raw in kept]

    def open_reader(self, topics: Sequence[str], **options: Any) -> "MemoryReader":
        return MemoryReader(self, topics, **options)


class MemoryReader:
    def __init__(
        self,
        log: MemoryLog,
        topics: Sequence[str],
        *,
        start: str | Mapping[tuple[str, int], int],
        bounded: bool = False,
        on_undecodable: Callable[[RawRecord, DecodeError], None] | None = None,
        dedupe: int = 0,
    ) -> None:
        self.log, self._on_undecodable = log, on_undecodable
        known = {at: 0 for at in log.records if at[0] in topics} if isinstance(start, str) else start
        self.positions = dict(known)

    def records(self) -> Iterator[RawRecord]:
        for at, first in list(self.positions.items()):
            for raw in list(self.log.records[at]):
                if raw.position.offset >= first:
                    self.positions[at] = raw.position.offset + 1
                    yield raw

    def __iter__(self) -> Iterator[Event[Any]]:
        yield from filter(None, map(self.decode, self.records()))

    def decode(self, raw: RawRecord) -> Event[Any] | None:
        try:
            return to_event(raw, self.log.blobs)
        except DecodeError as error:
            assert self._on_undecodable is not None
            self._on_undecodable(raw, error)
            return None

    def close(self) -> None:
        pass


def write_history(
    send_all: SendAll,
    *,
    run: str = "golden",
    num_tasks: int = 6,
    num_samples: int = 2,
    per_step: int = 1,
    chunk: int = 1,
    start_s: float = START_S,
) -> None:
    """Write it: the base policy, then groups of tasks, of which every third has no variance; steps on the others.

    On a broker, which deletes batches of old, `start_s` has to be now.
    """
    send_all([policy(run, 0)])
    waiting: Events = []
    step = 0
    for first in range(0, num_tasks, chunk):
        places = range(first, min(num_tasks, first + chunk))
        ends = write_groups(send_all, [issue(run, place, num_samples, start_s) for place in places], version=step)
        waiting += [end for end in ends if isinstance(end.record, Batch)]
        while len(waiting) >= per_step:
            taken, waiting, step = waiting[:per_step], waiting[per_step:], step + 1
            send_all([take_step(run, step, taken)])
            send_all([policy(run, step)])


def issue(run: str, place: int, num_samples: int, start_s: float = START_S) -> Event[Any]:
    name = task_id(run, "train", place)
    task = samples.task(task_id=name, run_id=run, index=place, num_samples=num_samples, level=place % 2)
    return new_event(task, id=name, key=name, source=SOURCE, correlation_id=name, time_s=start_s + place)


def derived(record: Any, event_id: str, cause: Event[Any], later_s: float) -> Event[Any]:
    key = cause.key
    return new_event(record, id=event_id, key=key, source=SOURCE, cause=cause, time_s=cause.time_s + later_s)


def write_groups(send_all: SendAll, tasks: Events, *, version: int) -> Events:
    """Write whole groups, stage after stage; returns how they ended."""
    issued = send_all(tasks)
    each = [(task, sample) for task in issued for sample in range(task.record.num_samples)]
    turns = send_all([turn_of(task, sample, version) for task, sample in each])
    runs = send_all([run_of(turn) for turn in turns])
    ended = send_all([ended_of(run, turn) for run, turn in zip(runs, turns, strict=True)])
    rewards = send_all([reward_event(task, end) for (task, _), end in zip(each, ended, strict=True)])
    groups: dict[str, Events] = {task.key: [task] for task in issued}
    for event in (*turns, *runs, *ended, *rewards):
        groups[event.key].append(event)
    return send_all([group_end(events) for events in groups.values()])


def turn_of(task: Event[Any], sample: int, version: int) -> Event[Any]:
    rollout = f"{task.key}/{sample}"
    versions = samples.ids(version, version, version)
    tokens = samples.ids(8, 9, 10 + sample)
    turn = samples.turn(sample, 0, task_id=task.key, rollout_id=rollout, versions=versions, token_ids=tokens)
    return derived(turn, turn_id(rollout, 0), task, 1.0)


def run_of(turn: Event[Any]) -> Event[Any]:
    run = samples.execution(turn.record.sample, 0, task_id=turn.key, rollout_id=turn.record.rollout_id)
    return derived(run, execution_id(turn.id), turn, 1.0)


def ended_of(run: Event[Any], turn: Event[Any]) -> Event[Any]:
    rollout = turn.record.rollout_id
    return derived(
        samples.ended(turn.record.sample, task_id=turn.key, rollout_id=rollout), rollout_end_id(rollout), run, 1.0
    )


def reward_event(task: Event[Any], ended: Event[Any]) -> Event[Any]:
    sample = ended.record.sample
    value = 0.0 if task.record.index % 3 == 2 else float(sample % 2)
    record = reward_of(task.record, sample, Finding(score=Score(value=value, parts={"stdout": value})))
    return derived(record, reward_id(record), ended, 1.0)


def group_end(events: Events) -> Event[Any]:
    end = assemble(fold(events), settings=AssemblerSettings(), now_s=events[0].time_s + 10.0)
    assert end is not None
    return derived(end, end_id(end), events[-1], 1.0)


def take_step(run: str, step: int, batches: Events) -> Event[Any]:
    record = msgspec.structs.replace(
        samples.step(),
        run_id=run,
        step=step,
        batches=tuple(ref_of(batch) for batch in batches),
        policy_version_in=step - 1,
        policy_version_out=step,
        weights_digest_in=weights(run, step - 1),
        weights_digest_out=weights(run, step),
        config_digest=digest_of(b"{}"),
    )
    return new_event(record, id=step_id(run, step), key=run, source=SOURCE, time_s=2_000.0 + step)


def policy(run: str, version: int) -> Event[Any]:
    record = PolicyPublished(
        policy="policy",
        version=version,
        parent=version - 1 if version else None,
        run_id=run,
        step=version,
        address="x",
        digest=weights(run, version),
        num_bytes=9,
    )
    name = policy_id(run, "policy", version)
    return new_event(record, id=name, key="policy", source=SOURCE, time_s=2_000.5 + version)


def weights(run: str, version: int) -> str:
    return digest_of(f"{run}/{version}".encode())
