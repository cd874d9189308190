"""`rollog replay` and `rollog archive`: verbs on a piece of the log that pass through a tape."""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from rollog.exit_codes import ExitCode
from rollog.options import (
    AsJson,
    ConfigFiles,
    Flags,
    Home,
    Invocation,
    RunName,
    example,
    invocation,
    print_json,
    with_log,
)
from rollog.tapes.verbs import Apply, Since, Topics, Until, chosen, parse_until
from schemas.errors import ConfigError

ARCHIVABLE = ("rollouts", "executions", "rewards", "batches")
"""The bulk of a log. What it leaves out, services read from its beginning when they start."""


def replay_log(
    *,
    into: Annotated[str, typer.Option("--into", help="Namespace to write to: a prefix that no topic has yet.")],
    speed: Annotated[
        float, typer.Option(help="1 is the original pace, 10 ten times that, 0 as fast as it goes.")
    ] = 1.0,
    topics: Topics = None,
    since: Since = "beginning",
    until: Until = "now",
    tape: Annotated[Path | None, typer.Option(help="Play this tape, all of it, and not the log.")] = None,
    apply: Apply = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Play a piece of the log again into a scratch namespace; on the way it takes the disk of a tape of that piece."""
    from producers.pacing import Pace
    from rollog.progress import progress
    from rollog.tapes.replaying import replay, scratch

    pace, names = Pace(speed), chosen(topics)
    called = with_log(invocation(config, flags, home, run=run_name))
    log = scratch(called.settings.log, into)
    with recorded(called, tape, names, since, until) as (path, found), progress("replay") as tell:
        done = replay(log, path, found, pace=pace, blob_dir=called.blob_dir, apply=apply, on_progress=tell)
    if as_json:
        print_json(done)
        return
    what = f"{done.num_written} written" if apply else "nothing written: --apply does it"
    typer.echo(f"into {done.namespace!r}: {done.num_records} records of {done.original_s:.0f} s, {what}")
    typer.echo(f"log.partitions is {done.partitions} there; the last record was {done.late_s:.1f} s late")


@contextmanager
def recorded(
    called: Invocation, tape: Path | None, names: list[str], since: str, until: str
) -> Iterator[tuple[Path, list[str]]]:
    """Give a tape and the topics of it to play: the one that is named, else one of the log that goes away again.

    Raises ConfigError, LogError, TapeError.
    """
    from consumers.tapes.exporting import export
    from consumers.tapes.file import TapeFile
    from rollog.progress import progress
    from rollog.tap import parse_since

    if tape is not None:
        if (since, until) != ("beginning", "now"):
            raise ConfigError("--tape plays all of the tape: leave --since and --until out, or export a shorter piece")
        opened = TapeFile(tape)
        opened.close()
        yield tape, [name for name in names if name in opened.topics]
        return
    start, until_s = parse_since(since), parse_until(until)
    called.home.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=called.home, prefix="replay-") as folder:
        path = Path(folder) / "piece.tape"
        with progress("read") as tell:
            log, blobs = called.settings.log, called.blob_dir
            export(log, path, names, blob_dir=blobs, since=start, until_s=until_s, on_progress=tell)
        yield path, names


def archive_log(
    file: Annotated[Path, typer.Argument(help="The tape to make.")],
    *,
    until: Annotated[str, typer.Option(help="10m, 2h (ago); an RFC 3339 time. What is older goes.")],
    topics: Annotated[
        list[str] | None, typer.Option("--topics", help="Of rollouts, executions, rewards, batches; else all four.")
    ] = None,
    apply: Apply = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Move what is old to a tape: export it, verify the tape against the log, and only then trim the log."""
    from rollog.progress import progress
    from rollog.tapes.archiving import archive

    until_s, names = parse_until(until), archivable(topics)
    called = with_log(invocation(config, flags, home, run=run_name))
    with progress("archive") as tell:
        done = archive(
            called.settings.log, file, names, until_s=until_s, home=called.home, apply=apply, on_progress=tell
        )
    if as_json:
        print_json(done)
    else:
        what = f"trimmed, {file} holds them: {done.digest}" if done.applied else "to trim; --apply does it"
        typer.echo(f"{done.num_offsets} offsets of {', '.join(names)} are {what}")
        for need in done.needed:
            typer.echo(f"still needed: {need}")
    if done.needed:
        raise typer.Exit(ExitCode.FELL_SHORT)


def archivable(topics: list[str] | None) -> list[str]:
    """Return the topics to archive. Raises ConfigError for one that services read from its beginning."""
    names = [name for name in chosen(topics) if topics or name in ARCHIVABLE]
    kept = [name for name in names if name not in ARCHIVABLE]
    if kept:
        raise ConfigError(
            f"--topics {', '.join(kept)}: services read it from its beginning when they start, and it is small; "
            f"choose among {', '.join(ARCHIVABLE)}"
        )
    return names


def mount(app: typer.Typer) -> None:
    """Add these verbs."""
    app.command("replay", epilog=example("rollog replay --into replay. --speed 10 --since 2h --apply"))(replay_log)
    app.command("archive", epilog=example("rollog archive old.tape --until 2026-01-31T12:00:00Z --apply"))(archive_log)
