import json
import urllib.error
import urllib.request

import pytest

from consumers.telemetry import Telemetry, serve_telemetry


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


def test_a_service_with_nothing_to_do_is_healthy_however_long() -> None:
    clock = Clock()
    telemetry = Telemetry("verifier", clock=clock)
    clock.now_s += 1e6
    assert telemetry.health()[0]


def test_a_service_that_has_work_and_does_nothing_is_not_healthy() -> None:
    clock = Clock()
    telemetry = Telemetry("verifier", stall_s=30, clock=clock)
    telemetry.progress(3)
    clock.now_s += 29
    assert telemetry.health()[0]
    clock.now_s += 2
    healthy, facts = telemetry.health()
    assert not healthy
    assert json.loads(facts)["pending"] == 3


def test_progress_makes_it_healthy_again() -> None:
    clock = Clock()
    telemetry = Telemetry("verifier", stall_s=30, clock=clock)
    telemetry.pending(1)
    clock.now_s += 60
    telemetry.progress()
    assert telemetry.health()[0]


def test_overlapping_work_counts_once_as_busy() -> None:
    clock = Clock()
    telemetry = Telemetry("verifier", clock=clock)
    with telemetry.busy():
        clock.now_s += 1
        with telemetry.busy():
            clock.now_s += 1
    clock.now_s += 2
    assert telemetry.busy_fraction == pytest.approx(0.5)


def test_two_looks_tell_how_busy_it_was_between_them() -> None:
    clock = Clock()
    telemetry = Telemetry("learner", clock=clock)
    clock.now_s += 100
    with telemetry.busy():
        clock.now_s += 1
        before_s = telemetry.busy_s
        clock.now_s += 3
    clock.now_s += 4
    assert telemetry.busy_s - before_s == pytest.approx(3)
    assert "rollog_busy_seconds 4.0" in telemetry.metrics().decode()


def test_health_and_metrics_are_answered_over_http() -> None:
    clock = Clock()
    telemetry = Telemetry("verifier", stall_s=30, clock=clock)
    telemetry.events.labels("rollouts", "in").inc(5)
    server = serve_telemetry(telemetry)
    address = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        metrics = urllib.request.urlopen(f"{address}/metrics").read().decode()
        assert 'rollog_events_total{direction="in",topic="rollouts"} 5.0' in metrics
        assert urllib.request.urlopen(f"{address}/healthz").status == 200
        telemetry.pending(1)
        clock.now_s += 31
        with pytest.raises(urllib.error.HTTPError, match="503"):
            urllib.request.urlopen(f"{address}/healthz")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{address}/")
    finally:
        server.shutdown()
        server.server_close()
