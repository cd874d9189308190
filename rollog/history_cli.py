"""The verbs about history: index, audit, verify-log, seal, report. Only `seal --apply` writes."""

from typing import TYPE_CHECKING, Annotated

import typer

from rollog.exit_codes import ExitCode
from rollog.options import AsJson, ConfigFiles, Flags, Home, RunName, example, invocation, print_json, with_log

if TYPE_CHECKING:
    from rollog.verify_log import VerifyReport

Rebuild = Annotated[bool, typer.Option("--rebuild", help="Make the index anew from the log.")]


def index(
    *,
    rebuild: Rebuild = False,
    run_name: RunName = "",
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Bring the index of the log up to date; it is a projection, and can be made anew at any time."""
    import time

    from rollog.history import history

    started_s = time.monotonic()
    with history(with_log(invocation(config, flags, home, run=run_name)), rebuild=rebuild) as past:
        took_s = max(time.monotonic() - started_s, 1e-9)
        found = {
            "path": str(past.index.path),
            "num_new": past.caught_up.num_events,
            "num_undecodable": past.caught_up.num_undecodable,
            "num_events": (past.index.one("SELECT count(*) FROM events") or (0,))[0],
            "num_bytes": past.index.path.stat().st_size,
            "events_per_s": round(past.caught_up.num_events / took_s),
        }
    if as_json:
        print_json(found)
    else:
        typer.echo("{num_new} new of {num_events} events, {events_per_s} a second: {path}".format(**found))


def audit(
    kind: Annotated[str, typer.Argument(help="step, policy, rollout, task or reward.")],
    name: Annotated[str, typer.Argument(help="Its id: 12, policy@12, TASK/3, or the beginning of a task's id.")],
    *,
    rebuild: Rebuild = False,
    run_name: RunName = "",
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Show what led to a fact and what came of it, from task to policy versions."""
    from rollog.audit import audit_one

    called = with_log(invocation(config, flags, home, run=run_name))
    audit_one(called, kind, name, as_json=as_json, rebuild=rebuild)


def verify_log(
    *,
    strict: Annotated[
        bool, typer.Option("--strict", help="Open tasks, repeats, unsealed records are findings.")
    ] = False,
    run_name: RunName = "",
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Check causes, ids, digests, ends, weights and seals of the whole log; exit status 1 where one does not hold."""
    from functools import partial

    from consumers.bounds import read_state
    from consumers.reader import Reader
    from rollog.history import index_of
    from rollog.progress import progress
    from rollog.verify_log import verify

    called = with_log(invocation(config, flags, home, run=run_name))
    log = called.settings.log
    judged, read_to = read_state(log).bounds, read_state(log).bounds
    with progress("verifying the log") as on_progress:
        report = verify(
            partial(Reader, log, blob_dir=called.blob_dir),
            called.blob_dir,
            judged=judged,
            read_to=read_to,
            scratch=called.home / "index",
            strict=strict,
            on_progress=on_progress,
            find_index=partial(index_of, called),
        )
    if as_json:
        print_json(report)
    else:
        typer.echo("\n".join(lines_of(report)))
    if report.findings:
        raise typer.Exit(ExitCode.FELL_SHORT)


def lines_of(report: "VerifyReport") -> list[str]:
    """Return a report for people."""
    counts = ", ".join(f"{count} {name.replace('_', ' ')}" for name, count in report.counts.items())
    kinds = ", ".join(f"{count} {kind}" for kind, count in report.by_kind.items())
    return [
        *(f"{finding.position}: {finding.kind}: {finding.what}" for finding in report.details),
        f"{report.events} events: {counts}",
        *(f"{n} batches are of facts on the log {name!r}, forked from" for name, n in report.upstream.items()),
        f"{report.seals} seals hold or are named above, {report.unsealed} records are not sealed",
        f"{report.findings} findings: {kinds}" if report.findings else "everything holds",
    ]


def seal(
    *,
    apply: Annotated[bool, typer.Option("--apply", help="Write them; without, only say what would be.")] = False,
    run_name: RunName = "",
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Write the digests of all that is not sealed yet, so that verify-log finds whoever edits it later."""
    from functools import partial

    from consumers.bounds import read_state
    from consumers.reader import Reader
    from producers.publisher import Publisher
    from rollog.progress import progress
    from streams.sealer import make_seals, write_seals

    called = with_log(invocation(config, flags, home, run=run_name))
    log = called.settings.log
    with progress("sealing the log") as on_progress:
        bounds = read_state(log).bounds
        seals = make_seals(partial(Reader, log, blob_dir=called.blob_dir), bounds, on_progress=on_progress)
    if apply and seals:
        publisher = Publisher(log, source="rollog/seal", blob_dir=called.blob_dir)
        try:
            write_seals(publisher, seals)
        finally:
            publisher.close()
    num_records = sum(made.num_records for made in seals)
    if as_json:
        print_json({"applied": apply, "num_records": num_records, "seals": seals})
    else:
        for made in seals:
            typer.echo(f"{made.topic}[{made.partition}]: {made.first} to {made.end}, {made.digest}")
        done = "sealed" if apply else "would be sealed; --apply writes it"
        typer.echo(f"{num_records} records {done}")


def report(
    context: typer.Context,
    *,
    run_name: RunName = "",
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Print, as JSON, what became of every task and batch of a run, by the log; exit status 1 if the books are off."""
    if context.invoked_subcommand is not None:
        return
    from rollog.report import account_for

    called = with_log(invocation(config, flags, home, run=run_name))
    account = account_for(called.settings, blob_dir=called.blob_dir)
    print_json(account)
    if account["findings"]:
        raise typer.Exit(ExitCode.FELL_SHORT)


def report_bias(
    *,
    rebuild: Rebuild = False,
    run_name: RunName = "",
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Compare what was trained on with what was issued, by domain, level, length and latency, with every reason."""
    from rollog.bias import bias_of, tables_of
    from rollog.history import history

    called = with_log(invocation(config, flags, home, run=run_name))
    with history(called, rebuild=rebuild) as past:
        found = bias_of(past.index, called.settings.run)
    if as_json:
        print_json(found)
        return
    from rollog.console import wide_console

    console = wide_console()
    for table in tables_of(found):
        console.print(table, "")
    for line in found.biased or ("nothing trains more or less often than chance explains",):
        typer.echo(line)


def mount(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command("index", epilog=example("rollog index --run demo-0-1 --rebuild"))(index)
    app.command("audit", epilog=example("rollog audit rollout 1f0c.../3 --run demo-0-1"))(audit)
    app.command("verify-log", epilog=example("rollog verify-log --run demo-0-1 --json"))(verify_log)
    app.command("seal", epilog=example("rollog seal --run demo-0-1 --apply"))(seal)
    reports = typer.Typer(rich_markup_mode=None)
    reports.callback(invoke_without_command=True, epilog=example("rollog report --run demo-0-1"))(report)
    reports.command("bias", epilog=example("rollog report bias --run demo-0-1"))(report_bias)
    app.add_typer(reports, name="report")
