"""The verb `rescore`: options in, a comparison out."""

import sys
from typing import Annotated

import msgspec
import typer

from rollog.exit_codes import ExitCode
from rollog.options import AsJson, ConfigFiles, Flags, Home, RunName, example, invocation, print_json, with_log
from schemas.errors import ConfigError


def rescore(
    *,
    verifier: Annotated[
        str, typer.Option(help="A kind, a name in the settings, a .json or .toml file, JSON, or `own`.")
    ] = "",
    domain: Annotated[str, typer.Option(help="Only this domain's rollouts.")] = "",
    since: Annotated[str, typer.Option(help="Tasks issued since: 10m, 2h; an RFC 3339 time.")] = "beginning",
    until: Annotated[str, typer.Option(help="Tasks issued before that; as --since.")] = "now",
    from_offset: Annotated[
        list[str] | None, typer.Option(help="Of the topic tasks: OFFSET, or PARTITION:OFFSET; repeat it.")
    ] = None,
    policy: Annotated[str, typer.Option(help="Rollouts of NAME, NAME@VERSION or NAME@FIRST..LAST.")] = "",
    where: Annotated[
        list[str] | None, typer.Option(help="FIELD=VALUE of task, end or live reward; also != < <= > >=; repeat it.")
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes; each does whole partitions.")] = 1,
    only_invalid: Annotated[bool, typer.Option("--only-invalid", help="Only what has an invalid live reward.")] = False,
    scoring_id: Annotated[str, typer.Option(help="Of the new rewards; else derived from the verifier.")] = "",
    apply: Annotated[bool, typer.Option("--apply", help="Write the rewards; without it nothing is written.")] = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Score finished rollouts again from recorded events alone, and say what would have been otherwise.

    Exit status 1 where rollouts were refused, since the log lacks what the verifier needs.
    """
    from consumers.history.ranges import Span
    from rollog.choosing import OWN, choose
    from rollog.rescore_report import print_report, tree_of, with_progress
    from rollog.rescoring import make_plan, run_plan
    from rollog.selection import Options, parse_conditions, parse_moment, parse_offsets, parse_policy

    called = with_log(invocation(config, flags, home, run=run_name))
    settings = called.settings
    if not verifier and not only_invalid:
        raise ConfigError("--verifier is missing: wanted a verifier to score with; --only-invalid has `own` by itself")
    since_s, until_s = parse_moment("--since", since), parse_moment("--until", until)
    selection = Options(
        domain=domain,
        since_s=since_s,
        until_s=until_s,
        policy=parse_policy(policy),
        conditions=parse_conditions(where or []),
        only_invalid=only_invalid,
    )
    offsets = parse_offsets(from_offset or [], settings.log.partitions)
    plan = make_plan(
        settings,
        choose(verifier or OWN, settings.verifier),
        selection,
        Span(since_s=since_s, until_s=until_s, from_offset=offsets),
        blob_dir=called.blob_dir,
        scoring_id=scoring_id,
        applies=apply,
    )
    total = plan.range.num_records(plan.range.partitions)
    outcome = with_progress(total, lambda note: run_plan(plan, num_workers=workers, on_progress=note))
    if as_json:
        print_json(tree_of(plan, outcome))
    else:
        print_report(plan, outcome, out=sys.stdout)
    if outcome.refused:
        raise typer.Exit(ExitCode.FELL_SHORT)


def rebatch(
    *,
    scoring: Annotated[str, typer.Option(help="A scoring that is on the log.")],
    apply: Annotated[bool, typer.Option("--apply", help="Write the batches; without it nothing is written.")] = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Make batches of a scoring from the log; a learner with `learner.scoring` set to it trains on them."""
    from rollog.rescoring import rebatch_scoring

    called = with_log(invocation(config, flags, home, run=run_name))
    said = rebatch_scoring(called.settings, scoring, blob_dir=called.blob_dir, applies=apply)
    if as_json:
        print_json({"scoring_id": scoring, "applied": apply, **msgspec.to_builtins(said)})
        return
    decisions = "".join(f", {count} {reason}" for reason, count in sorted(said.decisions.items()))
    typer.echo(f"{said.num_batches} batches{decisions}; {said.num_open} groups are still open")
    wrote = f"{said.num_written} written, {said.num_known} were there already"
    typer.echo(wrote if apply else "nothing written; --apply writes the batches")


def compare(
    first: Annotated[str, typer.Argument(help="A scoring; `live` is the one that trains.")],
    second: Annotated[str, typer.Argument(help="A scoring that is on the log: a shadow's, or of `rollog rescore`.")],
    *,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Compare the rewards that two scorings have on the log; scores and writes nothing."""
    from rollog.rescore_report import comparison_tree, print_comparison, with_progress
    from rollog.rescoring import plan_comparison, run_plan

    called = with_log(invocation(config, flags, home, run=run_name))
    plan = plan_comparison(called.settings, first, second, blob_dir=called.blob_dir)
    total = plan.range.num_records(plan.range.partitions)
    outcome = with_progress(total, lambda note: run_plan(plan, num_workers=1, on_progress=note))
    if as_json:
        print_json({"first": first, "second": second, **comparison_tree(outcome.comparison)})
        return
    from rollog.console import wide_console

    print_comparison(outcome.comparison, wide_console())


def mount(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.command(epilog=example("rollog rescore --verifier exact_match --domain verbs --since 2h"))(rescore)
    app.command(epilog=example("rollog compare live exact_match@1-5ae87eb750ec"))(compare)
    app.command(epilog=example("rollog rebatch --scoring exact_match@1-5ae87eb750ec --apply"))(rebatch)
