"""A selection is text that comes back as it went, and means the same rollouts to everybody."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.conditions import OPERATORS, Condition, parse_where
from schemas.errors import ConfigError
from schemas.rollouts import TurnGenerated
from schemas.selections import (
    PARTS,
    PolicyRange,
    Selection,
    check_fields,
    parse_conditions,
    parse_selection,
    rounded,
)
from schemas.tasks import TaskIssued
from tests import samples

TEXTS = st.text(alphabet=st.characters(exclude_categories=("Cs",)), max_size=20)
NAMES = st.from_regex(r"[a-z][a-z0-9 '\"-]{0,10}", fullmatch=True)
RANGES = st.tuples(st.integers(0, 99), st.integers(0, 99)).map(sorted)
POLICIES = st.one_of(
    st.none(),
    st.builds(PolicyRange, name=NAMES),
    st.builds(lambda name, span: PolicyRange(name=name, first=span[0], last=span[1]), NAMES, RANGES),
)
CONDITIONS = st.builds(
    Condition,
    field=st.sampled_from(["reward.value", "task.level", "answer.text", "parts.stdout"]),
    symbol=st.sampled_from(sorted(OPERATORS)),
    value=TEXTS,
)
MOMENTS = st.one_of(st.none(), st.floats(1.0, 4e9).map(rounded))
SELECTIONS = st.builds(
    Selection,
    domain=st.one_of(st.just(""), NAMES),
    since_s=MOMENTS,
    until_s=MOMENTS,
    policy=POLICIES,
    conditions=st.lists(CONDITIONS, max_size=3).map(tuple),
    rollouts=st.lists(st.integers(0, 99).map("ab/{}".format), max_size=3, unique=True).map(tuple),
)


@given(selection=SELECTIONS)
def test_a_selection_comes_back_from_its_text(selection: Selection) -> None:
    assert parse_selection(selection.text) == selection


@pytest.mark.parametrize("value", ['"', "'", '"x"', " x ", "a\nb", "print('7')", 'print("7")', "", "none"])
def test_a_condition_keeps_its_value_to_the_character(value: str) -> None:
    condition = Condition(field="answer.text", symbol="=", value=value)
    assert parse_where(condition.text) == condition


def is_meant(
    selection: Selection, *, sample: int = 0, texts: tuple[str, ...] = ("first", "print(7)"), **kept: Any
) -> bool:
    turns = {index: samples.turn(sample, index, text=text) for index, text in enumerate(texts)}
    records: dict[str, Any] = {
        "task": samples.task(), "end": samples.ended(sample, num_turns=len(texts)), "reward": samples.reward(sample)
    }  # fmt: skip
    return selection.holds(f"{samples.TASK_ID}/{sample}", turns=turns, **(records | kept))


@pytest.mark.parametrize(
    ("where", "meant"),
    [
        ("reward.value=0.5", True),
        ("reward.value>0.5", False),
        ("answer.text=print(7)", True),
        ("answer.text=first", False),
        ("answer.text~(7", True),
        ("answer.text~(8", False),
        ("answer.action.code~print", True),
        ("end.why=finished", True),
        ("task.level=1", True),
        ("value=0.5", True),
        ("text~7", True),
        ("reward.value<none", False),
    ],
)
def test_conditions_look_into_task_end_live_reward_and_last_turn(where: str, *, meant: bool) -> None:
    assert is_meant(Selection(conditions=parse_conditions([where]))) is meant


def test_a_rollout_without_a_reward_or_a_turn_meets_no_condition_on_it() -> None:
    assert not is_meant(Selection(conditions=parse_conditions(["reward.value!=7"])), reward=None)
    assert not is_meant(Selection(conditions=parse_conditions(["answer.text~x"])), texts=())


def test_ids_policies_domains_and_times_narrow_it() -> None:
    assert is_meant(Selection(rollouts=(f"{samples.TASK_ID}/0",)))
    assert not is_meant(Selection(rollouts=(f"{samples.TASK_ID}/1",)))
    assert is_meant(Selection(policy=PolicyRange(name="policy", first=4, last=9)))
    assert not is_meant(Selection(policy=PolicyRange(name="policy", first=5, last=9)))
    task: TaskIssued = samples.task()
    assert Selection(domain="repair").wants_task(task, 0)
    assert not Selection(domain="verbs").wants_task(task, 0)
    within = Selection(since_s=5.0, until_s=6.0)
    assert [within.wants_task(task, time_ms) for time_ms in (4_999, 5_000, 5_999, 6_000)] == [False, True, True, False]


def test_what_is_read_whole_follows_from_what_is_asked() -> None:
    def reads_turns(where: str) -> bool:
        return TurnGenerated in Selection(conditions=parse_conditions([where])).reads

    assert reads_turns("answer.action.code~x")
    assert reads_turns("finish_reason=length")
    assert not reads_turns("answer.text~x")
    assert not reads_turns("reward.detail~x")
    assert not reads_turns("sampling.temperature=1"), "a task has it too, and is always whole"


@pytest.mark.parametrize("where", ["reward.vlaue=1", "rewards.value=1", "nothing=1", "answer.x=1"])
def test_a_field_that_nothing_has_is_refused_with_those_there_are(where: str) -> None:
    with pytest.raises(ConfigError, match="no such field"):
        check_fields(parse_conditions([where]))
    check_fields(parse_conditions([f"{part}.{next(iter(PARTS[part].__struct_fields__))}=1" for part in PARTS]))


@pytest.mark.parametrize(
    "text",
    ["--domain", "domain verbs", "--colour red", "--since soon", "--rollout x", "--where ''", "--policy p@x", "'"],
)
def test_text_that_is_no_selection_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_selection(text)
