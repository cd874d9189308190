from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from consumers.sealing import seal_id
from rollog.verify_log import VerifyReport, verify
from schemas.codec import new_event
from schemas.events import Event
from schemas.ids import derive_id, task_id
from streams.sealer import make_seals
from tests import samples
from tests.history import MemoryLog, derived, policy, take_step, write_history

replace = msgspec.structs.replace
TRAINED, UNTRAINED = task_id("golden", "train", 0), task_id("golden", "train", 2)


@pytest.fixture
def log(tmp_path: Path) -> MemoryLog:
    log = MemoryLog(tmp_path / "blobs")
    write_history(log.send_all)
    return log


def verified(log: MemoryLog, tmp_path: Path, **options: Any) -> VerifyReport:
    bounds = {"judged": log.bounds, "read_to": log.bounds, **options}
    return verify(log.open_reader, tmp_path / "blobs", scratch=tmp_path / "scratch", **bounds)  # type: ignore[arg-type]


def named(report: VerifyReport) -> set[tuple[str, str]]:
    return {(finding.kind, finding.position) for finding in report.details}


def one(log: MemoryLog, topic: str, number: int = 0, *, key: str = "") -> Event[Any]:
    return [event for event in log.events(topic) if not key or event.key == key][number]


def seal(log: MemoryLog) -> None:
    for record in make_seals(log.open_reader, log.bounds):
        where = f"{record.topic}[{record.partition}]"
        log.send(new_event(record, id=seal_id(record), key=where, source="rollog/test"))


def test_a_whole_history_holds(log: MemoryLog, tmp_path: Path) -> None:
    report = verified(log, tmp_path)
    assert report.details == ()
    assert (report.findings, report.by_kind) == (0, {})
    assert report.events == sum(map(len, log.records.values()))
    assert report.counts["tasks"] == 6
    assert report.counts["steps"] == report.counts["trained"] == 4
    assert list((tmp_path / "scratch").iterdir()) == []


def test_an_edited_reward_is_named_with_the_batch_that_has_another(log: MemoryLog, tmp_path: Path) -> None:
    edited = one(log, "rewards", key=TRAINED)
    log.edit(edited.position, lambda reward: replace(reward, value=0.75))
    report = verified(log, tmp_path)
    assert named(report) == {("reward", str(edited.position))}
    assert "the reward is 0.75, but batch" in report.details[0].what


def test_an_edited_reward_of_a_group_that_did_not_train_is_found_by_its_decision(
    log: MemoryLog, tmp_path: Path
) -> None:
    log.edit(one(log, "rewards", key=UNTRAINED).position, lambda reward: replace(reward, value=1.0))
    decision = one(log, "decisions", key=UNTRAINED)
    assert named(verified(log, tmp_path)) == {("reward of a decision", str(decision.position))}


@pytest.mark.parametrize(
    ("topic", "number", "also"),
    [
        ("tasks", 0, {"cause", "unissued"}),
        ("rollouts", 0, {"cause", "turn"}),
        ("rollouts", 2, {"cause"}),
        ("executions", 0, {"cause"}),
        ("rewards", 0, {"reward"}),
        ("batches", 0, {"batch"}),
        ("decisions", 0, set()),
        ("steps", 1, {"step", "policy"}),
        ("policies", 1, {"version"}),
    ],
)
def test_a_dropped_record_is_named_by_its_offset_and_by_what_needs_it(
    log: MemoryLog, tmp_path: Path, topic: str, number: int, also: set[str]
) -> None:
    gone = one(log, topic, number)
    bounds = log.bounds
    log.drop(gone.position)
    report = verified(log, tmp_path, judged=bounds, read_to=bounds)
    assert ("gap", str(gone.position)) in named(report)
    assert also <= set(report.by_kind)


def test_a_record_dropped_with_its_offset_is_found_by_what_it_led_to(log: MemoryLog, tmp_path: Path) -> None:
    fresh = MemoryLog(tmp_path / "blobs")
    task = one(log, "tasks")
    for (topic, _), records in log.records.items():
        fresh.send_all([event for event in map(log.event, records) if event.id != task.id and topic])
    report = verified(fresh, tmp_path)
    assert "gap" not in report.by_kind
    assert {"cause", "unissued"} <= set(report.by_kind)
    assert any(task.id in finding.what for finding in report.details)


def test_a_doubled_end_is_named(log: MemoryLog, tmp_path: Path) -> None:
    reward = one(log, "rewards", -1, key=TRAINED)
    record = replace(samples.records()["decision"], task_id=TRAINED)
    second = log.send(derived(record, derive_id(TRAINED, "decision", 0, "live"), reward, 1.0))
    report = verified(log, tmp_path)
    assert named(report) == {("end", str(second.position))}
    assert f"task {TRAINED} ends 2 times: " in report.details[0].what


