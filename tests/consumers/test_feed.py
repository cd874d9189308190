from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from consumers.feed import BatchFeed, Fault, fetch_batches, find_fault
from schemas.arrays import PackedArray
from schemas.batches import Batch
from schemas.content import record_digest
from schemas.errors import LogError
from schemas.steps import BatchRef
from tests.learner.file_log import FileReader, append
from tests.learner.policies import batch_event, make_batch


def fill(log: Path, *places: tuple[int, int]) -> None:
    """Write batch `index` to `partition`, for each (index, partition)."""
    for index, partition in places:
        append(log, "batches", batch_event(make_batch(index)), partition=partition)


def open_feed(
    log: Path, offsets: dict[int, int] | None = None, seen: tuple[str, ...] = (), window: int = 100
) -> BatchFeed:
    reader: Any = partial(FileReader, log)
    return BatchFeed.open(
        reader, run_id="test", offsets=offsets or {}, seen=seen, window=window, on_undecodable=lambda raw, error: None
    )


def no_fault(_batch: Batch) -> Fault | None:
    return None


def places(events: list[Any]) -> list[str]:
    return [str(event.position) for event in events]


def test_batches_come_in_order_of_arrival_and_offsets_cover_those_taken(tmp_path: Path) -> None:
    fill(tmp_path, (0, 0), (1, 0), (2, 0), (3, 1), (4, 1))
    feed = open_feed(tmp_path)
    assert feed.gather(3, no_fault) == []
    assert (feed.num_ready, feed.offsets) == (3, {0: 0, 1: 0})
    assert places(feed.take()) == ["batches[0]@0", "batches[1]@0", "batches[0]@1"]
    assert feed.offsets == {0: 2, 1: 1}
    feed.gather(3, no_fault)
    assert places(feed.take()) == ["batches[1]@1", "batches[0]@2"]


def test_a_feed_goes_on_where_another_stopped_also_on_partitions_it_never_read(tmp_path: Path) -> None:
    fill(tmp_path, (0, 0), (1, 0), (2, 1))
    feed = open_feed(tmp_path, {0: 1})
    feed.gather(9, no_fault)
    assert places(feed.take()) == ["batches[0]@1", "batches[1]@0"]
    assert feed.offsets == {0: 2, 1: 1}


def test_what_was_only_read_comes_again(tmp_path: Path) -> None:
    fill(tmp_path, (0, 0), (1, 0), (2, 0))
    feed = open_feed(tmp_path)
    feed.gather(1, no_fault)
    feed.take()
    feed.gather(1, no_fault)
    again = open_feed(tmp_path, feed.offsets, feed.seen)
    again.gather(9, no_fault)
    assert places(again.take()) == ["batches[0]@1", "batches[0]@2"]


def test_what_the_judge_faults_is_returned_once_and_passed(tmp_path: Path) -> None:
    fill(tmp_path, (0, 0), (1, 0), (2, 0))
    unwanted = make_batch(1).task_id
    feed = open_feed(tmp_path)
    fault = Fault(reason="stale", detail="old")
    dropped = feed.gather(2, lambda event: fault if event.record.task_id == unwanted else None)
    assert [(str(one.event.position), one.fault) for one in dropped] == [("batches[0]@1", fault)]
    assert places(feed.take()) == ["batches[0]@0", "batches[0]@2"]
    assert feed.offsets[0] == 3


def test_the_window_of_seen_ids_forgets_the_oldest(tmp_path: Path) -> None:
    fill(tmp_path, (0, 0), (1, 0), (2, 0), (0, 0), (2, 0))
    feed = open_feed(tmp_path, window=2)
    feed.gather(9, no_fault)
    assert places(feed.take()) == ["batches[0]@0", "batches[0]@1", "batches[0]@2", "batches[0]@3"]
    assert feed.seen == (batch_event(make_batch(2)).id, batch_event(make_batch(0)).id)
    assert feed.num_skipped == 1


def ref(index: int, partition: int, offset: int) -> BatchRef:
    event = batch_event(make_batch(index))
    return BatchRef(
        topic="batches", partition=partition, offset=offset, event_id=event.id, digest=record_digest(event.record)
    )


