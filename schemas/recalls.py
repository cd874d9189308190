"""What people and rules called back: rollouts that no longer train, and policy versions that training returns from.

A fold of the `commands` topic, the same for everybody who read it as far. What must hold: a command is taken once,
however often it stands on the log, at its first place; whoever says how far it has read says which commands it knew.

    quarantine   target: run; arguments: `selection`, `batches`, `batch_ends`
    lift_quarantine   target: run; arguments: `quarantine`
    rollback     target: run; arguments: `policy`, `version`, `at`
"""

from collections.abc import Mapping
from typing import Any

import msgspec

from schemas.batches import Batch
from schemas.commands import CommandGiven
from schemas.errors import ConfigError
from schemas.events import Event
from schemas.ids import derive_id
from schemas.selections import Selection, parse_selection

QUARANTINE, LIFT, ROLLBACK = "quarantine", "lift_quarantine", "rollback"
TOPIC = "commands"
SHORT = 12
"""Digits of an id that tell it from others, for people."""


class Quarantine(msgspec.Struct, frozen=True, kw_only=True):
    """Rollouts that no longer train."""

    quarantine_id: str
    """Of the command's event."""
    run_id: str
    selection: Selection
    offset: int
    """Of the command, on `commands`."""
    batches: frozenset[str] = frozenset()
    """Ids of batches that hold such rollouts and were not trained on when it was given."""
    batch_ends: dict[int, int] = {}
    """By partition of `batches`: up to where those were looked for."""
    given_by: str = ""
    reason: str = ""

    def fault_of(self, batch: Batch, batch_id: str, partition: int, offset: int) -> str | None:
        """Return why a batch is not to be trained on, None where it may be.

        A function of the batch and the command alone: whoever asks, and when, hears the same. A quarantine that was
        lifted is none for what is assembled from then on; a batch from before it stays where it was put.
        """
        if batch.run_id != self.run_id or batch.commands_end > self.offset:
            return None
        name = f"quarantine {self.quarantine_id[:SHORT]}"
        if batch_id in self.batches:
            return f"{name}: it holds rollouts that no longer train"
        if offset < self.batch_ends.get(partition, 0) or not self.may_meet(batch):
            return None
        return f"{name}: assembled after the command's scan, and before the assembler knew of it"

    def may_meet(self, batch: Batch) -> bool:
        """Return whether the batch could hold such rollouts, by what it says of itself."""
        chosen = self.selection
        if chosen.domain and chosen.domain != batch.domain:
            return False
        if chosen.policy is not None and not chosen.policy.may_meet(batch.oldest_version, batch.newest_version):
            return False
        return not chosen.rollouts or any(row.rollout_id in chosen.rollouts for row in batch.rows)


class Rollback(msgspec.Struct, frozen=True, kw_only=True):
    """A policy's training is to go on from an older version."""

    rollback_id: str
    run_id: str
    policy: str
    version: int
    at: int
    """Steps that had been taken when it was given; it is obeyed at the first boundary that has as many."""
    offset: int


