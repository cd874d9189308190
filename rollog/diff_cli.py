"""The verb `diff`: two runs side by side, for people or as JSON."""

from typing import Annotated, Any

import typer

from rollog.options import AsJson, Home, example, invocation, print_json, with_log

Tree = dict[str, Any]
MOST_STEPS = 24
"""Rows of the curves for people; all are in the JSON."""


def diff(
    first: Annotated[str, typer.Argument(help="A run that was started here, or a fork.")],
    second: Annotated[str, typer.Argument(help="Another one.")],
    *,
    as_json: AsJson = False,
    home: Home = None,
) -> None:
    """Compare two runs: settings, what they trained on, curves, held-out results, and the first step that differs."""
    from rollog.diffing import diff_runs

    found = diff_runs(*(with_log(invocation(None, None, home, run=run)) for run in (first, second)))
    if as_json:
        print_json(found)
    else:
        show(found)


def show(found: Tree) -> None:
    """Print it for people."""
    from rich.console import Console

    console = Console()
    for name in "ab":
        console.print(words(found[name]), highlight=False, markup=False, soft_wrap=True)
    for table in tables_of(found):
        if table.row_count:
            console.print(table, "")
    for what, step in found["first_difference"].items():
        at = "no step differs" if step is None else f"the first step that differs is {step}"
        console.print(f"by {what}: {at}", highlight=False)


def words(run: Tree) -> str:
    """Return what a run is."""
    origin = run["forked_from"]
    came = (
        f", forked from step {origin['step']} of {origin['run']} on rewards of {origin['scoring_id']}" if origin else ""
    )
    return f"{run['run']}: up to step {run['last_step']}{came}"


def tables_of(found: Tree) -> list[Any]:
    """Return settings, what was trained on, curves and held-out results as tables."""
    from rich.markup import escape
    from rich.table import Table

    a, b = escape(found["a"]["run"]), escape(found["b"]["run"])
    settings = Table("setting", a, b, box=None, pad_edge=False)
    for name, values in found["settings"].items():
        settings.add_row(name, *(escape(str(value)) for value in values))
    trained = Table("trained on", f"rows {a}", f"rows {b}", f"reward {a}", f"reward {b}", box=None, pad_edge=False)
    for domain, pair in found["trained"].items():
        rows = (f"{one['num_rows']} ({one['share']:.0%})" for one in pair.values())
        trained.add_row(domain, *rows, *(f"{one['reward_mean']:.3f}" for one in pair.values()))
    curves = Table("step", f"reward {a}", f"reward {b}", f"loss {a}", f"loss {b}", "", box=None, pad_edge=False)
    for row in some(found["curves"], found["first_difference"]["weights"]):
        same = row["a"] and row["b"] and row["a"]["weights"] == row["b"]["weights"]
        figures = [figure(row[name], part) for part in ("reward_mean", "loss") for name in "ab"]
        curves.add_row(str(row["step"]), *figures, "same weights" if same else "")
    held_out = Table("held out", "version", a, b, box=None, pad_edge=False)
    for row in found["held_out"]:
        held_out.add_row(row["domain"], str(row["version"]), *(share(row[name]) for name in "ab"))
    return [settings, trained, curves, held_out]


def some(rows: list[Tree], important: int | None) -> list[Tree]:
    """Return rows evenly spread, the first and the last and the one of the important step among them."""
    if len(rows) <= MOST_STEPS:
        return rows
    chosen = {round(place * (len(rows) - 1) / (MOST_STEPS - 1)) for place in range(MOST_STEPS)}
    return [row for place, row in enumerate(rows) if place in chosen or row["step"] == important]


def figure(taken: Tree | None, part: str) -> str:
    """Return a figure of a step, nothing where there is none."""
    return "" if taken is None else f"{taken[part]:.4f}"


def share(value: float | None) -> str:
    """Return a solve rate, nothing where there is none."""
    return "" if value is None else f"{value:.1%}"


def mount(app: typer.Typer) -> None:
    """Add the verb to the command line."""
    app.command(epilog=example("rollog diff demo-0-1 demo-topr --json"))(diff)
