"""Scoring in this process, under a deadline: what history is scored with, and what it is refused to."""

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from schemas.executions import ExecutionFinished
from schemas.rollouts import TurnGenerated
from schemas.scorings import Scoring, VerifierChoice, scoring_of
from schemas.tasks import TaskIssued, VerifierSpec
from schemas.trajectory import Trajectory
from streams.scoring import WITHOUT_WORTH, Finding, without_worth
from streams.verifiers import VERIFIERS, get_verifier
from streams.verifiers.worker import find


class OutOfTimeError(BaseException):
    """A scoring's time is over; no verifier catches it by accident."""


def scoring_for(choice: VerifierChoice | None, scoring_id: str = "") -> Scoring:
    """Return the scoring of a choice by today's verifiers. Raises ConfigError."""
    version = 0 if choice is None else get_verifier(choice.kind).version
    return scoring_of(choice, version=version, scoring_id=scoring_id)


def records_read(choice: VerifierChoice | None) -> frozenset[type[Any]]:
    """Return the records that the choice's verifiers need with all their fields."""
    verifiers = VERIFIERS.values() if choice is None else (get_verifier(choice.kind),)
    reads = {part for verifier in verifiers for part in verifier.reads}
    classes: dict[str, type[Any]] = {"tokens": TurnGenerated, "executions": ExecutionFinished}
    return frozenset(record for part, record in classes.items() if part in reads)


def lack_of(task: TaskIssued, spec: VerifierSpec) -> str | None:
    """Return why the spec cannot be applied to the task's rollouts, None where it can."""
    verifier = VERIFIERS.get(spec.kind)
    if verifier is None:
        return f"verifier {spec.kind!r} is not known here"
    return verifier.lacks(task)


class Judge:
    """Scores one rollout at a time. Only for the main thread, where signals arrive.

    One clock rings again and again; who is still at the rollout of the ring before is out of time. So a verifier has
    between one and two `timeout_s`, and a clock need not be wound for every rollout. What never comes back from C code
    is not interrupted.
    """

    def __init__(self, *, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._serial, self._rung = 0, -1
        self._is_judging = False

    @contextmanager
    def deadline(self) -> Iterator[None]:
        """Have the clock run while scoring."""
        before = signal.signal(signal.SIGALRM, self._ring)
        signal.setitimer(signal.ITIMER_REAL, self._timeout_s, self._timeout_s)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, before)

    def finding(self, spec: VerifierSpec, trajectory: Trajectory) -> Finding:
        """Return what is found; within `deadline`."""
        if trajectory.executions or trajectory.ended[None].record.why in WITHOUT_WORTH:
            finding = without_worth(trajectory)
            if finding is not None:
                return finding
        self._serial += 1
        try:
            self._is_judging = True
            finding = find(spec, trajectory)
            self._is_judging = False
        except OutOfTimeError:
            return Finding(invalid_reason="verifier_timeout", detail=f"no answer within {self._timeout_s} s")
        return finding

    def _ring(self, _signal: int, _frame: object) -> None:
        if self._is_judging and self._rung == self._serial:
            self._is_judging = False
            raise OutOfTimeError
        self._rung = self._serial
