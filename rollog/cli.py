"""The command `rollog`: one verb per process, parsed before anything heavy is imported.

A RollogError ends a verb with one line on stderr and the exit status of its kind (rollog/exit_codes.py); anything else
is a defect and shows its traceback.
"""

import sys
from pathlib import Path
from typing import Annotated

import typer

from rollog.exit_codes import ExitCode, code_of
from rollog.options import AsJson, ConfigFiles, Flags, Home, RunName, example, invocation, print_json, with_log
from schemas.errors import RollogError

app = typer.Typer(
    help="rollog: reinforcement-learning post-training of language models on an event log.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
topics = typer.Typer(help="The log's topics, from the catalogue.", no_args_is_help=True, rich_markup_mode=None)
app.add_typer(topics, name="topics")

Seed = Annotated[int, typer.Option(help="Everything random derives from it.")]


@app.command(epilog=example("rollog up --config demo/demo.toml --set run=mine"))
def up(*, config: ConfigFiles = None, flags: Flags = None, home: Home = None) -> None:
    """Run all services of a run on this machine until Ctrl-C; what fails is started again."""
    from rollog.live import run_live

    called = invocation(config, flags, home)
    run_live(called.settings, home=called.home)


@app.command(epilog=example("rollog run verifier --config run.toml --instance verifier-1"))
def run(
    service: Annotated[str, typer.Argument(help="One of: issuer, evaluator, generator, executor, verifier, ...")],
    *,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
    instance: Annotated[str, typer.Option(help="Stable name, unique in the run; else SERVICE-0.")] = "",
    port: Annotated[int, typer.Option(help="Of /healthz and /metrics; 0 takes a free one.")] = 0,
) -> None:
    """Be one service, until SIGTERM or Ctrl-C."""
    from rollog.services import run_service

    called = with_log(invocation(config, flags, home))
    name = instance or f"{service}-0"
    run_service(service, called.settings, home=called.home, instance=name, port=port)


@app.command(epilog=example("rollog tap rewards --run demo-0-1 --since 10m --where 'value>0.5' --follow"))
def tap(
    topic: Annotated[str, typer.Argument(help="A topic of the catalogue, without the namespace.")],
    *,
    run_name: RunName = "",
    since: Annotated[str, typer.Option(help="10m, 2h; an RFC 3339 time; `beginning`; `now`.")] = "beginning",
    where: Annotated[list[str] | None, typer.Option(help="FIELD=VALUE; also != < <= > >=; repeat it.")] = None,
    domain: Annotated[str, typer.Option(help="Only this domain's.")] = "",
    limit: Annotated[int, typer.Option(help="Events to print at most; 0 for all.")] = 0,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on with what comes.")] = False,
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Print the events of a topic, past or as they come."""
    from rollog.tap import Query, parse_since, parse_where, print_events

    conditions = [parse_where(text) for text in where or ()]
    if domain:
        conditions.append(parse_where(f"domain={domain}"))
    query = Query(topic=topic, start=parse_since(since), conditions=tuple(conditions), limit=limit, follow=follow)
    called = with_log(invocation(config, flags, home, run=run_name))
    print_events(called.settings.log, query, blob_dir=called.blob_dir, as_json=as_json, out=sys.stdout)


@app.command("config", epilog=example("rollog config --config demo/demo.toml --set learner.steps=80"))
def show_config(*, config: ConfigFiles = None, flags: Flags = None, home: Home = None) -> None:
    """Print the resolved settings as JSON: every field and its value; client settings by name only."""
    from schemas.config import resolved

    typer.echo(resolved(invocation(config, flags, home).settings))


@topics.command("create", epilog=example("rollog topics create --set log.namespace=mine."))
def create(*, config: ConfigFiles = None, flags: Flags = None, home: Home = None, as_json: AsJson = False) -> None:
    """Create the topics that are missing; those that are there stay as they are."""
    from rollog.topics import create_topics

    created = create_topics(with_log(invocation(config, flags, home)).settings.log)
    if as_json:
        print_json({"created": created})
    else:
        typer.echo("\n".join(f"created {name}" for name in created) or "all topics are there already")


@topics.command("check", epilog=example("rollog topics check --set log.namespace=mine."))
def check(*, config: ConfigFiles = None, flags: Flags = None, home: Home = None, as_json: AsJson = False) -> None:
    """Compare the cluster with the catalogue; exit status 1 where a topic is missing or drifted."""
    from rollog.topics import check_topics

    drifts = check_topics(with_log(invocation(config, flags, home)).settings.log)
    if as_json:
        print_json({"drift": drifts})
    else:
        typer.echo("\n".join(str(drift) for drift in drifts) or "every topic is as the catalogue says")
    if drifts:
        raise typer.Exit(ExitCode.FELL_SHORT)


@topics.command("describe", epilog=example("rollog topics describe --json"))
def describe(*, config: ConfigFiles = None, flags: Flags = None, home: Home = None, as_json: AsJson = False) -> None:
    """Show every topic as the cluster has it."""
    from rollog.topics import describe_topics, topic_table

    states = describe_topics(with_log(invocation(config, flags, home)).settings.log)
    if as_json:
        print_json(states)
    else:
        from rollog.console import wide_console

        wide_console().print(topic_table(states))


@topics.command("asyncapi", epilog=example("rollog topics asyncapi > asyncapi.json"))
def show_asyncapi(*, config: ConfigFiles = None, flags: Flags = None, home: Home = None) -> None:
    """Print the AsyncAPI 3.0 document of the log; needs no cluster."""
    from rollog.asyncapi import asyncapi

    print_json(asyncapi(invocation(config, flags, home).settings.log))


@app.command(epilog=example("rollog recompute --steps all --run demo-0-1"))
def recompute(
    step: Annotated[int | None, typer.Argument(help="One step to do again, with every detail.")] = None,
    *,
    tape: Annotated[Path | None, typer.Option(help="Read this tape, not the log.")] = None,
    steps: Annotated[str, typer.Option(help="In one pass: 7, 3..9 or `all`.")] = "",
    check: Annotated[str, typer.Option(help="`weights`: everything; `loss`: all but the weights.")] = "weights",
    run_name: RunName = "",
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
    as_json: AsJson = False,
) -> None:
    """Do optimizer steps again from the log alone, and say match or differ; exit status 1 where one differs."""
    from learner.recompute import recompute
    from rollog.recomputing import recompute_steps
    from rollog.tapes.doors import open_door

    if (step is None) == (not steps):
        raise typer.BadParameter("wanted one step (rollog recompute 17) or --steps (7, 3..9, all), not both")
    called = invocation(config, flags, home, run=run_name)
    open_reader = open_door(called, tape)
    if step is None:
        if not recompute_steps(called, open_reader, steps, check=check, as_json=as_json):
            raise typer.Exit(ExitCode.FELL_SHORT)
        return
    found = recompute(open_reader, called.run_dir, run_id=called.settings.run, step=step)
    if as_json:
        print_json(found)
    else:
        typer.echo("\n".join([f"step {step}: {'match' if found.match else 'differ'}", *map(str, found.differences)]))
    if not found.match:
        raise typer.Exit(ExitCode.FELL_SHORT)


@app.command(epilog=example("rollog demo --seed 3"))
def demo(
    *,
    seed: Seed = 0,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Train a small policy from its first step to its last, evaluate, recompute a step, and report."""
    from rollog.demo import run_demo

    raise typer.Exit(run_demo(seed, config or (), flags or (), home=home))


@app.command(epilog=example("rollog chaos --seed 3"))
def chaos(
    *,
    seed: Seed = 0,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Run the demo while services and broker are killed at random, and check the books; prints JSON lines."""
    from rollog.chaos import run_chaos

    raise typer.Exit(run_chaos(seed, config or (), flags or (), home=home))


def mount() -> None:
    """Add the verbs that have modules of their own."""
    from rollog import curriculum_cli, diff_cli, fork_cli, history_cli, recall_cli, rescore_cli, using
    from rollog.broker.cli import app as broker
    from rollog.domains_cli import app as domains
    from rollog.tapes import history as tape_history
    from rollog.tapes import parquet
    from rollog.tapes.verbs import app as tape

    app.add_typer(broker, name="broker")
    app.add_typer(domains, name="domains")
    app.add_typer(tape, name="tape")
    tape_history.mount(app)
    parquet.mount(app)
    history_cli.mount(app)
    rescore_cli.mount(app)
    using.mount(app)
    recall_cli.mount(app)
    fork_cli.mount(app)
    diff_cli.mount(app)
    curriculum_cli.mount(app)


def main() -> None:
    """Run the command line."""
    mount()
    try:
        app(prog_name="rollog")
    except RollogError as error:
        typer.echo(f"rollog: {error}", err=True)
        sys.exit(code_of(error))


if __name__ == "__main__":
    main()
