"""Which scoring ids are taken, and for what: the commands that say so, read and written."""

import time
from collections.abc import Iterator
from pathlib import Path

import msgspec

from consumers.reader import Reader
from producers.publisher import Publisher
from schemas.commands import CommandGiven
from schemas.config import LogSettings
from schemas.errors import ConfigError
from schemas.events import Event
from schemas.scorings import DECLARE, LIVE, Scoring, VerifierChoice, declaration_id
from streams.outbox import Writer


class Declared(msgspec.Struct, frozen=True, kw_only=True):
    """What the log says of a scoring id."""

    digest: str
    choice: VerifierChoice | None = None
    verifier_version: int = 0
    since_s: float
    """No reward of the scoring is older."""
    fills: str = ""
    """A scoring whose rewards stand in where this one has none: it re-asked only what was invalid there."""
    is_live: bool = False
    """Whether the verifier service writes it as rollouts end."""


def read_declared(log: LogSettings, *, blob_dir: Path) -> dict[str, Declared]:
    """Return what is declared, by scoring id; the first declaration of an id counts. Raises LogError."""
    found: dict[str, Declared] = {}
    for event in commands_on(log, blob_dir=blob_dir):
        command = event.record
        if command.command == DECLARE:
            said = declared_by(command, event.time_s)
            first = found.setdefault(command.target, said)
            if said.is_live and said.digest == first.digest:
                found[command.target] = msgspec.structs.replace(first, is_live=True)
    return found


def commands_on(log: LogSettings, *, blob_dir: Path) -> Iterator[Event[CommandGiven]]:
    """Yield the commands that are on the log now; what is none tells nobody anything. Raises LogError."""
    reader = Reader(
        log,
        ["commands"],
        blob_dir=blob_dir,
        start="beginning",
        bounded=True,
        on_undecodable=lambda _raw, _error: None,
    )
    try:
        yield from reader
    finally:
        reader.close()


def declared_by(command: CommandGiven, time_s: float) -> Declared:
    """Return what one declaration says."""
    arguments = command.arguments
    try:
        choice = msgspec.json.decode(str(arguments.get("choice", "null")), type=VerifierChoice | None)
    except msgspec.DecodeError:
        choice = None  # of a newer rollog: the digest, which is what counts, will not be met
    return Declared(
        digest=str(arguments.get("digest", "")),
        choice=choice,
        verifier_version=int(arguments.get("verifier_version", 0)),
        since_s=time_s,
        fills=str(arguments.get("fills", "")),
        is_live=bool(arguments.get("live", False)),
    )


def check_declared(scoring: Scoring, declared: Declared | None, *, fills: str = "") -> None:
    """Raise ConfigError where the id stands for something else."""
    if declared is None:
        return
    if declared.digest != scoring.digest:
        raise ConfigError(
            f"scoring id {scoring.scoring_id!r} stands for another configuration on this log (digest "
            f"{declared.digest}, this one has {scoring.digest}): choose another --scoring-id, or leave it out"
        )
    if declared.fills != fills:
        had, wants = (f"what was invalid in {f!r}" if f else "whole groups" for f in (declared.fills, fills))
        raise ConfigError(
            f"scoring id {scoring.scoring_id!r} was begun for {had} and this run is about {wants}: choose another "
            "--scoring-id"
        )


def declaration(publisher: Writer, scoring: Scoring, *, fills: str = "", is_live: bool = False) -> Event[CommandGiven]:
    """Return the event that takes the id; not yet written."""
    choice = scoring.choice
    record = CommandGiven(
        command=DECLARE,
        target=scoring.scoring_id,
        arguments={
            "digest": scoring.digest,
            "verifier": "" if choice is None else choice.kind,
            "verifier_version": float(scoring.verifier_version),
            "choice": msgspec.json.encode(choice).decode(),
            **({"fills": fills} if fills else {}),
            **({"live": True} if is_live else {}),
        },
        given_by="rollog rescore" if not is_live else "verifier",
    )
    event_id = declaration_id(scoring.scoring_id, scoring.digest + (LIVE if is_live else ""))
    return publisher.event(record, id=event_id, key=scoring.scoring_id)


def declare(publisher: Publisher, scoring: Scoring, *, fills: str = "", is_live: bool = False) -> Declared:
    """Take the id, durably, before the first reward. Raises LogError."""
    (event,) = publisher.send_all([declaration(publisher, scoring, fills=fills, is_live=is_live)])
    return declared_by(event.record, min(event.time_s, time.time()))
