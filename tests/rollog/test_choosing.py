"""What `rescore`'s options say: verifiers, policies, moments, offsets and conditions."""

from pathlib import Path

import pytest

from rollog.choosing import choose
from rollog.selection import PolicyRange, parse_conditions, parse_moment, parse_offsets, parse_policy
from schemas.config import VerifierSettings
from schemas.errors import ConfigError
from schemas.scorings import VerifierChoice
from tests import samples

SETTINGS = VerifierSettings(named={"mine": VerifierChoice(kind="stdout_match", partial="lines")})
EXACT = VerifierChoice(kind="exact_match", expected="7")


def test_a_verifier_is_a_kind_a_name_a_file_or_json(tmp_path: Path) -> None:
    (tmp_path / "v.toml").write_text('kind = "exact_match"\nexpected = "7"\n')
    (tmp_path / "v.json").write_text('{"kind": "exact_match", "expected": "7"}')
    assert choose("exact_match", SETTINGS) == VerifierChoice(kind="exact_match")
    assert choose("mine", SETTINGS) == SETTINGS.named["mine"]
    assert choose("own", SETTINGS) is None
    assert choose(' {"kind": "exact_match", "expected": "7"}', SETTINGS) == EXACT
    assert choose(str(tmp_path / "v.toml"), SETTINGS) == choose(str(tmp_path / "v.json"), SETTINGS) == EXACT


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("strict", "known are exact_match, exit_status, parts, stdout_match and own; the settings name mine"),
        ("nowhere.json", "nowhere.json"),
        ('{"kind": "gone"}', "'gone' is not known"),
        ('{"kind": "exact_match", "speed": 1}', "speed"),
        ('{"expected": "7"}', "kind"),
        ("{", "--verifier"),
    ],
)
def test_a_verifier_that_is_none_is_refused_with_what_there_is(text: str, why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        choose(text, SETTINGS)


def test_a_policy_is_a_name_and_versions_that_drew_a_token() -> None:
    turn = samples.turn()
    assert parse_policy("") is None
    assert parse_policy("policy") == PolicyRange(name="policy")
    for text, drew in (("policy", True), ("other", False), ("policy@4", True), ("policy@5..9", False)):
        chosen = parse_policy(text)
        assert chosen is not None
        assert chosen.drew(turn) == drew
    with pytest.raises(ConfigError, match="--policy"):
        parse_policy("policy@new")


def test_offsets_are_for_every_partition_or_for_one() -> None:
    assert parse_offsets(["7", "1:9"], 3) == {0: 7, 1: 9, 2: 7}
    for bad in ("x", "1:", ":3", "1:2:3"):
        with pytest.raises(ConfigError, match="--from-offset"):
            parse_offsets([bad], 3)


def test_the_ends_of_the_log_are_no_moments() -> None:
    assert parse_moment("--since", "beginning") is None
    assert parse_moment("--until", "now") is None
    assert parse_moment("--until", "1970-01-01T00:01:00Z") == 60.0
    with pytest.raises(ConfigError, match="--until 'soon'"):
        parse_moment("--until", "soon")


def test_conditions_are_about_a_rollouts_records() -> None:
    assert [condition.field for condition in parse_conditions(["value<1", "task.level=0"])] == ["value", "task.level"]
    with pytest.raises(ConfigError, match="envelope"):
        parse_conditions(["source=x"])
