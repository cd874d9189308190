"""The command that changes a mix by hand: what it says, as `CommandGiven` holds it.

set_mix   target: run; arguments: `weight.DOMAIN`, `level.DOMAIN`, `quota.FAMILY` (false: none any more),
          `pause.DOMAIN`, `resume.DOMAIN`
"""

import math
from collections.abc import Iterable
from typing import Literal

import msgspec

from schemas.commands import CommandGiven
from schemas.errors import ConfigError
from schemas.ids import derive_id

SET_MIX = "set_mix"
Verb = Literal["weight", "level", "quota", "pause", "resume"]
VERBS: tuple[Verb, ...] = ("weight", "level", "quota", "pause", "resume")


class Change(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that is set."""

    verb: Verb
    name: str
    """A domain; with `quota`, a family."""
    value: float | None = None
    """None with `pause` and `resume`, and with `quota` where there is to be none any more."""

    @property
    def argument(self) -> tuple[str, float | bool]:
        """Return it as a command holds it."""
        if self.value is not None:
            return f"{self.verb}.{self.name}", self.value
        return f"{self.verb}.{self.name}", self.verb != "quota"

    def __str__(self) -> str:
        """Return it for people."""
        if self.verb in ("pause", "resume"):
            return f"{self.verb} {self.name}"
        return f"{self.verb} of {self.name}: {'none' if self.value is None else f'{self.value:g}'}"


def parse_change(verb: Verb, text: str) -> Change:
    """Return what an option says: `NAME=NUMBER`, or `NAME` for pause and resume. Raises ConfigError."""
    if verb in ("pause", "resume"):
        return checked(Change(verb=verb, name=text))
    name, equals, number = text.rpartition("=")
    if not equals or not name:
        raise ConfigError(f"--{verb} {text!r}: wanted NAME=NUMBER, {name or 'finance'}=0.5, say")
    if verb == "quota" and number == "none":
        return checked(Change(verb=verb, name=name))
    try:
        return checked(Change(verb=verb, name=name, value=float(number)))
    except ValueError as error:
        raise ConfigError(f"--{verb} {text!r}: {number!r} is no number") from error


def checked(change: Change) -> Change:
    """Return the change. Raises ConfigError where its value cannot be."""
    value = change.value
    most = 1.0 if change.verb == "quota" else 1e6
    if value is not None and not (math.isfinite(value) and 0 <= value <= most):
        raise ConfigError(f"{change.verb} of {change.name!r} = {value}: wanted 0 to {most:g}")
    if not change.name:
        raise ConfigError(f"{change.verb}: wanted the name of a {'family' if change.verb == 'quota' else 'domain'}")
    return change


def command_of(run_id: str, changes: Iterable[Change], *, given_by: str, reason: str = "") -> CommandGiven:
    """Return the command that makes these changes."""
    arguments = dict(change.argument for change in changes)
    return CommandGiven(command=SET_MIX, target=run_id, arguments={**arguments}, given_by=given_by, reason=reason)


def changes_of(command: CommandGiven) -> list[Change]:
    """Return what a command sets, in its order. Raises ConfigError for what no `set_mix` of today says."""
    found = []
    for argument, value in command.arguments.items():
        verb, _, name = argument.partition(".")
        if verb not in VERBS:
            raise ConfigError(f"set_mix: {argument!r} is not known; known are: {', '.join(VERBS)}")
        if isinstance(value, str) or (isinstance(value, bool) and verb in ("weight", "level")):
            raise ConfigError(f"set_mix: {argument} = {value!r}: wanted a number")
        found.append(checked(Change(verb=verb, name=name, value=None if isinstance(value, bool) else float(value))))
    return found


def command_id(command: CommandGiven, mix_version: int) -> str:
    """Return the event id of a command that is given while a mix holds: given twice at once, it is given once."""
    said = ",".join(f"{name}={value}" for name, value in sorted(command.arguments.items()))
    return derive_id(command.target, SET_MIX, mix_version, said)
