"""The commit rule of every group: never past an event that is delivered and not yet acknowledged.

    delivered      5   6   7   8         next 9
    acknowledged   x       x   x
    committable        ^ 6

Acknowledgements come in any order, from any thread, as late as they like, and twice if they like. One that belongs to a
delivery of an earlier assignment changes nothing.
"""

from collections.abc import Callable, Collection
from functools import partial

Ack = Callable[[], None]
At = tuple[str, int]
"""Topic and partition."""


class Acknowledgements:
    """What was delivered of the partitions of one assignment. Pure bookkeeping: it talks to nobody."""

    def __init__(self) -> None:
        self._next: dict[At, int] = {}
        self._in_flight: dict[At, set[int]] = {}
        self.num_delivered = 0

    def deliver(self, at: At, offset: int) -> Ack:
        """Note that an event was handed out; the returned call acknowledges it."""
        in_flight = self._in_flight.get(at)
        if in_flight is None:
            in_flight = self._in_flight[at] = set()
        in_flight.add(offset)
        if offset >= self._next.get(at, 0):
            self._next[at] = offset + 1
        self.num_delivered += 1
        return partial(in_flight.discard, offset)

    def committable(self) -> dict[At, int]:
        """Return the offset that may be committed, by partition: what is at or after it comes again."""
        # Copied in one step, since other threads acknowledge meanwhile.
        return {at: min(self._in_flight[at].copy(), default=offset) for at, offset in self._next.items()}

    @property
    def num_in_flight(self) -> int:
        """Return how many events are delivered and not acknowledged."""
        return sum(map(len, self._in_flight.values()))

    def clear(self, partitions: Collection[At] | None = None) -> None:
        """Forget these partitions, or all: they were taken away, and what was not committed comes again."""
        for at in list(self._next) if partitions is None else partitions:
            self._next.pop(at, None)
            self._in_flight.pop(at, None)
