"""What the learner is told while it runs: it follows `commands` between steps.

What must hold: whether a batch trains is a function of the batch and the commands, so that a learner which comes back
decides as the one before it; what a step was taken on, or passed over, stays as it is.
"""

from consumers.commands import CommandFeed
from consumers.feed import BatchEvent, Fault, OpenReader, place_of


class Orders:
    """The commands that concern one run's learner."""

    def __init__(self, open_reader: OpenReader, run_id: str) -> None:
        """Read all commands that are there. Raises LogError."""
        self._feed, self._run_id = CommandFeed(open_reader), run_id

    def close(self) -> None:
        """Let go."""
        self._feed.close()

    def poll(self) -> bool:
        """Hear what is new; returns whether anything is. Raises LogError."""
        return self._feed.poll()

    def fault_of(self, event: BatchEvent) -> Fault | None:
        """Return which command keeps a batch from being trained on, None where none does."""
        for quarantine in self._feed.recalls.quarantines.values():
            detail = quarantine.fault_of(event.record, event.id, *place_of(event))
            if detail is not None:
                return Fault(reason="quarantined", detail=detail)
        return None
