"""Signals over windows: what is found is a function of the log, and a healthy policy raises nothing."""

import random
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.config import AlertSettings
from schemas.executions import Action, ExecutionLimits
from schemas.ids import task_id
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.selections import parse_selection
from streams import signals
from streams.signals import Found, Windows, pattern_of
from tests import samples
from tests.producers.tool_tasks import tool_task

SETTINGS = AlertSettings(window=8, min_measured=8, min_questions=4)
SHADOW = "exact_match@1-ab"
NUM_SAMPLES = 4
Fact = tuple[Any, str, float]


def facts(
    number: int = 0,
    *,
    text: Callable[[int, int], str] = lambda index, sample: f"print({index}{sample % 2})",
    live: Callable[[int, int], float | None] = lambda index, sample: float(sample % 2),
    shadow: Callable[[int, int], float | None] = lambda index, sample: float(sample % 2),
    **task: Any,
) -> Iterator[Fact]:
    """Yield all that one window of tasks gives."""
    for index in range(number * SETTINGS.window, (number + 1) * SETTINGS.window):
        name = task_id("golden", "train", index)
        fields = {"task_id": name, "index": index, "num_samples": NUM_SAMPLES, "prompt": f"question {index}|"}
        yield samples.task(**(fields | task)), name, 1000.0 + index
        for sample in range(NUM_SAMPLES):
            about = {"task_id": name, "rollout_id": f"{name}/{sample}"}
            said = text(index, sample)
            action = Action(code=said, limits=ExecutionLimits()) if said else None
            yield samples.turn(sample, 0, text="first", **about), name, 0.0
            yield samples.turn(sample, 1, text=said, action=action, **about), name, 0.0
            yield samples.ended(sample, num_turns=2, **about), name, 0.0
            for scoring, value in (("live", live(index, sample)), (SHADOW, shadow(index, sample))):
                why = "deadline" if value is None else None
                yield samples.reward(sample, value=value, invalid_reason=why, scoring_id=scoring, **about), name, 0.0


def found_in(given_facts: list[Fact], *, shadows: tuple[str, ...] = (), **settings: Any) -> list[Found]:
    fields = {name: getattr(SETTINGS, name) for name in SETTINGS.__struct_fields__} | settings
    windows = Windows("golden", AlertSettings(**fields), lambda task: ("live", *shadows))
    return [found for record, key, time_s in given_facts for found in windows.take(record, key, time_s)]


def test_a_healthy_window_raises_nothing() -> None:
    assert found_in(list(facts()), shadows=(SHADOW,)) == []


def test_one_answer_that_is_rewarded_for_different_questions_is_raised_with_what_selects_it() -> None:
    hack = list(facts(1, text=lambda index, sample: 'print("ok")' if sample == 3 else f"print({index})"))
    (found,) = found_in(hack)
    assert (found.signal, found.domain, found.first, found.last) == ("repeated", "repair", 8, 15)
    assert (found.measured, found.num_measured) == (1.0, 8)
    assert found.examples[0] == f"{task_id('golden', 'train', 8)}/3"
    assert parse_selection(found.selection.text) == found.selection
    assert found.selection.text == """--domain repair --where 'answer.text="print("ok")"'"""


@pytest.mark.parametrize(
    "changes",
    [
        {"live": lambda index, sample: float(sample % 2 == 0)},
        {"prompt": "one question|"},
    ],
    ids=["it is not rewarded", "the question is the same"],
)
def test_a_repeated_answer_is_no_sign_where(changes: dict[str, Any]) -> None:
    repeating = {"text": lambda index, sample: "same" if sample % 2 else f"print({index}{sample})"}
    assert found_in(list(facts(**(repeating | changes)))) == []


def test_a_shadow_that_denies_what_is_rewarded_is_raised_and_a_word_stands_for_it() -> None:
    def text(index: int, sample: int) -> str:
        return f"print({index}); cheat()" if sample == 1 else f"print({index}{sample})"

    denied = list(facts(text=text, shadow=lambda index, sample: float(sample == 3)))
    (found,) = found_in(denied, shadows=(SHADOW,))
    assert (found.signal, found.about, found.measured, found.num_measured) == ("disagreement", SHADOW, 0.25, 32)
    assert found.selection.text == "--domain repair --where 'answer.text~\"cheat\"'"
    assert found_in(denied, shadows=(SHADOW,), disagreement=0.3) == []
    assert found_in(denied) == [], "a scoring that nobody waits for is not compared"


def test_where_no_word_stands_for_it_the_rewarded_since_then_are_meant() -> None:
    denied = list(facts(live=lambda index, sample: 0.75, shadow=lambda index, sample: 0.0))
    (found,) = [one for one in found_in(denied, shadows=(SHADOW,)) if one.signal == "disagreement"]
    assert found.selection.text == (
        "--domain repair --where 'reward.scoring_id=\"live\"' --where 'reward.value>=\"0.75\"' "
        "--since 1970-01-01T00:16:40.000000Z"
    )


