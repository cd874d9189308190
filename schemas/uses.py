"""The command that makes a scoring the one that trains, and what is in use after some of them.

What must hold: the commands alone, in their order on the log, say which scoring a task of a domain is issued under.
"""

from collections.abc import Iterable

import msgspec

from schemas.commands import CommandGiven
from schemas.errors import ConfigError
from schemas.events import Event, Position
from schemas.ids import derive_id
from schemas.scorings import ALL_DOMAINS, LIVE, USE, Scoring, VerifierChoice, scoring_of


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """What one command says."""

    run_id: str
    domain: str = ALL_DOMAINS
    """`*` is every domain, whatever was said of single ones before."""
    scoring: Scoring | None
    """None gives back each task's own verifier."""

    @property
    def scoring_id(self) -> str:
        """Return the scoring's id, `live` where each task has its own verifier."""
        return LIVE if self.scoring is None else self.scoring.scoring_id


def command_of(use: Use, *, given_by: str) -> CommandGiven:
    """Return the command; it holds the whole configuration, so that nothing else is needed to obey it."""
    scoring = use.scoring
    arguments: dict[str, str | float | bool] = {"scoring_id": use.scoring_id, "domain": use.domain}
    if scoring is not None:
        arguments |= {
            "choice": msgspec.json.encode(scoring.choice).decode(),
            "verifier_version": float(scoring.verifier_version),
            "digest": scoring.digest,
        }
    return CommandGiven(command=USE, target=use.run_id, arguments=arguments, given_by=given_by)


def use_id(use: Use, num_before: int) -> str:
    """Return the event id of the run's command number `num_before`: given twice at once, it is given once."""
    digest = "" if use.scoring is None else use.scoring.digest
    return derive_id(use.run_id, USE, num_before, f"{use.domain}/{use.scoring_id}/{digest}")


def use_of(command: CommandGiven, where: Position | None) -> Use:
    """Return what a command says. Raises ConfigError where this version cannot obey it."""
    arguments = command.arguments
    domain, scoring_id = str(arguments.get("domain", ALL_DOMAINS)), str(arguments.get("scoring_id", ""))
    if scoring_id == LIVE:
        return Use(run_id=command.target, domain=domain, scoring=None)
    try:
        choice = msgspec.json.decode(str(arguments.get("choice", "")), type=VerifierChoice | None)
        scoring = scoring_of(choice, version=int(arguments.get("verifier_version", 0)), scoring_id=scoring_id)
    except (msgspec.MsgspecError, ValueError, ConfigError) as error:
        raise ConfigError(
            f"{where}: the command to use scoring {scoring_id!r} cannot be read: {error}; a newer rollog may have "
            f"given it: `rollog use {LIVE} --apply` with this one gives each task its own verifier from then on"
        ) from error
    if scoring.digest != arguments.get("digest"):
        raise ConfigError(
            f"{where}: the command to use scoring {scoring_id!r} names {arguments.get('digest')}, but its "
            f"configuration is {scoring.digest}: it was edited; give another one (`rollog use`)"
        )
    return Use(run_id=command.target, domain=domain, scoring=scoring)


class InUse:
    """The scorings that a run's tasks are issued under now. `take` commands in their order, however often."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._by_domain: dict[str, Use | ConfigError] = {}
        self._ids: set[str] = set()
        self.first_s: float | None = None
        """When the first command was given, None where there was none."""

    @property
    def num_commands(self) -> int:
        """Return how many commands there were."""
        return len(self._ids)

    def take(self, event: Event[CommandGiven]) -> bool:
        """Take a command; returns whether it is a new one about this run."""
        command = event.record
        if (command.command, command.target) != (USE, self._run_id) or event.id in self._ids:
            return False
        self._ids.add(event.id)
        self.first_s = event.time_s if self.first_s is None else min(self.first_s, event.time_s)
        domain = str(command.arguments.get("domain", ALL_DOMAINS))
        if domain == ALL_DOMAINS:
            self._by_domain.clear()
        try:
            self._by_domain[domain] = use_of(command, event.position)
        except ConfigError as error:
            self._by_domain[domain] = error  # of no weight once another command takes its place
        return True

    def scoring_for(self, domain: str) -> Scoring | None:
        """Return the scoring that a task of the domain is issued under, None for its own verifier.

        Raises ConfigError where the command about it cannot be obeyed.
        """
        use = self._by_domain.get(domain) or self._by_domain.get(ALL_DOMAINS)
        if isinstance(use, ConfigError):
            raise use
        return None if use is None else use.scoring

    def ids_of(self, domains: Iterable[str]) -> dict[str, str]:
        """Return the scoring id in use by domain."""
        chosen = {domain: self.scoring_for(domain) for domain in sorted(domains)}
        return {domain: LIVE if scoring is None else scoring.scoring_id for domain, scoring in chosen.items()}

    @property
    def scorings(self) -> list[Scoring]:
        """Return every scoring that is in use in a domain."""
        uses = [use for use in self._by_domain.values() if isinstance(use, Use)]
        return [use.scoring for use in uses if use.scoring is not None]