class Recalls:
    """All that was called back, as far as `commands` was read."""

    def __init__(self) -> None:
        self.end = 0
        """One past the last command that was taken."""
        self.quarantines: dict[str, Quarantine] = {}
        """By id, in the order of the log; those that were lifted too."""
        self.lifted: dict[str, int] = {}
        """Offset of the command that took a quarantine back."""
        self.rollbacks: dict[str, Rollback] = {}
        self.unreadable: dict[str, str] = {}
        """Commands of these kinds that say nothing that can be obeyed, and why, by event id."""

    def take(self, event: Event[Any]) -> None:
        """Take the next event of `commands`."""
        assert event.position is not None
        self.end = max(self.end, event.position.offset + 1)
        record = event.record
        if not isinstance(record, CommandGiven) or record.command not in (QUARANTINE, LIFT, ROLLBACK):
            return
        known = (self.quarantines, self.rollbacks, self.unreadable)
        if any(event.id in ids for ids in known):
            return
        try:
            self._take(record, event.id, event.position.offset)
        except (ConfigError, msgspec.MsgspecError, KeyError, ValueError, TypeError) as error:
            self.unreadable[event.id] = f"{event.position}: {record.command}: {error!r}"

    def reach(self, end: int) -> None:
        """Note that there is no command before `end` that was not taken."""
        self.end = max(self.end, end)

    def in_force(self, run_id: str) -> list[Quarantine]:
        """Return the quarantines of a run that were not lifted."""
        return [q for q in self.quarantines.values() if q.run_id == run_id and q.quarantine_id not in self.lifted]

    def find(self, text: str) -> Quarantine:
        """Return the quarantine of an id or of its beginning. Raises ConfigError."""
        found = [quarantine for name, quarantine in self.quarantines.items() if name.startswith(text)]
        if len(found) != 1 or not text:
            known = ", ".join(name[:SHORT] for name in self.quarantines) or "none"
            raise ConfigError(f"quarantine {text!r}: {len(found)} have such an id; there are: {known}")
        return found[0]

    def _take(self, command: CommandGiven, event_id: str, offset: int) -> None:
        arguments = command.arguments
        if command.command == QUARANTINE:
            self.quarantines[event_id] = Quarantine(
                quarantine_id=event_id,
                run_id=command.target,
                selection=parse_selection(str(arguments["selection"])),
                offset=offset,
                batches=msgspec.json.decode(str(arguments.get("batches", "[]")), type=frozenset[str]),
                batch_ends=msgspec.json.decode(str(arguments.get("batch_ends", "{}")), type=dict[int, int]),
                given_by=command.given_by,
                reason=command.reason,
            )
        elif command.command == LIFT:
            self.lifted.setdefault(str(arguments["quarantine"]), offset)
        else:
            if not 0 <= int(arguments["version"]) < int(arguments["at"]):
                raise ValueError(f"from {arguments['at']} to version {arguments['version']} is no way back")
            self.rollbacks[event_id] = Rollback(
                rollback_id=event_id,
                run_id=command.target,
                policy=str(arguments["policy"]),
                version=int(arguments["version"]),
                at=int(arguments["at"]),
                offset=offset,
            )


def quarantine_command(
    run_id: str,
    selection: Selection,
    *,
    batches: frozenset[str],
    batch_ends: Mapping[int, int],
    given_by: str,
    reason: str = "",
) -> CommandGiven:
    """Return the command that says so."""
    return CommandGiven(
        command=QUARANTINE,
        target=run_id,
        arguments={
            "selection": selection.text,
            "batches": msgspec.json.encode(sorted(batches)).decode(),
            "batch_ends": msgspec.json.encode(dict(sorted(batch_ends.items()))).decode(),
        },
        given_by=given_by,
        reason=reason,
    )


def quarantine_id(run_id: str, selection: Selection, *, commands_end: int) -> str:
    """Return the id of a quarantine that a person gives who has read the commands so far: twice is once."""
    return derive_id(run_id, QUARANTINE, commands_end, selection.text)


def lift_command(quarantine: Quarantine, *, given_by: str, reason: str = "") -> CommandGiven:
    """Return the command that takes a quarantine back."""
    arguments: dict[str, str | float | bool] = {"quarantine": quarantine.quarantine_id}
    return CommandGiven(command=LIFT, target=quarantine.run_id, arguments=arguments, given_by=given_by, reason=reason)


def rollback_command(
    run_id: str, policy: str, version: int, *, at: int, given_by: str, reason: str = ""
) -> CommandGiven:
    """Return the command that says so."""
    arguments: dict[str, str | float | bool] = {"policy": policy, "version": float(version), "at": float(at)}
    return CommandGiven(command=ROLLBACK, target=run_id, arguments=arguments, given_by=given_by, reason=reason)


def rollback_id(run_id: str, policy: str, version: int, *, at: int) -> str:
    """Return the id of a rollback that is given when `at` steps were taken: twice is once."""
    return derive_id(f"{run_id}/{policy}", ROLLBACK, at, str(version))
