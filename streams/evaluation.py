"""Which policy versions are to be evaluated, on what, and with what result. Pure: facts in, in any order.

The base, every `every`th version and the last one are asked the same held-out questions. A version's result in a domain
is known once each of its tasks there has ended, with an answer or without one.
"""

import math
from collections.abc import Callable
from typing import Any

from schemas.config import Settings
from schemas.decisions import Decision
from schemas.evals import EvalScored
from schemas.policies import PolicyPublished
from schemas.tasks import TaskIssued


class Evaluations:
    """One run's evaluations."""

    def __init__(self, settings: Settings, held_out: Callable[[int], list[TaskIssued]]) -> None:
        """`held_out` returns the tasks that evaluate a version."""
        self._settings, self._held_out = settings, held_out
        self._tasks: dict[str, TaskIssued] = {}
        """Tasks of results that are not known yet, by id."""
        self._known: set[int] = set()
        """Versions whose tasks were made."""
        self._issued: set[str] = set()
        self._scored: set[tuple[int, str]] = set()
        """(version, domain) whose result is on the log."""
        self._ends: dict[str, Decision] = {}

    def is_due(self, version: int) -> bool:
        """Return whether a version is to be evaluated, be it the run's first or not."""
        every, last = self._settings.evaluation.every, self._settings.learner.steps
        return every > 0 and (version % every == 0 or version == last > 0)

    def take(self, record: Any) -> None:
        """Take a policy, a result or a decision. What is of another run or policy changes nothing."""
        if getattr(record, "run_id", None) != self._settings.run:
            return
        match record:
            case PolicyPublished() if record.policy == self._settings.policy.name:
                is_first = record.parent is None and self._settings.evaluation.every > 0  # a fork's is not version 0
                if (is_first or self.is_due(record.version)) and record.version not in self._known:
                    self._known.add(record.version)
                    self._tasks |= {task.task_id: task for task in self._held_out(record.version)}
                    self._forget_scored()
            case EvalScored() if record.policy == self._settings.policy.name:
                self._scored.add((record.version, record.domain))
                self._forget_scored()
            case Decision() if record.stage == "assembler" and record.task_id in self._tasks:
                self._ends.setdefault(record.task_id, record)

    def note_issued(self, task_id: str) -> None:
        """Take note that a task is on the log."""
        self._issued.add(task_id)

    def to_issue(self) -> list[TaskIssued]:
        """Return the tasks that are to be issued now."""
        return [task for task in self._tasks.values() if task.task_id not in self._issued]

    def to_score(self) -> list[EvalScored]:
        """Return the results that are known and not on the log."""
        by_result: dict[tuple[int, str], list[TaskIssued]] = {}
        for task in self._tasks.values():
            assert task.policy_version is not None
            by_result.setdefault((task.policy_version, task.domain), []).append(task)
        return [
            self._result(version, domain, tasks)
            for (version, domain), tasks in by_result.items()
            if all(task.task_id in self._ends for task in tasks)
        ]

    def _result(self, version: int, domain: str, tasks: list[TaskIssued]) -> EvalScored:
        ends = [self._ends[task.task_id] for task in tasks]
        rewards = [end.reward_mean for end in ends if end.reward_mean is not None]
        solved = [end.solved for end in ends if end.solved is not None]
        return EvalScored(
            run_id=self._settings.run,
            policy=self._settings.policy.name,
            version=version,
            domain=domain,
            solve_rate=math.fsum(solved) / len(solved) if solved else 0.0,
            reward_mean=math.fsum(rewards) / len(rewards) if rewards else 0.0,
            num_tasks=len(tasks),
            num_invalid=len(tasks) - len(rewards),
        )

    def _forget_scored(self) -> None:
        for task in list(self._tasks.values()):
            if (task.policy_version, task.domain) in self._scored:
                del self._tasks[task.task_id]
                self._ends.pop(task.task_id, None)
                self._issued.discard(task.task_id)
