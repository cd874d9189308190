"""What a service says of itself: Prometheus metrics, and health by progress rather than by being alive.

The known failure of stream processors is to live on and do nothing. So a service is healthy while it has nothing to do,
or did something within the last `stall_s` seconds. Observing never fails the observed.
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock, Thread

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

SECONDS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300)
STALENESS = (0, 1, 2, 3, 4, 6, 8, 12, 16, 32)


class Telemetry:
    """One service instance's figures. Thread-safe."""

    def __init__(self, service: str, *, stall_s: float = 30.0, clock: Callable[[], float] = time.monotonic) -> None:
        self.service = service
        self.stall_s = stall_s
        self.registry = CollectorRegistry()
        self._clock, self._lock = clock, Lock()
        self._started_s = self._progress_s = clock()
        self._num_busy, self._busy_since_s, self._busy_s, self._pending = 0, 0.0, 0.0, 0
        metric = {"registry": self.registry, "namespace": "rollog"}
        self.events = Counter("events", "Events taken (in) and written (out).", ["topic", "direction"], **metric)
        self.seconds = Histogram("stage_seconds", "Seconds of work.", ["stage", "domain"], buckets=SECONDS, **metric)
        self.dropped = Counter("dropped", "What ended without training.", ["reason"], **metric)
        self.invalid = Counter("invalid_rewards", "Rewards without a value.", ["reason"], **metric)
        self.shared = Counter("shared_runs", "Programs answered for by another sample's run.", ["domain"], **metric)
        self.shadows = Counter(
            "shadow_rewards", "Shadow rewards beside live ones.", ["scoring", "domain", "outcome"], **metric
        )
        self.alerts = Counter("alerts", "Alerts raised.", ["signal", "domain"], **metric)
        self.mix_weight = Gauge("mix_weight", "Share of the groups, by the newest mix.", ["domain"], **metric)
        self.mix_level = Gauge("mix_level", "Level that is issued, by the newest mix.", ["domain"], **metric)
        self.zero_variance = Gauge(
            "zero_variance", "Share of the last groups whose rewards were all alike.", ["domain"], **metric
        )
        self.generated_tokens = Counter("generated_tokens", "Tokens that the policy drew.", ["domain"], **metric)
        self.trained_tokens = Counter(
            "trained_tokens", "Of those, what steps were taken on: the effective share.", ["domain"], **metric
        )
        self.lag = Gauge("lag", "Events on the log that were not taken yet.", ["topic"], **metric)
        self.staleness = Histogram("staleness", "Versions behind, by token.", ["domain"], buckets=STALENESS, **metric)
        self._in_flight = Gauge("in_flight", "Pieces of work taken and not finished.", **metric)
        self._busy = Gauge("busy_fraction", "Share of the time since the start with work in hand.", **metric)
        self._busy_seconds = Gauge("busy_seconds", "Seconds since the start with work in hand.", **metric)

    def progress(self, num_pending: int | None = None) -> None:
        """Say that something was done; `num_pending` pieces of work are in hand or waiting now."""
        with self._lock:
            self._progress_s = self._clock()
        if num_pending is not None:
            self.pending(num_pending)

    def pending(self, num_pending: int) -> None:
        """Say how much work is in hand or waiting, without claiming progress."""
        with self._lock:
            self._pending = num_pending
        self._in_flight.set(num_pending)

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Count the time within as busy; overlapping work counts once."""
        with self._lock:
            self._num_busy += 1
            if self._num_busy == 1:
                self._busy_since_s = self._clock()
        try:
            yield
        finally:
            with self._lock:
                self._num_busy -= 1
                if self._num_busy == 0:
                    self._busy_s += self._clock() - self._busy_since_s

    @property
    def busy_s(self) -> float:
        """Return the seconds since the start with work in hand; two looks tell of the time between them."""
        with self._lock:
            return self._busy_s + (self._clock() - self._busy_since_s if self._num_busy else 0.0)

    @property
    def busy_fraction(self) -> float:
        """Return the share of the time since the start with work in hand."""
        return self.busy_s / max(self._clock() - self._started_s, 1e-9)

    def health(self) -> tuple[bool, str]:
        """Return whether the service gets on with its work, and why one thinks so, as JSON."""
        with self._lock:
            idle_s, pending = self._clock() - self._progress_s, self._pending
        healthy = pending == 0 or idle_s < self.stall_s
        facts = {
            "service": self.service,
            "healthy": healthy,
            "pending": pending,
            "seconds_since_progress": round(idle_s, 3),
            "busy": round(self.busy_fraction, 4),
        }
        return healthy, json.dumps(facts)

    def metrics(self) -> bytes:
        """Return all figures in Prometheus' text format."""
        self._busy.set(self.busy_fraction)
        self._busy_seconds.set(self.busy_s)
        return bytes(generate_latest(self.registry))


def serve_telemetry(telemetry: Telemetry, *, host: str = "127.0.0.1", port: int = 0) -> ThreadingHTTPServer:
    """Answer /healthz and /metrics until the returned server is shut down; port 0 takes a free one."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            if self.path == "/metrics":
                self.answer(200, "text/plain; version=0.0.4", telemetry.metrics())
            elif self.path == "/healthz":
                healthy, facts = telemetry.health()
                self.answer(200 if healthy else 503, "application/json", facts.encode())
            else:
                self.answer(404, "text/plain", b"there are /healthz and /metrics\n")

        def answer(self, status: int, content_type: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", content_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 the base class' name
            """Keep requests out of the service's log."""

    server = ThreadingHTTPServer((host, port), Handler)
    Thread(target=server.serve_forever, name="telemetry", daemon=True).start()
    return server
