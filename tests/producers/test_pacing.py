"""Records are due at a multiple of the pace at which they were written, whatever the clock does meanwhile."""

import math

import pytest

from producers.pacing import Pace
from schemas.errors import ConfigError


class FakeTime:
    """A clock that only waiting moves; each wait may end early."""

    def __init__(self, *, share: float = 1.0) -> None:
        self.now_s, self.waits, self.share = 100.0, 0, share

    def clock(self) -> float:
        return self.now_s

    def wait(self, timeout_s: float) -> None:
        self.waits += 1
        self.now_s += max(timeout_s * self.share, 1e-6)


def due_times(times_ms: list[int], speed: float, time: FakeTime) -> list[float]:
    pace, found = Pace(speed, clock=time.clock, wait=time.wait), []
    for time_ms in times_ms:
        pace.keep(time_ms)
        found.append(round(time.now_s - 100.0, 3))
    return found


@pytest.mark.parametrize(
    ("speed", "expected"), [(1.0, [0.0, 2.0, 2.0, 10.0]), (10.0, [0.0, 0.2, 0.2, 1.0]), (0.5, [0.0, 4.0, 4.0, 20.0])]
)
def test_gaps_are_divided_by_the_speed(speed: float, expected: list[float]) -> None:
    assert due_times([5_000, 7_000, 7_000, 15_000], speed, FakeTime()) == expected


def test_speed_0_waits_for_nothing() -> None:
    time = FakeTime()
    assert due_times([0, 1_000_000, 2_000_000], 0, time) == [0.0, 0.0, 0.0]
    assert time.waits == 0


def test_a_record_older_than_the_one_before_it_is_due_at_once() -> None:
    assert due_times([5_000, 7_000, 3_000, 8_000], 1, FakeTime()) == [0.0, 2.0, 2.0, 3.0]


def test_a_wait_that_ends_early_is_taken_up_again() -> None:
    time = FakeTime(share=0.5)
    assert due_times([0, 4_000], 1, time) == [0.0, 4.0]
    assert time.waits > 1


def test_a_pace_that_cannot_be_kept_is_caught_up_with_and_said() -> None:
    time = FakeTime()
    pace = Pace(1, clock=time.clock, wait=time.wait)
    pace.keep(0)
    time.now_s += 5.0
    pace.keep(2_000)
    assert (time.waits, pace.late_s) == (0, 3.0)
    pace.keep(9_000)
    assert time.now_s == pytest.approx(109.0)
    assert pace.late_s == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("speed", [-1.0, math.inf, math.nan])
def test_what_is_no_speed_is_refused(speed: float) -> None:
    with pytest.raises(ConfigError, match="speed"):
        Pace(speed)
