"""Events as plain values, for lineage: what is worth showing of each record, under the names that the record has."""

from typing import Any

import msgspec

from schemas.content import record_digest
from schemas.decisions import Decision
from schemas.events import Event, Position
from schemas.executions import ExecutionFinished
from schemas.policies import PolicyPublished
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.steps import StepTaken
from schemas.tasks import TaskIssued
from schemas.trajectory import Trajectory

Tree = dict[str, Any]
KEPT_BYTES = 2_000
"""Of what a program printed."""
OF_BATCH = (
    "domain",
    "level",
    "num_samples",
    "reward_mean",
    "reward_std",
    "scoring_id",
    "oldest_version",
    "newest_version",
)


def envelope(event: Event[Any]) -> Tree:
    """Return where an event stands and what it came of."""
    return {
        "position": str(event.position),
        "event_id": event.id,
        "cause": event.causation_id,
        "source": event.source,
        "time_s": event.time_s,
    }


def task_tree(event: Event[TaskIssued]) -> Tree:
    """Return a task, with the version of its prompt where it has one."""
    fields: Tree = msgspec.to_builtins(event.record)
    kept = (
        "task_id", "run_id", "domain", "level", "split", "prompt", "prompt_version", "verifier", "max_turns",
        "num_samples", "sampling", "seed", "policy", "policy_version", "deadline_s", "scoring_id",
    )  # fmt: skip
    return {**envelope(event), **{name: fields[name] for name in kept if name in fields}}


def rollout_tree(
    task: str, sample: int, trajectory: Trajectory, advantage: float | None, *, only_reward: Position | None
) -> Tree:
    """Return a rollout with its turns, their executions, its end and its rewards."""
    end = trajectory.ended.get(None)
    rewards = [e for e in trajectory.rewards.values() if only_reward is None or e.position == only_reward]
    return {
        "rollout_id": f"{task}/{sample}",
        "sample": sample,
        "turns": [
            turn_tree(trajectory.turns[turn], trajectory.executions.get(turn)) for turn in sorted(trajectory.turns)
        ],
        "end": {**envelope(end), **msgspec.to_builtins(end.record)} if end else None,
        "rewards": [reward_tree(event) for event in rewards],
        "advantage": advantage,
    }


def turn_tree(event: Event[TurnGenerated], execution: Event[ExecutionFinished] | None) -> Tree:
    """Return a turn and what came of running it."""
    turn = event.record
    return {
        **envelope(event),
        "turn": turn.turn,
        "policy": turn.policy,
        "versions": sorted({int(version) for version in turn.versions.unpack()}),
        "num_context": len(turn.context_ids),
        "num_tokens": len(turn.token_ids),
        "text": turn.text,
        "finish_reason": turn.finish_reason,
        "sampling": msgspec.to_builtins(turn.sampling),
        "seed": turn.seed,
        "execution": execution_tree(execution) if execution else None,
    }


def execution_tree(event: Event[ExecutionFinished]) -> Tree:
    """Return an execution, with the sandbox that it ran in."""
    outcome = event.record.outcome
    printed = {name: getattr(outcome, name)[:KEPT_BYTES].decode(errors="replace") for name in ("stdout", "stderr")}
    plain = ("status", "exit_code", "signal", "wall_ms", "attempt", "backend", "isolation", "limits_enforced", "error")
    found = {name: getattr(outcome, name) for name in plain}
    return {**envelope(event), **found, "sandbox_digest": outcome.image_digest, **printed}


def reward_tree(event: Event[RewardScored]) -> Tree:
    """Return a reward."""
    return {**envelope(event), **msgspec.to_builtins(event.record)}


def end_tree(event: Event[Any]) -> Tree:
    """Return how a task ended: its batch without the arrays, or a decision."""
    record = event.record
    if isinstance(record, Decision):
        return {**envelope(event), "kind": "decision", **msgspec.to_builtins(record)}
    rows = [{name: getattr(row, name) for name in ("rollout_id", "reward", "advantage")} for row in record.rows]
    found = {name: getattr(record, name) for name in OF_BATCH}
    if record.is_recorded:
        found["number"] = record.number
    return {**envelope(event), "kind": "batch", "digest": record_digest(record), **found, "rows": rows}


def step_tree(event: Event[StepTaken]) -> Tree:
    """Return a step without its batches."""
    fields: Tree = msgspec.to_builtins(event.record)
    return {
        **envelope(event),
        **{name: value for name, value in fields.items() if name not in ("batches", "by_domain")},
    }


def policy_tree(event: Event[PolicyPublished]) -> Tree:
    """Return a policy version."""
    return {**envelope(event), **msgspec.to_builtins(event.record)}
