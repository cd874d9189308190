"""The fold: a task's events, in any order and however often, to the one state of its group.

Generator, verifier, assembler, rescoring, audit and recomputation all read the log through it. It is a pure function of
the *set* of events: each slot (a turn of a sample, its execution, its end, a verifier's reward) is filled by the event
that stands first on the log, so that repeats and late twins change nothing.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from schemas.events import Event
from schemas.executions import Action, ExecutionFinished, Outcome
from schemas.rewards import RewardScored
from schemas.rollouts import EndReason, RolloutEnded, TurnGenerated
from schemas.tasks import ExecutionSpec, TaskIssued
from schemas.tools import find_call

R = TypeVar("R")
Slot = dict[Any, Event[R]]
PLACEHOLDER = re.compile(r"\{(stdout|stderr|stderr_last_line|status)\}")


class Trajectory:
    """One sample: its turns, what came of them, its end and its rewards."""

    __slots__ = ("ended", "executions", "rewards", "turns")

    def __init__(self) -> None:
        self.turns: Slot[TurnGenerated] = {}
        """By turn index."""
        self.executions: Slot[ExecutionFinished] = {}
        """By the index of the turn that asked."""
        self.ended: Slot[RolloutEnded] = {}
        """Under None, once it ended."""
        self.rewards: Slot[RewardScored] = {}
        """By (scoring id, verifier, version, config digest)."""

    @property
    def end(self) -> RolloutEnded | None:
        """Return how it ended, None while it is open."""
        return self.ended[None].record if None in self.ended else None

    @property
    def num_turns(self) -> int:
        """Return the length of the gapless run of turns from 0."""
        num = 0
        while num in self.turns:
            num += 1
        return num

    @property
    def is_whole(self) -> bool:
        """Return whether it ended and all its turns, and their executions, are here."""
        if None not in self.ended:
            return False
        end, turns, executions = self.ended[None].record, self.turns, self.executions
        for turn in range(end.num_turns):
            event = turns.get(turn)
            if event is None:
                return False
            if event.record.action is not None and turn not in executions and end.why != "deadline":
                return False
        return True


class Group:
    """One task's whole state. `add` events, then ask."""

    def __init__(self) -> None:
        self.tasks: Slot[TaskIssued] = {}
        self.samples: dict[int, Trajectory] = {}

    @property
    def task(self) -> TaskIssued | None:
        """Return the task, None while its event has not been seen."""
        return self.tasks[None].record if None in self.tasks else None

    def add(self, event: Event[Any]) -> bool:
        """Take one event of this task. Returns whether it changed the state."""
        record = event.record
        if isinstance(record, TaskIssued):
            return fill(self.tasks, None, event)
        sample = sample_of(record)
        if sample is None:
            return False
        trajectory = self.samples.setdefault(sample, Trajectory())
        match record:
            case TurnGenerated():
                return fill(trajectory.turns, record.turn, event)
            case ExecutionFinished():
                return fill(trajectory.executions, record.turn, event)
            case RolloutEnded():
                return fill(trajectory.ended, None, event)
            case RewardScored():
                return fill(trajectory.rewards, reward_key(record), event)
        return False

    def sample(self, index: int) -> Trajectory:
        """Return a sample's trajectory, empty where nothing of it was seen."""
        return self.samples.get(index) or Trajectory()


def fold(events: Iterable[Event[Any]]) -> Group:
    """Return the state of the one task that all `events` are about."""
    group = Group()
    for event in events:
        group.add(event)
    return group


def fill(slot: Slot[Any], key: object, event: Event[Any]) -> bool:
    """Put the event in its slot, unless one that stands before it on the log is there."""
    present = slot.get(key)
    if present is not None and order_of(present) <= order_of(event):
        return False
    slot[key] = event
    return True


def order_of(event: Event[Any]) -> tuple[int, int, str]:
    """Return the event's place in its partition; what is not yet written comes last."""
    if event.position is None:
        return (1, 0, event.id)
    return (0, event.position.offset, event.id)


def sample_of(record: object) -> int | None:
    """Return the index of the sample that a record is about, None where it is about no sample."""
    match record:
        case TurnGenerated() | RolloutEnded() | RewardScored():
            return record.sample
        case ExecutionFinished():
            return int(record.rollout_id.rpartition("/")[2])
    return None


def reward_key(reward: RewardScored) -> tuple[str, str, int, str]:
    """Return what tells one scoring of a rollout from another."""
    return (reward.scoring_id, reward.verifier, reward.verifier_version, reward.config_digest)


class Generate(msgspec.Struct, frozen=True, kw_only=True):
    """The rollout needs its next turn."""

    turn: int
    context: str
    """Text to append before sampling: the prompt, or the observation of the turn before."""


class Wait(msgspec.Struct, frozen=True, kw_only=True):
    """The rollout needs the execution of `turn`."""

    turn: int


class End(msgspec.Struct, frozen=True, kw_only=True):
    """The rollout is over."""

    why: EndReason


def next_step(task: TaskIssued, trajectory: Trajectory) -> Generate | Wait | End:
    """Return what a rollout that has not ended needs now; the closed loop of every domain."""
    num_turns = trajectory.num_turns
    if num_turns == 0:
        return Generate(turn=0, context=task.prompt)
    last = trajectory.turns[num_turns - 1].record
    if last.finish_reason == "length":
        return End(why="length")
    if last.action is None or task.execution is None:
        return End(why="finished")
    if last.turn not in trajectory.executions:
        return Wait(turn=last.turn)
    outcome = trajectory.executions[last.turn].record.outcome
    if outcome.status == "infra_error":
        return End(why="infrastructure")
    if is_check(task.execution, last.action):
        return End(why="finished" if find_call(last.text) is None else "max_turns")
    if outcome.status == "ok" and task.execution.ends_on == "ok":
        return End(why="finished")
    if num_turns >= task.max_turns:
        return End(why="max_turns")
    return Generate(turn=num_turns, context=observation(task.execution, outcome))


def is_check(execution: ExecutionSpec, action: Action) -> bool:
    """Return whether an action is what looks at a rollout of tool calls once that is over."""
    return execution.kind == "tools" and bool(action.cases)


def last_tree(trajectory: Trajectory) -> bytes | None:
    """Return the working directory as the turns so far left it; None where none was kept yet."""
    for turn in reversed(range(trajectory.num_turns)):
        event = trajectory.executions.get(turn)
        if event is not None and event.record.outcome.tree is not None:
            return event.record.outcome.tree
    return None


def observation(execution: ExecutionSpec, outcome: Outcome) -> str:
    """Return what the policy is told of a run. Bytes that are not UTF-8 read as U+FFFD."""
    stdout, stderr = (stream.decode(errors="replace") for stream in (outcome.stdout, outcome.stderr))
    lines = [line for line in stderr.splitlines() if line.strip()]
    values = {
        "stdout": stdout,
        "stderr": stderr,
        "stderr_last_line": lines[-1] if lines else outcome.status,
        "status": outcome.status,
    }
    told = PLACEHOLDER.sub(lambda match: values[match[1]], execution.observation)
    if execution.keep_tree_bytes and outcome.tree is None and outcome.error:
        return f"{told}[{outcome.error}; files are as they were before this turn]\n"
    return told
