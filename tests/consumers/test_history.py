"""The fold over history says what the fold of one task says, holds what is open, and forgets the rest."""

import random
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from consumers.history.lean import LEAN, Held, LeanDecoder, Turn, first_byte_of
from consumers.history.merge import TOGETHER_MS, MergedTopics
from consumers.history.ranges import SLACK_S, Span, find_range
from consumers.history.reader import TOPICS, History
from consumers.history.rollouts import Rollouts
from consumers.raw import RawRecord
from producers.blobs import BlobStore, ClaimCheck, encode_claim
from producers.publisher import Publisher
from schemas.codec import TOPIC_OF, encode_headers, encode_value, snake_case
from schemas.errors import ConfigError, DecodeError
from schemas.events import Event, Position
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.tasks import TaskIssued
from schemas.topics import get_topic
from schemas.trajectory import fold
from tests import samples
from tests.histories import NUM_SAMPLES, START_S, history, task_events
from tests.logs import new_log, produce_raw
from tests.streams.stage_fakes import placed

Events = list[Event[Any]]


def add_all(rollouts: Rollouts, events: Events) -> None:
    for event in events:
        rollouts.add(event.key.encode(), event.record, int(event.time_s * 1000), partial(encode_headers, event))


def by_time(events: Events) -> Events:
    return sorted(events, key=lambda event: event.time_s)


def given_out(rollouts: Rollouts) -> list[tuple[str, int]]:
    return [(finished.group.key.decode(), finished.sample) for finished in rollouts.finished]


def test_every_whole_rollout_is_given_out_once_and_every_group_closed() -> None:
    events = list(history(20))
    rollouts = Rollouts()
    add_all(rollouts, by_time(events))
    assert sorted(given_out(rollouts)) == sorted((e.key, s) for e in events[::13] for s in range(NUM_SAMPLES))
    assert len(rollouts.closed) == 20
    assert rollouts.open == {}
    assert rollouts.end() == 0


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 1 << 30), num_lost=st.integers(0, 12), num_twins=st.integers(0, 8))
def test_it_finishes_what_the_fold_of_each_task_finds_whole_whatever_is_lost_repeated_or_late(
    seed: int, num_lost: int, num_twins: int
) -> None:
    rng = random.Random(seed)
    events = list(history(4))
    for _ in range(num_lost):
        del events[rng.randrange(len(events))]
    events += rng.choices(events, k=num_twins)
    rng.shuffle(events)
    rollouts = Rollouts()
    add_all(rollouts, [placed(e, offset=i) for i, e in enumerate(events)])
    rollouts.end()
    expected = []
    for key in {event.key for event in events}:
        group = fold(event for event in events if event.key == key)
        if group.task is not None:
            expected += [(key, sample) for sample, one in group.samples.items() if one.is_whole]
    # A shuffled log closes groups late at worst: all of it is within the slack of time.
    assert sorted(given_out(rollouts)) == sorted(expected)
    assert rollouts.open == {}


def test_what_is_held_does_not_grow_with_what_is_over() -> None:
    rollouts, most = Rollouts(), 0
    for event in by_time(list(history(400))):
        add_all(rollouts, [event])
        rollouts.finished.clear()
        rollouts.closed.clear()
        most = max(most, len(rollouts.open))
    assert most <= 4


def test_a_sample_that_never_ends_holds_its_group_no_longer_than_the_slack() -> None:
    events = [
        event
        for event in task_events(1, time_s=START_S)
        if TOPIC_OF[type(event.record)] != "rollouts" or event.record.sample != 2
    ]
    rollouts = Rollouts()
    add_all(rollouts, events)
    assert len(rollouts.open) == 1
    add_all(rollouts, list(task_events(2, time_s=START_S + SLACK_S + 3)))
    assert rollouts.open == {}
    assert (given_out(rollouts)[0][0], 2) not in given_out(rollouts)


