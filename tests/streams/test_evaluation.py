import random

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.config import EvaluationSettings, LearnerSettings, Settings
from schemas.decisions import Decision
from schemas.evals import EvalScored
from schemas.policies import PolicyPublished
from schemas.tasks import TaskIssued
from streams.evaluation import Evaluations
from streams.evaluator import eval_id
from tests import samples

SETTINGS = Settings(run="r", evaluation=EvaluationSettings(every=10, num_tasks=2), learner=LearnerSettings(steps=25))


def held_out(version: int) -> list[TaskIssued]:
    return [
        samples.task(
            task_id=f"{version}-{domain}-{index}",
            run_id="r",
            domain=domain,
            split="held_out",
            index=index,
            policy_version=version,
            num_samples=1,
        )
        for domain in ("repair", "verbs")
        for index in range(2)
    ]


def published(version: int, **changes: str) -> PolicyPublished:
    fields = {"policy": "policy", "run_id": "r", "address": "x", "digest": "d"} | changes
    parent = version - 1 if version else None
    return PolicyPublished(version=version, parent=parent, step=version, num_bytes=1, **fields)  # type: ignore[arg-type]


def ended(task: TaskIssued, reward: float | None, **changes: str) -> Decision:
    fields = {
        "task_id": task.task_id,
        "run_id": "r",
        "domain": task.domain,
        "stage": "assembler",
        "reason": "deadline" if reward is None else "held_out",
        "reward_mean": reward,
        "solved": None if reward is None else float(reward == 1),
    }
    return Decision(**(fields | changes))  # type: ignore[arg-type]


def make() -> Evaluations:
    return Evaluations(SETTINGS, held_out)


@pytest.mark.parametrize(
    ("version", "is_due"), [(0, True), (1, False), (10, True), (15, False), (20, True), (25, True)]
)
def test_the_first_every_nth_and_the_last_version_are_evaluated(version: int, is_due: bool) -> None:
    evaluations = make()
    evaluations.take(published(version))
    assert len(evaluations.to_issue()) == (4 if is_due else 0)


def test_the_first_version_of_a_fork_is_evaluated_whatever_its_number() -> None:
    evaluations = make()
    evaluations.take(msgspec.structs.replace(published(17), parent=None))
    assert {task.policy_version for task in evaluations.to_issue()} == {17}
    never = Evaluations(Settings(run="r", evaluation=EvaluationSettings(every=0)), held_out)
    never.take(msgspec.structs.replace(published(17), parent=None))
    assert never.to_issue() == []


def test_zero_evaluates_nothing_and_without_a_last_step_only_every_nth() -> None:
    never = Evaluations(Settings(run="r", evaluation=EvaluationSettings(every=0)), held_out)
    assert not any(never.is_due(version) for version in range(30))
    endless = Evaluations(Settings(run="r", evaluation=EvaluationSettings(every=10)), held_out)
    assert [version for version in range(30) if endless.is_due(version)] == [0, 10, 20]


def test_policies_of_other_runs_and_names_are_not_evaluated() -> None:
    evaluations = make()
    evaluations.take(published(0, run_id="other"))
    evaluations.take(published(0, policy="other"))
    assert evaluations.to_issue() == []


def test_what_was_issued_or_scored_before_is_not_again() -> None:
    evaluations = make()
    scored = EvalScored(
        run_id="r", policy="policy", version=0, domain="verbs", solve_rate=0, reward_mean=0, num_tasks=2, num_invalid=0
    )
    evaluations.take(scored)
    evaluations.note_issued("0-repair-1")
    evaluations.take(published(0))
    assert [task.task_id for task in evaluations.to_issue()] == ["0-repair-0"]


def test_a_result_is_known_once_every_task_of_its_domain_has_ended() -> None:
    evaluations = make()
    evaluations.take(published(0))
    first, second = [task for task in held_out(0) if task.domain == "verbs"]
    evaluations.take(ended(first, 1.0))
    evaluations.take(ended(second, 0.5, stage="learner"))
    assert evaluations.to_score() == []
    evaluations.take(ended(second, 0.5))
    (result,) = evaluations.to_score()
    assert (result.version, result.domain, result.solve_rate, result.reward_mean) == (0, "verbs", 0.5, 0.75)
    assert (result.num_tasks, result.num_invalid) == (2, 0)
    evaluations.take(result)
    assert evaluations.to_score() == []
    assert all(task.domain == "repair" for task in evaluations.to_issue())


def test_tasks_without_a_valid_reward_count_as_invalid_and_in_no_mean() -> None:
    evaluations = make()
    evaluations.take(published(0))
    for task in held_out(0):
        evaluations.take(ended(task, 1.0 if task.task_id == "0-verbs-0" else None))
    results = {result.domain: result for result in evaluations.to_score()}
    assert (results["verbs"].solve_rate, results["verbs"].num_invalid) == (1.0, 1)
    assert (results["repair"].solve_rate, results["repair"].num_invalid) == (0.0, 2)


@given(seed=st.integers(0, 2**32))
@settings(deadline=None)
def test_decisions_in_any_order_and_repeated_give_one_result(seed: int) -> None:
    rng = random.Random(seed)
    evaluations = make()
    evaluations.take(published(10))
    decisions = [ended(task, float(task.index)) for task in held_out(10)]
    for decision in rng.sample(decisions, 4) + rng.choices(decisions, k=3):
        evaluations.take(decision)
    assert {(result.domain, result.solve_rate) for result in evaluations.to_score()} == {
        ("repair", 0.5),
        ("verbs", 0.5),
    }


def test_the_same_result_has_the_same_id_whatever_it_says() -> None:
    one, other = (
        EvalScored(
            run_id="r", policy="p", version=1, domain="d", solve_rate=rate, reward_mean=0, num_tasks=1, num_invalid=0
        )
        for rate in (0.0, 1.0)
    )
    assert eval_id(one) == eval_id(other)
