"""Going back to an older version: one step like any other, to the bit, whatever is killed when; training goes on."""

import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from learner import checkpoint, loop, resuming
from learner.checkpoint import folder_of, list_steps
from learner.loop import learn
from learner.recompute import recompute
from learner.recompute_range import recompute_range
from schemas.codec import new_event
from schemas.recalls import rollback_command, rollback_id
from tests.learner.file_log import FilePublisher, FileReader, append, read_all
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime
from tests.learner.test_quarantine import once
from tests.learner.test_resuming import JOINTS, KILLED, die_at_call, die_once_written, facts, run_in_child

STEPS = 6
AT, VERSION = 3, 1
COMMAND = rollback_id("test", "policy", VERSION, at=AT)


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_policy(tmp_path_factory.mktemp("base"))


def give(log: Path, version: int = VERSION, *, at: int = AT, times: int = 1) -> None:
    command = rollback_command("test", "policy", version, at=at, given_by="test")
    name = rollback_id("test", "policy", version, at=at)
    for _ in range(times):
        append(log, "commands", new_event(command, id=name, key="test", source="test"))


def fill(log: Path, version: int = VERSION) -> None:
    """Two batches for each step that trains, and two by versions that are rolled back."""
    for index in range(2 * STEPS):
        drawn_by = {6: 2, 9: 3}.get(index, 0)
        append(log, "batches", batch_event(make_batch(index, version=drawn_by)))
    give(log, version)


def run(home: Path, base: Path, **learner: Any) -> None:
    log = home / "log"
    reader: Any = partial(FileReader, log, num_partitions=1)
    learn(make_runtime(home, base, **({"steps": STEPS} | learner)), FilePublisher(log), reader)  # type: ignore[arg-type]


def steps(log: Path) -> dict[int, Any]:
    return {event.record.step: event for event in reversed(read_all(log, "steps"))}


def test_a_rollback_is_a_step_that_restores_weights_and_optimizer(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path, base)
    taken = {number: event.record for number, event in steps(tmp_path / "log").items()}
    back = taken[AT + 1]
    assert (back.restored_from, back.batches, back.policy_version_in, back.policy_version_out) == (1, (), 3, 4)
    assert back.weights_digest_in == taken[AT].weights_digest_out
    assert back.weights_digest_out == taken[VERSION].weights_digest_out
    assert back.optimizer_digest_out == taken[VERSION].optimizer_digest_out
    assert steps(tmp_path / "log")[AT + 1].causation_id == COMMAND
    assert taken[AT + 2].weights_digest_in == back.weights_digest_out
    assert [n for n, step in taken.items() if step.restored_from is not None] == [AT + 1]
    policies = {event.record.version: event.record for event in read_all(tmp_path / "log", "policies")}
    assert (policies[AT + 1].digest, policies[AT + 1].parent) == (policies[VERSION].digest, VERSION)
    assert (policies[AT + 2].parent, len(policies)) == (AT + 1, STEPS + 1)


def test_what_the_versions_that_were_rolled_back_drew_is_passed_over(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path, base)
    decisions = [event.record for event in read_all(tmp_path / "log", "decisions")]
    assert [(d.reason, d.policy_version) for d in decisions] == [("quarantined", 4), ("quarantined", 5)]
    assert [d.detail for d in decisions] == [
        f"rollback {COMMAND[:12]} to version 1: drawn by version {version}" for version in (2, 3)
    ]
    trained = [
        ref.offset
        for number in sorted(steps(tmp_path / "log"))
        for ref in steps(tmp_path / "log")[number].record.batches
    ]
    assert trained == [0, 1, 2, 3, 4, 5, 7, 8, 10, 11]


def test_training_goes_on_as_it_did_from_that_version(base: Path, tmp_path: Path) -> None:
    """What follows is what would have followed then on the same batches, but for its number and its random numbers."""
    for home in (tmp_path / "back", tmp_path / "straight"):
        for index in (0, 1):
            append(home / "log", "batches", batch_event(make_batch(index)))
    for index in (2, 3, 4, 5):
        append(tmp_path / "back/log", "batches", batch_event(make_batch(index)))
    append(tmp_path / "straight/log", "batches", batch_event(make_batch(4)))
    append(tmp_path / "straight/log", "batches", batch_event(make_batch(5)))
    give(tmp_path / "back/log", at=2)
    run(tmp_path / "back", base, steps=4)
    run(tmp_path / "straight", base, steps=2)
    back, straight = (steps(tmp_path / name / "log") for name in ("back", "straight"))
    assert back[4].record.loss == straight[2].record.loss
    assert back[4].record.weights_digest_out == straight[2].record.weights_digest_out


def test_a_learner_that_has_taken_its_last_step_obeys_once_however_often_it_is_said(base: Path, tmp_path: Path) -> None:
    for index in range(8):
        append(tmp_path / "log", "batches", batch_event(make_batch(index)))
    run(tmp_path, base, steps=3)
    give(tmp_path / "log", times=2)
    for _ in range(2):
        run(tmp_path, base, steps=3)
        assert sorted(steps(tmp_path / "log")) == [1, 2, 3, 4]
    assert len(read_all(tmp_path / "log", "steps")) == 4
    run(tmp_path, base, steps=5)
    assert [ref.offset for ref in steps(tmp_path / "log")[5].record.batches] == [6, 7]


def test_versions_that_are_gone_or_torn_are_refused_and_training_goes_on(base: Path, tmp_path: Path) -> None:
    for index in range(10):
        append(tmp_path / "log", "batches", batch_event(make_batch(index)))
    run(tmp_path, base, steps=4, keep_last=2, keep_every=0)
    root = tmp_path / "runs/test/checkpoints"
    assert list_steps(root) == [0, 3, 4]
    (folder_of(root, 3) / "model.safetensors").write_bytes(b"torn")
    for version in (1, 3):
        give(tmp_path / "log", version, at=4)
    run(tmp_path, base, steps=5, keep_last=2, keep_every=0)
    assert [event.record.restored_from for event in read_all(tmp_path / "log", "steps")] == [None] * 5


