"""verify-log on tasks that were issued under a scoring, on batches made again of history, and on forks."""

from pathlib import Path
from typing import Any

import msgspec
import pytest

from schemas.codec import new_event
from schemas.events import Event
from schemas.forks import Fork, fork_command, fork_id
from schemas.ids import derive_id, task_id
from schemas.tasks import TaskIssued
from tests.history import MemoryLog, derived, write_history
from tests.rollog.test_verify_log import TRAINED, UNTRAINED, named, one, verified

replace = msgspec.structs.replace


@pytest.fixture
def log(tmp_path: Path) -> MemoryLog:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all)
    return log


@pytest.fixture
def log_of_strict(tmp_path: Path) -> MemoryLog:
    """A history whose tasks were all issued under a scoring of another name."""
    log = MemoryLog(tmp_path / "blobs")

    def send_all(events: list[Event[Any]]) -> list[Event[Any]]:
        under = [
            replace(event, record=replace(event.record, scoring_id="strict"))
            if isinstance(event.record, TaskIssued)
            else event
            for event in events
        ]
        return log.send_all(under)

    write_history(send_all)
    return log


def test_tasks_under_another_scoring_are_held_to_the_same(log_of_strict: MemoryLog, tmp_path: Path) -> None:
    log = log_of_strict
    assert {event.record.scoring_id for event in log.events("batches")} == {"strict"}
    assert verified(log, tmp_path).details == ()
    edited = one(log, "rewards", key=TRAINED)
    log.edit(edited.position, lambda reward: replace(reward, value=0.75))
    other = one(log, "rewards", key=UNTRAINED)
    log.edit(other.position, lambda reward: replace(reward, value=1.0, config_digest="sha256:ff"))
    found = named(verified(log, tmp_path))
    assert {("reward", str(edited.position)), ("verifier", str(other.position))} <= found
    assert ("reward of a decision", str(one(log, "decisions", key=UNTRAINED).position)) in found


def test_a_task_that_ends_by_its_batch_and_by_a_decision_is_found_whatever_its_scoring(
    log_of_strict: MemoryLog, tmp_path: Path
) -> None:
    batch = one(log_of_strict, "batches", key=TRAINED)
    decision = one(log_of_strict, "decisions", key=UNTRAINED)
    record = replace(decision.record, task_id=TRAINED, reward_mean=None)
    log_of_strict.send(derived(record, derive_id(TRAINED, "decision", 0, "live"), batch, 1.0))
    assert "end" in verified(log_of_strict, tmp_path).by_kind


def test_a_batch_made_again_of_history_is_no_second_end(log: MemoryLog, tmp_path: Path) -> None:
    batch = one(log, "batches", key=TRAINED)
    record = replace(batch.record, scoring_id="strict", rebuilt=True)
    log.send(derived(record, derive_id(TRAINED, "batch", 0, "strict"), batch, 1.0))
    report = verified(log, tmp_path)
    # Its rewards are not on this log, which is another matter.
    assert set(report.by_kind) == {"reward"}


def test_a_forks_batches_have_their_causes_upstream_and_are_counted(log: MemoryLog, tmp_path: Path) -> None:
    batch = one(log, "batches", key=TRAINED)
    fork = Fork(
        run_id="golden",
        source_run="source",
        source_namespace="source.",
        step=0,
        source_policy="policy",
        digests={},
        scoring_id="live",
        mix={},
        again=False,
        ends={},
        num_batches=1,
        config_digest="",
    )
    log.send(new_event(fork_command(fork), id=fork_id("golden"), key="golden", source="rollog/test"))
    task = task_id("source", "train", 3)
    record = replace(batch.record, task_id=task, rebuilt=True, number=0)
    recorded = derived(record, derive_id(task, "batch", 0, "live/golden"), batch, 1.0)
    log.send(replace(recorded, key=task, causation_id="f" * 32))
    report = verified(log, tmp_path)
    assert (report.details, report.upstream) == ((), {"source.": 1})
    log.send(replace(recorded, key=task, id=derive_id(task, "batch", 0, "live")))
    assert verified(log, tmp_path).by_kind == {"id": 1}, "its id is the source's"
