"""The verbs that call back what was trained on. Each gives one command, and only with `--apply`."""

import time
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

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
from schemas.errors import ConfigError

if TYPE_CHECKING:
    from rollog.quarantining import QuarantineReport
    from schemas.recalls import Recalls
    from schemas.selections import Selection

Apply = Annotated[bool, typer.Option("--apply", help="Give the command; without it nothing is written.")]
Reason = Annotated[str, typer.Option(help="Why, for whoever reads the log.")]


def quarantine(
    *,
    where: Annotated[
        list[str] | None,
        typer.Option(help="FIELD=VALUE of task, end, reward or answer; also != < <= > >= and ~ (holds); repeat it."),
    ] = None,
    domain: Annotated[str, typer.Option(help="Only this domain's rollouts.")] = "",
    policy: Annotated[str, typer.Option(help="Rollouts of NAME, NAME@VERSION or NAME@FIRST..LAST.")] = "",
    since: Annotated[str, typer.Option(help="Tasks issued since: 10m, 2h; an RFC 3339 time.")] = "beginning",
    until: Annotated[str, typer.Option(help="Tasks issued before; else those to come are meant too.")] = "",
    rollout: Annotated[list[str] | None, typer.Option(help="One rollout, TASK/SAMPLE; repeat it.")] = None,
    reason: Reason = "",
    apply: Apply = False,
    lift: Annotated[str, typer.Option(help="Take this quarantine back, by its id or the beginning of it.")] = "",
    listed: Annotated[bool, typer.Option("--list", help="Show the run's quarantines.")] = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Say which rollouts no longer train; shows what trained on them and the last clean checkpoint."""
    from schemas.selections import (
        Selection,
        check_fields,
        parse_conditions,
        parse_policy,
        parse_rollouts,
        rounded,
    )

    called = with_log(invocation(config, flags, home, run=run_name))
    if lift or listed:
        lift_or_list(called, lift, apply=apply, reason=reason, as_json=as_json)
        return
    from rollog.selection import parse_moment

    selection = Selection(
        domain=domain,
        since_s=rounded(parse_moment("--since", since)),
        until_s=rounded(time.time() if until == "now" else parse_moment("--until", until) if until else None),
        policy=parse_policy(policy),
        conditions=parse_conditions(where or []),
        rollouts=parse_rollouts(rollout or []),
    )
    check_fields(selection.conditions)
    check_selection(selection)
    report = quarantine_run(called, selection, apply=apply, reason=reason)
    if as_json:
        print_json(report)
    else:
        typer.echo("\n".join(lines_of(report)))


def rollback(
    policy: Annotated[str, typer.Argument(help="The run's policy, by name.")],
    version: Annotated[int, typer.Argument(help="The version to go back to; its checkpoint has to be kept.")],
    *,
    reason: Reason = "",
    apply: Apply = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Publish an older version again, as the newest, and train on from there; nothing is deleted."""
    import msgspec

    from rollog.rolling_back import plan_rollback
    from schemas.recalls import rollback_command

    called = with_log(invocation(config, flags, home, run=run_name))
    report = plan_rollback(called.settings, policy, version, blob_dir=called.blob_dir, run_dir=called.run_dir)
    if apply:
        command = rollback_command(
            report.run, policy, version, at=report.newest_version, given_by="rollog rollback", reason=reason
        )
        give(called, command, report.rollback_id)
        report = msgspec.structs.replace(report, applied=True)
    if as_json:
        print_json(report)
        return
    typer.echo(f"run {report.run}: {policy} is at version {report.newest_version}; version {version} comes back")
    typer.echo(f"it is published as version {report.becomes}, and training goes on from there")
    lost = f"{report.versions_rolled_back} versions, taken on {report.batches_rolled_back} batches, are left behind"
    typer.echo(f"{lost}; what they drew trains no longer")
    given = f"given, as rollback {report.rollback_id}; the learner obeys between two steps"
    typer.echo(given if apply else "nothing written; --apply gives the command")


def alerts(
    *,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Show what the alerts service raised, each with a quarantine to begin with; writes nothing."""
    from rollog.alerting import alerts_of
    from rollog.alerting import lines_of as alert_lines

    called = with_log(invocation(config, flags, home, run=run_name))
    found = alerts_of(called.settings.log, called.settings.run, blob_dir=called.blob_dir)
    if as_json:
        print_json({"run": called.settings.run, "num_alerts": len(found), "alerts": found})
    else:
        typer.echo("\n".join(alert_lines(found)))


def check_selection(selection: "Selection") -> None:
    """Raise ConfigError for a selection that means everything, or nothing."""
    if not selection.text:
        raise ConfigError(
            "quarantine: everything is meant; wanted at least one of --where, --domain, --policy, --since, --until, "
            "--rollout"
        )
    since_s, until_s = selection.since_s, selection.until_s
    if since_s is not None and until_s is not None and since_s >= until_s:
        raise ConfigError("quarantine: --since is not before --until, so that nothing is meant")


def quarantine_run(called: Invocation, selection: "Selection", *, apply: bool, reason: str) -> "QuarantineReport":
    """Look what is meant and, if asked, give the command. Raises ConfigError, LogError."""
    import msgspec

    from rollog.progress import progress
    from rollog.quarantining import scan
    from schemas.recalls import quarantine_command

    settings = called.settings
    with progress("reading history") as on_progress:
        found = scan(settings, selection, blob_dir=called.blob_dir, run_dir=called.run_dir, on_progress=on_progress)
    same = [q for q in found.recalls.in_force(settings.run) if q.selection == selection]
    if same and apply:
        raise ConfigError(f"quarantine: the same selection is in force already, as {same[0].quarantine_id}")
    if not apply:
        return found.report
    command = quarantine_command(
        settings.run,
        selection,
        batches=found.waiting,
        batch_ends=found.batch_ends,
        given_by="rollog quarantine",
        reason=reason,
    )
    give(called, command, found.report.quarantine_id)
    return msgspec.structs.replace(found.report, applied=True)


def give(called: Invocation, command: Any, event_id: str) -> None:
    """Write a command event. Raises LogError."""
    from producers.publisher import Publisher

    publisher = Publisher(called.settings.log, source=command.given_by.replace(" ", "/"), blob_dir=called.blob_dir)
    try:
        publisher.send_all([publisher.event(command, id=event_id, key=command.target, subject=command.target)])
    finally:
        publisher.close()


def lift_or_list(called: Invocation, lift: str, *, apply: bool, reason: str, as_json: bool) -> None:
    """Take a quarantine back, or show which there are. Raises ConfigError, LogError."""
    from consumers.commands import read_recalls
    from consumers.reader import Reader
    from schemas.ids import derive_id
    from schemas.recalls import LIFT, lift_command

    recalls = read_recalls(partial(Reader, called.settings.log, blob_dir=called.blob_dir))
    if lift:
        chosen = recalls.find(lift)
        if chosen.quarantine_id in recalls.lifted:
            raise ConfigError(f"quarantine {chosen.quarantine_id}: was lifted already")
        if apply:
            command = lift_command(chosen, given_by="rollog quarantine", reason=reason)
            give(called, command, derive_id(chosen.quarantine_id, LIFT, 0))
    found = {"lift": lift and recalls.find(lift).quarantine_id, "applied": bool(lift) and apply}
    listing = list_of(recalls, called.settings.run)
    if as_json:
        print_json({**found, "quarantines": listing})
    elif lift:
        done = "lifted" if apply else "would be lifted; --apply does it"
        typer.echo(f"quarantine {found['lift']} {done}: what is assembled from then on trains again, and batches that")
        typer.echo("were passed over, or waited when it was given, stay so")
    else:
        for one in listing:
            typer.echo(f"{one['quarantine_id']}  {one['selection']}{'  (lifted)' if one['lifted'] else ''}")
        typer.echo(f"{len(listing)} quarantines of run {called.settings.run}")


def list_of(recalls: "Recalls", run_id: str) -> list[dict[str, Any]]:
    """Return a run's quarantines as plain values."""
    return [
        {
            "quarantine_id": one.quarantine_id,
            "selection": one.selection.text,
            "given_by": one.given_by,
            "reason": one.reason,
            "lifted": one.quarantine_id in recalls.lifted,
        }
        for one in recalls.quarantines.values()
        if one.run_id == run_id
    ]


def lines_of(report: "QuarantineReport") -> list[str]:
    """Return a report for people."""
    domains = ", ".join(f"{name} {found.rollouts} in {found.groups} groups" for name, found in report.by_domain.items())
    steps = ", ".join(map(str, report.steps[:10])) + (", ..." if report.num_steps > 10 else "")
    lines = [
        f"run {report.run}: {report.selection}",
        f"{report.rollouts} rollouts of {report.groups} groups" + (f": {domains}" if domains else ""),
        f"trained on: {report.batches_trained} batches that hold them"
        + (f", in {report.num_steps} steps: {steps}" if report.num_steps else ""),
        f"waiting untrained: {report.batches_waiting} batches; passed over before: {report.batches_passed_over}",
    ]
    if report.batches_gone:
        lines.append(f"{report.batches_gone} of the trained ones were removed by retention: taken to hold them")
    if report.num_versions:
        first, last = report.versions[0], report.newest_version
        lines.append(f"{report.num_versions} policy versions descend from that, from {first} on; newest is {last}")
    if report.last_clean_checkpoint is not None and not report.newest_is_clean:
        lines.append(f"last clean checkpoint that is kept: {report.last_clean_checkpoint}; {report.rollback}")
    elif report.last_clean_checkpoint is None:
        lines.append("no clean checkpoint is kept")
    lines += [f"broken: {why}" for why in report.broken_checkpoints]
    lines.append("holds for rollouts to come too; --lift takes it back" if report.is_open else "ends by itself")
    wrote = f"given, as quarantine {report.quarantine_id}"
    return [*lines, wrote if report.applied else "nothing written; --apply gives the command"]


def mount(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command(epilog=example("rollog quarantine --run demo-0-1 --domain verbs --where 'answer.text~exit' --apply"))(
        quarantine
    )
    app.command(epilog=example("rollog alerts --run demo-0-1 --json"))(alerts)
    app.command(epilog=example("rollog rollback policy 40 --run demo-0-1 --apply"))(rollback)
