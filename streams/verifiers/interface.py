"""What a verifier is: a pure function from a spec and a trajectory's events to a score.

It reads nothing but its arguments, so that any version of it can score any history. It runs in a process of its own
under a deadline; raising says that it could not judge, which is an invalid reward and never a 0.
"""

from collections.abc import Callable

import msgspec

from schemas.tasks import VerifierSpec
from schemas.trajectory import Trajectory


class Score(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier's finding."""

    value: float
    """In [0, 1]."""
    parts: dict[str, float] = {}
    """Partial findings by name, each in [0, 1]."""
    detail: str = ""
    """For people: why it is less than it could be."""


class Verifier(msgspec.Struct, frozen=True, kw_only=True):
    """A verifier under its name."""

    name: str
    version: int
    """To be raised with every change that can change a score."""
    score: Callable[[VerifierSpec, Trajectory], Score]
