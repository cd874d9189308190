"""The fold of commands: the same for everybody who read as far, each command once, and nothing that breaks a reader."""

from typing import Any

import msgspec
import pytest

from schemas.codec import new_event
from schemas.commands import CommandGiven
from schemas.errors import ConfigError
from schemas.events import Event, Position
from schemas.recalls import (
    Quarantine,
    Recalls,
    lift_command,
    quarantine_command,
    quarantine_id,
    rollback_command,
    rollback_id,
)
from schemas.selections import PolicyRange, Selection
from tests.learner.policies import make_batch

VERBS = Selection(domain="verbs")


def at(record: CommandGiven, offset: int, event_id: str) -> Event[Any]:
    event = new_event(record, id=event_id, key=record.target, source="test")
    return msgspec.structs.replace(event, position=Position("commands", 0, offset))


def given(
    selection: Selection = VERBS, *, batches: frozenset[str] = frozenset(), ends: dict[int, int] | None = None
) -> CommandGiven:
    return quarantine_command("test", selection, batches=batches, batch_ends=ends or {}, given_by="me", reason="why")


def test_a_quarantine_is_what_was_said_and_stands_at_its_first_place() -> None:
    recalls, command = Recalls(), given(batches=frozenset({"b", "a"}), ends={1: 7, 0: 9})
    for offset in (3, 5):
        recalls.take(at(command, offset, "q"))
    (found,) = recalls.in_force("test")
    assert found == Quarantine(
        quarantine_id="q", run_id="test", selection=VERBS, offset=3, batches=frozenset({"a", "b"}),
        batch_ends={0: 9, 1: 7}, given_by="me", reason="why",
    )  # fmt: skip
    assert (recalls.end, recalls.in_force("other")) == (6, [])


def test_a_lifted_quarantine_is_in_force_no_longer() -> None:
    recalls = Recalls()
    recalls.take(at(given(), 0, "abc"))
    recalls.take(at(lift_command(recalls.find("ab"), given_by="me"), 1, "l"))
    assert recalls.in_force("test") == []
    assert recalls.lifted == {"abc": 1}
    with pytest.raises(ConfigError, match="there are: abc"):
        recalls.find("x")


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"selection": "--colour red"},
        {"selection": "--domain verbs", "batches": "no json"},
        {"selection": "--domain verbs", "batch_ends": "[1]"},
        {"selection": 7.0},
    ],
)
def test_what_cannot_be_obeyed_is_noted_and_stops_nobody(arguments: dict[str, Any]) -> None:
    recalls = Recalls()
    recalls.take(at(CommandGiven(command="quarantine", target="test", arguments=arguments, given_by="x"), 4, "q"))
    assert (recalls.quarantines, recalls.end) == ({}, 5)
    assert "commands[0]@4" in recalls.unreadable["q"]


@pytest.mark.parametrize("version", [-1.0, 3.0, 4.0])
def test_a_rollback_goes_to_a_version_before_the_one_that_was_seen(version: float) -> None:
    recalls = Recalls()
    command = rollback_command("test", "policy", int(version), at=3, given_by="me")
    recalls.take(at(command, 0, "r"))
    assert recalls.rollbacks == {}
    assert "r" in recalls.unreadable


def test_other_commands_are_passed_over() -> None:
    recalls = Recalls()
    recalls.take(at(CommandGiven(command="set_weight", target="verbs", given_by="x"), 0, "w"))
    assert (recalls.end, recalls.unreadable, recalls.quarantines) == (1, {}, {})


def quarantine(**changes: Any) -> Quarantine:
    fields: dict[str, Any] = {
        "quarantine_id": "q" * 32, "run_id": "test", "selection": VERBS, "offset": 5, "batches": frozenset({"bad"}),
        "batch_ends": {0: 10},
    }  # fmt: skip
    return Quarantine(**(fields | changes))


@pytest.mark.parametrize(
    ("batch", "place", "word"),
    [
        ({}, ("bad", 0, 3), "no longer train"),
        ({}, ("good", 0, 3), None),
        ({}, ("good", 0, 9), None),
        ({}, ("good", 0, 10), "before the assembler knew"),
        ({}, ("good", 1, 0), "before the assembler knew"),
        ({"commands_end": 5}, ("good", 0, 10), "before the assembler knew"),
        ({"commands_end": 6}, ("good", 0, 10), None),
        ({"commands_end": 6}, ("bad", 0, 3), None),
        ({"run_id": "other"}, ("bad", 0, 3), None),
        ({"domain": "repair"}, ("good", 0, 10), None),
        ({"domain": "repair"}, ("bad", 0, 3), "no longer train"),
    ],
)
def test_a_batch_is_judged_by_the_list_and_beyond_the_scan_by_what_its_assembler_knew(
    batch: dict[str, Any], place: tuple[str, int, int], word: str | None
) -> None:
    found = quarantine().fault_of(make_batch(0, **batch), *place)
    assert (found is None) if word is None else (found is not None and word in found and "qqqq" in found)


def test_beyond_the_scan_only_what_may_hold_such_rollouts_is_passed_over() -> None:
    batch = make_batch(0, version=4)
    for selection, is_kept in (
        (Selection(policy=PolicyRange(name="policy", first=5, last=9)), True),
        (Selection(policy=PolicyRange(name="policy", first=1, last=4)), False),
        (Selection(policy=PolicyRange(name="policy")), False),
        (Selection(rollouts=("x/0",)), True),
        (Selection(rollouts=(batch.rows[1].rollout_id,)), False),
    ):
        assert (quarantine(selection=selection).fault_of(batch, "b", 0, 99) is None) is is_kept


def test_ids_are_derived_from_what_was_known() -> None:
    assert quarantine_id("r", VERBS, commands_end=3) == quarantine_id("r", VERBS, commands_end=3)
    assert quarantine_id("r", VERBS, commands_end=3) != quarantine_id("r", VERBS, commands_end=4)
    assert rollback_id("r", "p", 3, at=9) != rollback_id("r", "p", 3, at=10)
