"""Admission bounds what is open, and with it how stale a trained token can be."""

from collections import deque
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from producers.admission import Admission, batch_id
from schemas.config import AdmissionSettings, LearnerSettings, Settings
from schemas.decisions import Decision
from schemas.steps import BatchRef, StepTaken
from tests import samples

RUN = "golden"


def decision(task_id: str, *, reason: Any = "zero_variance", stage: Any = "assembler", run: str = RUN) -> Decision:
    return Decision(task_id=task_id, run_id=run, domain="verbs", stage=stage, reason=reason)


def step(number: int, task_ids: list[str], *, run: str = RUN) -> StepTaken:
    fields = {name: getattr(samples.step(), name) for name in StepTaken.__struct_fields__}
    refs = tuple(
        BatchRef(topic="batches", partition=0, offset=i, event_id=batch_id(task), digest="sha256:")
        for i, task in enumerate(task_ids)
    )
    return StepTaken(**(fields | {"step": number, "batches": refs, "run_id": run}))


def test_the_bound_is_steps_of_staleness_and_one_times_groups() -> None:
    wanted = Settings(
        admission=AdmissionSettings(max_staleness=2), learner=LearnerSettings(groups_per_step=32, steps=9)
    )
    admission = Admission.of(wanted)
    assert (admission.num_admitted, admission.last_step, admission.run_id) == (96, 9, "default")


def test_steps_and_decisions_of_any_stage_make_room_once() -> None:
    admission = Admission(run_id=RUN, max_open=4)
    for name in "abcd":
        admission.issue(name)
    assert admission.num_admitted == 0
    facts = [decision("a"), decision("b", reason="stale", stage="learner"), step(1, ["c"])]
    for fact in facts * 2:
        admission.take(fact)
    assert (admission.num_open, admission.num_admitted) == (1, 3)
    admission.take(decision("c", reason="duplicate", stage="learner"))
    assert admission.num_admitted == 3


def test_other_runs_evaluations_and_unknown_tasks_make_no_room() -> None:
    admission = Admission(run_id=RUN, max_open=2)
    admission.issue("a")
    for fact in (
        decision("a", run="another"),
        step(7, ["a"], run="another"),
        decision("a", reason="held_out"),
        decision("zzz"),
        samples.ended(),
    ):
        admission.take(fact)
    assert (admission.num_open, admission.step) == (1, 0)


def test_after_the_last_step_nothing_is_admitted() -> None:
    admission = Admission(run_id=RUN, max_open=8, last_step=2)
    admission.take(step(1, []))
    assert admission.num_admitted == 8
    admission.take(step(2, []))
    assert admission.is_over
    assert admission.num_admitted == 0
    admission.take(step(1, []))
    assert admission.is_over


@given(max_open=st.integers(1, 20), moves=st.lists(st.integers(0, 9), max_size=200))
def test_issued_minus_ended_never_exceeds_the_bound(max_open: int, moves: list[int]) -> None:
    admission = Admission(run_id=RUN, max_open=max_open)
    going: list[str] = []
    num_issued = num_ended = number = 0
    for move in moves:
        if move < 5 and going:
            taken = [going.pop(move % len(going)) for _ in range(min(len(going), move + 1))]
            number += 1
            admission.take(step(number, taken) if move % 2 else decision(taken[0]))
            num_ended += len(taken) if move % 2 else 1
            going.extend([] if move % 2 else taken[1:])
        else:
            for _ in range(admission.num_admitted):
                admission.issue(str(num_issued))
                going.append(str(num_issued))
                num_issued += 1
        assert num_issued - num_ended == admission.num_open <= max_open
        assert admission.num_admitted == max_open - admission.num_open


@settings(deadline=None, max_examples=50)
@given(
    max_staleness=st.integers(0, 4),
    groups=st.integers(1, 8),
    drops=st.lists(st.booleans(), min_size=1, max_size=40),
    delays=st.lists(st.integers(0, 5), min_size=1, max_size=40),
)
def test_in_a_loop_that_keeps_order_no_group_is_staler_than_the_bound(
    max_staleness: int, groups: int, drops: list[bool], delays: list[int]
) -> None:
    """Tasks are sampled at issue; some end without training, and the learner takes the rest in order."""
    admission = Admission(run_id=RUN, max_open=(max_staleness + 1) * groups)
    queue: deque[tuple[str, int]] = deque()
    buffer: list[tuple[str, int]] = []
    version = num_issued = worst = 0
    for turn in range(60):
        for _ in range(admission.num_admitted):
            admission.issue(str(num_issued))
            queue.append((str(num_issued), version))
            num_issued += 1
        for _ in range(1 + delays[turn % len(delays)]):
            if queue:
                task, sampled = queue.popleft()
                if drops[int(task) % len(drops)] and int(task) % 3:
                    admission.take(decision(task))
                else:
                    buffer.append((task, sampled))
        while len(buffer) >= groups:
            taken, buffer = buffer[:groups], buffer[groups:]
            worst = max(worst, *(version - sampled for _, sampled in taken))
            version += 1
            admission.take(step(version, [task for task, _ in taken]))
    assert worst <= max_staleness
    assert version > 0, "the loop must go on: a bound that stops it bounds nothing"


def test_a_task_under_another_scoring_makes_room_by_the_batch_or_the_decision_that_ends_it() -> None:
    admission = Admission(run_id=RUN, max_open=3)
    for name in "abc":
        admission.issue(name, "strict")
    admission.take(step(1, ["a"]))  # of the task's batch under its own verifier, which there is not
    assert admission.num_open == 3
    ref = BatchRef(topic="batches", partition=0, offset=0, event_id=batch_id("a", "strict"), digest="sha256:")
    admission.take(msgspec.structs.replace(step(2, []), batches=(ref,)))
    admission.take(decision("b"))
    admission.take(decision("a", stage="learner", reason="stale"))
    assert admission.num_open == 1