def test_an_end_that_is_late_by_clocks_that_differ_still_counts() -> None:
    *events, ended, _reward = list(task_events(1, time_s=START_S))
    rollouts = Rollouts()
    add_all(rollouts, [*events, _reward])
    assert len(given_out(rollouts)) == NUM_SAMPLES - 1
    add_all(rollouts, [ended])
    assert len(given_out(rollouts)) == NUM_SAMPLES
    assert rollouts.open == {}


def test_events_of_tasks_outside_the_range_are_dropped_and_counted() -> None:
    _, *orphans = list(task_events(1, time_s=START_S))
    rollouts = Rollouts()
    add_all(rollouts, orphans)
    add_all(rollouts, list(task_events(2, time_s=START_S + SLACK_S + 3)))
    assert rollouts.open == {}
    assert rollouts.num_orphans == 1


def test_unwanted_tasks_hold_nothing_and_give_nothing() -> None:
    rollouts = Rollouts(wants=lambda task, _time_ms: task.domain == "verbs")
    add_all(rollouts, by_time(list(history(6))))
    assert {finished.group.task.domain for finished in rollouts.finished if finished.group.task} == {"verbs"}
    assert len(rollouts.closed) == 3
    assert rollouts.open == {}


def test_a_rollout_can_wait_for_the_reward_it_had() -> None:
    *events, reward = list(task_events(1, time_s=START_S))
    rollouts = Rollouts(waits_for_rewards=True)
    add_all(rollouts, events)
    assert len(given_out(rollouts)) == NUM_SAMPLES - 1
    add_all(rollouts, [reward])
    assert len(given_out(rollouts)) == NUM_SAMPLES


def test_rewards_of_other_scorings_are_not_what_is_compared_with() -> None:
    other = samples.reward(0, task_id="t", rollout_id="t/0", scoring_id="other", value=0.5)
    rollouts = Rollouts()
    rollouts.add(b"t", samples.task(task_id="t", num_samples=1), 0, list)
    rollouts.add(b"t", other, 0, list)
    assert rollouts.open[b"t"].rewards == {}


def raw(record: Any, *, value: bytes | None = None, **headers: str) -> RawRecord:
    event = placed(next(iter(history(1))), offset=3)
    made = dict(encode_headers(event)) | {"ce_type": b"rollog.turn_generated.v1"}
    made |= {name: text.encode() for name, text in headers.items()}
    return RawRecord(
        position=Position("rollouts", 0, 3),
        key=record.task_id.encode(),
        value=encode_value(record) if value is None else value,
        headers=list(made.items()),
        timestamp_ms=0,
    )


def decode(raw_record: RawRecord, *, whole: frozenset[type[Any]] = frozenset()) -> Any:
    decoder = LeanDecoder("rollouts", BlobStore(Path("nowhere")), whole=whole)
    record = decoder.record(raw_record.key, raw_record.value, lambda: raw_record.headers)
    return decoder.whole(raw_record) if record is None else record


@pytest.mark.parametrize("name", ["turn_generated", "execution_finished", "reward_scored"])
def test_a_lean_record_is_its_record_with_fewer_fields(name: str) -> None:
    record = samples.records()[name]
    lean = msgspec.msgpack.decode(encode_value(record), type=LEAN[type(record)])
    for field in lean.__struct_fields__:
        got, wanted = getattr(lean, field), getattr(record, field)
        if field == "action":
            assert (got is None) == (wanted is None)
        elif field == "outcome":
            assert (got.status, got.error) == (wanted.status, wanted.error)
        else:
            assert got == wanted


CLAIM = ClaimCheck(sha256="00", size=1)


def turn_without(field: str) -> bytes:
    fields = msgspec.msgpack.decode(encode_value(samples.turn()))
    return msgspec.msgpack.encode({name: value for name, value in fields.items() if name != field})


@pytest.mark.parametrize("field", Turn.__struct_fields__)
def test_records_of_versions_that_have_other_fields_go_through_the_codec(field: str) -> None:
    assert decode(raw(samples.turn())).text == samples.turn().text
    with pytest.raises(DecodeError, match="version 9"):
        decode(raw(samples.turn(), ce_type="rollog.turn_generated.v9", value=turn_without(field)))
    if field == "action":  # an early turn, which may lack what has a default
        assert decode(raw(samples.turn(action=None), value=turn_without(field))).action is None


