"""Stretches come out in one order, whatever order partitions are read in."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from consumers.partitions import partition_of
from consumers.raw import RawRecord
from producers.blobs import BlobStore
from schemas.codec import encode_headers, encode_value, new_event
from schemas.decisions import Decision
from schemas.errors import LogError
from schemas.events import Position
from schemas.ids import task_id
from schemas.mix_commands import Change, command_of
from streams.curriculum.fold import MixFold
from streams.curriculum.following import Follower, name_of, parse_name, topics_of
from streams.curriculum.lean import Command, End, Execution, Reward, Task, lean_record
from streams.curriculum.revisions import Revisions, refold, rules_in
from tests import samples
from tests.samples import mix
from tests.streams.curriculum_facts import RUN, rules

NUM_PARTITIONS = 3
At = tuple[str, int]


def raw_of(record: Any, key: str, topic: str, partition: int, offset: int) -> RawRecord:
    event = new_event(record, id=f"{topic}-{partition}-{offset}", key=key, source="test", time_s=1.0)
    return RawRecord(
        position=Position(topic, partition, offset),
        key=key.encode(),
        value=encode_value(record),
        headers=list(encode_headers(event)),
        timestamp_ms=1000,
    )


class FakeReader:
    """Hands out records of a topic in small pieces, from partitions in an order of its own."""

    def __init__(self, log: Mapping[At, list[RawRecord]], topic: str, turns: Iterator[int]) -> None:
        self._log = {at: records for at, records in log.items() if at[0] == topic}
        self.positions = dict.fromkeys(self._log, 0)
        self._turns = turns

    @property
    def at_end(self) -> bool:
        return all(self.positions[at] == len(records) for at, records in self._log.items())

    def poll_records(self, timeout_s: float = 0.0) -> list[RawRecord]:
        left = [at for at in sorted(self._log) if self.positions[at] < len(self._log[at])]
        if not left:
            return []
        turn = next(self._turns)
        at, num = left[turn % len(left)], 1 + turn % 5
        found = self._log[at][self.positions[at] : self.positions[at] + num]
        self.positions[at] += len(found)
        return found

    def close(self) -> None:
        """There is nothing to let go of."""


def log_of(num_groups: int) -> dict[At, list[RawRecord]]:
    """Return a log with tasks, executions, rewards and decisions of some groups, and a command."""
    log: dict[At, list[RawRecord]] = {
        (topic, partition): [] for topic in ("tasks", "executions", "rewards", "decisions") for partition in range(3)
    } | {(topic, 0): [] for topic in ("commands", "evals", "deadletters")}

    def put(record: Any, key: str, topic: str) -> None:
        partition = partition_of(key, NUM_PARTITIONS) if (topic, 1) in log else 0
        log[topic, partition].append(raw_of(record, key, topic, partition, len(log[topic, partition])))

    put(command_of(RUN, [Change(verb="weight", name="shop", value=2.0)], given_by="test"), RUN, "commands")
    for index in range(num_groups):
        name, domain = task_id(RUN, "train", index), ("algebra", "logs", "shop")[index % 3]
        about = {"task_id": name, "domain": domain}
        put(samples.task(index=index, run_id=RUN, num_samples=4, **about), name, "tasks")
        for sample in range(4):
            of_sample = {**about, "rollout_id": f"{name}/{sample}"}
            put(samples.execution(sample, **of_sample), name, "executions")
            put(samples.reward(sample, value=float((index + sample) % 3 == 0), **of_sample), name, "rewards")
        put(Decision(run_id=RUN, stage="assembler", reason="zero_variance", **about), name, "decisions")
    return log


def follower_of(log: Mapping[At, list[RawRecord]], blob_dir: Path, turns: list[int]) -> Follower:
    def endless() -> Iterator[int]:
        while True:
            yield from turns

    def open_reader(topics: list[str], **_: Any) -> Any:
        return FakeReader(log, topics[0], endless())

    return Follower(open_reader, topics_of(adapts=False), BlobStore(blob_dir), bounded=True)


TURNS = st.lists(st.integers(0, 100), min_size=1, max_size=20)


@given(turns=TURNS, others=TURNS, share=st.floats(0, 1))
@hypothesis_settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=30, deadline=None)
def test_a_revision_does_not_depend_on_the_order_in_which_partitions_are_read(
    tmp_path: Path, turns: list[int], others: list[int], share: float
) -> None:
    log = log_of(12)
    middle = {name_of(at): int(len(records) * share) for at, records in log.items()}
    ends = {name_of(at): len(records) for at, records in log.items()}
    found = []
    for order in (turns, others):
        fold, follower = MixFold(rules()), follower_of(log, tmp_path, order)
        mixes = []
        for until in (middle, ends):
            for record in follower.stretch(until):
                fold.take(record)
            mixes.append(fold.revise(until))
        found.append(mixes)
    assert found[0] == found[1]
    assert found[0][1].domains["shop"].ended == 4
    again = MixFold(rules(tau=9.0))
    refolded = list(refold(again, follower_of(log, tmp_path, others), found[0]))
    assert all(there == out for there, out in refolded), "the rules on the log were not what it was folded by"


def test_a_stretch_that_is_not_on_the_log_is_refused(tmp_path: Path) -> None:
    follower = follower_of(log_of(2), tmp_path, [1])
    with pytest.raises(LogError, match=r"rewards\[1\] at \d of 900"):
        list(follower.stretch({"rewards[1]": 900}))


def test_lean_records_say_what_the_whole_ones_do(tmp_path: Path) -> None:
    blobs, name = BlobStore(tmp_path), samples.TASK_ID

    def lean(record: Any, topic: str, key: str = name) -> Any:
        return lean_record(raw_of(record, key, topic, 0, 0), blobs)

    task = samples.task(family="code", mix_version=3)
    assert lean(task, "tasks") == Task(name, "golden", 7, "repair", 1, "train", 4, "live", "code", 3)
    assert lean(samples.reward(2), "rewards") == Reward(name, 2, 0.5, None, "live", 0.001)
    run = lean(samples.execution(1), "executions")
    assert isinstance(run, Execution)
    assert run.cost_s == 0.008
    decision = Decision(task_id=name, run_id="r", domain="d", stage="learner", reason="stale")
    assert lean(decision, "decisions") == End(name, "learner", "stale")
    command = command_of("r", [Change(verb="pause", name="d")], given_by="test")
    assert lean(command, "commands", "r") == Command("commands-0-0", command)
    assert lean(samples.turn(), "rollouts") is None
    assert lean(samples.ended(1, why="length"), "rollouts").why == "length"


def test_what_is_no_record_or_has_another_tasks_key_is_passed_over(tmp_path: Path) -> None:
    blobs = BlobStore(tmp_path)
    good = raw_of(samples.task(), samples.TASK_ID, "tasks", 0, 0)
    for value, key, headers in (
        (b"\xc1", good.key, good.headers),
        (good.value, b"other", good.headers),
        (good.value, None, good.headers),
        (good.value, good.key, []),
        (None, good.key, good.headers),
    ):
        raw = RawRecord(position=good.position, key=key, value=value, headers=headers, timestamp_ms=1)
        assert lean_record(raw, blobs) is None


def test_partitions_have_names() -> None:
    assert parse_name(name_of(("rewards", 12))) == ("rewards", 12)


def test_of_revisions_the_first_of_a_version_counts_and_a_gap_is_refused() -> None:
    revisions = Revisions("golden")
    assert [revisions.take(mix(version)) for version in (1, 1, 2)] == [True, False, True]
    assert not revisions.take(mix(3, run_id="other"))
    with pytest.raises(LogError, match="version 5 of run 'golden' follows 2"):
        revisions.take(mix(5))


def test_settings_that_a_newer_rollog_wrote_are_refused() -> None:
    with pytest.raises(LogError, match="settings that cannot be read"):
        rules_in(mix(1))
