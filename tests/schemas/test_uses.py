from typing import Any

import msgspec
import pytest

from schemas.codec import new_event
from schemas.commands import CommandGiven
from schemas.errors import ConfigError
from schemas.events import Event, Position
from schemas.scorings import LIVE, Scoring, VerifierChoice, scoring_of
from schemas.uses import InUse, Use, command_of, use_id, use_of

STRICT = scoring_of(VerifierChoice(kind="exact_match"), version=1)
LOOSE = scoring_of(VerifierChoice(kind="exact_match", partial="prefix"), version=1, scoring_id="loose")
DOMAINS = ("verbs", "repair")


def given(number: int, scoring: Scoring | None, *, domain: str = "*", run: str = "r", **changes: Any) -> Event[Any]:
    use = Use(run_id=run, domain=domain, scoring=scoring)
    command = command_of(use, given_by="test")
    command = msgspec.structs.replace(command, arguments=command.arguments | changes)
    event = new_event(command, id=use_id(use, number), key=run, source="test", time_s=100.0 + number)
    return msgspec.structs.replace(event, position=Position("commands", 0, number))


def in_use(*events: Event[Any]) -> InUse:
    made = InUse("r")
    for event in events:
        made.take(event)
    return made


def test_a_command_holds_all_that_is_needed_to_obey_it() -> None:
    for scoring in (STRICT, LOOSE, None, scoring_of(None, version=0)):
        use = Use(run_id="r", domain="verbs", scoring=scoring)
        assert use_of(command_of(use, given_by="test"), None) == use


def test_the_last_command_about_a_domain_counts_and_one_about_all_clears_them() -> None:
    events = [given(0, STRICT), given(1, LOOSE, domain="verbs"), given(2, None, domain="repair"), given(3, STRICT)]
    found = [in_use(*events[:number]).ids_of(DOMAINS) for number in range(5)]
    assert found == [
        {"repair": LIVE, "verbs": LIVE},
        {"repair": STRICT.scoring_id, "verbs": STRICT.scoring_id},
        {"repair": STRICT.scoring_id, "verbs": "loose"},
        {"repair": LIVE, "verbs": "loose"},
        {"repair": STRICT.scoring_id, "verbs": STRICT.scoring_id},
    ]


def test_repeats_and_commands_of_other_runs_and_kinds_change_nothing() -> None:
    made = in_use(given(0, STRICT), given(1, None))
    other = new_event(CommandGiven(command="set_weight", target="r", given_by="x"), id="o", key="r", source="test")
    for event in (given(0, STRICT), given(2, LOOSE, run="another"), other):
        assert not made.take(event)
    assert made.scoring_for("verbs") is None
    assert (made.num_commands, made.first_s) == (2, 100.0)


def test_giving_a_command_twice_at_once_gives_it_once_and_later_again_is_another() -> None:
    use = Use(run_id="r", scoring=STRICT)
    assert use_id(use, 1) == use_id(use, 1)
    assert use_id(use, 1) != use_id(use, 2)


@pytest.mark.parametrize("changes", [{"digest": "sha256:00"}, {"choice": '{"kind": 3}'}, {"choice": '{"new": 1}'}])
def test_a_command_that_cannot_be_obeyed_is_refused_until_another_takes_its_place(changes: dict[str, Any]) -> None:
    bad = given(0, STRICT, **changes)
    with pytest.raises(ConfigError, match=r"commands\[0\]@0: the command to use scoring 'exact_match@1"):
        in_use(bad).scoring_for("verbs")
    assert in_use(bad, given(1, LOOSE)).scoring_for("verbs") == LOOSE
    assert in_use(bad, given(1, LOOSE, domain="verbs")).scoring_for("verbs") == LOOSE