def test_a_rollback_of_another_policy_or_run_is_not_ones_own(base: Path, tmp_path: Path) -> None:
    for index in range(4):
        append(tmp_path / "log", "batches", batch_event(make_batch(index)))
    for run_id, policy in (("test", "other"), ("other", "policy")):
        command = rollback_command(run_id, policy, 0, at=1, given_by="test")
        append(tmp_path / "log", "commands", new_event(command, id=run_id + policy, key=run_id, source="test"))
    run(tmp_path, base, steps=2)
    assert sorted(steps(tmp_path / "log")) == [1, 2]


def test_what_is_asked_for_is_kept_and_a_second_time_goes_back_over_the_first(base: Path, tmp_path: Path) -> None:
    for index in range(18):
        append(tmp_path / "log", "batches", batch_event(make_batch(index)))
    give(tmp_path / "log", 2, at=3)
    give(tmp_path / "log", 3, at=6)
    run(tmp_path, base, steps=10, keep_last=3, keep_every=0)
    taken = {number: event.record for number, event in steps(tmp_path / "log").items()}
    assert {n: s.restored_from for n, s in taken.items() if s.restored_from is not None} == {4: 2, 7: 3}
    assert list_steps(tmp_path / "runs/test/checkpoints") == [0, 2, 3, 8, 9, 10]


UNDER_WAY = {
    **JOINTS,
    "before the step that goes back is described": die_at_call(loop, "describe_restored", 1),
    "while its checkpoint is written": die_at_call(checkpoint, "write_durably", 22),
    "with its checkpoint durable": die_at_call(Path, "rename", 5, after=True),
    "before its checkpoint has its name": die_at_call(Path, "rename", 5),
    "between the step that goes back and its version": die_once_written("StepTaken", AT + 1),
    "after both, going back": die_once_written("PolicyPublished", AT + 2),
    "as old weights are read": die_at_call(resuming, "restore", 1),
    "after a batch is passed over": die_once_written("Decision", 1),
}


def fill_twice(log: Path, every: int) -> None:
    """Go back to the checkpoint that is `every` steps old at most, and again, further."""
    fill(log, every)
    give(log, every - 1, at=5)


@pytest.fixture(scope="module", params=[1, 2], ids="checkpoint_every={}".format)
def undisturbed(request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("undisturbed")
    learner = {"checkpoint_every": request.param, "keep_last": 1, "keep_every": 0, "steps": STEPS}
    fill_twice(home / "log", request.param)
    assert run_in_child(home, base, home / "log", **learner) == 0
    found = facts(home, home / "log")
    taken = {number: event.record.restored_from for number, event in steps(home / "log").items()}
    back = {4: 1, 6: 0} if request.param == 1 else {4: 2}
    assert {number: version for number, version in taken.items() if version is not None} == back
    return {"learner": learner, "facts": found}


@pytest.mark.parametrize("joint", UNDER_WAY.values(), ids=UNDER_WAY.keys())
def test_a_learner_killed_at_a_joint_of_going_back_equals_one_that_was_not(
    joint: Callable[[Any], None], undisturbed: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    learner = undisturbed["learner"]
    fill_twice(tmp_path / "log", learner["checkpoint_every"])
    assert run_in_child(tmp_path, base, tmp_path / "log", joint, **learner) in {KILLED, 0}
    assert run_in_child(tmp_path, base, tmp_path / "log", **learner) == 0
    found, wanted = once(facts(tmp_path, tmp_path / "log")), once(undisturbed["facts"])
    assert set(found.pop("checkpoints")) >= set(wanted.pop("checkpoints")), "one killed while it prunes keeps more"
    assert found == wanted


@pytest.mark.parametrize("keep", [{}, {"keep_last": 1, "keep_every": 0}], ids=["all kept", "few kept"])
def test_steps_that_went_back_are_recomputed(base: Path, tmp_path: Path, keep: dict[str, int]) -> None:
    fill(tmp_path / "log")
    run(tmp_path, base, **keep)
    reader: Any = partial(FileReader, tmp_path / "log")
    report = recompute_range(reader, tmp_path / "runs/test", run_id="test", steps=(None, None))
    assert (report.steps, report.match, report.num_bitwise) == (STEPS, STEPS, STEPS)
    assert recompute(reader, tmp_path / "runs/test", run_id="test", step=AT + 1).match


def test_a_version_whose_checkpoint_is_gone_is_recomputed_in_the_same_pass(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path, base)
    root = tmp_path / "runs/test/checkpoints"
    for version in range(1, STEPS + 1):
        shutil.rmtree(folder_of(root, version))
    reader: Any = partial(FileReader, tmp_path / "log")
    report = recompute_range(reader, tmp_path / "runs/test", run_id="test", steps=(None, None))
    assert (report.match, report.started_from) == (STEPS, 0)
    assert recompute(reader, tmp_path / "runs/test", run_id="test", step=STEPS).match


def test_a_step_that_went_back_to_what_cannot_be_had_says_so(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path, base)
    root = tmp_path / "runs/test/checkpoints"
    shutil.rmtree(folder_of(root, VERSION))
    reader: Any = partial(FileReader, tmp_path / "log")
    report = recompute_range(reader, tmp_path / "runs/test", run_id="test", steps=(AT + 1, STEPS))
    assert (report.differ, report.match) == (1, 2)
    assert report.first_difference is not None
    assert (report.first_difference.step, report.first_difference.what) == (AT + 1, "restored_from")
