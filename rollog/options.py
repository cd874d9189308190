"""Options that many verbs share, and what they add up to."""

import json
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from rollog.resolve import home_dir, resolve
from schemas.config import Settings

ConfigFiles = Annotated[
    list[Path] | None, typer.Option("--config", "-c", help="Settings file, TOML; repeat it, later ones win.")
]
Flags = Annotated[list[str] | None, typer.Option("--set", "-s", help="One setting, FIELD=VALUE; repeat it, wins.")]
Home = Annotated[Path | None, typer.Option("--home", help="Folder of all data; else ROLLOG_HOME, else the platform's.")]
RunName = Annotated[str, typer.Option("--run", help="Of a run that was started here: its saved settings come first.")]
AsJson = Annotated[bool, typer.Option("--json", help="For machines: JSON on stdout.")]


class Invocation(msgspec.Struct, frozen=True, kw_only=True):
    """What the shared options say."""

    settings: Settings
    home: Path

    @property
    def run_dir(self) -> Path:
        """Return the folder of the run that the settings name."""
        return self.home / "runs" / self.settings.run

    @property
    def blob_dir(self) -> Path:
        """Return where values live that are too large for the log."""
        return self.home / "blobs"


def invocation(config: list[Path] | None, flags: list[str] | None, home: Path | None, *, run: str = "") -> Invocation:
    """Return settings and places; those of the run that was started before, if one is named, come first.

    Raises ConfigError.
    """
    places = home_dir(home)
    saved = [places / "runs" / run / "settings.json"] if run else []
    return Invocation(settings=resolve([*saved, *(config or ())], flags or ()), home=places)


def with_log(called: Invocation) -> Invocation:
    """Return it with the log's address: the configured one, else that of the embedded broker, which has to run.

    Raises ConfigError where neither is there.
    """
    if called.settings.log.bootstrap:
        return called
    from rollog.broker import EmbeddedBroker
    from schemas.errors import ConfigError

    status = EmbeddedBroker(home=called.home).status()
    if not status.running:
        raise ConfigError(
            "log.bootstrap is empty and the embedded broker does not run: start it with `rollog broker start`, "
            "or set log.bootstrap or ROLLOG_BOOTSTRAP to a cluster's address"
        )
    log = msgspec.structs.replace(called.settings.log, bootstrap=status.bootstrap)
    settings = msgspec.structs.replace(called.settings, log=log)
    return Invocation(settings=settings, home=called.home)


def example(text: str) -> str:
    """Return the end of a verb's help: an example to copy."""
    return f"Example:  {text}"


def print_json(tree: object) -> None:
    """Write one JSON document to stdout."""
    typer.echo(json.dumps(msgspec.to_builtins(tree), indent=2))
