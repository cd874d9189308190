"""Which rollouts are meant: a selection that is text on the log and on the command line, and the same for every reader.

What must hold: `parse_selection(selection.text) == selection`, and whether a rollout is meant is a function of its own
events: its task, its turns, how it ended, and the reward by its task's own scoring, which is the one that trains.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import msgspec
import numpy as np

from schemas.conditions import ENVELOPE, MISSING, Condition, field_of, parse_where
from schemas.errors import ConfigError
from schemas.rewards import RewardScored
from schemas.rollouts import RolloutEnded, TurnGenerated
from schemas.tasks import TaskIssued

POLICY = re.compile(r"(?P<name>[^@]+)(@(?P<first>\d+)(\.\.(?P<last>\d+))?)?")
ROLLOUT = re.compile(r"[^\s/]+/\d+")
PARTS: dict[str, type[Any]] = {
    "task": TaskIssued,
    "end": RolloutEnded,
    "reward": RewardScored,
    "answer": TurnGenerated,
}
"""What a condition may name: `answer` is the last turn, `reward` the task's own one."""
OF_EVERY_TURN = ("task_id", "rollout_id", "sample", "turn", "policy", "text")
"""Fields of a turn that are at hand without its arrays."""


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

    def may_meet(self, oldest: int, newest: int) -> bool:
        """Return whether something drawn by versions between these two may be one's own."""
        return self.first is None or self.last is None or (oldest <= self.last and newest >= self.first)

    @property
    def text(self) -> str:
        """Return what `parse_policy` reads as this range."""
        return self.name if self.first is None else f"{self.name}@{self.first}..{self.last}"


class Selection(msgspec.Struct, frozen=True, kw_only=True):
    """Rollouts that have all of this."""

    domain: str = ""
    since_s: float | None = None
    """Of tasks issued since; None is from the log's beginning."""
    until_s: float | None = None
    """Of tasks issued before; None is without end, tasks to come included."""
    policy: PolicyRange | None = None
    conditions: tuple[Condition, ...] = ()
    rollouts: tuple[str, ...] = ()
    """By id; empty is not by id."""

    @property
    def needs_reward(self) -> bool:
        """Return whether a rollout waits for the reward that it had."""
        return bool(self.conditions)

    @property
    def reads(self) -> frozenset[type[Any]]:
        """Return the records that are needed with all fields."""
        has_versions = self.policy is not None and self.policy.first is not None
        reads_turns = has_versions or any(reads_whole_turn(condition) for condition in self.conditions)
        wanted = ((TurnGenerated, reads_turns), (RewardScored, bool(self.conditions)))
        return frozenset(record for record, is_read in wanted if is_read)

    @property
    def text(self) -> str:
        """Return the options that say this, as one line that `parse_selection` reads."""
        return shlex.join(arguments_of(self))

    def wants_task(self, task: TaskIssued, time_ms: int) -> bool:
        """Return whether the task's rollouts count."""
        return (
            (not self.domain or task.domain == self.domain)
            and (self.since_s is None or time_ms >= int(self.since_s * 1000))
            and (self.until_s is None or time_ms < int(self.until_s * 1000))
        )

    def holds(
        self, rollout_id: str, *, task: TaskIssued, turns: Mapping[int, Any], end: Any, reward: Any | None
    ) -> bool:
        """Return whether a rollout is meant, of a task that is; `turns` by index, `reward` its own."""
        if self.rollouts and rollout_id not in self.rollouts:
            return False
        if self.policy is not None and not any(self.policy.drew(turn) for turn in turns.values()):
            return False
        answer = turns[max(turns)] if turns else None
        records = {"task": task, "end": end, "reward": reward, "answer": answer}
        return all(condition_holds(condition, records) for condition in self.conditions)


def condition_holds(condition: Condition, records: dict[str, Any]) -> bool:
    """Return whether the condition holds for the part that it names, else for any that has its field."""
    part, dot, field = condition.field.partition(".")
    if dot and part in PARTS:
        return condition_on(condition, field, records[part])
    return any(
        condition_on(condition, condition.field, record)
        for record in records.values()
        if field_of(Holder(record), condition.field) is not MISSING
    )


def condition_on(condition: Condition, field: str, record: Any) -> bool:
    """Return whether the condition holds for a field of this record."""
    return msgspec.structs.replace(condition, field=field).holds(Holder(record))