def test_records_that_are_wanted_whole_and_those_that_are_not_lean_are_told_by_their_types() -> None:
    ended = raw(samples.ended(), ce_type="rollog.rollout_ended.v9")
    turn = raw(samples.turn(), ce_type="rollog.turn_generated.v9")
    for record, whole in ((ended, frozenset[type[Any]]()), (turn, frozenset({TurnGenerated}))):
        with pytest.raises(DecodeError, match="version 9"):
            decode(record, whole=whole)


def test_no_two_records_of_a_topic_begin_alike() -> None:
    for topic in TOPICS:
        beginnings = [first_byte_of(record) for record in get_topic(topic).records]
        assert len(set(beginnings)) == len(beginnings)
        assert beginnings == [
            encode_value(samples.records()[snake_case(r.__name__)])[0] for r in get_topic(topic).records
        ]


@pytest.mark.parametrize(
    ("broken", "why"),
    [
        (raw(samples.turn(), value=b"\xc1"), "turn_generated"),
        (raw(samples.turn(task_id="other", rollout_id="other/0"), value=encode_value(samples.turn())), "task_id"),
        (raw(samples.reward(), ce_type="rollog.reward_scored.v1"), "does not belong"),
        (raw(samples.turn(), value=encode_claim(CLAIM), ce_dataref="sha256:01"), "claim"),
        (raw(samples.turn(), value=encode_claim(CLAIM), ce_dataref=CLAIM.reference), "wanted a sha256"),
        (raw(samples.turn(), value=b""), "turn_generated"),
        (raw(samples.turn(), value=turn_without("text")), "text"),
    ],
)
def test_what_is_no_event_of_its_topic_is_refused(broken: RawRecord, why: str) -> None:
    with pytest.raises(DecodeError, match=why):
        decode(broken)


class Read:
    """A record as the client has it."""

    def __init__(self, record: RawRecord) -> None:
        self.key, self.value, self.headers = (lambda: record.key), (lambda: record.value), (lambda: record.headers)


ENDED = raw(samples.ended(), ce_type="rollog.rollout_ended.v1")


@pytest.mark.parametrize(
    ("odd", "is_read"),
    [
        (raw(samples.turn(1)), True),
        (raw(samples.turn(), value=turn_without("queued_s")), True),
        (raw(samples.turn(), value=b""), False),
        (raw(samples.turn(task_id="other", rollout_id="other/0"), value=encode_value(samples.turn())), False),
        (raw(samples.ended(), ce_type="rollog.rollout_ended.v9"), False),
        (raw(samples.ended(), ce_type="rollog.rollout_ended.v1", ce_dataref="sha256:01"), False),
    ],
)
@pytest.mark.parametrize("whole", [frozenset(), frozenset({TurnGenerated})])
def test_many_records_are_read_as_each_by_itself(odd: RawRecord, is_read: bool, whole: frozenset[type[Any]]) -> None:
    some = [raw(samples.turn()), ENDED, odd, ENDED]
    decoder = LeanDecoder("rollouts", BlobStore(Path("nowhere")), whole=whole)
    messages: list[Any] = [Read(record) for record in some]
    found = decoder.records([record.key for record in some], messages)
    assert found == [decoder.record(record.key, record.value, Read(record).headers) for record in some]
    assert [record is not None for record in found] == [True, True, is_read, True]


def write(log: Any, tmp_path: Path, events: Events) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path)
    publisher.send_all(events)
    publisher.close()


