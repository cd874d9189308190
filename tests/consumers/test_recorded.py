from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.feed import Fault
from consumers.recorded import RecordedFeed, read_fork
from schemas.batches import Batch
from schemas.codec import new_event
from schemas.errors import LogError
from schemas.forks import Fork, fork_command, fork_id
from tests.learner.file_log import FileReader, append
from tests.learner.policies import batch_event, make_batch


def fork(num_batches: int, run_id: str = "test") -> Fork:
    return Fork(
        run_id=run_id,
        source_run="source",
        source_namespace="source.",
        step=3,
        source_policy="policy",
        digests={"model.safetensors": "sha256:00"},
        scoring_id="live",
        mix={"verbs": 1.0},
        again=False,
        ends={"tasks[0]": 7},
        num_batches=num_batches,
        config_digest="sha256:01",
    )


def begin(log: Path, num_batches: int, run_id: str = "test") -> None:
    command = fork_command(fork(num_batches, run_id))
    append(log, "commands", new_event(command, id=fork_id(run_id), key=run_id, source="test"))


def recorded(number: int, **changes: Any) -> Batch:
    return make_batch(number, **{"rebuilt": True, "number": number, **changes})


def put(log: Path, *places: tuple[int, int]) -> None:
    """Write batch `number` to `partition`, for each (number, partition)."""
    for number, partition in places:
        append(log, "batches", batch_event(recorded(number)), partition=partition)


def open_feed(log: Path, offsets: dict[int, int] | None = None, seen: tuple[str, ...] = ()) -> RecordedFeed:
    reader: Any = partial(FileReader, log)
    return RecordedFeed.open(
        reader, run_id="test", offsets=offsets or {}, seen=seen, window=100, on_undecodable=lambda raw, error: None
    )


def no_fault(_batch: Batch) -> Fault | None:
    return None


def numbers(feed: RecordedFeed) -> list[Any]:
    return [event.record.number for event in feed.take()]


def test_batches_come_by_their_numbers_whatever_partition_they_stand_on(tmp_path: Path) -> None:
    begin(tmp_path, 6)
    put(tmp_path, (0, 1), (1, 1), (4, 1), (2, 0), (3, 0), (5, 0))
    feed = open_feed(tmp_path)
    assert feed.lag() == 6
    found = []
    while not feed.is_used_up:
        assert feed.gather(4, no_fault) == []
        found.append(numbers(feed))
    assert found == [[0, 1, 2, 3], [4, 5]]
    assert (feed.lag(), feed.offsets) == (0, {0: 3, 1: 3})


def test_a_feed_goes_on_where_another_stopped_and_what_was_only_in_hand_comes_again(tmp_path: Path) -> None:
    begin(tmp_path, 5)
    put(tmp_path, (0, 1), (2, 1), (4, 1), (1, 0), (3, 0))
    feed = open_feed(tmp_path)
    feed.gather(2, no_fault)
    assert numbers(feed) == [0, 1]
    feed.gather(2, no_fault)
    again = open_feed(tmp_path, feed.offsets, feed.seen)
    again.gather(9, no_fault)
    assert numbers(again) == [2, 3, 4]


def test_what_the_judge_faults_is_returned_and_passed(tmp_path: Path) -> None:
    begin(tmp_path, 3)
    put(tmp_path, (0, 0), (1, 1), (2, 0))
    fault = Fault(reason="quarantined", detail="no")
    feed = open_feed(tmp_path)
    dropped = feed.gather(9, lambda event: fault if event.record.number == 1 else None)
    assert [one.event.record.number for one in dropped] == [1]
    assert numbers(feed) == [0, 2]


def test_repeats_and_what_is_live_are_passed_over(tmp_path: Path) -> None:
    begin(tmp_path, 3)
    put(tmp_path, (0, 0), (1, 0), (1, 0), (0, 0))
    append(tmp_path, "batches", batch_event(make_batch(70)), partition=0)
    append(tmp_path, "batches", batch_event(recorded(0, run_id="other")), partition=0)
    put(tmp_path, (2, 0))
    feed = open_feed(tmp_path)
    feed.gather(9, no_fault)
    assert numbers(feed) == [0, 1, 2]


@pytest.mark.parametrize("missing", [0, 1, 3])
def test_a_number_that_is_missing_is_told(tmp_path: Path, missing: int) -> None:
    begin(tmp_path, 4)
    put(tmp_path, *((number, number % 2) for number in range(4) if number != missing))
    with pytest.raises(LogError, match=f"number {missing} of the 4 recorded batches"):
        open_feed(tmp_path).gather(9, no_fault)


def test_a_run_that_is_no_fork_has_nothing_recorded(tmp_path: Path) -> None:
    begin(tmp_path, 1, "another")
    with pytest.raises(LogError, match=r"run 'test' is no fork.*learner.offline = false"):
        open_feed(tmp_path)


def test_what_made_a_fork_is_read_back(tmp_path: Path) -> None:
    begin(tmp_path, 9)
    reader: Any = partial(FileReader, tmp_path)
    assert read_fork(reader, "test") == fork(9)
    assert read_fork(reader, "other") is None
    command = msgspec.structs.replace(fork_command(fork(9, "odd")), arguments={"fork": "{}"})
    append(tmp_path, "commands", new_event(command, id=fork_id("odd"), key="odd", source="test"))
    with pytest.raises(LogError, match="the fork 'odd' cannot be read"):
        read_fork(reader, "odd")