def test_a_repeat_is_no_end_and_of_twins_the_first_counts(log: MemoryLog, tmp_path: Path) -> None:
    batch = one(log, "batches")
    log.send(batch)
    ended = next(event for event in log.events("rollouts") if event.type.startswith("rollog.rollout_ended"))
    twins = [
        log.send(replace(batch, record=replace(batch.record, level=9))),
        log.send(replace(ended, record=replace(ended.record, why="deadline"))),
    ]
    report = verified(log, tmp_path)
    assert (report.findings, report.counts["repeats"]) == (0, 3)
    strict = verified(log, tmp_path, strict=True)
    assert {("twin", str(twin.position)) for twin in twins} <= named(strict)
    assert strict.by_kind["twin"] == 2


def edit_row(batch: Any, **changes: Any) -> Any:
    return replace(batch, rows=(replace(batch.rows[0], **changes), *batch.rows[1:]))


def test_an_edited_batch_is_named_by_the_step_that_trained_on_it(log: MemoryLog, tmp_path: Path) -> None:
    batch = one(log, "batches")
    log.edit(batch.position, lambda record: edit_row(record, temperature=0.25))
    report = verified(log, tmp_path)
    (finding,) = report.details
    assert finding.kind == "batch"
    assert f"{batch.id} at {batch.position}: its digest was" in finding.what


def test_an_edited_advantage_is_named(log: MemoryLog, tmp_path: Path) -> None:
    batch = one(log, "batches")
    log.edit(batch.position, lambda record: edit_row(record, advantage=0.25))
    assert ("advantage", str(batch.position)) in named(verified(log, tmp_path))


def test_batches_that_retention_removed_are_counted_and_not_found(log: MemoryLog, tmp_path: Path) -> None:
    bounds = {at: ((end, end) if at[0] == "batches" else (first, end)) for at, (first, end) in log.bounds.items()}
    report = verified(log, tmp_path, judged=bounds, read_to=bounds)
    assert (report.findings, report.batches_gone) == (0, 4)


@pytest.mark.parametrize(
    ("topic", "number", "change", "kind"),
    [
        ("steps", 1, {"config": '{"steps": 9}'}, "config"),
        ("steps", 1, {"weights_digest_in": "sha256:ff"}, "weights"),
        ("steps", 0, {"weights_digest_in": "sha256:ff"}, "weights"),
        ("steps", 1, {"weights_digest_out": "sha256:ff"}, "policy digest"),
        ("steps", 1, {"step": 7}, "id"),
        ("policies", 2, {"digest": "sha256:ff"}, "policy digest"),
        ("policies", 2, {"parent": 17}, "parent"),
        ("policies", 2, {"version": 17}, "policy"),
        ("rollouts", 0, {"turn": 5}, "id"),
        ("rollouts", 0, {"versions": samples.ids(0, 3, 99)}, "version"),
        ("rollouts", 2, {"num_turns": 2}, "turn"),
        ("executions", 0, {"turn": 5}, "id"),
        ("rewards", 0, {"config_digest": "sha256:ff"}, "verifier"),
        ("tasks", 0, {"index": 77}, "id"),
    ],
)
def test_an_edited_field_is_named_by_what_it_breaks(
    log: MemoryLog, tmp_path: Path, *, topic: str, number: int, change: dict[str, Any], kind: str
) -> None:
    edited = one(log, topic, number)
    log.edit(edited.position, lambda record: replace(record, **change))
    assert kind in verified(log, tmp_path).by_kind


def test_a_batch_that_trains_in_two_steps_is_named(log: MemoryLog, tmp_path: Path) -> None:
    batch = one(log, "batches", key=TRAINED)
    step = log.send(take_step("golden", 5, [batch]))
    log.send(policy("golden", 5))
    report = verified(log, tmp_path)
    assert named(report) == {("trained twice", str(step.position))}
    assert "in steps 1,5 of run golden" in report.details[0].what


def test_a_batch_twice_in_one_step_is_named(log: MemoryLog, tmp_path: Path) -> None:
    log.edit(one(log, "steps").position, lambda step: replace(step, batches=step.batches * 2))
    assert "trained twice" in verified(log, tmp_path).by_kind


def test_the_same_step_written_twice_is_a_repeat(log: MemoryLog, tmp_path: Path) -> None:
    log.send(one(log, "steps"))
    report = verified(log, tmp_path)
    assert (report.findings, report.counts["repeats"]) == (0, 1)


def test_what_is_no_event_is_named_unless_a_dead_letter_is_about_it(log: MemoryLog, tmp_path: Path) -> None:
    where = one(log, "rewards", -1).position
    assert where is not None
    log.records["rewards", where.partition].append(
        replace(log.raw(where), position=replace(where, offset=where.offset + 1), value=b"\xc1")
    )
    report = verified(log, tmp_path)
    bad = f"rewards[{where.partition}]@{where.offset + 1}"
    assert named(report) == {("undecodable", bad)}
    letter = replace(
        samples.records()["dead_letter"], topic="rewards", partition=where.partition, offset=where.offset + 1
    )
    log.send(new_event(letter, id=derive_id(bad, "dead_letter", 0, letter.stage), key="k", source="rollog/test"))
    report = verified(log, tmp_path)
    assert (report.findings, report.counts["put_aside"]) == (0, 1)
    assert verified(log, tmp_path, strict=True).by_kind["put aside"] == 1


