"""The verb `use`: which scoring a run's tasks are issued under, and so train on, from now on."""

from typing import Annotated

import msgspec
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
from schemas.scorings import ALL_DOMAINS, LIVE, Scoring
from schemas.uses import Use, command_of, use_id

GIVEN_BY = "rollog use"


class Switch(msgspec.Struct, frozen=True, kw_only=True):
    """What a command would change, or did."""

    run: str
    scoring_id: str
    domain: str
    before: dict[str, str]
    """Scoring in use by domain."""
    after: dict[str, str]
    applied: bool
    num_written: int
    """0 where it is in use already, or nothing was to be written."""


def use_scoring(called: Invocation, scoring_id: str, *, domain: str, applies: bool) -> Switch:
    """Make a scoring that is on the log the one that trains. Raises ConfigError, LogError."""
    from producers.publisher import Publisher
    from streams.rescoring.in_use import read_in_use

    settings = called.settings
    use = Use(run_id=settings.run, domain=domain, scoring=chosen(called, scoring_id))
    if domain not in (ALL_DOMAINS, *settings.tasks.domains):
        raise ConfigError(f"--domain {domain!r}: run {settings.run!r} issues {', '.join(settings.tasks.domains)}")
    check_judges(called, use)
    in_use = read_in_use(settings.log, settings.run, blob_dir=called.blob_dir)
    before = in_use.ids_of(settings.tasks.domains)
    num_before = in_use.num_commands
    publisher = Publisher(settings.log, source="rollog/use", blob_dir=called.blob_dir)
    try:
        command = command_of(use, given_by=GIVEN_BY)
        event = publisher.event(command, id=use_id(use, num_before), key=command.target, subject=use.scoring_id)
        in_use.take(event)
        after = in_use.ids_of(settings.tasks.domains)
        is_news = before != after
        if applies and is_news:
            publisher.send_all([event])
    finally:
        publisher.close()
    return Switch(
        run=settings.run,
        scoring_id=use.scoring_id,
        domain=domain,
        before=before,
        after=after,
        applied=applies,
        num_written=int(applies and is_news),
    )


def chosen(called: Invocation, scoring_id: str) -> Scoring | None:
    """Return the scoring of that id, None for `live`. Raises ConfigError where it cannot train anything."""
    from rollog.rescoring import find_scoring
    from streams.rescoring.declared import read_declared
    from streams.rescoring.in_use import check_today

    if scoring_id == LIVE:
        return None
    declared = read_declared(called.settings.log, blob_dir=called.blob_dir)
    scoring = find_scoring(declared, scoring_id)
    if declared[scoring_id].fills:
        raise ConfigError(
            f"scoring {scoring_id!r} only fills what is invalid in {declared[scoring_id].fills!r}: wanted one that "
            "scores whole groups, of a shadow or of `rollog rescore` without --only-invalid"
        )
    check_today(scoring)
    return scoring


def check_judges(called: Invocation, use: Use) -> None:
    """Raise ConfigError where the scoring's verifier cannot judge the tasks that it is to train on."""
    from producers.tasks import example_task, under
    from streams.rescoring.judge import lack_of

    settings = called.settings
    for domain in settings.tasks.domains if use.domain == ALL_DOMAINS else (use.domain,):
        task = example_task(settings, domain)
        lack = None if use.scoring is None else lack_of(task, under(task, use.scoring).verifier)
        if lack is not None:
            raise ConfigError(f"scoring {use.scoring_id!r} cannot train domain {domain!r}: {lack}; see --domain")


def lines_of(switch: Switch) -> list[str]:
    """Return a switch for people."""
    lines = [f"{domain}: {switch.before[domain]} -> {after}" for domain, after in sorted(switch.after.items())]
    if switch.before == switch.after:
        return [*lines, "in use already; nothing to do"]
    done = "tasks are issued under it from now on; those that are out end as they were issued"
    return [*lines, done if switch.applied else "nothing written; --apply gives the command"]


def use(
    scoring: Annotated[str, typer.Argument(help="A scoring that is on the log; `live` is each task's own verifier.")],
    *,
    domain: Annotated[str, typer.Option(help="Only tasks of this domain; else of all.")] = ALL_DOMAINS,
    apply: Annotated[bool, typer.Option("--apply", help="Give the command; without it nothing is written.")] = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Make a scoring the one that a run trains on, from the next task that is issued."""
    called = with_log(invocation(config, flags, home, run=run_name))
    switch = use_scoring(called, scoring, domain=domain, applies=apply)
    if as_json:
        print_json(switch)
    else:
        typer.echo("\n".join(lines_of(switch)))


def mount(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=example("rollog use stdout_match@1-5ae87eb750ec --domain verbs --run demo-0-1 --apply"))(use)
