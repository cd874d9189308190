"""The loop's promises that need no kill: what it takes, what it passes over, what it says, when it stops."""

import threading
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from consumers.runtime import Runtime
from learner import loop
from learner.checkpoint import folder_of, list_steps, read_state
from learner.loop import learn
from schemas.batches import Batch
from schemas.content import record_digest
from schemas.errors import DivergenceError
from schemas.ids import derive_id, digest_of
from schemas.policies import PolicyPublished
from schemas.steps import StepTaken
from tests.consumers.test_recorded import begin, recorded
from tests.learner.file_log import FilePublisher, FileReader, append, read_all
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_policy(tmp_path_factory.mktemp("base"))


def put(log: Path, *batches: Batch) -> None:
    for batch in batches:
        append(log, "batches", batch_event(batch))


def run(runtime: Runtime, log: Path) -> Runtime:
    learn(runtime, FilePublisher(log), partial(FileReader, log, num_partitions=1))  # type: ignore[arg-type]
    return runtime


def records(log: Path, topic: str) -> list[Any]:
    return [event.record for event in read_all(log, topic)]


def test_steps_and_versions_are_on_the_log_with_all_that_they_need(base: Path, tmp_path: Path) -> None:
    put(tmp_path / "log", *(make_batch(index) for index in range(8)))
    runtime = run(make_runtime(tmp_path, base), tmp_path / "log")
    batches = {e.position.offset: e for e in read_all(tmp_path / "log", "batches") if e.position}
    steps: list[StepTaken] = records(tmp_path / "log", "steps")
    policies: list[PolicyPublished] = records(tmp_path / "log", "policies")
    assert [s.step for s in steps] == [1, 2, 3, 4]
    assert [p.version for p in policies] == [0, 1, 2, 3, 4]
    assert [r.offset for s in steps for r in s.batches] == list(range(8))
    for ref in (r for s in steps for r in s.batches):
        event = batches[ref.offset]
        assert (ref.event_id, ref.digest) == (event.id, record_digest(event.record))
    for policy, step in zip(policies[1:], steps, strict=True):
        assert (step.policy_version_in, step.policy_version_out) == (step.step - 1, policy.version)
        assert (step.weights_digest_out, policy.parent) == (policy.digest, policy.version - 1)
        assert digest_of(step.config.encode()) == step.config_digest
        assert msgspec.json.decode(step.config)["groups_per_step"] == 2
    assert [s.weights_digest_in for s in steps] == [p.digest for p in policies[:-1]]
    for policy in policies:
        content = (Path(policy.address) / "model.safetensors").read_bytes()
        assert (digest_of(content), len(content)) == (policy.digest, policy.num_bytes)
    ids = {e.record.step: e.id for e in read_all(tmp_path / "log", "steps")}
    assert ids == {n: derive_id("test", "step_taken", n) for n in range(1, 5)}
    assert runtime.telemetry.health()[0]


def test_stale_batches_are_passed_over_with_a_decision(base: Path, tmp_path: Path) -> None:
    fresh = [make_batch(index) for index in range(3)]
    old = make_batch(50, version=-3)
    put(tmp_path / "log", fresh[0], old, fresh[1], fresh[2], make_batch(3))
    run(make_runtime(tmp_path, base, steps=2, max_staleness=2), tmp_path / "log")
    (event,) = read_all(tmp_path / "log", "decisions")
    decision = event.record
    assert event.id == derive_id(batch_event(old).id, "decision", 0)
    assert (decision.stage, decision.reason, decision.task_id) == ("learner", "stale", old.task_id)
    assert (decision.policy_version, decision.batch_id) == (0, batch_event(old).id)
    assert [r.offset for s in records(tmp_path / "log", "steps") for r in s.batches] == [0, 2, 3, 4]


def test_what_is_just_within_the_bound_trains(base: Path, tmp_path: Path) -> None:
    put(tmp_path / "log", *(make_batch(index, version=-2) for index in range(2)))
    run(make_runtime(tmp_path, base, steps=1, max_staleness=2), tmp_path / "log")
    assert records(tmp_path / "log", "decisions") == []
    assert records(tmp_path / "log", "steps")[0].stats.staleness_max == 2


def test_repeats_and_batches_of_other_runs_are_skipped_without_a_word(base: Path, tmp_path: Path) -> None:
    first = make_batch(0)
    put(tmp_path / "log", first, first, make_batch(9, run_id="other"), make_batch(1))
    run(make_runtime(tmp_path, base, steps=1), tmp_path / "log")
    assert [r.offset for s in records(tmp_path / "log", "steps") for r in s.batches] == [0, 3]
    assert records(tmp_path / "log", "decisions") == []


def test_a_batch_written_again_after_a_restart_is_not_trained_on_twice(base: Path, tmp_path: Path) -> None:
    put(tmp_path / "log", make_batch(0), make_batch(1))
    run(make_runtime(tmp_path, base, steps=1), tmp_path / "log")
    put(tmp_path / "log", make_batch(1), make_batch(0), make_batch(2), make_batch(3))
    run(make_runtime(tmp_path, base, steps=2), tmp_path / "log")
    assert [r.offset for s in records(tmp_path / "log", "steps") for r in s.batches] == [0, 1, 4, 5]


