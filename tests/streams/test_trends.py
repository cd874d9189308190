import random
from typing import Any

import msgspec
import pytest

from schemas.config import AlertSettings
from schemas.evals import EvalScored
from streams.signals import Found
from streams.trends import Trends
from tests import samples

EVERY = 5


def step(number: int, reward: float, *, domain: str = "repair", rows: int = 20) -> Any:
    stats = msgspec.structs.replace(samples.stats(), reward_mean=reward, num_rows=rows)
    return msgspec.structs.replace(samples.step(), step=number, by_domain={domain: stats})


def result(version: int, reward: float, **changes: Any) -> EvalScored:
    fields: dict[str, Any] = {
        "run_id": "golden", "policy": "policy", "version": version, "domain": "repair", "solve_rate": reward,
        "reward_mean": reward, "num_tasks": 8, "num_invalid": 0,
    }  # fmt: skip
    return EvalScored(**(fields | changes))


def course(training: list[float], held_out: list[float]) -> list[Any]:
    """Return the results of versions 0, 5, 10..., and the steps between them, in the order of the log."""
    records: list[Any] = [result(0, held_out[0])]
    for number, (reward, after) in enumerate(zip(training, held_out[1:], strict=True)):
        records += [step(number * EVERY + place + 1, reward) for place in range(EVERY)]
        records.append(result((number + 1) * EVERY, after))
    return records


def found_in(records: list[Any], **settings: Any) -> list[Found]:
    trends = Trends("golden", "policy", AlertSettings(**settings))
    return [found for record in records for found in trends.take(record)]


def test_reward_that_rises_while_held_out_results_do_not_is_raised_once() -> None:
    records = course([0.3, 0.4, 0.8, 0.9], [0.3, 0.35, 0.4, 0.4, 0.4])
    found = found_in(records + records)
    assert [(one.signal, one.first, one.last) for one in found] == [("divergence", 11, 15)]
    assert found[0].measured == pytest.approx(0.4)
    assert found[0].selection.text == "--domain repair --policy policy@10..15"
    assert "0.40 to 0.80, held out 0.40 to 0.40" in found[0].detail


@pytest.mark.parametrize(
    ("training", "held_out"),
    [
        ([0.3, 0.5, 0.9], [0.3, 0.5, 0.7, 1.0]),
        ([0.5, 0.9, 0.9], [0.9, 1.0, 1.0, 1.0]),
        ([0.4, 0.4, 0.4], [0.1, 0.1, 0.1, 0.1]),
        ([0.8, 0.5, 0.4], [0.2, 0.2, 0.2, 0.2]),
    ],
    ids=["both rise", "held out is at its top", "nothing rises", "reward falls"],
)
def test_a_healthy_course_raises_nothing(training: list[float], held_out: list[float]) -> None:
    assert found_in(course(training, held_out)) == []


def test_steps_and_results_may_come_late_and_in_any_order() -> None:
    records = course([0.3, 0.4, 0.8], [0.3, 0.35, 0.4, 0.4])
    results = [record for record in records if isinstance(record, EvalScored)]
    steps = [record for record in records if not isinstance(record, EvalScored)]
    expected = found_in(records)
    assert len(expected) == 1
    assert found_in(results + steps) == expected
    assert found_in(random.Random(1).sample(steps, len(steps)) + results) == expected
    assert found_in(results + steps[:-1]) == []


def test_other_runs_policies_domains_and_few_rows_tell_nothing() -> None:
    records = course([0.3, 0.4, 0.8], [0.3, 0.35, 0.4, 0.4])
    replace = msgspec.structs.replace
    assert found_in([replace(record, run_id="other") for record in records]) == []
    assert found_in([replace(r, policy="other") if isinstance(r, EvalScored) else r for r in records]) == []
    assert found_in([replace(r, domain="verbs") if isinstance(r, EvalScored) else r for r in records]) == []
    assert found_in(records, min_measured=101) == []
