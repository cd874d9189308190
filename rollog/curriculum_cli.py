"""The verbs `curriculum show`, `verify` and `set`: the balance of domains, checked and changed."""

from typing import TYPE_CHECKING, Annotated

import typer

from rollog.exit_codes import ExitCode
from rollog.options import (
    AsJson,
    ConfigFiles,
    Flags,
    Home,
    RunName,
    example,
    invocation,
    print_json,
    with_log,
)

if TYPE_CHECKING:
    from rich.table import Table

    from schemas.mix_commands import Change
    from schemas.mixes import MixRevised

curriculum = typer.Typer(
    help="How much of which domain is issued, at which level.", no_args_is_help=True, rich_markup_mode=None
)
Named = list[str] | None


@curriculum.command(epilog=example("rollog curriculum show --run demo-0-1"))
def show(
    *,
    tokens: Annotated[bool, typer.Option("--tokens", help="Effective shares too: reads all rollouts.")] = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Show the newest mix: weight, level and what was measured, by domain."""
    from rollog.accounting import read_accounts
    from rollog.console import wide_console
    from rollog.mixing import latest_mix, tree_of, versions_of

    called = with_log(invocation(config, flags, home, run=run_name))
    log, run = called.settings.log, called.settings.run
    mix = latest_mix(log, run, blob_dir=called.blob_dir)
    shares = None
    if tokens:
        topics = ("tasks", "rollouts", "steps")
        shares = read_accounts(log, run, blob_dir=called.blob_dir, topics=topics).effective_share
    tree = tree_of(mix, versions_of(log, called.settings, blob_dir=called.blob_dir), shares)
    if as_json:
        print_json(tree)
        return
    console = wide_console()
    console.print(table_of(mix, shares))
    policy = tree["policy"]
    lines = [f"run {mix.run_id}: mix {mix.version}, for: {mix.cause}"]
    if policy["newest"] != policy["for_use"]:
        lines.append(f"policy version {policy['newest']} is for training alone; for use is {policy['for_use']}")
    if shares:
        lines.append(f"{shares['*']:.1%} of the tokens drawn for training were trained on")
    console.print("\n".join(lines), highlight=False, soft_wrap=True)


@curriculum.command(epilog=example("rollog curriculum verify --run demo-0-1 --json"))
def verify(
    *,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Fold every revision and decide every task again, from the log alone; exit status 1 where one differs."""
    from rollog.mixing import verify_mixes
    from rollog.progress import progress

    called = with_log(invocation(config, flags, home, run=run_name))
    with progress("folding again") as on_progress:
        verdict = verify_mixes(called.settings, blob_dir=called.blob_dir, on_progress=on_progress)
    if as_json:
        print_json(verdict)
    else:
        counts = f"{verdict.num_tasks} tasks under them, {verdict.num_by_settings} under none"
        typer.echo(f"{verdict.num_mixes} mixes, {counts}")
        for what in verdict.differences:
            typer.echo(f"differs: {what}")
        typer.echo("match" if verdict.match else f"{verdict.num_differences} differences")
    if not verdict.match:
        raise typer.Exit(ExitCode.FELL_SHORT)


@curriculum.command("set", epilog=example("rollog curriculum set --run demo-0-1 --pause verbs --apply"))
def set_mix(
    *,
    weight: Annotated[Named, typer.Option(help="DOMAIN=W, beside the others of its family; repeat it.")] = None,
    quota: Annotated[Named, typer.Option(help="FAMILY=Q, share of all groups; FAMILY=none takes it back.")] = None,
    level: Annotated[Named, typer.Option(help="DOMAIN=L: go on from this level.")] = None,
    pause: Annotated[Named, typer.Option(help="DOMAIN: issue none of it.")] = None,
    resume: Annotated[Named, typer.Option(help="DOMAIN: issue it again, also after a quarantine.")] = None,
    reason: Annotated[str, typer.Option(help="Why, for whoever reads the log.")] = "",
    apply: Annotated[bool, typer.Option("--apply", help="Give the command; without it nothing is written.")] = False,
    run_name: RunName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Change the mix by hand, from its next revision on; kept in history as a command."""
    from rollog.mixing import latest_mix
    from rollog.recall_cli import give
    from schemas.mix_commands import VERBS, command_id, command_of, parse_change

    called = with_log(invocation(config, flags, home, run=run_name))
    given = dict(zip(VERBS, (weight, level, quota, pause, resume), strict=True))
    changes = [parse_change(verb, text) for verb, texts in given.items() for text in texts or ()]
    mix = latest_mix(called.settings.log, called.settings.run, blob_dir=called.blob_dir)
    check_changes(changes, mix)
    command = command_of(mix.run_id, changes, given_by="rollog curriculum set", reason=reason)
    if apply:
        give(called, command, command_id(command, mix.version))
    if as_json:
        said = [{"verb": one.verb, "name": one.name, "value": one.value} for one in changes]
        print_json({"run": mix.run_id, "mix_version": mix.version, "changes": said, "applied": apply})
        return
    for one in changes:
        typer.echo(str(one))
    typer.echo("given; the next revision of the mix obeys" if apply else "nothing written; --apply gives the command")


def check_changes(changes: "list[Change]", mix: "MixRevised") -> None:
    """Raise ConfigError for nothing to do, for names that the mix does not have, and for two words about one thing."""
    from schemas.errors import ConfigError

    if not changes:
        raise ConfigError("curriculum set: nothing to change; wanted --weight, --quota, --level, --pause or --resume")
    families = {one.family for one in mix.domains.values()}
    for change in changes:
        known = families if change.verb == "quota" else mix.domains.keys()
        if change.name not in known:
            raise ConfigError(f"--{change.verb} {change.name!r}: mix {mix.version} has {', '.join(sorted(known))}")
    said = [(("pause" if one.verb == "resume" else one.verb), one.name) for one in changes]
    twice = next((one for one in said if said.count(one) > 1), None)
    if twice is not None:
        raise ConfigError(f"curriculum set: {twice[0]} of {twice[1]!r} is said twice; wanted once")
    quotas = sum(one.value or 0.0 for one in changes if one.verb == "quota")
    if quotas > 1:
        raise ConfigError(f"--quota: shares come to {quotas:g}; wanted at most 1")


def table_of(mix: "MixRevised", shares: dict[str, float] | None = None) -> "Table":
    """Return a mix as a table, the largest weight first; with effective shares, where they are given."""
    from rich.table import Table

    from schemas.mixes import MILLION

    columns = ("domain", "family", "status", "weight", "level", "solved", "|A|", "flat", "no value", "cost s", "groups")
    table = Table(*columns, *([] if shares is None else ["effective"]), box=None, pad_edge=False)
    for name, one in sorted(mix.domains.items(), key=lambda found: (-found[1].weight, found[0])):
        solved, flat, abstained = (f"{share:.1%}" for share in (one.solve_rate, one.zero_variance, one.abstained))
        table.add_row(
            name, one.family, one.status, f"{one.weight / MILLION:.1%}", f"{one.level:.2f}", solved,
            f"{one.advantage:.2f}", flat, abstained, f"{one.cost_s:.2f}", str(one.ended),
            *([] if shares is None else [f"{shares.get(name, 0.0):.1%}"]),
        )  # fmt: skip
    return table


def mount(app: typer.Typer) -> None:
    """Add the verbs to the command line."""
    app.add_typer(curriculum, name="curriculum")