def test_topics_are_merged_by_stretches_of_time_in_the_order_of_their_offsets(
    broker: str, namespace: str, tmp_path: Path
) -> None:
    log = new_log(broker, namespace, partitions=2)
    write(log, tmp_path, by_time(list(history(60))))
    found = find_range(log, TOPICS, Span())
    write(log, tmp_path, list(task_events(99, time_s=START_S)))
    merged = MergedTopics(log, TOPICS)
    num_read, stretches, offsets = 0, [(0, 0), (0, 0)], dict[Any, int]()
    for partition in found.partitions:
        for topic, message in (
            (topic, message)
            for topic, messages, _ in merged.runs(partition, found.starts, found.ends)
            for message in messages
        ):
            assert message.offset() == offsets.get((topic, partition), -1) + 1
            offsets[topic, partition] = message.offset()
            stretch = (message.timestamp()[1] // TOGETHER_MS, TOPICS.index(topic))
            assert stretch >= stretches[partition]
            stretches[partition] = stretch
            num_read += 1
    merged.close()
    assert num_read == 60 * (1 + 3 * NUM_SAMPLES) == found.num_records(found.partitions)


def read(log: Any, tmp_path: Path, span: Span) -> tuple[History, list[str]]:
    found = find_range(log, TOPICS, span)
    history = History(log, blob_dir=tmp_path)
    closed = []
    for partition in found.partitions:
        rollouts = Rollouts()
        for _ in history.read(partition, found, rollouts):
            closed += [group.key.decode() for group in rollouts.closed]
            rollouts.closed.clear()
        rollouts.end()
        closed += [group.key.decode() for group in rollouts.closed]
    history.close()
    return history, closed


def test_a_range_begins_with_a_time_or_an_offset_of_tasks(broker: str, namespace: str, tmp_path: Path) -> None:
    log = new_log(broker, namespace, partitions=1)
    events = list(history(40, step_s=30.0))
    write(log, tmp_path, events)
    keys = [event.key for event in events if isinstance(event.record, TaskIssued)]
    assert read(log, tmp_path, Span(since_s=START_S + 30 * 25))[1] == keys[25:]
    assert read(log, tmp_path, Span(from_offset={0: 31}))[1] == keys[31:]
    with pytest.raises(ConfigError, match="0 to 40"):
        read(log, tmp_path, Span(from_offset={0: 41}))


def test_what_cannot_be_decoded_is_counted_and_passed(broker: str, namespace: str, tmp_path: Path) -> None:
    log = new_log(broker, namespace, partitions=1)
    write(log, tmp_path, list(history(2)))
    produce_raw(log, "rollouts", b"\xc1", key=b"k", headers={"ce_type": b"rollog.turn_generated.v1"})
    history_read, closed = read(log, tmp_path, Span())
    assert len(closed) == 2
    assert history_read.num_undecodable == 1
    assert "rollouts[0]@" in history_read.undecodable[0]


def test_a_held_record_keeps_the_first_of_two_twins() -> None:
    first, second = samples.turn(text="a"), samples.turn(text="b")
    rollouts = Rollouts()
    rollouts.add(b"t", first, 0, list)
    rollouts.add(b"t", second, 0, list)
    trajectory = rollouts.open[b"t"].samples[0]
    assert trajectory is not None
    assert trajectory.turns[0] == Held(first)  # type: ignore[comparison-overlap]


def test_a_group_issued_under_a_scoring_is_closed_by_its_own_rewards() -> None:
    events = []
    for event in task_events(1, time_s=START_S):
        record = event.record
        if isinstance(record, TaskIssued):
            record = msgspec.structs.replace(record, scoring_id="strict")
        if isinstance(record, RewardScored):
            shadow = msgspec.structs.replace(record, scoring_id="shadow", value=0.125, invalid_reason=None)
            events.append(msgspec.structs.replace(event, record=shadow))
            record = msgspec.structs.replace(record, scoring_id="strict", own=True)
        events.append(msgspec.structs.replace(event, record=record))
    rollouts = Rollouts()
    add_all(rollouts, events)
    (group,) = rollouts.closed
    assert {reward.scoring_id for reward in group.rewards.values()} == {"strict"}
    of_shadow = Rollouts(against="shadow")
    add_all(of_shadow, events)
    (group,) = of_shadow.closed
    assert [reward.value for reward in group.rewards.values()] == [0.125] * NUM_SAMPLES