def test_a_manifest_is_followed_in_its_own_order(tmp_path: Path) -> None:
    fill(tmp_path, (0, 0), (1, 0), (2, 1), (3, 1))
    reader: Any = partial(FileReader, tmp_path)
    refs = [ref(3, 1, 1), ref(1, 0, 1), ref(2, 1, 0)]
    assert [e.id for e in fetch_batches(reader, refs)] == [r.event_id for r in refs]


def test_a_manifest_that_names_what_is_not_there_is_an_error(tmp_path: Path) -> None:
    fill(tmp_path, (0, 0))
    reader: Any = partial(FileReader, tmp_path)
    with pytest.raises(LogError, match=r"batches\[1\]@4: no readable batch"):
        fetch_batches(reader, [ref(0, 0, 0), ref(1, 1, 4)])


def packed(values: Any, dtype: Any) -> PackedArray:
    return PackedArray.pack(np.asarray(values), dtype=dtype)


ROW = make_batch(0).rows[0]
KINDS = {"token_ids": "i4", "loss_mask": "u1", "logprobs": "f4", "versions": "i4"}
EMPTY = {name: packed([], kind) for name, kind in KINDS.items()}


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"loss_mask": packed([1], "u1")}, "wanted one length"),
        (EMPTY, "wanted one length above 0"),
        ({"advantage": float("nan")}, "wanted finite"),
        ({"temperature": -1.0}, "wanted 0 or more"),
        ({"logprobs": packed(np.full(len(ROW.token_ids), -np.inf), "f4")}, "not finite"),
        ({"logprobs": packed(np.full(len(ROW.token_ids), 0.5), "f4")}, "above 0"),
    ],
)
def test_rows_that_cannot_be_computed_with_are_found(changes: dict[str, Any], problem: str) -> None:
    batch = make_batch(0, rows=(msgspec.structs.replace(ROW, **changes),))
    fault = find_fault(batch)
    assert fault is not None
    assert fault.reason == "quarantined"
    assert problem in fault.detail
    assert find_fault(make_batch(0)) is None


def test_batches_of_another_scoring_are_passed_over(tmp_path: Path) -> None:
    for index, scoring in enumerate(["live", "strict", "live", "strict"]):
        batch = msgspec.structs.replace(make_batch(index), scoring_id=scoring)
        append(tmp_path, "batches", batch_event(batch), partition=0)
    reader: Any = partial(FileReader, tmp_path)
    for scoring, taken in (("live", [0, 2]), ("strict", [1, 3])):
        feed = BatchFeed.open(
            reader,
            run_id="test",
            offsets={},
            seen=(),
            window=100,
            on_undecodable=lambda raw, error: None,
            scoring_id=scoring,
        )
        assert feed.gather(9, no_fault) == []
        assert [event.record.task_id for event in feed.take()] == [make_batch(index).task_id for index in taken]
        assert feed.num_skipped == 2


def test_live_takes_what_tasks_ended_with_and_never_what_was_rebuilt(tmp_path: Path) -> None:
    kinds: list[dict[str, Any]] = [
        {},
        {"scoring_id": "strict"},  # of before there was the field: made again
        {"scoring_id": "strict", "rebuilt": False},
        {"scoring_id": "strict", "rebuilt": True},
        {"rebuilt": True},
        {"scoring_id": "loose", "rebuilt": False},
    ]
    for index, changes in enumerate(kinds):
        append(tmp_path, "batches", batch_event(make_batch(index, **changes)), partition=0)
    reader: Any = partial(FileReader, tmp_path)
    for scoring, taken in (("live", [0, 2, 5]), ("strict", [1, 2, 3]), ("loose", [5])):
        feed = BatchFeed.open(
            reader,
            run_id="test",
            offsets={},
            seen=(),
            window=100,
            on_undecodable=lambda raw, error: None,
            scoring_id=scoring,
        )
        feed.gather(9, no_fault)
        assert [event.record.task_id for event in feed.take()] == [make_batch(index).task_id for index in taken]
