"""`rollog domains`: what can be trained on, and whether it may be."""

import random
from typing import Annotated, Any

import typer

from rollog.exit_codes import ExitCode
from rollog.options import AsJson, ConfigFiles, Flags, Home, Invocation, example, invocation, print_json

app = typer.Typer(help="Task domains: list, show, try and test them.", no_args_is_help=True, rich_markup_mode=None)
Names = Annotated[list[str] | None, typer.Argument(help="Domains by name, or a beginning of names with a `*`.")]
Family = Annotated[str, typer.Option(help="Only this family.")]
TierName = Annotated[str, typer.Option("--tier", help="Only `demo`, `downstream` or `puzzle` ones.")]
Name = Annotated[str, typer.Argument(help="The domain.")]
Level = Annotated[int, typer.Option(help="Difficulty, from 0.")]
Seed = Annotated[int, typer.Option(help="Decides the item.")]


@app.command("list", epilog=example("rollog domains list --family finance"))
def list_domains(
    names: Names = None,
    *,
    family: Family = "",
    tier: TierName = "",
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
) -> None:
    """List domains: family, tier, levels, turns, tools, verifier and whose they are."""
    from rollog.domains import outline, select

    files = invocation(config, flags, None).settings.tasks.files
    rows = [outline(found) for found in select(names or (), family=family, tier=tier, files=files)]
    if as_json:
        print_json({"domains": rows})
        return
    from rich.table import Table

    from rollog.console import wide_console

    table = Table(*("domain", "family", "tier", "levels", "turns", "tools", "verifier", "source"), box=None)
    for row in rows:
        cells = (row.name, row.family, row.tier, row.levels, row.turns, ", ".join(row.tools), row.verifier, row.source)
        table.add_row(*map(str, cells))
    wide_console().print(table)
    tiers = [row.tier for row in rows]
    typer.echo(f"{len(rows)} domains: " + ", ".join(f"{tiers.count(one)} {one}" for one in dict.fromkeys(tiers)))


@app.command(epilog=example("rollog domains show finance_ratio --level 2 --seed 7"))
def show(
    name: Name,
    *,
    level: Level = 0,
    seed: Seed = 0,
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
) -> None:
    """Show one item whole: what is asked, what a right rollout says, what it is judged by."""
    import json

    import msgspec

    from rollog.domains import item_of, select_one

    found = select_one(name, level, files=invocation(config, flags, None).settings.tasks.files)
    item = item_of(found, random.Random(seed), level)
    tree: dict[str, Any] = msgspec.to_builtins(item)
    if as_json:
        print_json({"domain": found.name, "level": level, "seed": seed, "item": tree})
        return
    typer.echo(f"{found.name}: {found.summary}\n\n{item.prompt}\n")
    for turn, text in enumerate(item.gold):
        typer.echo(f"--- gold, turn {turn}\n{text}")
    typer.echo(f"--- verifier\n{json.dumps(tree['verifier'], indent=2)}")


@app.command("try", epilog=example("rollog domains try terminal_logs --level 1"))
def play_one(
    name: Name,
    *,
    level: Level = 0,
    seed: Seed = 0,
    gold: Annotated[bool, typer.Option("--gold", help="Have the right rollout said.")] = False,
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Play one item in the terminal: you are the policy. A line that is only a dot ends a turn."""
    from contextlib import ExitStack

    import msgspec

    from rollog.admission_test import task_of
    from rollog.domains import item_of, said_by_a_person, said_by_gold, select_one
    from rollog.playing import judge, play

    called = invocation(config, flags, home)
    found = select_one(name, level, files=called.settings.tasks.files)
    item = item_of(found, random.Random(seed), level)
    task = task_of(found, item, level)
    with ExitStack() as stack:
        runner = None if item.execution is None else stack.enter_context(sandbox(called))
        say = said_by_gold(item, loud=not as_json) if gold else said_by_a_person()
        finding = judge(task, play(task, say, runner))
    if as_json:
        print_json({"domain": found.name, "level": level, "seed": seed, "finding": msgspec.to_builtins(finding)})
        return
    score = finding.score
    if score is None:
        typer.echo(f"no reward: {finding.invalid_reason}: {finding.detail}")
        return
    typer.echo(f"reward {score.value:.3f}" + "".join(f"\n  {part} {value:.3f}" for part, value in score.parts.items()))
    for text in (score.detail, *score.evidence.values()):
        if text:
            typer.echo(f"  {text}")


@app.command(epilog=example("rollog domains check --all --json"))
def check(
    names: Names = None,
    *,
    family: Family = "",
    tier: TierName = "",
    every: Annotated[bool, typer.Option("--all", help="All there are.")] = False,
    num_items: Annotated[int, typer.Option("--items", min=1, help="Items of each level that are played.")] = 2,
    as_json: AsJson = False,
    config: ConfigFiles = None,
    flags: Flags = None,
    home: Home = None,
) -> None:
    """Run the admission test: gold is worth 1, garbage nothing, the same seed is the same item, and so on."""
    from rollog.domains import check_all, select
    from rollog.progress import progress
    from schemas.errors import ConfigError

    if not (names or family or tier or every):
        raise ConfigError("which domains? Name some, or give --family, --tier or --all")
    called = invocation(config, flags, home)
    chosen = select(names or (), family=family, tier=tier, files=called.settings.tasks.files)
    with sandbox(called) as runner, progress("domains") as show_progress:
        report = check_all(chosen, runner, num_items=num_items, show=show_progress)
    if as_json:
        print_json(report)
    else:
        for admission in report.domains:
            for fault in admission.faults:
                typer.echo(f"{admission.name} level {fault.level}: {fault.what}: {fault.got}")
        tiers = ", ".join(f"{number} {tier}" for tier, number in report.admitted.items())
        typer.echo(f"{sum(report.admitted.values())} of {len(report.domains)} admitted: {tiers}")
    if not report.holds:
        raise typer.Exit(ExitCode.FELL_SHORT)


def sandbox(called: Invocation) -> Any:
    """Return an open sandbox, as the settings ask for one."""
    from streams.sandbox import open_sandbox

    settings = called.settings.executor
    return open_sandbox(settings.sandbox, num_slots=1, home=called.home, allow_unsafe=settings.allow_unsafe)