def test_batches_that_cannot_be_computed_with_are_quarantined(base: Path, tmp_path: Path) -> None:
    good = [make_batch(index) for index in range(2)]
    row = make_batch(7).rows[0]
    too_new = make_batch(8, version=1)
    unknown = msgspec.structs.replace(
        row, token_ids=msgspec.structs.replace(row.token_ids, data=b"\xff" * len(row.token_ids.data))
    )
    put(tmp_path / "log", too_new, make_batch(10, rows=(unknown,)), make_batch(11, rows=()), *good)
    run(make_runtime(tmp_path, base, steps=1), tmp_path / "log")
    assert [d.reason for d in records(tmp_path / "log", "decisions")] == ["quarantined"] * 3
    assert [r.offset for s in records(tmp_path / "log", "steps") for r in s.batches] == [3, 4]


def test_offsets_cover_only_what_was_taken(base: Path, tmp_path: Path) -> None:
    put(tmp_path / "log", *(make_batch(index) for index in range(5)))
    run(make_runtime(tmp_path, base, steps=2), tmp_path / "log")
    root = tmp_path / "runs/test/checkpoints"
    assert [read_state(folder_of(root, step)).offsets for step in list_steps(root)] == [{}, {0: 2}, {0: 4}]


def test_the_last_step_is_published_whatever_the_interval(base: Path, tmp_path: Path) -> None:
    put(tmp_path / "log", *(make_batch(index) for index in range(10)))
    run(make_runtime(tmp_path, base, steps=5, checkpoint_every=3), tmp_path / "log")
    assert [p.version for p in records(tmp_path / "log", "policies")] == [0, 3, 5]
    assert [s.step for s in records(tmp_path / "log", "steps")] == [1, 2, 3, 4, 5]


def test_a_loss_that_is_no_number_stops_the_learner_and_writes_nothing(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path / "log", *(make_batch(index) for index in range(4)))
    take = loop.Training.advance

    def poisoned(training: Any, *args: Any, **kwargs: Any) -> Any:
        if training.step == 1:
            with torch.no_grad():
                next(training.model.parameters())[0] = float("inf")
        return take(training, *args, **kwargs)

    monkeypatch.setattr(loop.Training, "advance", poisoned)
    with pytest.raises(DivergenceError, match="step 2"):
        run(make_runtime(tmp_path, base), tmp_path / "log")
    assert list_steps(tmp_path / "runs/test/checkpoints") == [0, 1]
    assert [s.step for s in records(tmp_path / "log", "steps")] == [1]


def test_a_learner_without_batches_is_healthy_and_stops_when_told(base: Path, tmp_path: Path) -> None:
    runtime = msgspec.structs.replace(make_runtime(tmp_path, base), stop=threading.Event())
    polled = threading.Event()

    class NotedReader(FileReader):
        def poll(self, **options: Any) -> list[Any]:
            polled.set()
            return super().poll(**options)

    reader = partial(NotedReader, tmp_path / "log", num_partitions=1)
    (tmp_path / "log").mkdir()
    thread = threading.Thread(target=learn, args=(runtime, FilePublisher(tmp_path / "log"), reader))
    thread.start()
    assert polled.wait(30)
    assert runtime.telemetry.health()[0]
    runtime.stop.set()
    thread.join(30)
    assert not thread.is_alive()
    assert [p.version for p in records(tmp_path / "log", "policies")] == [0]


def test_a_fork_trains_on_what_was_recorded_whatever_its_age_and_ends(base: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    begin(log, 5)
    put(log, *(recorded(number, version=version) for number, version in enumerate([90, -90, 0, 7, 3])))
    run(make_runtime(tmp_path, base, steps=4, max_staleness=0, offline=True), log)
    steps: list[StepTaken] = records(log, "steps")
    assert [[ref.offset for ref in step.batches] for step in steps] == [[0, 1], [2, 3]]
    assert records(log, "decisions") == []
    assert (steps[0].stats.staleness_max, steps[1].stats.staleness_max) == (90, 1)


def test_a_fork_that_goes_on_live_passes_over_what_is_left_with_a_decision(base: Path, tmp_path: Path) -> None:
    log = tmp_path / "log"
    begin(log, 3)
    put(log, *(recorded(number) for number in range(3)))
    run(make_runtime(tmp_path, base, steps=1, offline=True), log)
    put(log, *(make_batch(index, version=1) for index in (70, 71)))
    run(make_runtime(tmp_path, base, steps=2), log)
    assert [[ref.offset for ref in step.batches] for step in records(log, "steps")] == [[0, 1], [3, 4]]
    (decision,) = records(log, "decisions")
    assert (decision.reason, decision.task_id) == ("stale", recorded(2).task_id)
    assert "recorded by the run forked from" in decision.detail
