"""One scoring as a piece of work: what goes to a verifier's process, what comes back, and the reward that it becomes.

Whether a rollout can be judged at all is decided here, from its events alone, before any verifier sees it.
"""

from typing import Any

import msgspec

from schemas.content import record_digest
from schemas.events import Event
from schemas.executions import ExecutionFinished
from schemas.ids import derive_id, rollout_id
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.scorings import LIVE
from schemas.tasks import TaskIssued, VerifierSpec
from schemas.trajectory import Group, Trajectory, order_of
from streams.verifiers import VERIFIERS
from streams.verifiers.interface import Score

WITHOUT_WORTH = ("infrastructure", "deadline")
"""Ends after which nothing is known of what a rollout is worth."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """A spec and a whole sample's events."""

    spec: VerifierSpec
    turns: tuple[Event[TurnGenerated], ...]
    executions: tuple[Event[ExecutionFinished], ...]
    ended: Event[RolloutEnded]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A score, or why there is none: exactly one of `score` and `invalid_reason`."""

    score: Score | None = None
    invalid_reason: str | None = None
    detail: str = ""
    attempts: int = 1
    score_s: float = 0.0


def job_of(spec: VerifierSpec, trajectory: Trajectory) -> Job:
    """Return the job of scoring a trajectory that has ended."""
    return Job(
        spec=spec,
        turns=tuple(trajectory.turns.values()),
        executions=tuple(trajectory.executions.values()),
        ended=trajectory.ended[None],
    )


def trajectory_of(job: Job) -> Trajectory:
    """Return the trajectory that a job holds."""
    trajectory = Trajectory()
    trajectory.turns = {event.record.turn: event for event in job.turns}
    trajectory.executions = {event.record.turn: event for event in job.executions}
    trajectory.ended = {None: job.ended}
    return trajectory


def without_worth(trajectory: Trajectory) -> Finding | None:
    """Return why nothing can be known of a whole trajectory's worth; None where a verifier may judge it."""
    end = trajectory.end
    if end is not None and end.why in WITHOUT_WORTH:
        return Finding(invalid_reason=end.why, detail=f"the rollout ended by {end.why}")
    for event in trajectory.executions.values():
        outcome = event.record.outcome
        if outcome.status == "infra_error":
            return Finding(invalid_reason="infrastructure", detail=f"turn {event.record.turn}: {outcome.error}"[:500])
    return None


def reward_of(
    task: TaskIssued,
    sample: int,
    finding: Finding,
    *,
    spec: VerifierSpec | None = None,
    digest: str = "",
    scoring_id: str = "",
) -> RewardScored:
    """Return the reward that a finding is, by the task's own spec and under its own scoring unless others are given.

    `digest` is that of `spec`, where it is known.
    """
    spec = spec or task.verifier
    scoring_id = scoring_id or task.scoring_id
    verifier = VERIFIERS.get(spec.kind)
    score = finding.score
    return RewardScored(
        task_id=task.task_id,
        rollout_id=rollout_id(task.task_id, sample),
        sample=sample,
        domain=task.domain,
        value=None if score is None else score.value,
        invalid_reason=finding.invalid_reason,
        detail=finding.detail if score is None else score.detail,
        parts={} if score is None else score.parts,
        verifier=spec.kind,
        verifier_version=0 if verifier is None else verifier.version,
        config_digest=digest or record_digest(spec),
        scoring_id=scoring_id,
        attempts=finding.attempts,
        score_s=finding.score_s,
        own=scoring_id == task.scoring_id != LIVE,
        abstained=() if score is None else score.abstained,
        evidence={} if score is None else score.evidence,
    )


def reward_id(reward: RewardScored) -> str:
    """Return the event id of a reward: of one rollout, one verifier version, one spec and one scoring there is one."""
    maker = f"{reward.verifier}@{reward.verifier_version}/{reward.config_digest}/{reward.scoring_id}"
    return derive_id(reward.rollout_id, "reward_scored", 0, maker)


def reward_in(trajectory: Trajectory, scoring_id: str) -> RewardScored | None:
    """Return the trajectory's reward under a scoring: the first on the log."""
    if not trajectory.rewards:
        return None
    found: list[Event[Any]] = [event for event in trajectory.rewards.values() if event.record.scoring_id == scoring_id]
    if not found:
        return None
    record: RewardScored = min(found, key=order_of).record
    return record


def is_scored(task: TaskIssued, group: Group, scoring_id: str) -> bool:
    """Return whether every sample of the task has its reward under the scoring."""
    samples = group.samples
    return len(samples) >= task.num_samples and all(
        sample in samples and reward_in(samples[sample], scoring_id) is not None for sample in range(task.num_samples)
    )