def reads_whole_turn(condition: Condition) -> bool:
    """Return whether the condition is about a field that only a whole turn has."""
    part, dot, field = condition.field.partition(".")
    if dot and part in PARTS:
        return part == "answer" and field not in OF_EVERY_TURN
    known_elsewhere = {f for name, record in PARTS.items() if name != "answer" for f in record.__struct_fields__}
    return part in TurnGenerated.__struct_fields__ and part not in (*OF_EVERY_TURN, *known_elsewhere)


def parse_conditions(texts: Sequence[str]) -> tuple[Condition, ...]:
    """Return the conditions. Raises ConfigError, also for what is no field of a rollout."""
    conditions = tuple(parse_where(text) for text in texts)
    for condition in conditions:
        if condition.field in ENVELOPE:
            raise ConfigError(
                f"--where {condition.field}: of an event's envelope, and a rollout has many events; wanted a field of "
                f"its task, end, reward or answer: {', '.join(f'{part}.FIELD' for part in PARTS)}"
            )
    return conditions


def check_fields(conditions: Sequence[Condition]) -> None:
    """Raise ConfigError for a field that no record of a rollout has: it would hold for nothing, without a word."""
    for condition in conditions:
        part, dot, field = condition.field.partition(".")
        is_named = bool(dot) and part in PARTS
        records = [PARTS[part]] if is_named else list(PARTS.values())
        head = (field if is_named else condition.field).partition(".")[0]
        if not any(head in record.__struct_fields__ for record in records):
            known = sorted({name for record in records for name in record.__struct_fields__})
            raise ConfigError(f"--where {condition.field}: there is no such field; there are: {', '.join(known)}")


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


def parse_rollouts(texts: Sequence[str]) -> tuple[str, ...]:
    """Return rollout ids, each once. Raises ConfigError for what is none."""
    for text in texts:
        if not ROLLOUT.fullmatch(text):
            raise ConfigError(f"--rollout {text!r}: wanted TASK/SAMPLE, the whole id")
    return tuple(dict.fromkeys(texts))


def arguments_of(selection: Selection) -> Iterator[str]:
    """Yield the command line's options for a selection."""
    if selection.domain:
        yield from ("--domain", selection.domain)
    if selection.policy is not None:
        yield from ("--policy", selection.policy.text)
    for condition in selection.conditions:
        yield from ("--where", condition.text)
    for option, moment_s in (("--since", selection.since_s), ("--until", selection.until_s)):
        if moment_s is not None:
            yield from (option, time_text(moment_s))
    for rollout_id in selection.rollouts:
        yield from ("--rollout", rollout_id)


def time_text(time_s: float) -> str:
    """Return seconds since the epoch as an RFC 3339 time."""
    return datetime.fromtimestamp(time_s, UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def rounded(time_s: float | None) -> float | None:
    """Return a moment as its text has it: a selection is made of such, so that it comes back as it went."""
    return None if time_s is None else moment_of(time_text(time_s))


def moment_of(text: str) -> float | None:
    """Return an RFC 3339 time as seconds since the epoch, None for no text. Raises ValueError."""
    if not text:
        return None
    moment = datetime.fromisoformat(text)
    return moment.replace(tzinfo=moment.tzinfo or UTC).timestamp()


def parse_selection(text: str) -> Selection:
    """Return the selection that `Selection.text` wrote. Raises ConfigError."""
    found: dict[str, list[str]] = {}
    try:
        words = shlex.split(text)
        for option, value in zip(words[::2], words[1::2], strict=True):
            found.setdefault(option, []).append(value)
        single = {option: found.pop(option, [""])[-1] for option in ("--domain", "--policy", "--since", "--until")}
        moments = [moment_of(single[option]) for option in ("--since", "--until")]
    except ValueError as error:
        raise ConfigError(f"selection {text!r}: {error}; wanted options with a value each") from error
    where, rollouts = found.pop("--where", []), found.pop("--rollout", [])
    if found:
        raise ConfigError(f"selection {text!r}: {', '.join(found)} is not known; a newer rollog may have written it")
    return Selection(
        domain=single["--domain"],
        since_s=moments[0],
        until_s=moments[1],
        policy=parse_policy(single["--policy"]),
        conditions=parse_conditions(where),
        rollouts=parse_rollouts(rollouts),
    )
