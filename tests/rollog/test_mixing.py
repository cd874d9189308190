"""What people see of a mix, and what of a change is refused before it is given."""

from io import StringIO

import pytest
from rich.console import Console

from rollog.curriculum_cli import check_changes, table_of
from rollog.mixing import differences, tree_of
from schemas.errors import ConfigError
from schemas.mix_commands import Change, Verb, changes_of, command_id, command_of, parse_change
from schemas.policies import PolicyPublished
from tests.samples import mix, records


def text_of(shares: dict[str, float] | None = None) -> str:
    out = StringIO()
    Console(file=out, width=200).print(table_of(mix(), shares))
    return out.getvalue()


def test_the_table_has_the_largest_weight_first_and_effective_shares_where_asked_for() -> None:
    heading, first, second = text_of().splitlines()
    assert "effective" not in heading
    assert first.split()[:5] == ["repair", "code", "protected", "75.0%", "1.25"]
    assert second.split()[:4] == ["verbs", "words", "active", "25.0%"]
    heading, first, _ = text_of({"*": 0.5, "repair": 0.25}).splitlines()
    assert heading.rstrip().endswith("effective")
    assert first.rstrip().endswith("25.0%")


def test_a_tree_says_which_version_is_for_use() -> None:
    base: PolicyPublished = records()["policy_published"]
    held = PolicyPublished(
        **{name: getattr(base, name) for name in base.__struct_fields__} | {"version": 6, "held": "x"}
    )
    tree = tree_of(mix(), [base, held], {"*": 0.5})
    assert (tree["policy"], tree["effective_share"]) == ({"newest": 6, "for_use": 5}, {"*": 0.5})
    assert "config" not in tree
    assert tree_of(mix(), [], None)["policy"] == {"newest": None, "for_use": None}


def test_differences_name_domain_field_and_both_values() -> None:
    assert list(differences(mix(), mix())) == []
    other = mix(cause="groups", domains={"repair": mix().domains["repair"]})
    assert list(differences(mix(), other)) == [
        "verbs: is in it, and the log gives none",
        "cause is 'status', the log gives 'groups'",
    ]


@pytest.mark.parametrize(
    ("verb", "text", "wanted"),
    [
        ("weight", "verbs=2.5", Change(verb="weight", name="verbs", value=2.5)),
        ("quota", "a=b=0.5", Change(verb="quota", name="a=b", value=0.5)),
        ("quota", "code=none", Change(verb="quota", name="code")),
        ("pause", "verbs", Change(verb="pause", name="verbs")),
    ],
)
def test_an_option_is_a_change_and_a_command_keeps_it(verb: Verb, text: str, wanted: Change) -> None:
    change = parse_change(verb, text)
    assert change == wanted
    assert changes_of(command_of("r", [change], given_by="test")) == [wanted]


@pytest.mark.parametrize(
    ("verb", "text"),
    [("weight", "verbs"), ("weight", "verbs=much"), ("weight", "verbs=-1"), ("weight", "=1"), ("quota", "code=1.5"),
     ("weight", "verbs=nan"), ("level", "verbs=inf"), ("pause", "")],
)  # fmt: skip
def test_an_option_that_says_nothing_sound_is_refused(verb: Verb, text: str) -> None:
    with pytest.raises(ConfigError, match=verb):
        parse_change(verb, text)


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ([], "nothing to change"),
        ([Change(verb="weight", name="chess", value=1.0)], "has repair, verbs"),
        ([Change(verb="quota", name="repair", value=0.5)], "has code, words"),
        ([Change(verb="pause", name="verbs"), Change(verb="resume", name="verbs")], "said twice"),
        ([Change(verb="quota", name="code", value=0.6), Change(verb="quota", name="words", value=0.6)], "come to 1.2"),
    ],
)
def test_changes_that_cannot_be_are_refused(changes: list[Change], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        check_changes(changes, mix())


def test_a_command_given_twice_under_one_mix_is_one() -> None:
    pause = command_of("r", [Change(verb="pause", name="verbs")], given_by="test")
    assert command_id(pause, 3) == command_id(pause, 3)
    assert command_id(pause, 3) != command_id(pause, 4)
