"""What the learner is told while it runs: it follows `commands` between steps.

What must hold: whether a batch trains is a function of the batch, the commands, and the steps that went back; so that a
learner which comes back decides as the one before it. What a step was taken on, or passed over, stays as it is. A
rollback is obeyed by one step: the checkpoint that makes the step durable says which command it was.
"""

import logging
from collections.abc import Iterable

import numpy as np

from consumers.commands import CommandFeed
from consumers.feed import BatchEvent, Fault, OpenReader, place_of
from learner.checkpoint import Restored
from learner.gate import Gate
from learner.training import Training
from schemas.batches import Batch
from schemas.errors import CheckpointError
from schemas.recalls import SHORT, Rollback

LOGGER = logging.getLogger("learner.orders")


class Orders:
    """The commands that concern one run's learner."""

    def __init__(self, open_reader: OpenReader, run_id: str, policy: str, *, gate: Gate | None = None) -> None:
        """Read all commands that are there. Raises LogError."""
        self._gate = gate
        self._feed, self._run_id, self._policy = CommandFeed(open_reader), run_id, policy
        self._refused: set[str] = set()

    def close(self) -> None:
        """Let go."""
        self._feed.close()
        if self._gate is not None:
            self._gate.close()

    def poll(self) -> bool:
        """Hear what is new; returns whether anything is. Raises LogError."""
        if self._gate is not None:
            self._gate.poll()
        return self._feed.poll()

    @property
    def held(self) -> str:
        """Return why new versions are not for use outside of training; empty where they are."""
        return "" if self._gate is None else self._gate.why

    def due(self, training: Training) -> Rollback | None:
        """Return the first rollback that was not obeyed and is to be at this boundary, None where there is none."""
        obeyed = {restored.rollback_id for restored in training.restored}
        for rollback in self._ours():
            name = rollback.rollback_id
            if name not in obeyed and name not in self._refused and rollback.at <= training.step:
                return rollback
        return None

    @property
    def asked_for(self) -> set[int]:
        """Return the versions that rollbacks name: while one waits to be obeyed its checkpoint is not to go."""
        return {rollback.version for rollback in self._ours()}

    def _ours(self) -> list[Rollback]:
        ours = (self._run_id, self._policy)
        return [r for r in self._feed.recalls.rollbacks.values() if (r.run_id, r.policy) == ours]

    def refuse(self, rollback: Rollback, why: CheckpointError) -> None:
        """Go on without a rollback that cannot be obeyed; a learner that is started again tries it again."""
        LOGGER.error("rollback %s to version %d not obeyed: %s", rollback.rollback_id[:SHORT], rollback.version, why)
        self._refused.add(rollback.rollback_id)

    def fault_of(self, event: BatchEvent, restored: Iterable[Restored]) -> Fault | None:
        """Return which command keeps a batch from being trained on, None where none does."""
        for quarantine in self._feed.recalls.quarantines.values():
            detail = quarantine.fault_of(event.record, event.id, *place_of(event))
            if detail is not None:
                return Fault(reason="quarantined", detail=detail)
        for back in restored:
            version = rolled_back_version(event.record, back)
            if version is not None:
                detail = f"rollback {back.rollback_id[:SHORT]} to version {back.version}: drawn by version {version}"
                return Fault(reason="quarantined", detail=detail)
        return None


def rolled_back_version(batch: Batch, back: Restored) -> int | None:
    """Return a version that drew a token of the batch and was rolled back by that step, None where none did."""
    first, end = back.version + 1, back.step
    if batch.newest_version < first or batch.oldest_version >= end:
        return None
    for row in batch.rows:
        versions = row.versions.unpack()[row.loss_mask.unpack() == 1]
        found = versions[np.logical_and(versions >= first, versions < end)]
        if len(found):
            return int(found[0])
    return None
