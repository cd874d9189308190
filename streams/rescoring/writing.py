"""Rewards on their way to the log."""

import time

from consumers.history.lean import Headers
from producers.bulk import BulkPublisher
from schemas.codec import EnvelopeForm
from schemas.rewards import RewardScored

NUM_AT_ONCE = 100
"""Rewards that have one time."""


class RewardWriter:
    """Writes without waiting for each; `flush` says whether all is durable."""

    def __init__(self, publisher: BulkPublisher) -> None:
        self.num_written = 0
        self._publisher = publisher
        self._form = EnvelopeForm(RewardScored, source=publisher.source)
        self._now_ms = 0

    def write(self, key: bytes, rollout_id: str, value: bytes, event_id: str, cause: Headers) -> None:
        """Send a rollout's encoded reward, caused by the event with these headers.

        Raises LogError where one before was not taken.
        """
        if not self.num_written % NUM_AT_ONCE:
            now_s = time.time()
            self._form.set_time(now_s)
            self._now_ms = int(now_s * 1000)
        caused_by, trace = id_and_trace(cause)
        headers = self._form.headers(event_id, subject=rollout_id, cause=caused_by, correlation=key, trace=trace)
        self._publisher.write(RewardScored, key, value, headers, self._now_ms)
        self.num_written += 1

    def flush(self) -> None:
        """Wait until everything is durable. Raises LogError."""
        self._publisher.flush()


def id_and_trace(envelope: Headers) -> tuple[bytes, bytes]:
    """Return an event's id and trace context, empty where there is none."""
    # The publisher writes the id second, and a trace last, after the correlation.
    (name, event_id), (last_name, last) = envelope[1], envelope[-1]
    if name == "ce_id" and last_name == "ce_correlationid":
        return event_id, b""
    if name == "ce_id" and last_name == "traceparent":
        return event_id, last
    found = dict(envelope)
    return found.get("ce_id") or b"", found.get("traceparent") or b""
