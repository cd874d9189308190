import json
import math
from collections import Counter

import pytest

from rollog.chaos import NUM_KILLS, count_between, figure, plan_kills, recovery_s
from rollog.services import services_of
from schemas.config import Settings

SERVICES = services_of(Settings())
STEADY = [index / 10 for index in range(1000)]
"""Ten a second for a hundred seconds."""


def without(start_s: float, end_s: float) -> list[float]:
    return [moment for moment in STEADY if not start_s <= moment < end_s]


@pytest.mark.parametrize("seed", range(20))
def test_every_service_is_killed_ten_kills_in_all_and_the_broker_once(seed: int) -> None:
    plans = plan_kills(seed, steps=240, services=SERVICES)

    kills = Counter(plan.victim for plan in plans)
    assert kills.pop("broker") == 1
    assert set(kills) == set(SERVICES)
    assert sum(kills.values()) == NUM_KILLS


@pytest.mark.parametrize("seed", range(20))
def test_kills_come_one_after_the_other_and_before_the_run_ends(seed: int) -> None:
    steps = [plan.step for plan in plan_kills(seed, steps=240, services=SERVICES)]

    assert steps == sorted(set(steps))
    assert steps[0] > 0
    assert steps[-1] < 0.95 * 240


def test_the_seed_decides_the_plan() -> None:
    assert plan_kills(1, steps=240, services=SERVICES) == plan_kills(1, steps=240, services=SERVICES)
    assert plan_kills(1, steps=240, services=SERVICES) != plan_kills(2, steps=240, services=SERVICES)


def test_output_that_never_stopped_is_back_at_once() -> None:
    assert recovery_s(STEADY, 50.0) == pytest.approx(0.0)


def test_recovery_is_the_gap_until_the_full_rate_is_back() -> None:
    assert recovery_s(without(50.0, 57.0), 50.0) == pytest.approx(7.0)


def test_a_trickle_is_not_the_full_rate() -> None:
    trickle = [50.5, 52.5, 54.5]

    times = sorted([*without(50.0, 60.0), *trickle])

    assert recovery_s(times, 50.0) >= 9.0 - 0.1


def test_a_burst_before_the_kill_is_not_the_full_rate() -> None:
    burst = [49.0 + index / 200 for index in range(200)]

    assert recovery_s(sorted([*without(50.0, 52.0), *burst]), 50.0) == pytest.approx(2.0)


def test_output_that_never_comes_back_is_no_recovery() -> None:
    assert math.isinf(recovery_s([moment for moment in STEADY if moment < 50.0], 50.0))


def test_counting_is_from_the_first_moment_to_before_the_second() -> None:
    assert count_between([1.0, 2.0, 3.0], 1.0, 3.0) == 2


def test_a_figure_is_one_line_of_json() -> None:
    assert json.loads(json.dumps(figure("x", None, "s", 10.0, holds=False))) == {
        "name": "x",
        "value": None,
        "unit": "s",
        "bar": 10.0,
        "holds": False,
    }
