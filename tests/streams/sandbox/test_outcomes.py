"""What a run's facts are called."""

import pytest

from schemas.executions import ExecutionLimits, Status
from streams.sandbox.inside import wire
from streams.sandbox.outcomes import Labels
from streams.sandbox.slot import Answer

LABELS = Labels(backend="b", isolation="namespaces", image_digest="d", limits_enforced=("wall_s",))


def answer(*, reason: int = wire.ENDED, wait_status: int = 0, cpu_s: float = 0.0, error: str = "") -> Answer:
    return Answer(
        reason=reason,
        is_last=0,
        wait_status=wait_status,
        num_leftover=0,
        stdout_bytes=0,
        stderr_bytes=0,
        wall_s=0.5,
        cpu_s=cpu_s,
        max_rss_bytes=7,
        stdout=b"",
        stderr=b"",
        error=error,
    )


@pytest.mark.parametrize(
    ("facts", "kills", "expected"),
    [
        (answer(), 0, ("ok", 0, None)),
        (answer(wait_status=3 << 8), 0, ("nonzero", 3, None)),
        (answer(wait_status=11), 0, ("signaled", None, 11)),
        (answer(wait_status=11 | 0x80), 0, ("signaled", None, 11)),
        (answer(wait_status=24), 0, ("cpu_limit", None, 24)),
        (answer(wait_status=9), 0, ("signaled", None, 9)),
        (answer(wait_status=9, cpu_s=2.0), 0, ("cpu_limit", None, 9)),
        (answer(wait_status=9), 1, ("oom", None, 9)),
        (answer(wait_status=1 << 8), 2, ("oom", 1, None)),
        (answer(), 1, ("ok", 0, None)),
        (answer(wait_status=wire.NO_STATUS), 1, ("oom", None, None)),
        (answer(wait_status=wire.NO_STATUS), 0, ("infra_error", None, None)),
        (answer(reason=wire.FAILED, error="no"), 0, ("infra_error", None, None)),
        (answer(reason=wire.WALL, wait_status=wire.NO_STATUS), 0, ("timed_out", None, 9)),
        (answer(reason=wire.OUTPUT, wait_status=0), 0, ("output_limit", None, 9)),
        (answer(reason=wire.CPU, wait_status=wire.NO_STATUS), 1, ("cpu_limit", None, 9)),
    ],
)
def test_each_end_has_its_name(facts: Answer, kills: int, expected: tuple[Status, int | None, int | None]) -> None:
    outcome = LABELS.outcome_of(facts, ExecutionLimits(cpu_s=1.0), num_oom_kills=kills, attempt=2)
    assert (outcome.status, outcome.exit_code, outcome.signal) == expected
    assert (outcome.wall_ms, outcome.max_rss_bytes, outcome.attempt, outcome.backend) == (500.0, 7, 2, "b")
    assert outcome.error == (facts.error if expected[0] == "infra_error" else "")
