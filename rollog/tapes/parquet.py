"""`rollog parquet`: a piece of the log, or a tape, as tables."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rollog.options import AsJson, ConfigFiles, Flags, Home, RunName, example, invocation, print_json
from rollog.tapes.verbs import Since, Topics, Until, chosen, parse_until
from schemas.errors import ConfigError, DecodeError

if TYPE_CHECKING:  # what every verb would wait for, else
    from consumers.raw import RawRecord
    from schemas.events import Event

PROGRESS_EVERY = 1_000


def parquet(
    folder: Annotated[Path, typer.Argument(help="New folder; it gets one file for each type of record.")],
    *,
    tape: Annotated[Path | None, typer.Option(help="Read this tape, not the log.")] = None,
    topics: Topics = None,
    since: Since = "beginning",
    until: Until = "now",
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Write events as Parquet, for DuckDB, pandas and the like; needs the extra `analysis`."""
    try:
        from consumers.parquet import write_tables
    except ImportError as error:
        raise ConfigError(f"{error}: Parquet needs pyarrow; install rollog with its extra: rollog[analysis]") from error
    from consumers.tapes.file import TapeFile
    from rollog.progress import progress
    from rollog.tap import parse_since
    from rollog.tapes.doors import open_door

    start, until_s, names = parse_since(since), parse_until(until), chosen(topics)
    undecodable: list[str] = []

    def note(_raw: "RawRecord", error: DecodeError) -> None:
        undecodable.append(str(error))

    open_reader = open_door(invocation(config, flags, home, run=run_name), tape)
    if tape is not None and not topics:
        with closing(TapeFile(tape)) as opened:
            names = list(opened.topics)
    reader = open_reader(names, start=start, bounded=True, on_undecodable=note)
    try:
        with progress("tables") as tell:
            total = sum(reader.lag().values())
            rows = write_tables(counted(before(reader, until_s), lambda done: tell(done, total)), folder)
    finally:
        reader.close()
    if as_json:
        print_json({"folder": str(folder), "rows": rows, "num_undecodable": len(undecodable)})
        return
    for name, num_rows in sorted(rows.items()):
        typer.echo(f"{folder / name}: {num_rows} rows")
    if undecodable:
        typer.echo(f"{len(undecodable)} records are no events and in no table: {undecodable[0]}")


def before(events: "Iterable[Event[Any]]", until_s: float | None) -> "Iterator[Event[Any]]":
    """Yield those that are older than the time; partitions come interleaved, so that all are looked at."""
    return iter(events) if until_s is None else (event for event in events if event.time_s < until_s)


def counted(events: "Iterable[Event[Any]]", tell: Callable[[int], None]) -> "Iterator[Event[Any]]":
    """Yield the events, and say how many it were."""
    for number, event in enumerate(events):
        if number % PROGRESS_EVERY == 0:
            tell(number)
        yield event


def mount(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command("parquet", epilog=example("rollog parquet tables/ --run demo-0-1 --topics rewards,steps"))(parquet)
