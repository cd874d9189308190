"""How far tasks may run ahead of the learner. Pure: facts in, a number out.

A task is open from its issue until it was trained on or a decision ended it. With at most
`(max_staleness + 1) * groups_per_step` of them open, at most `max_staleness` steps can be taken between the issue of a
task and the step that takes it, as long as the learner takes groups in their order; so what was sampled is at most that
stale, by pacing rather than by throwing finished work away.
"""

from typing import Any

from schemas.config import Settings
from schemas.decisions import Decision
from schemas.ids import derive_id
from schemas.scorings import LIVE
from schemas.steps import StepTaken


def batch_id(task_id: str, scoring_id: str = LIVE, fork: str = "") -> str:
    """Return the event id of a task's batch, by which the learner's steps name it; `fork` is the run it is made for."""
    return derive_id(task_id, "batch", 0, f"{scoring_id}/{fork}" if fork else scoring_id)


class Admission:
    """The training tasks of one run: which are open, and how many more may be."""

    def __init__(self, *, run_id: str, max_open: int, last_step: int = 0) -> None:
        """`last_step` is the step after which nothing more is wanted; 0 for never."""
        self.run_id, self.max_open, self.last_step = run_id, max_open, last_step
        self.step = 0
        """Steps that the run has taken."""
        self._open: dict[str, str] = {}
        """Open task ids, by the id of their batch."""
        self._batches: dict[str, str] = {}
        """The same, the other way round."""

    @classmethod
    def of(cls, settings: Settings) -> "Admission":
        """Return the admission that the settings ask for."""
        max_open = (settings.admission.max_staleness + 1) * settings.learner.groups_per_step
        return cls(run_id=settings.run, max_open=max_open, last_step=settings.learner.steps)

    @property
    def num_open(self) -> int:
        """Return how many issued tasks have not ended."""
        return len(self._open)

    @property
    def is_over(self) -> bool:
        """Return whether the learner has taken its last step."""
        return 0 < self.last_step <= self.step

    @property
    def num_admitted(self) -> int:
        """Return how many tasks may be issued now."""
        return 0 if self.is_over else max(0, self.max_open - self.num_open)

    def issue(self, task_id: str, scoring_id: str = LIVE) -> None:
        """Take note that a training task was issued under a scoring; before any fact about it is taken."""
        batch = batch_id(task_id, scoring_id)
        self._open[batch], self._batches[task_id] = task_id, batch

    def take(self, record: Any) -> None:
        """Take a Decision or a StepTaken, in any order and however often."""
        if getattr(record, "run_id", None) != self.run_id:
            return
        match record:
            case StepTaken():
                self.step = max(self.step, record.step)
                for ref in record.batches:
                    self._batches.pop(self._open.pop(ref.event_id, ""), None)
            case Decision() if record.reason != "held_out":
                self._open.pop(self._batches.pop(record.task_id, ""), None)
