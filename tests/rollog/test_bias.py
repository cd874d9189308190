from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.index import Index
from rollog.bias import BiasReport, Bucket, bias_of, bucket, tables_of
from schemas.codec import new_event
from schemas.ids import derive_id, task_id
from tests import samples
from tests.history import MemoryLog, derived, write_history

replace = msgspec.structs.replace


@pytest.fixture
def log(tmp_path: Path) -> MemoryLog:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all, num_tasks=60)
    return log


def report(log: MemoryLog, tmp_path: Path, run: str = "golden") -> BiasReport:
    index = Index(tmp_path / "index")
    index.catch_up(log.open_reader, log.bounds)  # type: ignore[arg-type]
    return bias_of(index, run)


def named(found: BiasReport, by: str) -> dict[str, Bucket]:
    return {bucket.name: bucket for bucket in found.by[by]}


def test_every_rollout_has_one_fate(log: MemoryLog, tmp_path: Path) -> None:
    found = report(log, tmp_path)
    assert (found.tasks, found.rollouts, found.trained) == (60, 120, 80)
    assert found.reasons == {"zero_variance": 40}
    assert found.rate == pytest.approx(2 / 3)
    for buckets in found.by.values():
        assert sum(bucket.rollouts for bucket in buckets) == 120
        assert sum(bucket.trained + sum(bucket.reasons.values()) for bucket in buckets) == 120
        assert sum(bucket.share_issued for bucket in buckets) == pytest.approx(1)
        assert sum(bucket.share_trained for bucket in buckets) == pytest.approx(1)


def test_what_is_dropped_alike_everywhere_is_no_bias(log: MemoryLog, tmp_path: Path) -> None:
    found = report(log, tmp_path)
    assert found.biased == ()
    assert {name: bucket.rate for name, bucket in named(found, "level").items()} == {
        "0": pytest.approx(2 / 3),
        "1": pytest.approx(2 / 3),
    }


def drop_level_1(log: MemoryLog) -> None:
    """Let the long ones, which are those of level 1, be stale."""
    hard = {event.key for event in log.events("tasks") if event.record.level == 1}
    for step in log.events("steps"):
        kept = tuple(ref for ref in step.record.batches if not is_of(log, ref.event_id, hard))
        log.edit(step.position, lambda record, kept=kept: replace(record, batches=kept))
    for batch in log.events("batches"):
        if batch.key in hard:
            decision = replace(
                samples.records()["decision"], task_id=batch.key, stage="learner", reason="stale", batch_id=batch.id
            )
            log.send(derived(decision, derive_id(batch.id, "decision", 0), batch, 1.0))


def is_of(log: MemoryLog, batch_id: str, tasks: set[str]) -> bool:
    return any(event.id == batch_id and event.key in tasks for event in log.events("batches"))


def test_what_is_dropped_by_level_is_a_bias_and_named_with_its_reason(log: MemoryLog, tmp_path: Path) -> None:
    drop_level_1(log)
    found = report(log, tmp_path)
    assert named(found, "level")["1"].trained == 0
    assert named(found, "level")["1"].reasons["stale"] == 40
    assert named(found, "level")["1"].z < -3
    assert len(found.biased) == 2
    assert any(words.startswith("level 1: trains less often (0.0%") and "stale" in words for words in found.biased)


def test_lengths_and_latencies_are_in_buckets_of_powers_of_two(log: MemoryLog, tmp_path: Path) -> None:
    found = report(log, tmp_path)
    assert list(named(found, "length")) == ["up to 4 tokens"]
    assert list(named(found, "latency")) == ["up to 4 s"]
    assert [bucket(value, "s") for value in (None, 0.1, 1, 1.5, 2, 3, 4.1)] == [
        "did not end",
        *(f"up to {size} s" for size in (1, 1, 2, 2, 4, 8)),
    ]


def test_what_is_not_decided_yet_counts_in_no_rate(log: MemoryLog, tmp_path: Path) -> None:
    for index in range(1000, 1040):
        task = samples.task(task_id=task_id("golden", "train", index), run_id="golden", index=index, num_samples=2)
        log.send(new_event(task, id=task.task_id, key=task.task_id, source="rollog/test"))
    found = report(log, tmp_path)
    assert (found.rollouts, found.reasons["open"]) == (200, 80)
    assert found.rate == pytest.approx(2 / 3)
    assert named(found, "length")["did not end"].undecided == 80


def test_an_invalid_rollout_of_a_group_that_trained_has_its_own_reason(tmp_path: Path) -> None:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all, num_tasks=1, num_samples=3)
    batch = log.events("batches")[0]
    log.edit(batch.position, lambda record: replace(record, rows=record.rows[:2]))
    reward = next(event for event in log.events("rewards") if event.record.sample == 2)
    log.edit(reward.position, lambda record: replace(record, value=None, invalid_reason="infrastructure"))
    assert report(log, tmp_path).reasons == {"invalid: infrastructure": 1}


def test_a_valid_rollout_that_its_batch_leaves_out_has_its_own_reason(tmp_path: Path) -> None:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all, num_tasks=1, num_samples=3)
    log.edit(log.events("batches")[0].position, lambda record: replace(record, rows=record.rows[:2]))
    assert report(log, tmp_path).reasons == {"quarantined, or too late for its batch": 1}


def test_held_out_tasks_and_other_runs_do_not_count(log: MemoryLog, tmp_path: Path) -> None:
    write_history(log.send_all, run="other", num_tasks=3)
    for task in (samples.task(task_id="h" * 32, run_id="golden", split="held_out"),):
        log.send(new_event(task, id=task.task_id, key=task.task_id, source="rollog/test"))
    assert report(log, tmp_path).tasks == 60


def test_repeats_of_a_task_a_batch_or_a_step_change_nothing(log: MemoryLog, tmp_path: Path) -> None:
    before = report(log, tmp_path)
    for topic in ("tasks", "rollouts", "rewards", "batches", "decisions", "steps"):
        log.send_all(log.events(topic))
    assert report(log, tmp_path) == before


def test_an_empty_run_has_nothing_to_say(log: MemoryLog, tmp_path: Path) -> None:
    found: Any = report(log, tmp_path, run="nobody")
    assert (found.tasks, found.rate, found.biased) == (0, 0.0, ())
    assert all(table.row_count == 0 for table in tables_of(found))
