"""Which rollouts of history are asked about, as options say it; checks one rollout at a time and goes to workers."""

import re
import time
from typing import Any

import msgspec
import numpy as np

from consumers.history.rollouts import Finished
from rollog.tap import ENVELOPE, MISSING, Condition, field_of, parse_since, parse_where
from schemas.errors import ConfigError
from schemas.rewards import RewardScored
from schemas.rollouts import TurnGenerated
from schemas.tasks import TaskIssued

POLICY = re.compile(r"(?P<name>[^@]+)(@(?P<first>\d+)(\.\.(?P<last>\d+))?)?")
PARTS = ("task", "end", "reward")


class Holder(msgspec.Struct, frozen=True):
    """What a condition looks into."""

    record: Any


class PolicyRange(msgspec.Struct, frozen=True, kw_only=True):
    """A policy, or some of its versions."""

    name: str
    first: int | None = None
    last: int | None = None

    def drew(self, turn: Any) -> bool:
        """Return whether the policy wrote the turn, one of these versions a token of it."""
        if turn.policy != self.name:
            return False
        if self.first is None or self.last is None:
            return True
        versions = turn.versions.unpack()
        return bool(np.any((versions >= self.first) & (versions <= self.last)))


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of rollouts."""

    domain: str = ""
    since_s: float | None = None
    until_s: float | None = None
    policy: PolicyRange | None = None
    conditions: tuple[Condition, ...] = ()
    only_invalid: bool = False

    @property
    def needs_reward(self) -> bool:
        """Return whether a rollout waits for the reward that it had."""
        return self.only_invalid or bool(self.conditions)

    @property
    def reads(self) -> frozenset[type[Any]]:
        """Return the records that are needed with all fields."""
        has_versions = self.policy is not None and self.policy.first is not None
        return frozenset(
            record for record, reads in ((TurnGenerated, has_versions), (RewardScored, self.conditions)) if reads
        )

    def wants_task(self, task: TaskIssued, time_ms: int) -> bool:
        """Return whether the task's rollouts count."""
        return (
            (not self.domain or task.domain == self.domain)
            and (self.since_s is None or time_ms >= int(self.since_s * 1000))
            and (self.until_s is None or time_ms < int(self.until_s * 1000))
        )

    def wants(self, rollout: Finished) -> bool:
        """Return whether this rollout does."""
        if self.policy is None and not self.needs_reward:
            return True
        reward = rollout.group.rewards.get(rollout.sample)
        if self.only_invalid and (reward is None or reward.value is not None):
            return False
        turns = rollout.trajectory.turns.values()
        if self.policy is not None and not any(self.policy.drew(turn.record) for turn in turns):
            return False
        records = {"task": rollout.group.task, "end": rollout.trajectory.end, "reward": reward}
        return all(holds(condition, records) for condition in self.conditions)


def holds(condition: Condition, records: dict[str, Any]) -> bool:
    """Return whether the condition holds for the first record that has its field."""
    part, dot, field = condition.field.partition(".")
    if dot and part in PARTS:
        return condition_on(condition, field, records[part])
    return any(
        condition_on(condition, condition.field, record)
        for record in records.values()
        if field_of(holder(record), condition.field) is not MISSING
    )


def condition_on(condition: Condition, field: str, record: Any) -> bool:
    """Return whether the condition holds for a field of this record."""
    return msgspec.structs.replace(condition, field=field).holds(holder(record))


def holder(record: Any) -> Any:
    """Return the record where a condition expects an event."""
    return Holder(record)


def parse_conditions(texts: list[str]) -> tuple[Condition, ...]:
    """Return the conditions. Raises ConfigError, also for what is no field of a rollout."""
    conditions = tuple(parse_where(text) for text in texts)
    for condition in conditions:
        if condition.field in ENVELOPE:
            raise ConfigError(
                f"--where {condition.field}: of an event's envelope, and a rollout has many events; wanted a field of "
                f"its task, end or reward: {', '.join(f'{part}.FIELD' for part in PARTS)}"
            )
    return conditions


def parse_policy(text: str) -> PolicyRange | None:
    """Return NAME, NAME@7 or NAME@3..7; None for no text. Raises ConfigError."""
    if not text:
        return None
    match = POLICY.fullmatch(text)
    if match is None:
        raise ConfigError(f"--policy {text!r}: wanted NAME, NAME@VERSION or NAME@FIRST..LAST")
    first = match["first"]
    if first is None:
        return PolicyRange(name=match["name"])
    return PolicyRange(name=match["name"], first=int(first), last=int(match["last"] or first))


def parse_offsets(texts: list[str], num_partitions: int) -> dict[int, int]:
    """Return where to start in `tasks`: OFFSET for every partition, PARTITION:OFFSET for one. Raises ConfigError."""
    found: dict[int, int] = {}
    for text in texts:
        partition, colon, offset = text.rpartition(":")
        if not offset.isdecimal() or (colon and not partition.isdecimal()):
            raise ConfigError(f"--from-offset {text!r}: wanted OFFSET or PARTITION:OFFSET, of the topic tasks")
        found |= dict.fromkeys([int(partition)] if colon else range(num_partitions), int(offset))
    return found


def parse_moment(option: str, text: str) -> float | None:
    """Return seconds since the epoch; None for `beginning` and `now`, the log's two ends. Raises ConfigError."""
    if (option, text) in (("--since", "beginning"), ("--until", "now")):
        return None
    try:
        moment = parse_since(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace("--since", option)) from error
    if isinstance(moment, str):
        return 0.0 if moment == "beginning" else time.time()
    return moment
