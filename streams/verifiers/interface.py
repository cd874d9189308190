"""What a verifier is: a pure function from a spec and a trajectory's events to a score.

It reads nothing but its arguments, so that any version of it can score any history. It runs in a process of its own
under a deadline; raising says that it could not judge, which is an invalid reward and never a 0.
"""

from collections.abc import Callable
from typing import Literal

import msgspec

from schemas.tasks import TaskIssued, VerifierSpec
from schemas.trajectory import Trajectory

Reads = Literal["text", "executions", "tokens"]


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier's finding."""

    value: float
    """In [0, 1]."""
    parts: dict[str, float] = {}
    """Partial findings by name, each in [0, 1]."""
    detail: str = ""
    """For people: why it is less than it could be."""
    abstained: tuple[str, ...] = ()
    """Parts that could not be judged and count for nothing either way."""
    evidence: dict[str, str] = {}
    """By part, what its value rests on."""


class Verifier(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier under its name."""

    name: str
    version: int
    """To be raised with every change that can change a score."""
    score: Callable[[VerifierSpec, Trajectory], Score]
    reads: frozenset[Reads] = frozenset({"text", "executions", "tokens"})
    """What it looks at in a trajectory; history is read without the rest. Beside that, it may read how it ended."""

    def lacks(self, task: TaskIssued) -> str | None:
        """Return what rollouts of the task do not have and this verifier cannot judge without; None if nothing."""
        if self.reads == {"executions"} and task.execution is None:
            return f"{self.name} judges what programs print, and tasks of domain {task.domain} run none"
        if self.name == "parts" and not task.own_spec.parts:
            return f"domain {task.domain} names no parts to judge by"
        return None
