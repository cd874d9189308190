"""Quarantines in the learner: what a command names is passed over, once, with a word, whatever was killed when."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from learner.loop import learn
from schemas.codec import new_event
from schemas.ids import derive_id
from schemas.recalls import Quarantine, lift_command, quarantine_command
from schemas.selections import Selection
from tests.learner.file_log import FilePublisher, FileReader, append, read_all
from tests.learner.policies import batch_event, make_batch, make_policy, make_runtime
from tests.learner.test_resuming import JOINTS, KILLED, STEPS, die_once_written, facts, run_in_child

VERBS = Selection(domain="verbs")


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_policy(tmp_path_factory.mktemp("base"))


def batch_id(index: int) -> str:
    return derive_id(make_batch(index).task_id, "batch", 0, "live")


def put(log: Path, *indices: int, **changes: Any) -> None:
    for index in indices:
        append(log, "batches", batch_event(make_batch(index, **changes)))


def give(log: Path, *indices: int, scanned: int = 0, selection: Selection = VERBS) -> None:
    """Give the quarantine of these batches, from a scan that saw so many."""
    command = quarantine_command(
        "test", selection, batches=frozenset(map(batch_id, indices)), batch_ends={0: scanned}, given_by="test"
    )
    append(log, "commands", new_event(command, id=f"command {scanned} {indices}", key="test", source="test"))


def run(home: Path, base: Path, log: Path, publisher: FilePublisher | None = None, **learner: Any) -> None:
    reader: Any = partial(FileReader, log, num_partitions=1)
    learn(make_runtime(home, base, **({"steps": 2} | learner)), publisher or FilePublisher(log), reader)  # type: ignore[arg-type]


def trained(log: Path) -> list[list[int]]:
    steps = {event.id: event.record for event in read_all(log, "steps")}
    return [[ref.offset for ref in step.batches] for step in steps.values()]


def passed(log: Path) -> dict[str, str]:
    decisions = [event.record for event in read_all(log, "decisions")]
    assert all((d.stage, d.reason) == ("learner", "quarantined") for d in decisions)
    return {str(d.batch_id): d.detail for d in decisions}


def test_a_waiting_batch_that_the_command_names_is_passed_over(base: Path, tmp_path: Path) -> None:
    put(tmp_path, 0, 1, 2, 3, 4)
    give(tmp_path, 1, scanned=5)
    run(tmp_path / "home", base, tmp_path)
    assert trained(tmp_path) == [[0, 2], [3, 4]]
    assert list(passed(tmp_path)) == [batch_id(1)]
    assert "no longer train" in passed(tmp_path)[batch_id(1)]


def test_beyond_the_scan_a_batch_trains_only_if_its_assembler_knew(base: Path, tmp_path: Path) -> None:
    put(tmp_path, 0, 2)
    give(tmp_path, scanned=1)
    put(tmp_path, 4, 1)
    put(tmp_path, 6, 8, commands_end=1)
    run(tmp_path / "home", base, tmp_path)
    assert trained(tmp_path) == [[0, 3], [4, 5]], "index 1 is of repair, which is not meant"
    assert set(passed(tmp_path)) == {batch_id(2), batch_id(4)}
    assert all("before the assembler knew" in detail for detail in passed(tmp_path).values())


def test_what_is_in_hand_when_the_command_comes_is_passed_over_too(base: Path, tmp_path: Path) -> None:
    put(tmp_path, 0, 1, 2)

    class Late(FilePublisher):
        """Brings the command and the next batches once the first step is on the log: batch 2 is in hand by then."""

        def send_all(self, events: Any) -> Any:
            written = super().send_all(events)
            if [type(event.record).__name__ for event in written][:1] == ["StepTaken"] and len(trained(tmp_path)) == 1:
                give(tmp_path, 2, scanned=3)
                put(tmp_path, 3, 5)
            return written

    run(tmp_path / "home", base, tmp_path, Late(tmp_path))
    assert trained(tmp_path) == [[0, 1], [3, 4]]
    assert list(passed(tmp_path)) == [batch_id(2)]


def test_a_lift_brings_nothing_back_that_waited_so_that_a_restart_decides_alike(base: Path, tmp_path: Path) -> None:
    put(tmp_path, 0, 1, 2, 3, 4)
    give(tmp_path, 1, scanned=5)
    given = Quarantine(quarantine_id="command 5 (1,)", run_id="test", selection=VERBS, offset=0)
    append(tmp_path, "commands", new_event(lift_command(given, given_by="test"), id="lift", key="test", source="test"))
    run(tmp_path / "home", base, tmp_path)
    assert list(passed(tmp_path)) == [batch_id(1)]


def test_steps_that_are_done_again_are_not_judged_again(base: Path, tmp_path: Path) -> None:
    put(tmp_path / "log", *range(10))
    learner = {"checkpoint_every": 3, "steps": 4}
    assert run_in_child(tmp_path, base, tmp_path / "log", die_once_written("StepTaken", 2), **learner) == KILLED
    taken = trained(tmp_path / "log")
    give(tmp_path / "log", 0, 1, 2, 3, 5, scanned=10)
    assert run_in_child(tmp_path, base, tmp_path / "log", **learner) == 0
    assert trained(tmp_path / "log")[:2] == taken == [[0, 1], [2, 3]]
    assert trained(tmp_path / "log")[2:] == [[4, 6], [7, 8]]
    assert list(passed(tmp_path / "log")) == [batch_id(5)]


def fill(log: Path) -> None:
    """Write to one partition: between two the order of arrival is nobody's promise once something was passed over."""
    put(log, *range(3 * STEPS))
    give(log, 1, 4, 5, 14, scanned=3 * STEPS)


@pytest.fixture(scope="module", params=[1, 2], ids="checkpoint_every={}".format)
def undisturbed(request: pytest.FixtureRequest, base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    home = tmp_path_factory.mktemp("undisturbed")
    learner = {"checkpoint_every": request.param, "keep_last": 2, "keep_every": 4}
    fill(home / "log")
    assert run_in_child(home, base, home / "log", **learner) == 0
    found = facts(home, home / "log")
    assert len(found["decisions"]) == 3, "batches that no step comes to are not judged"
    return {"learner": learner, "facts": found}


@pytest.mark.parametrize(
    "joint", [*JOINTS.values(), die_once_written("Decision", 2)], ids=[*JOINTS, "after a decision"]
)
def test_a_learner_killed_while_it_passes_batches_over_equals_one_that_was_not(
    joint: Callable[[Any], None], undisturbed: dict[str, Any], base: Path, tmp_path: Path
) -> None:
    fill(tmp_path / "log")
    learner = undisturbed["learner"]
    assert run_in_child(tmp_path, base, tmp_path / "log", joint, **learner) in {KILLED, 0}
    assert run_in_child(tmp_path, base, tmp_path / "log", **learner) == 0
    assert once(facts(tmp_path, tmp_path / "log")) == once(undisturbed["facts"])


def once(found: dict[str, Any]) -> dict[str, Any]:
    """Return facts with repeats of a decision as one, and of ids seen those that trained.

    What a step that is done again had passed over lies before its batches, and is behind it by its offset alone.
    """
    trained = {ref.event_id for batches, *_ in found["steps"].values() for ref in batches}
    seen = [name for name in found["seen"] if name in trained]
    return found | {"decisions": sorted(set(found["decisions"])), "seen": seen}
