"""What a fork is made of: the command that stands first on its log, before anything else of it is written."""

import msgspec

from schemas.commands import CommandGiven
from schemas.errors import LogError
from schemas.events import Position
from schemas.ids import derive_id

FORK = "fork"
"""Command: a run begins with another run's checkpoint and the groups that it recorded."""


class Fork(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """All that decides a fork. The same of it, and the same log, make the same fork."""

    run_id: str
    source_run: str
    source_namespace: str
    step: int
    """Of the source, whose checkpoint it starts with."""
    source_policy: str
    digests: dict[str, str]
    """Of the checkpoint's files, weights and optimizer among them."""
    scoring_id: str
    """Whose rewards the groups are assembled by; `live` is what each task was issued under."""
    mix: dict[str, float]
    """Weight by domain; empty is every group."""
    again: bool
    """Whether groups that are behind the checkpoint come again."""
    ends: dict[str, int]
    """Where the source's log ended for it: one past the last offset, by `topic[partition]`."""
    num_batches: int
    config_digest: str
    """Of the settings that the fork was made with, but for where its log is and when it stops."""
    commands_end: int = 0
    """How far the source's commands were read: what they quarantine is in no batch."""


def fork_id(run_id: str) -> str:
    """Return the event id of the command; a run is forked once."""
    return derive_id(run_id, FORK, 0)


def fork_command(fork: Fork) -> CommandGiven:
    """Return the command."""
    arguments: dict[str, str | float | bool] = {
        "source_run": fork.source_run,
        "source_namespace": fork.source_namespace,
        "step": float(fork.step),
        "scoring_id": fork.scoring_id,
        "fork": msgspec.json.encode(fork).decode(),
    }
    return CommandGiven(command=FORK, target=fork.run_id, arguments=arguments, given_by="rollog fork")


def fork_of(command: CommandGiven, where: Position | None) -> Fork:
    """Return what a command made. Raises LogError where this version cannot read it."""
    try:
        return msgspec.json.decode(str(command.arguments.get("fork", "")), type=Fork)
    except msgspec.MsgspecError as error:
        raise LogError(f"{where}: the command that made the fork {command.target!r} cannot be read: {error}") from error
