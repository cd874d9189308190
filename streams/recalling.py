"""Which rollouts of a group are quarantined: one question, for the live assembler and for history made again."""

from collections.abc import Iterable, Mapping
from typing import Any

from schemas.ids import rollout_id
from schemas.recalls import SHORT, Quarantine
from schemas.trajectory import Group
from streams.scoring import reward_in


def barred(quarantines: Iterable[Quarantine], group: Group, rewards: Mapping[int, Any] | None = None) -> dict[int, str]:
    """Return, by sample, the quarantine that keeps a rollout from training.

    `rewards` are the task's own where the group has others.
    """
    task = group.task
    assert task is not None
    time_ms = int(group.tasks[None].time_s * 1000)
    found: dict[int, str] = {}
    for quarantine in quarantines:
        chosen = quarantine.selection
        if quarantine.run_id != task.run_id or not chosen.wants_task(task, time_ms):
            continue
        for sample, trajectory in group.samples.items():
            if sample in found:
                continue
            reward = reward_in(trajectory, task.scoring_id) if rewards is None else rewards.get(sample)
            turns = {index: event.record for index, event in trajectory.turns.items()}
            name = rollout_id(task.task_id, sample)
            if chosen.holds(name, task=task, turns=turns, end=trajectory.end, reward=reward):
                found[sample] = f"quarantine {quarantine.quarantine_id[:SHORT]}"
    return found
