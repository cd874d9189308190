"""Which runs of a task answer for others: the same program with the same limits need not run once a sample.

Samples of one task often write the same program, a policy that has learned almost always. What must hold: an answer is
shared within a task only, never infrastructure trouble, and an execution says whose run it has.
"""

from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

from schemas.executions import Action
from streams.running import Ran

R = TypeVar("R")
NUM_KEPT = 4096
ENCODER = msgspec.msgpack.Encoder()
Key = tuple[str, bytes]


class Source(Generic[R]):
    """A program's one run, and what waits for it."""

    def __init__(self, rollout_id: str) -> None:
        self.rollout_id = rollout_id
        """Whose turn it is that runs."""
        self.ran: Ran | None = None
        """None while it runs."""
        self.waiting: list[R] = []


class Sharing(Generic[R]):
    """The last programs that ran or run. Used from one thread."""

    def __init__(self, num_kept: int = NUM_KEPT) -> None:
        """`num_kept` programs are remembered after they ran; those that run always are."""
        self._num_kept = num_kept
        self._running: dict[Key, Source[R]] = {}
        self._ran: OrderedDict[Key, Source[R]] = OrderedDict()

    def find(self, task_id: str, action: Action) -> Source[R] | None:
        """Return the run that answers for this action, if there is one."""
        key = key_of(task_id, action)
        return self._running.get(key) or self._ran.get(key)

    def begin(self, task_id: str, action: Action, rollout_id: str) -> None:
        """Note that an action runs for this rollout."""
        self._running[key_of(task_id, action)] = Source(rollout_id)

    def end(self, task_id: str, action: Action, ran: Ran) -> Source[R] | None:
        """Note what came of a run; returns who waits, with what came of it unless that is trouble of the sandbox."""
        key = key_of(task_id, action)
        source = self._running.pop(key, None)
        if source is not None and ran.outcome.status != "infra_error":
            source.ran = ran
            self._ran[key] = Source(source.rollout_id)
            self._ran[key].ran = ran
            if len(self._ran) > self._num_kept:
                self._ran.popitem(last=False)
        return source


def key_of(task_id: str, action: Action) -> Key:
    """Return what two turns must have in common to share a run."""
    return task_id, ENCODER.encode(action)
