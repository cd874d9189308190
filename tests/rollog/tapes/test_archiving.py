"""What is old goes to a tape, and off the log only if the tape has it and nobody needs it."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from confluent_kafka import Consumer, TopicPartition

from consumers.offsets import consumer_options
from consumers.tapes.exporting import export
from consumers.tapes.file import TapeFile
from learner.checkpoint import LearnerState, write_checkpoint
from producers.publisher import Publisher
from rollog.exit_codes import ExitCode
from rollog.resolve import save
from rollog.tapes import archiving
from schemas.config import LearnerSettings, LogSettings, Settings
from schemas.errors import ConfigError, TapeError
from schemas.events import Event
from tests import samples
from tests.logs import new_log, task_ids
from tests.rollog.tapes.recorded import all_records, rollog, tree

UNTIL = "1970-01-01T00:10:00Z"
"""Of the turns that `record` writes, one a minute, the first ten are older."""


@pytest.fixture
def log(broker: str, namespace: str) -> LogSettings:
    return new_log(broker, namespace)


def record(log: LogSettings, home: Path, *, num_open: int = 0) -> None:
    """Write twenty tasks, one a minute, each with a turn; all but the last `num_open` of the old ones end."""
    publisher = Publisher(log, source="test", blob_dir=home / "blobs")
    for minute, key in enumerate(task_ids(20)):
        events: list[tuple[str, Any]] = [
            (key, samples.task(task_id=key)),
            (f"{key} turn", samples.turn(task_id=key, rollout_id=f"{key}/0")),
        ]
        if not 10 - num_open <= minute < 10:
            ended = msgspec.structs.replace(samples.records()["decision"], task_id=key)
            events.append((f"{key} end", ended))
        publisher.send_all(timed(publisher, event_id, key, content, minute) for event_id, content in events)
    publisher.close()


def timed(publisher: Publisher, event_id: str, key: str, content: Any, minute: int) -> Event[Any]:
    event = publisher.event(content, id=event_id, key=key)
    return msgspec.structs.replace(event, time_s=60.0 * minute + 1)


def archive(log: LogSettings, home: Path, *options: str) -> Any:
    return rollog("archive", str(home / "old.tape"), "--until", UNTIL, "--json", *options, log=log, home=home)


def num_rollouts(log: LogSettings, home: Path) -> int:
    return sum(len(records) for at, records in all_records(log, home).items() if at[0] == "rollouts")


def commit(log: LogSettings, group: str, offsets: dict[int, int]) -> None:
    consumer = Consumer({**consumer_options(log), "group.id": log.namespace + group})
    asked = [TopicPartition(f"{log.namespace}rollouts", partition, offset) for partition, offset in offsets.items()]
    consumer.commit(offsets=asked, asynchronous=False)
    consumer.close()


def test_a_dry_run_says_what_would_go_and_does_nothing(log: LogSettings, tmp_path: Path) -> None:
    record(log, tmp_path)
    done = tree(archive(log, tmp_path))

    assert (done["applied"], done["num_offsets"], done["needed"]) == (False, 10, [])
    assert num_rollouts(log, tmp_path) == 20
    assert not (tmp_path / "old.tape").exists()


def test_what_is_old_is_on_the_tape_and_off_the_log(log: LogSettings, tmp_path: Path) -> None:
    record(log, tmp_path)
    before = all_records(log, tmp_path)

    done = tree(archive(log, tmp_path, "--apply"))

    tape = TapeFile(tmp_path / "old.tape")
    taped = {at: [record.raw() for record in tape.records(at, 0)] for at in tape.ranges}
    tape.close()
    after = all_records(log, tmp_path)
    assert (done["applied"], done["num_offsets"], done["digest"]) == (True, 10, tape.digest)
    assert {at: taped.get(at, []) + after[at] for at in after} == before
    assert num_rollouts(log, tmp_path) == 10
    assert {at[0] for at in taped} == {"rollouts"}

    again = tree(archive(log, tmp_path, "--apply"))
    assert (again["applied"], again["num_offsets"]) == (False, 0)
    assert all_records(log, tmp_path) == after


def test_what_open_tasks_need_stays(log: LogSettings, tmp_path: Path) -> None:
    record(log, tmp_path, num_open=1)
    result = archive(log, tmp_path, "--apply")

    assert result.exit_code == ExitCode.FELL_SHORT
    assert [f"task {task_ids(10)[-1]}" in need for need in tree(result)["needed"]] == [True]
    assert num_rollouts(log, tmp_path) == 20
    assert not (tmp_path / "old.tape").exists()


def test_what_a_group_has_not_committed_stays(log: LogSettings, tmp_path: Path) -> None:
    record(log, tmp_path)
    ends = {
        at[1]: sum(raw.timestamp_ms < 600_000 for raw in records)
        for at, records in all_records(log, tmp_path).items()
        if at[0] == "rollouts"
    }
    assert all(ends.values())
    commit(log, "verifier", {0: ends[0] - 1, 1: ends[1]})

    needed = tree(archive(log, tmp_path, "--apply"))["needed"]
    assert len(needed) == 1
    assert f"rollouts[0]@{ends[0] - 1} by group {log.namespace}verifier" in needed[0]
    assert num_rollouts(log, tmp_path) == 20

    commit(log, "verifier", ends)
    assert tree(archive(log, tmp_path, "--apply"))["applied"]
    assert num_rollouts(log, tmp_path) == 10


def test_a_group_that_never_committed_a_partition_needs_all_of_it(log: LogSettings, tmp_path: Path) -> None:
    record(log, tmp_path)
    commit(log, "verifier", {0: 20})
    needed = tree(archive(log, tmp_path))["needed"]
    assert len(needed) == 1
    assert "rollouts[1]@0 by group" in needed[0]


@pytest.mark.parametrize(("steps", "is_needed"), [(0, True), (9, True), (3, False)])
def test_batches_that_a_learner_goes_on_with_stay(
    log: LogSettings, tmp_path: Path, steps: int, is_needed: bool
) -> None:
    publisher = Publisher(log, source="test", blob_dir=tmp_path / "blobs")
    batch = samples.records()["batch"]
    publisher.send_all([publisher.event(batch, id=str(n), key=samples.TASK_ID) for n in range(4)])
    publisher.close()
    partition = next(at[1] for at, found in all_records(log, tmp_path).items() if at[0] == "batches" and found)
    settings = Settings(run="mine", log=log, learner=LearnerSettings(steps=steps))
    save(settings, tmp_path / "runs/mine")
    state = LearnerState(
        run_id="mine", policy="p", step=3, seed=0, offsets={partition: 3}, seen=(), pending=(), digests={}
    )
    write_checkpoint(tmp_path / "runs/mine/checkpoints", state, {})

    needed = tree(archive(log, tmp_path, "--until", "now"))["needed"]

    assert needed == ([f"batches[{partition}]@3 by the learner of run mine at step 3"] if is_needed else [])


@pytest.mark.parametrize("topic", ["tasks", "policies"])
def test_topics_that_services_read_from_their_beginning_are_not_archived(
    log: LogSettings, tmp_path: Path, topic: str
) -> None:
    result = archive(log, tmp_path, "--topics", topic)
    assert isinstance(result.exception, ConfigError)
    assert topic in str(result.exception)


def test_a_tape_that_is_damaged_before_the_log_is_trimmed_stops_it(
    log: LogSettings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record(log, tmp_path)
    whole = archiving.export_pieces

    def export_badly(log: LogSettings, path: Path, *arguments: Any, **options: Any) -> Any:
        done = whole(log, path, *arguments, **options)
        content = bytearray(path.read_bytes())
        content[len(content) // 3] ^= 1
        path.write_bytes(content)
        return done

    monkeypatch.setattr(archiving, "export_pieces", export_badly)
    result = archive(log, tmp_path, "--apply")

    assert isinstance(result.exception, TapeError)
    assert "nothing was trimmed" in str(result.exception)
    assert num_rollouts(log, tmp_path) == 20


def test_an_archive_that_was_cut_off_before_it_trimmed_goes_on(log: LogSettings, tmp_path: Path) -> None:
    record(log, tmp_path)
    topics = ["rollouts", "executions", "rewards", "batches"]
    export(log, tmp_path / "old.tape", topics, blob_dir=tmp_path / "blobs", until_s=600.0)

    assert tree(archive(log, tmp_path, "--apply"))["applied"]
    assert num_rollouts(log, tmp_path) == 10


def test_a_tape_of_something_else_is_not_taken_for_it(log: LogSettings, tmp_path: Path) -> None:
    record(log, tmp_path)
    export(log, tmp_path / "old.tape", ["rollouts"], blob_dir=tmp_path / "blobs", until_s=500.0)

    result = archive(log, tmp_path, "--apply")
    assert isinstance(result.exception, TapeError)
    assert "does not hold rollouts" in str(result.exception)
    assert num_rollouts(log, tmp_path) == 20
