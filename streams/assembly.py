"""How a scored group ends: as a batch, or as a decision why not. Pure, so that history can be assembled again.

The rule for groups of which part is invalid: the valid part trains if it has at least `min_valid` rollouts, with the
mean over the valid ones as its baseline; invalid, missing and quarantined rollouts are in neither.
"""

import math
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from schemas.arrays import PackedArray
from schemas.batches import Batch, BatchRow
from schemas.config import AssemblerSettings
from schemas.decisions import Decision, Reason
from schemas.limits import MAX_RECORD_BYTES
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.scorings import LIVE
from schemas.tasks import TaskIssued
from schemas.trajectory import Group, Trajectory
from streams.scoring import is_scored, reward_in

ROW_OVERHEAD_BYTES = 1024
"""More than a row's names, numbers and lengths take on the wire beside its arrays."""

Valid = dict[int, RewardScored]
Barred = Callable[[Group], Mapping[int, str]]
"""Returns, by sample, what keeps a rollout of a training task from training."""


def assemble(
    group: Group,
    *,
    settings: AssemblerSettings,
    now_s: float,
    context_tokens: int | None = None,
    scoring_id: str | None = None,
    barred: Barred | None = None,
    commands_end: int = 0,
) -> Batch | Decision | None:
    """Return how the group ends by its own rewards, or would have ended by those of `scoring_id`; None while it waits.

    It ends once every sample has a reward and the valid ones all their turns, or at its deadline and the assembler's
    grace with what is there by then. `context_tokens` is the longest sequence that the policy can take, where known;
    `barred` goes by the commands before `commands_end`.
    """
    task = group.task
    if task is None:
        return None
    is_late = now_s >= group.tasks[None].time_s + task.deadline_s + settings.grace_s
    by_scoring = task.scoring_id if scoring_id is None else scoring_id
    is_all_scored = is_scored(task, group, by_scoring)
    if not is_all_scored and not is_late:
        return None
    rewards = {
        sample: reward
        for sample in range(task.num_samples)
        if (reward := reward_in(group.sample(sample), by_scoring)) is not None
    }
    scored = {sample: reward for sample, reward in rewards.items() if reward.value is not None}
    if task.split == "held_out":
        return end_held_out(task, rewards, scored)
    here = {sample: reward for sample, reward in scored.items() if has_all_turns(group.sample(sample))}
    is_complete = is_all_scored and len(here) == len(scored)
    if not is_complete and not is_late:
        return None
    valid = {sample: reward for sample, reward in here.items() if has_tokens(group.sample(sample))}
    if len(valid) < settings.min_valid:
        return end_with_too_few(task, rewards, valid, is_complete=is_complete)
    out = barred(group) if barred is not None else {}
    left = {sample: reward for sample, reward in valid.items() if sample not in out}
    if len(left) < settings.min_valid:
        why = ", ".join(sorted({out[sample] for sample in valid if sample in out}))
        return decide(task, "quarantined", left, f"{len(valid) - len(left)} of {len(valid)} by {why}")
    end = end_with_rows(task, group, left, context_tokens, by_scoring)
    if isinstance(end, Decision):
        return end
    is_as_ever = scoring_id is None and task.scoring_id == LIVE
    rebuilt = None if is_as_ever else scoring_id is not None
    return msgspec.structs.replace(end, commands_end=commands_end, rebuilt=rebuilt)


def has_all_turns(trajectory: Trajectory) -> bool:
    """Return whether the rollout ended and all its turns are here."""
    end = trajectory.end
    return end is not None and trajectory.num_turns >= end.num_turns


def has_tokens(trajectory: Trajectory) -> bool:
    """Return whether the policy drew any token in a rollout that has all turns."""
    end = trajectory.end
    return end is not None and any(len(trajectory.turns[turn].record.token_ids) for turn in range(end.num_turns))


def decide(task: TaskIssued, reason: Reason, valid: Valid, detail: str = "", **fields: Any) -> Decision:
    """Return a decision with what is known of the group's rewards."""
    values = [value_of(reward) for reward in valid.values()]
    return Decision(
        task_id=task.task_id,
        run_id=task.run_id,
        domain=task.domain,
        stage="assembler",
        reason=reason,
        detail=detail,
        num_samples=task.num_samples,
        num_valid=len(values),
        reward_mean=math.fsum(values) / len(values) if values else None,
        solved=sum(value == 1 for value in values) / len(values) if values else None,
        **fields,
    )


def value_of(reward: RewardScored) -> float:
    """Return the value of a valid reward."""
    assert reward.value is not None
    return reward.value