def test_a_log_that_is_being_written_is_not_at_fault(log: MemoryLog, tmp_path: Path) -> None:
    for number in (1, 2, 3, 5, 8, 13, 21, 30, 40):
        fresh = MemoryLog(tmp_path / "blobs")
        written = 0

        def send_some(events: list[Event[Any]], most: int = number, log: MemoryLog = fresh) -> list[Event[Any]]:
            nonlocal written
            written += len(events)
            if written > most:
                raise StopIteration
            return log.send_all(events)

        with pytest.raises(StopIteration):
            write_history(send_some)
        report = verified(fresh, tmp_path)
        assert report.details == ()
        assert report.counts["open"] <= report.counts["tasks"]


def test_open_tasks_and_repeats_are_findings_only_where_asked(log: MemoryLog, tmp_path: Path) -> None:
    open_task = samples.task(task_id=task_id("golden", "train", 9), run_id="golden", index=9)
    issued = log.send(new_event(open_task, id=open_task.task_id, key=open_task.task_id, source="rollog/test"))
    again = log.send(one(log, "rewards"))
    report = verified(log, tmp_path)
    assert (report.findings, report.counts["open"], report.counts["repeats"]) == (0, 1, 1)
    strict = verified(log, tmp_path, strict=True)
    assert {("open", str(issued.position)), ("repeat", str(again.position))} <= named(strict)


def test_what_came_after_the_start_is_not_judged(log: MemoryLog, tmp_path: Path) -> None:
    judged = log.bounds
    orphan = samples.reward(0, task_id="nobody", rollout_id="nobody/0")
    log.send(new_event(orphan, id="x", key="nobody", source="rollog/test"))
    assert verified(log, tmp_path, judged=judged).findings == 0
    assert verified(log, tmp_path).findings > 0


def test_a_trimmed_log_misses_what_lies_before_its_beginning(log: MemoryLog, tmp_path: Path) -> None:
    bounds = {at: ((1, end) if at[0] == "tasks" and end else (first, end)) for at, (first, end) in log.bounds.items()}
    report = verified(log, tmp_path, judged=bounds, read_to=bounds)
    assert report.findings == 0
    assert report.beyond > 0


def test_seals_hold_and_go_on_from_each_other(log: MemoryLog, tmp_path: Path) -> None:
    seal(log)
    write_history(log.send_all, run="second")
    seal(log)
    report = verified(log, tmp_path, strict=True)
    assert report.details == ()
    assert (report.seals, report.unsealed) == (len(log.events("seals")), 0)
    assert report.seals > len({event.key for event in log.events("seals")})


@pytest.mark.parametrize("part", ["value", "key", "header", "timestamp"])
def test_an_edit_that_nothing_else_shows_breaks_the_seal_of_its_stretch(
    log: MemoryLog, tmp_path: Path, part: str
) -> None:
    write_history(log.send_all, run="second")
    seal(log)
    turn = one(log, "rollouts", 3)
    raw = log.raw(turn.position)
    changed: dict[str, Callable[[], Any]] = {
        "value": lambda: log.edit(turn.position, lambda record: replace(record, **edit_of(record))),
        "key": lambda: log.put(turn.position, replace(raw, key=b"x" + (raw.key or b"")[1:])),
        "header": lambda: log.put(turn.position, replace(raw, headers=[*raw.headers, ("new", b"")])),
        "timestamp": lambda: log.put(turn.position, replace(raw, timestamp_ms=raw.timestamp_ms + 1)),
    }
    changed[part]()
    report = verified(log, tmp_path)
    assert turn.position is not None
    stretch = f"rollouts[{turn.position.partition}]@0"
    assert ("seal", stretch) in named(report)
    assert report.by_kind["seal"] == 1


def edit_of(record: Any) -> dict[str, Any]:
    return {"text": "forged"} if hasattr(record, "text") else {"domain": "forged"}


def test_a_history_that_was_cut_off_behind_its_seal_is_found(log: MemoryLog, tmp_path: Path) -> None:
    seal(log)
    last = one(log, "policies", -1)
    log.drop(last.position)
    report = verified(log, tmp_path)
    assert "seal" in report.by_kind


def test_an_edited_seal_does_not_hold(log: MemoryLog, tmp_path: Path) -> None:
    seal(log)
    write_history(log.send_all, run="second")
    seal(log)
    first = one(log, "seals")
    log.edit(first.position, lambda record: replace(record, digest="sha256:" + "0" * 64))
    report = verified(log, tmp_path)
    assert report.by_kind == {"seal": 2}
    assert any("which no seal before it has" in finding.what for finding in report.details)