def test_silence_and_invalid_rewards_are_raised() -> None:
    (silent,) = found_in(list(facts(text=lambda index, sample: "" if sample < 2 else f"print({index})")))
    assert (silent.signal, silent.measured) == ("no_answer", 0.5)
    assert silent.selection.text == "--domain repair --where 'answer.action=\"none\"'"
    (invalid,) = found_in(list(facts(live=lambda index, sample: None if sample == 0 else float(sample % 2))))
    assert (invalid.signal, invalid.measured, invalid.num_measured) == ("invalid", 0.25, 32)


def test_too_little_tells_nothing() -> None:
    hack = list(facts(text=lambda index, sample: "same"))
    assert found_in(hack, min_questions=9) == []
    assert found_in(hack, min_measured=33) == []


def test_what_trains_is_each_tasks_own_scoring() -> None:
    """`live` is nobody's own here, and says the opposite."""
    hack = [
        (msgspec.structs.replace(record, scoring_id="lax", own=True) if is_shadow(record) else record, *rest)
        for record, *rest in facts(live=lambda i, s: 0.0, shadow=lambda i, s: 1.0, scoring_id="lax")
    ]
    windows = Windows("golden", SETTINGS, lambda task: ("lax", "live"))
    found = [one for fact in hack for one in windows.take(*fact)]
    assert [(one.signal, one.about, one.measured) for one in found] == [("disagreement", "live", 1.0)]


def is_shadow(record: Any) -> bool:
    return isinstance(record, RewardScored) and record.scoring_id == SHADOW


def test_other_runs_and_held_out_tasks_are_left_alone() -> None:
    def same(index: int, sample: int) -> str:
        return "same"

    assert found_in(list(facts(text=same, run_id="other"))) == []
    assert found_in(list(facts(text=same, split="held_out", policy_version=3))) == []


@given(seed=st.integers(0, 2**32))
@settings(max_examples=25, deadline=None)
def test_what_is_found_does_not_depend_on_order_or_repeats(seed: int) -> None:
    hack = [*facts(0, text=lambda i, s: "same"), *facts(1, shadow=lambda i, s: 0.0), *facts(2)]
    expected = found_in(hack, shadows=(SHADOW,))
    rng = random.Random(seed)
    shuffled = rng.sample(hack, len(hack)) + rng.choices(hack, k=20)

    def keyed(found: list[Found]) -> list[Found]:
        return sorted(found, key=lambda one: (one.first, one.signal))

    assert len(expected) == 2
    assert keyed(found_in(shuffled, shadows=(SHADOW,))) == keyed(expected)


def test_a_part_of_a_window_is_never_measured() -> None:
    hack = list(facts(text=lambda index, sample: "same"))
    assert found_in(hack[1:]) == []
    assert found_in(hack[:-2]) == [], "the last reward that trains is missing"
    assert len(found_in(hack)) == 1


def test_windows_that_wait_for_what_never_comes_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "MOST_OPEN", 2)
    windows = Windows("golden", SETTINGS, lambda task: ("live",))
    for number in range(4):
        for record, key, time_s in list(facts(number))[:-2]:
            windows.take(record, key, time_s)
    assert (windows.num_open, windows.num_given_up) == (2, 2)
    assert windows.since_s == 1000.0 + 2 * SETTINGS.window


@pytest.mark.parametrize(
    ("bad", "good", "text"),
    [
        (["x"] * 9 + ["y"], ["z"], 'answer.text="x"'),
        (["a magic 1", "b magic 2"], ["c 3"], 'answer.text~"magic"'),
        (["a magic 1", "b magic 2"], ["c magic 3"], None),
        (["a", "b", "c"], ["d"], None),
    ],
)
def test_a_pattern_is_in_most_of_the_bad_and_in_hardly_any_good_answer(
    bad: list[str], good: list[str], text: str | None
) -> None:
    pattern = pattern_of(bad, good)
    assert (pattern.text if pattern else None) == text


def worked_on_with_tools(num_turns: int) -> list[Fact]:
    """Return a window of tasks whose rollouts call a tool in all turns but the last, which says that it is done."""
    execution = tool_task().execution
    given = []
    for record, key, time_s in facts(execution=execution, live=lambda _index, _sample: 1.0):
        if isinstance(record, TurnGenerated) and record.turn >= num_turns:
            continue
        given.append((with_tools(record, num_turns), key, time_s))
    return given


def with_tools(record: Any, num_turns: int) -> Any:
    if isinstance(record, RolloutEnded):
        return msgspec.structs.replace(record, num_turns=num_turns)
    if not isinstance(record, TurnGenerated):
        return record
    is_last = record.turn == num_turns - 1
    action = None if is_last else Action(code="ls", limits=ExecutionLimits())
    return msgspec.structs.replace(record, text="Done." if is_last else "call", action=action)


def test_rollouts_that_call_tools_may_all_end_with_the_same_words_and_nothing_to_run() -> None:
    assert found_in(worked_on_with_tools(2)) == []


def test_the_same_words_for_different_questions_are_a_sign_where_no_tool_was_called() -> None:
    (found,) = found_in(worked_on_with_tools(1))
    assert (found.signal, found.measured) == ("repeated", 1.0)
