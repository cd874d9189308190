"""`rollog broker start|stop|status|logs|reset`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rollog.exit_codes import ExitCode
from rollog.options import AsJson, Home, example, print_json

if TYPE_CHECKING:
    from rollog.broker.server import BrokerStatus, EmbeddedBroker

app = typer.Typer(
    help="The embedded broker: Apache Kafka on this machine, for when no cluster is configured.",
    no_args_is_help=True,
    rich_markup_mode=None,
)
Directory = Annotated[Path | None, typer.Option("--dir", help="Its data directory; else broker/data in --home.")]


@app.command(epilog=example("rollog broker start"))
def start(directory: Directory = None, home: Home = None, as_json: AsJson = False) -> None:
    """Start it, unless it runs; it goes on until `rollog broker stop`."""
    broker = open_broker(directory, home)
    if not broker.status().running:
        broker.start(detached=True, say=lambda line: typer.echo(line, err=True))
    show(broker.status(), as_json=as_json)


@app.command(epilog=example("rollog broker stop"))
def stop(directory: Directory = None, home: Home = None, as_json: AsJson = False) -> None:
    """Stop it; its log stays."""
    stopped = open_broker(directory, home).stop()
    if as_json:
        print_json({"stopped": stopped})
    else:
        typer.echo("stopped" if stopped else "it did not run")


@app.command(epilog=example("rollog broker status --json"))
def status(directory: Directory = None, home: Home = None, as_json: AsJson = False) -> None:
    """Say whether and where it runs; exit status 1 where it does not."""
    found = open_broker(directory, home).status()
    show(found, as_json=as_json)
    if not found.running:
        raise typer.Exit(ExitCode.FELL_SHORT)


@app.command(epilog=example("rollog broker logs --lines 20"))
def logs(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, help="How many, from the end.")] = 100,
    directory: Directory = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Print what the broker itself logged since its last start."""
    text = open_broker(directory, home).logs(num_lines=lines)
    if as_json:
        print_json({"lines": text.splitlines()})
    else:
        typer.echo(text)


@app.command(epilog=example("rollog broker reset --yes"))
def reset(
    yes: Annotated[bool, typer.Option("--yes", help="Really delete; else it only says what it would.")] = False,
    directory: Directory = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Delete every event and topic that it holds. It must be stopped."""
    doomed = open_broker(directory, home).reset(yes=yes)
    if as_json:
        print_json({"deleted": yes, "paths": [str(path) for path in doomed]})
        return
    for path in doomed:
        typer.echo(f"{'deleted' if yes else 'would delete'} {path}")
    if not yes:
        typer.echo("Nothing was deleted; --yes deletes." if doomed else "There is nothing to delete.")


def open_broker(directory: Path | None, home: Path | None) -> "EmbeddedBroker":
    """Return it; what it takes is imported only by these verbs."""
    from rollog.broker.server import EmbeddedBroker

    return EmbeddedBroker(directory, home=home)


def show(found: "BrokerStatus", *, as_json: bool) -> None:
    """Print a status."""
    if as_json:
        print_json(found)
    elif found.running:
        typer.echo(
            f"running at {found.bootstrap} (pid {found.pid}), {found.disk_bytes / 1e6:.1f} MB in {found.directory}"
        )
    else:
        typer.echo(f"not running; {found.disk_bytes / 1e6:.1f} MB in {found.directory}")
