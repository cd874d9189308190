"""Rewards on their way to the log, no more at once than a window: memory does not depend on the range."""

import time
from threading import Condition

from consumers.history.lean import Headers
from producers.publisher import Publisher
from schemas.codec import TYPES
from schemas.errors import LogError, RollogError
from schemas.events import Event
from schemas.rewards import RewardScored

WINDOW = 3_000
NUM_AT_ONCE = 50
"""Rewards that have one time."""
WAIT_S = 180.0
"""Longer than the publisher tries to deliver."""
TYPE = TYPES[RewardScored]


class RewardWriter:
    """Writes without waiting for each; `flush` says whether all is durable."""

    def __init__(self, publisher: Publisher) -> None:
        self.num_written = 0
        self._publisher = publisher
        self._num_delivered = 0
        self._now_s = 0.0
        self._failure: RollogError | None = None
        self._changed = Condition()

    def write(self, reward: RewardScored, *, event_id: str, cause: Headers) -> None:
        """Send one reward, caused by the event with these headers. Raises LogError where one before was not taken."""
        if self.num_written - self._num_delivered >= WINDOW:
            self._wait(WINDOW // 2)
        if not self.num_written % NUM_AT_ONCE:
            self._now_s = time.time()
        envelope = dict(cause)
        self._publisher.publish(
            Event(
                id=event_id,
                type=TYPE,
                source=self._publisher.source,
                time_s=self._now_s,
                key=reward.task_id,
                subject=reward.rollout_id,
                causation_id=text_of(envelope, "ce_id"),
                correlation_id=reward.task_id,
                traceparent=text_of(envelope, "traceparent"),
                record=reward,
            ),
            self._delivered,
        )
        self.num_written += 1

    def flush(self) -> None:
        """Wait until everything is durable. Raises LogError."""
        self._wait(0)

    def _wait(self, num_left: int) -> None:
        with self._changed:
            done = self._changed.wait_for(
                lambda: self._failure or self.num_written - self._num_delivered <= num_left, WAIT_S
            )
        if self._failure is not None:
            raise self._failure
        if not done:
            raise LogError(f"rewards were not delivered within {WAIT_S} s; is the broker reachable?")

    def _delivered(self, failure: RollogError | None) -> None:
        self._num_delivered += 1
        if failure is not None:
            self._failure = self._failure or failure
        if failure is not None or not self._num_delivered % 1000 or self._num_delivered >= self.num_written:
            with self._changed:
                self._changed.notify_all()


def text_of(envelope: dict[str, bytes | None], name: str) -> str:
    """Return a header's text, empty where there is none."""
    return (envelope.get(name) or b"").decode(errors="replace")
