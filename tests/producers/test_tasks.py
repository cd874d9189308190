from collections import Counter

import msgspec
import pytest

from producers.domains.demo.numbers import is_held_out
from producers.tasks import check_domains, domain_at, held_out_tasks, train_task, under
from schemas.codec import new_event
from schemas.config import EvaluationSettings, Settings, TaskSettings, VerifierSettings
from schemas.errors import ConfigError
from schemas.ids import task_id
from schemas.scorings import VerifierChoice, scoring_of
from schemas.uses import InUse, Use, command_of, use_id


def settings_of(**fields: object) -> Settings:
    return Settings(run="r", seed=3, **fields)


def test_the_same_place_is_the_same_task_and_another_place_or_seed_another() -> None:
    settings = settings_of()
    tasks = [train_task(settings, index) for index in range(50)]
    assert tasks == [train_task(settings, index) for index in range(50)]
    assert [task.task_id for task in tasks] == [task_id("r", "train", index) for index in range(50)]
    assert len({task.prompt for task in tasks}) > 40
    assert len({task.seed for task in tasks}) == 50
    other = msgspec.structs.replace(settings, seed=4)
    assert [train_task(other, index).prompt for index in range(50)] != [task.prompt for task in tasks]


def test_a_task_carries_the_item_and_the_settings() -> None:
    settings = settings_of(tasks=TaskSettings(domains={"repair": 1.0}, num_samples=5, deadline_s=33.0, wall_s=2.0))
    task = train_task(settings, 0)
    assert task.execution is not None
    assert (task.domain, task.split, task.max_turns, task.num_samples) == ("repair", "train", 2, 5)
    assert (task.deadline_s, task.execution.limits.wall_s, task.sampling) == (33.0, 2.0, settings.sampling)
    assert "def f(a, b" in task.execution.prelude
    assert task.verifier.expected.isdecimal()
    assert task.policy_version is None


@pytest.mark.parametrize(
    "weights", [{"verbs": 1.0, "repair": 1.0}, {"verbs": 3.0, "repair": 1.0}, {"verbs": 0.0, "repair": 2.0}]
)
def test_every_stretch_has_nearly_its_share_of_each_domain(weights: dict[str, float]) -> None:
    settings = settings_of(tasks=TaskSettings(domains=weights))
    domains = [domain_at(settings, index) for index in range(2000)]
    total = sum(weights.values())
    for start in range(0, 2000, 100):
        counts = Counter(domains[start : start + 100])
        assert all(abs(counts[name] - 100 * weight / total) <= 3 for name, weight in weights.items())


def test_held_out_tasks_ask_every_version_the_same_greedy_questions_once() -> None:
    settings = settings_of(evaluation=EvaluationSettings(num_tasks=20))
    first, second = held_out_tasks(settings, 0), held_out_tasks(settings, 40)
    assert [task.prompt for task in first] == [task.prompt for task in second]
    assert not {task.task_id for task in first} & {task.task_id for task in second}
    assert Counter(task.domain for task in first) == {"repair": 20, "verbs": 20}
    assert len({task.index for task in first}) == 40
    for task in first:
        assert (task.split, task.num_samples, task.sampling.temperature) == ("held_out", 1, 0.0)
    assert {task.policy_version for task in second} == {40}


def test_training_and_evaluation_never_share_numbers() -> None:
    settings = settings_of(evaluation=EvaluationSettings(num_tasks=50))
    for task in (*held_out_tasks(settings, 0), *(train_task(settings, index) for index in range(100))):
        a, b = (int(word) for word in task.prompt.rstrip("|").split()[-2:])
        assert is_held_out(a, b) == (task.split == "held_out")


def test_unknown_domains_and_weights_of_nothing_are_refused() -> None:
    with pytest.raises(ConfigError, match="chess"):
        check_domains(settings_of(tasks=TaskSettings(domains={"chess": 1.0})))
    with pytest.raises(ConfigError, match="all weights are 0"):
        check_domains(settings_of(tasks=TaskSettings(domains={"verbs": 0.0})))
    check_domains(settings_of())


def test_training_tasks_are_issued_with_the_verifier_that_the_settings_choose_and_held_out_ones_with_their_own() -> (
    None
):
    settings = settings_of(
        tasks=TaskSettings(verifiers={"verbs": "exit_status", "*": "lines"}),
        verifier=VerifierSettings(named={"lines": VerifierChoice(kind="stdout_match", partial="lines")}),
        evaluation=EvaluationSettings(num_tasks=3),
    )
    plain = settings_of(evaluation=EvaluationSettings(num_tasks=3))
    tasks = [train_task(settings, index) for index in range(20)]
    assert {(task.domain, task.verifier.kind, task.verifier.partial) for task in tasks} == {
        ("verbs", "exit_status", "none"),
        ("repair", "stdout_match", "lines"),
    }
    own = [train_task(plain, index) for index in range(20)]
    for task, its in zip(tasks, own, strict=True):
        assert task.own_spec == its.verifier
        assert msgspec.structs.replace(task, verifier=its.verifier, own_verifier=None) == its
    assert [task.verifier.expected for task in tasks] == [task.verifier.expected for task in own]
    assert held_out_tasks(settings, 4) == held_out_tasks(plain, 4)


def test_a_task_keeps_what_its_domain_expects_whatever_it_is_issued_under() -> None:
    plain = train_task(settings_of(), 0)
    frozen = scoring_of(VerifierChoice(kind="stdout_match", expected="never"), version=1)
    strict = scoring_of(VerifierChoice(kind="stdout_match"), version=1)
    task = under(plain, frozen)
    assert task.verifier.expected == "never"
    assert strict.spec_for(task) == plain.verifier
    assert under(task, strict).verifier == plain.verifier
    assert under(task, strict).own_verifier is None
    assert scoring_of(None, version=0).spec_for(task) == task.verifier


def test_a_task_is_issued_under_the_scoring_in_use_in_its_domain_and_is_otherwise_the_same() -> None:
    settings = settings_of()
    scoring = scoring_of(VerifierChoice(kind="exit_status"), version=1)
    use = Use(run_id="r", domain="verbs", scoring=scoring)
    in_use = InUse("r")
    in_use.take(new_event(command_of(use, given_by="test"), id=use_id(use, 0), key="r", source="test"))
    for index in range(10):
        plain, task = train_task(settings, index), train_task(settings, index, in_use)
        assert plain.scoring_id == "live"
        if task.domain == "repair":
            assert task == plain
            continue
        assert (task.scoring_id, task.verifier) == (scoring.scoring_id, scoring.spec_for(plain))
        assert msgspec.structs.replace(task, scoring_id="live", verifier=plain.verifier, own_verifier=None) == plain
    assert {task.scoring_id for task in held_out_tasks(settings, 0)} == {"live"}