def end_held_out(task: TaskIssued, rewards: Valid, valid: Valid) -> Decision:
    """Return the end of a task that is scored and never trained on."""
    if valid:
        return decide(task, "held_out", valid, policy_version=task.policy_version)
    reason: Reason = "all_invalid" if len(rewards) == task.num_samples else "deadline"
    return decide(task, reason, valid, "held out", policy_version=task.policy_version)


def end_with_too_few(task: TaskIssued, rewards: Valid, valid: Valid, *, is_complete: bool) -> Decision:
    """Return the end of a group with too few valid rollouts, and what became of the others."""
    reasons = Counter(reward.invalid_reason or "without turns" for s, reward in rewards.items() if s not in valid)
    reasons["no reward"] += task.num_samples - len(rewards)
    detail = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()) if count)
    if not is_complete:
        return decide(task, "deadline", valid, detail)
    return decide(task, "too_few_valid" if valid else "all_invalid", valid, detail)


def end_with_rows(
    task: TaskIssued, group: Group, valid: Valid, context_tokens: int | None, scoring_id: str
) -> Batch | Decision:
    """Return the valid rollouts as a batch, or why they would teach nothing or cannot be trained on."""
    values = [value_of(reward) for reward in valid.values()]
    mean = math.fsum(values) / len(values)
    rows = tuple(
        row_of(sample, group.sample(sample), value_of(reward), mean) for sample, reward in sorted(valid.items())
    )
    if len({row.token_ids.data for row in rows}) == 1:
        return decide(task, "duplicate", valid, f"{len(rows)} rollouts are the same, token by token")
    if min(values) == max(values):
        return decide(task, "zero_variance", valid, f"{len(values)} rewards of {values[0]:g}")
    if (detail := excess(rows, context_tokens)) is not None:
        return decide(task, "overlong", valid, detail)
    versions = [drawn_versions(row) for row in rows]
    return Batch(
        task_id=task.task_id,
        run_id=task.run_id,
        domain=task.domain,
        level=task.level,
        rows=rows,
        num_samples=task.num_samples,
        reward_mean=mean,
        reward_std=math.sqrt(math.fsum((value - mean) ** 2 for value in values) / len(values)),
        scoring_id=scoring_id,
        oldest_version=min(int(v.min()) for v in versions),
        newest_version=max(int(v.max()) for v in versions),
    )


def excess(rows: tuple[BatchRow, ...], context_tokens: int | None) -> str | None:
    """Return in what the rows are too long, None where they fit."""
    longest = max(len(row.token_ids) for row in rows)
    if context_tokens is not None and longest > context_tokens:
        return f"a rollout of {longest} tokens; the policy takes at most {context_tokens}"
    num_bytes = sum(
        ROW_OVERHEAD_BYTES + sum(len(a.data) for a in (row.token_ids, row.loss_mask, row.logprobs, row.versions))
        for row in rows
    )
    if num_bytes > MAX_RECORD_BYTES:
        return f"the group takes {num_bytes} bytes; a record has at most {MAX_RECORD_BYTES}"
    return None


def drawn_versions(row: BatchRow) -> npt.NDArray[Any]:
    """Return the policy version of each token that the policy drew."""
    drawn: npt.NDArray[Any] = row.versions.unpack()[row.loss_mask.unpack() == 1]
    return drawn


def row_of(sample: int, trajectory: Trajectory, value: float, mean: float) -> BatchRow:
    """Return a rollout as one sequence: for each turn its context, then what was drawn."""
    end = trajectory.end
    assert end is not None
    turns: list[TurnGenerated] = [trajectory.turns[turn].record for turn in range(end.num_turns)]
    ids, masks, logprobs, versions = [], [], [], []
    for turn in turns:
        num_context, num_drawn = len(turn.context_ids), len(turn.token_ids)
        drawn_logprobs = turn.logprobs.unpack()
        ids += [turn.context_ids.unpack(), turn.token_ids.unpack()]
        masks += [np.zeros(num_context, np.uint8), np.ones(num_drawn, np.uint8)]
        logprobs += [np.zeros(num_context, drawn_logprobs.dtype), drawn_logprobs]
        versions += [np.full(num_context, -1, np.int32), turn.versions.unpack()]
    return BatchRow(
        rollout_id=end.rollout_id,
        sample=sample,
        token_ids=PackedArray.pack(np.concatenate(ids), dtype="i4"),
        loss_mask=PackedArray.pack(np.concatenate(masks), dtype="u1"),
        logprobs=PackedArray.pack(np.concatenate(logprobs), dtype=turns[0].logprobs.dtype),
        versions=PackedArray.pack(np.concatenate(versions), dtype="i4"),
        reward=value,
        advantage=value - mean,
        temperature=turns[0].sampling.temperature or 1.0,  # greedy log-probabilities are those of temperature 1
    )
