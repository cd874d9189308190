"""From what a sampler answered to the facts that go on the log. Pure."""

from typing import Any

import numpy as np

from producers.samplers.interface import Finished, Ids, Request
from schemas import ids
from schemas.arrays import Dtype, PackedArray
from schemas.events import Event
from schemas.executions import Action
from schemas.rollouts import EndReason, RolloutEnded, TurnGenerated
from schemas.tasks import TaskIssued
from schemas.trajectory import Trajectory


def turn_seed(task: TaskIssued, sample: int, turn: int) -> int:
    """Return the seed of one turn's draws."""
    return ids.derive_seed(task.seed, sample, turn)


def turn_id(rollout_id: str, turn: int) -> str:
    """Return the event id of a turn."""
    return ids.derive_id(rollout_id, "turn_generated", turn)


def end_id(rollout_id: str) -> str:
    """Return the event id of a rollout's end."""
    return ids.derive_id(rollout_id, "rollout_ended", 0)


def sequence_so_far(trajectory: Trajectory) -> list[Ids]:
    """Return the pieces, each [N] int32, that all turns so far join to."""
    turns = (trajectory.turns[turn].record for turn in range(trajectory.num_turns))
    return [piece.unpack() for turn in turns for piece in (turn.context_ids, turn.token_ids)]


def make_turn(
    task: TaskIssued,
    *,
    sample: int,
    turn: int,
    context_ids: Ids,
    request: Request,
    finished: Finished,
    queued_s: float,
    text: str,
    action: Action | None,
    logprob_dtype: Dtype,
) -> TurnGenerated:
    """Return one turn, and what it asks to run."""
    return TurnGenerated(
        task_id=task.task_id,
        rollout_id=ids.rollout_id(task.task_id, sample),
        sample=sample,
        turn=turn,
        domain=task.domain,
        policy=task.policy,
        context_ids=PackedArray.pack(context_ids, dtype="i4"),
        token_ids=PackedArray.pack(finished.token_ids, dtype="i4"),
        logprobs=PackedArray.pack(finished.logprobs, dtype=logprob_dtype),
        versions=PackedArray.pack(finished.versions, dtype="i4"),
        text=text,
        finish_reason=finished.finish_reason,
        sampling=request.sampling,
        seed=request.seed,
        action=action,
        queued_s=queued_s,
        generate_s=finished.generate_s,
    )


def make_end(task: TaskIssued, trajectory: Trajectory, *, sample: int, why: EndReason) -> RolloutEnded:
    """Return the end of a rollout that has the turns of `trajectory`."""
    num_turns = trajectory.num_turns
    return RolloutEnded(
        task_id=task.task_id,
        rollout_id=ids.rollout_id(task.task_id, sample),
        sample=sample,
        domain=task.domain,
        why=refine(task, trajectory) if why == "length" else why,
        num_turns=num_turns,
        num_tokens=sum(len(trajectory.turns[turn].record.token_ids) for turn in range(num_turns)),
    )


def refine(task: TaskIssued, trajectory: Trajectory) -> EndReason:
    """Return what cut a turn off: its own length, or the model's context where it had fewer tokens than it may have."""
    last = trajectory.turns[trajectory.num_turns - 1].record
    return "length" if len(last.token_ids) >= task.sampling.max_tokens else "context_full"


def cause_of(trajectory: Trajectory, issued: Event[Any]) -> Event[Any]:
    """Return the event that led to a rollout's next one: its last execution, else its last turn, else the task."""
    num_turns = trajectory.num_turns
    if num_turns == 0:
        return issued
    return trajectory.executions.get(num_turns - 1) or trajectory.turns[num_turns - 1]


def join(pieces: list[Ids]) -> Ids:
    """Return the pieces as one, [P] int32."""
    return np.concatenate(pieces).astype(np.int32, copy=False)
