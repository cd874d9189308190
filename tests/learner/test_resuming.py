"""A learner that was killed, anywhere, ends up where one that was not ends up, to the bit."""

import multiprocessing
import os
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import pytest
import torch

from learner import checkpoint, loop, resuming
from learner.checkpoint import CheckpointError, folder_of, list_steps, verify_checkpoint
from learner.loop import learn
from schemas.events import Event
from tests.learner.file_log import FilePublisher, FileReader, append, read_all
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime

STEPS = 5
KILLED = 77


def fill(log: Path, num_batches: int = 2 * STEPS) -> None:
    for index in range(num_batches):
        append(log, "batches", batch_event(make_batch(index)), partition=index % 2)


def run(
    home: Path, base: Path, log: Path, joint: Callable[[Any], None] = lambda publisher: None, **learner: Any
) -> None:
    publisher = FilePublisher(log)
    joint(publisher)
    learn(make_runtime(home, base, **({"steps": STEPS} | learner)), publisher, partial(FileReader, log))  # type: ignore[arg-type]


def run_in_child(*args: Any, **learner: Any) -> int | None:
    torch.set_num_threads(1)
    child = multiprocessing.get_context("fork").Process(target=run, args=args, kwargs=learner)
    child.start()
    child.join(120)
    return child.exitcode


def facts(home: Path, log: Path) -> dict[str, Any]:
    """What must not depend on being killed: every step's batches and digests, and what is on disk at the end."""
    steps = {e.id: e.record for e in reversed(read_all(log, "steps"))}
    policies = {e.id: e.record for e in reversed(read_all(log, "policies"))}
    root = home / "runs/test/checkpoints"
    state = verify_checkpoint(folder_of(root, list_steps(root)[-1]))
    return {
        "steps": {s.step: (s.batches, s.weights_digest_in, s.weights_digest_out, s.loss) for s in steps.values()},
        "policies": {p.version: p.digest for p in policies.values()},
        "checkpoints": list_steps(root),
        "digests": state.digests,
        "offsets": state.offsets,
        "seen": state.seen,
        "decisions": sorted(e.id for e in read_all(log, "decisions")),
    }


def die() -> None:
    os._exit(KILLED)


def die_at_call(module: Any, name: str, number: int, *, after: bool = False) -> Callable[[Any], None]:
    """Kill the process at that call of a function, before or after it does its work."""

    def arm(_publisher: FilePublisher) -> None:
        original, calls = getattr(module, name), []

        def replacement(*args: Any, **kwargs: Any) -> Any:
            calls.append(1)
            if len(calls) == number and not after:
                die()
            result = original(*args, **kwargs)
            if len(calls) == number:
                die()
            return result

        setattr(module, name, replacement)

    return arm


def die_once_written(record: str, number: int) -> Callable[[FilePublisher], None]:
    """Kill the process when that many events of this kind are on the log, and nothing after them."""

    def arm(publisher: FilePublisher) -> None:
        written: list[str] = []

        def note(event: Event[Any]) -> None:
            written.append(type(event.record).__name__)
            if written.count(record) == number:
                die()

        publisher.on_written = note

    return arm


JOINTS = {
    "while the base becomes version 0": die_at_call(checkpoint, "write_durably", 2),
    "with version 0 durable and not published": die_at_call(FilePublisher, "send_all", 1),
    "with batches taken": die_at_call(loop, "describe_step", 3),
    "in the midst of writing a checkpoint": die_at_call(checkpoint, "write_durably", 6),
    "before the rename": die_at_call(Path, "rename", 2),
    "after the rename": die_at_call(Path, "rename", 2, after=True),
    "before the events are published": die_at_call(FilePublisher, "send_all", 4),
    "between step and policy": die_once_written("StepTaken", 2),
    "after both": die_once_written("PolicyPublished", 3),
    "while old checkpoints are deleted": die_at_call(checkpoint.shutil, "rmtree", 1),
    "after the last step": die_at_call(loop, "report", STEPS),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_policy(tmp_path_factory.mktemp("base"))


@pytest.fixture(scope="module", params=[1, 2], ids="checkpoint_every={}".format)
def undisturbed(request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("undisturbed")
    learner = {"checkpoint_every": request.param, "keep_last": 2, "keep_every": 4}
    fill(home / "log")
    assert run_in_child(home, base, home / "log", **learner) == 0
    return {"learner": learner, "facts": facts(home, home / "log")}


@pytest.mark.parametrize("joint", JOINTS.values(), ids=JOINTS.keys())
def test_a_learner_killed_at_a_joint_and_started_again_equals_one_that_was_not(
    joint: Callable[[Any], None], undisturbed: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "log")
    learner = undisturbed["learner"]
    killed = run_in_child(tmp_path, base, tmp_path / "log", joint, **learner)
    assert killed in {KILLED, 0}
    assert killed == KILLED or learner["checkpoint_every"] > 1, "the joint was never reached"
    assert run_in_child(tmp_path, base, tmp_path / "log", **learner) == 0
    assert facts(tmp_path, tmp_path / "log") == undisturbed["facts"]


def test_a_learner_killed_at_every_step_still_arrives(undisturbed: dict[str, Any], base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    learner, exits = undisturbed["learner"], []
    while not exits or exits[-1] == KILLED:
        exits.append(run_in_child(tmp_path, base, tmp_path / "log", die_once_written("StepTaken", 1), **learner))
    assert len(exits) > STEPS // 2
    assert facts(tmp_path, tmp_path / "log") == undisturbed["facts"]


def test_nothing_is_published_twice_by_a_learner_that_is_started_again(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path, base, tmp_path / "log")
    run(tmp_path, base, tmp_path / "log")
    for topic, number in (("steps", STEPS), ("policies", STEPS + 1)):
        assert len(read_all(tmp_path / "log", topic)) == number


def test_weights_are_a_projection_of_the_log(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path / "first", base, tmp_path / "log")
    run(tmp_path / "second", base, tmp_path / "log")
    first, second = (facts(tmp_path / name, tmp_path / "log") for name in ("first", "second"))
    assert first["digests"] == second["digests"]


def test_steps_on_the_log_that_cannot_be_reached_are_an_error(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path / "first", base, tmp_path / "log")
    steps = read_all(tmp_path / "log", "steps")
    (tmp_path / "log/steps-0").unlink()
    for event in steps[2:]:
        append(tmp_path / "log", "steps", event)
    with pytest.raises(CheckpointError, match="has step 3 of run 'test', but not step 1"):
        run(tmp_path / "second", base, tmp_path / "log")


def test_a_step_that_comes_out_differently_when_done_again_stops_the_learner(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path / "first", base, tmp_path / "log")
    other = make_policy(tmp_path / "other", seed=1)
    with pytest.raises(CheckpointError, match="step 1 done again gives weights"):
        run(tmp_path / "second", other, tmp_path / "log")


def test_a_checkpoint_of_another_run_is_refused(base: Path, tmp_path: Path) -> None:
    fill(tmp_path / "log")
    run(tmp_path, base, tmp_path / "log")
    (tmp_path / "runs/test").rename(tmp_path / "runs/else")
    runtime = make_runtime(tmp_path, base)
    settings = msgspec.structs.replace(runtime.settings, run="else")
    with pytest.raises(CheckpointError, match="of run 'test'"):
        resuming.resume(
            msgspec.structs.replace(runtime, settings=settings),
            FilePublisher(tmp_path / "log"),  # type: ignore[arg-type]
            partial(FileReader, tmp_path / "log"),  # type: ignore[arg-type]
        )
