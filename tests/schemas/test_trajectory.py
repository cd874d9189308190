import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.codec import TOPIC_OF, new_event
from schemas.events import Event, Position
from schemas.executions import Outcome
from schemas.ids import derive_id
from schemas.tasks import ExecutionSpec
from schemas.trajectory import End, Generate, Group, Trajectory, Wait, fold, next_step, observation
from tests import samples


def at(record: Any, offset: int, event_id: str = "") -> Event[Any]:
    event = new_event(
        record, id=event_id or derive_id(repr(record), "t", 0), key=record.task_id, source="t", time_s=float(offset)
    )
    return msgspec.structs.replace(event, position=Position(TOPIC_OF[type(record)], 0, offset))


def story() -> list[Event[Any]]:
    events = [at(samples.task(), 0)]
    for sample in range(3):
        events += [
            at(samples.turn(sample), 10 * sample),
            at(samples.execution(sample), 10 * sample),
            at(samples.turn(sample, 1), 10 * sample + 1),
            at(samples.execution(sample, 1), 10 * sample + 1),
            at(samples.ended(sample, num_turns=2), 10 * sample + 2),
            at(samples.reward(sample), 10 * sample),
        ]
    return events


def state(group: Group) -> dict[str, Any]:
    return {"tasks": group.tasks, "samples": {i: slots(t) for i, t in sorted(group.samples.items())}}


def slots(trajectory: Trajectory) -> dict[str, Any]:
    return {name: getattr(trajectory, name) for name in Trajectory.__slots__}


@given(st.randoms(use_true_random=False), st.integers(0, 12))
def test_neither_order_nor_repeats_change_the_fold(rng: random.Random, num_repeats: int) -> None:
    events = story()
    shuffled = events + rng.choices(events, k=num_repeats)
    rng.shuffle(shuffled)
    assert state(fold(shuffled)) == state(fold(events))


@given(st.randoms(use_true_random=False))
def test_of_two_twins_the_one_that_stands_first_on_the_log_counts(rng: random.Random) -> None:
    first, second = at(samples.turn(text="first"), 3), at(samples.turn(text="second"), 9)
    both = [first, second]
    rng.shuffle(both)
    assert fold(both).sample(0).turns[0] == first


def test_adding_a_repeat_says_that_nothing_changed() -> None:
    group, event = Group(), at(samples.turn(), 1)
    assert group.add(event)
    assert not group.add(event)


def test_a_trajectory_is_whole_once_its_end_turns_and_executions_are_here() -> None:
    events = story()[1:6]
    for missing in events:
        trajectory = fold(e for e in events if e is not missing).sample(0)
        assert not trajectory.is_whole
    assert fold(events).sample(0).is_whole


def test_a_rollout_that_met_its_deadline_is_whole_without_the_execution_it_waited_for() -> None:
    events = [at(samples.turn(), 0), at(samples.ended(why="deadline"), 1)]
    assert fold(events).sample(0).is_whole


def trajectory_of(*records: Any) -> Trajectory:
    return fold(at(record, offset) for offset, record in enumerate(records)).sample(0)


def finished(status: str, turn: int = 0) -> Any:
    return samples.execution(0, turn, outcome=Outcome(status=status, stderr=b"x\nValueError: mode q\n"))


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        ([], Generate(turn=0, context="call f 3 4|")),
        ([samples.turn()], Wait(turn=0)),
        ([samples.turn(finish_reason="length", action=None)], End(why="length")),
        ([samples.turn(action=None)], End(why="finished")),
        ([samples.turn(), finished("ok")], End(why="finished")),
        ([samples.turn(), finished("infra_error")], End(why="infrastructure")),
        ([samples.turn(), finished("nonzero")], Generate(turn=1, context="\nValueError: mode q|")),
        ([samples.turn(), finished("nonzero"), samples.turn(0, 1)], Wait(turn=1)),
        ([samples.turn(), finished("nonzero"), samples.turn(0, 1), finished("oom", 1)], End(why="max_turns")),
    ],
)
def test_the_loop_asks_for_what_comes_next(records: list[Any], wanted: Any) -> None:
    assert next_step(samples.task(), trajectory_of(*records)) == wanted


@pytest.mark.parametrize(
    ("records", "wanted"),
    [
        ([samples.turn(), finished("ok")], Generate(turn=1, context="ok|")),
        ([samples.turn(), finished("nonzero")], Generate(turn=1, context="nonzero|")),
        ([samples.turn(), finished("ok"), samples.turn(0, 1), finished("ok", 1)], End(why="max_turns")),
        ([samples.turn(), finished("ok"), samples.turn(0, 1, action=None)], End(why="finished")),
        ([samples.turn(), finished("infra_error")], End(why="infrastructure")),
    ],
)
def test_a_task_that_ends_on_an_answer_goes_on_after_a_run_without_an_error(records: list[Any], wanted: Any) -> None:
    execution = ExecutionSpec(ends_on="answer", observation="{status}|")
    assert next_step(samples.task(execution=execution), trajectory_of(*records)) == wanted


def test_the_policy_is_told_that_its_files_were_not_kept() -> None:
    execution = ExecutionSpec(observation="{stdout}", keep_tree_bytes=9)
    lost = Outcome(status="ok", stdout=b"x\n", error="more than 9 bytes")
    assert observation(execution, lost) == "x\n[more than 9 bytes; files are as they were before this turn]\n"
    assert observation(execution, msgspec.structs.replace(lost, tree=b"")) == "x\n"


def test_an_observation_does_not_expand_what_the_program_printed() -> None:
    outcome = Outcome(status="nonzero", stdout=b"{stderr}", stderr=b"\xff{status}")
    assert (
        observation(ExecutionSpec(observation="[{stdout}] [{stderr}] {other}"), outcome)
        == "[{stderr}] [�{status}] {other}"
    )


def test_a_silent_failure_is_told_by_its_status() -> None:
    assert observation(ExecutionSpec(), Outcome(status="timed_out")) == "\ntimed_out|"
