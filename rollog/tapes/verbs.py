"""`rollog tape export|import|cat|verify`."""

import sys
from functools import partial
from pathlib import Path
from typing import Annotated

import msgspec
import typer

from rollog.exit_codes import ExitCode
from rollog.options import AsJson, ConfigFiles, Flags, Home, RunName, example, invocation, print_json, with_log
from schemas.errors import ConfigError

app = typer.Typer(
    help="Tapes: a piece of the log in one file that suffices by itself.", no_args_is_help=True, rich_markup_mode=None
)
File = Annotated[Path, typer.Argument(help="The tape.")]
Topics = Annotated[list[str] | None, typer.Option("--topics", help="By commas, or repeat it; else all there are.")]
Since = Annotated[str, typer.Option(help="10m, 2h; an RFC 3339 time; `beginning`.")]
Until = Annotated[str, typer.Option(help="10m ago, 2h ago as `10m`, `2h`; an RFC 3339 time; `now`.")]
Apply = Annotated[bool, typer.Option("--apply", help="Do it; without, only say what would be done.")]


def chosen(topics: list[str] | None) -> list[str]:
    """Return the topics that the option names, all of the catalogue where it names none. Raises ConfigError."""
    from schemas.topics import TOPICS, get_topic

    names = [name.strip() for text in topics or () for name in text.split(",") if name.strip()]
    return [get_topic(name).name for name in dict.fromkeys(names)] or list(TOPICS)


def parse_until(text: str) -> float | None:
    """Return the time in seconds since the epoch, None for the present end. Raises ConfigError."""
    from rollog.tap import parse_since

    if text in ("", "now", "end"):
        return None
    try:
        moment = parse_since(text)
    except ConfigError as error:
        raise ConfigError(str(error).replace("--since", "--until", 1)) from error
    if isinstance(moment, str):
        raise ConfigError(f"--until {text!r}: nothing is before that; wanted a duration, an RFC 3339 time or `now`")
    return moment


@app.command("export", epilog=example("rollog tape export run.tape --run demo-0-1 --topics steps,policies,batches"))
def export_tape(
    file: File,
    *,
    topics: Topics = None,
    since: Since = "beginning",
    until: Until = "now",
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Write a piece of the log to one file, with all that it refers to."""
    from consumers.tapes.exporting import export
    from rollog.progress import progress
    from rollog.tap import parse_since

    start, until_s, names = parse_since(since), parse_until(until), chosen(topics)
    called = with_log(invocation(config, flags, home, run=run_name))
    with progress("export") as tell:
        done = export(
            called.settings.log,
            file,
            names,
            blob_dir=called.blob_dir,
            since=start,
            until_s=until_s,
            on_progress=tell,
        )
    if as_json:
        print_json(done)
        return
    typer.echo(f"{file}: {done.num_records} records, {done.num_bytes} bytes, digest {done.digest}")
    if done.num_undecodable:
        typer.echo(f"{done.num_undecodable} records are no events; they are on it as they are: {done.undecodable[0]}")


@app.command("import", epilog=example("rollog tape import run.tape --into-namespace copy. --apply"))
def import_tape(
    file: File,
    *,
    into: Annotated[str | None, typer.Option("--into-namespace", help="Prefix of topics; else log.namespace.")] = None,
    apply: Apply = False,
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Write a tape into a namespace that is empty or holds the first of it; then read it back and compare."""
    from rollog.progress import progress
    from rollog.tapes.importing import Importer

    called = with_log(invocation(config, flags, home))
    log = called.settings.log
    log = log if into is None else msgspec.structs.replace(log, namespace=into)
    importer = Importer(log, file, blob_dir=called.blob_dir)
    try:
        with progress("import") as tell:
            done = importer.run(apply=apply, on_progress=tell)
    finally:
        importer.close()
    if as_json:
        print_json(done)
        return
    what = f"{done.num_written} written" if apply else "nothing written: --apply does it"
    typer.echo(f"{file} into {done.namespace!r}: {done.num_records} records, {done.num_there} there already, {what}")
    typer.echo(f"log.partitions is {done.partitions} there")
    for names, text in (
        (done.moved, "other offsets than on the tape, so recompute its steps from the tape"),
        (done.expiring, "records older than the topic keeps, which the broker will delete"),
    ):
        if names:
            typer.echo(f"{', '.join(names)}: {text}")


@app.command("cat", epilog=example("rollog tape cat run.tape --topics rewards --where 'value<1' --limit 5"))
def cat(
    file: File,
    *,
    topics: Topics = None,
    since: Since = "beginning",
    where: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE; also != < <= > >=; repeat it.")] = None,
    domain: Annotated[str, typer.Option(help="Only this domain's.")] = "",
    limit: Annotated[int, typer.Option(help="Events to print at most; 0 for all.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print a tape's events by their time, as `rollog tap` does."""
    from consumers.tapes.file import TapeFile
    from consumers.tapes.reader import TapeReader
    from rollog.tap import Query, parse_since, parse_where, print_read

    conditions = [parse_where(text) for text in where or ()] + ([parse_where(f"domain={domain}")] if domain else [])
    query = Query(topic="", start=parse_since(since), conditions=tuple(conditions), limit=limit)
    names = chosen(topics)
    if not topics:
        tape = TapeFile(file)
        names = list(tape.topics)
        tape.close()
    print_read(partial(TapeReader, file), names, query, as_json=as_json, out=sys.stdout)


@app.command("verify", epilog=example("rollog tape verify run.tape --digest 3b1f..."))
def verify_tape(
    file: File,
    *,
    digest: Annotated[str, typer.Option(help="That the export printed: tells this tape from any other.")] = "",
    as_json: AsJson = False,
) -> None:
    """Check every digest, the chain, the index and every record; exit status 1 where anything is wrong."""
    from consumers.tapes.verify import verify
    from rollog.progress import progress

    with progress("verify") as tell:
        found = verify(file, digest=digest, on_progress=tell)
    if as_json:
        print_json(found)
    elif found.faults:
        more = len(found.faults) - 1
        typer.echo(f"{file}: {found.faults[0]}{f' (and {more} more; --json shows them)' if more else ''}")
    else:
        typer.echo(f"{file}: {found.num_records} records in {found.num_frames} frames as written, {found.digest}")
    if found.faults:
        raise typer.Exit(ExitCode.FELL_SHORT)
