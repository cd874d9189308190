"""The verb `recompute` for many steps: progress on stderr while it works, then the verdict."""

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from consumers.feed import OpenReader
from learner.recompute_range import Check, RangeReport, StepVerdict, parse_steps, recompute_range
from rollog.options import Invocation, print_json
from schemas.errors import ConfigError

CHECKS: dict[str, Check] = {"loss": "loss", "weights": "weights"}


def recompute_steps(called: Invocation, open_reader: OpenReader, steps: str, *, check: str, as_json: bool) -> bool:
    """Take the steps again, print what came of them, and return whether all match. Raises RollogError."""
    if check not in CHECKS:
        raise ConfigError(f"--check {check!r}: wanted one of {', '.join(CHECKS)}")
    wanted = parse_steps(steps)
    columns = (TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=Console(stderr=True)) as progress:
        bar = progress.add_task("steps", total=None, note="")
        num_differ = 0

        def show(verdict: StepVerdict, total: int) -> None:
            nonlocal num_differ
            num_differ += verdict.verdict != "match"
            progress.update(bar, advance=1, total=total, note=f"{num_differ} differ" if num_differ else "")

        report = recompute_range(
            open_reader,
            called.run_dir,
            run_id=called.settings.run,
            steps=wanted,
            check=CHECKS[check],
            on_step=show,
        )
    if as_json:
        print_json(report)
    else:
        typer.echo("\n".join(lines_of(report)))
    return report.match == report.steps


def lines_of(report: RangeReport) -> list[str]:
    """Return the report for people."""
    how = "to the bit" if report.num_bitwise == report.steps else f"within {report.tolerance:g} on other kernels"
    lines = [f"steps {report.first} to {report.last}: {report.match} match {how}, {report.differ} differ"]
    if report.unreached:
        lines.append(f"{report.unreached} were not reached: a step before them could not be taken")
    for verdict in report.details:
        lines += [
            f"step {verdict.step}: {difference.what}: recorded {difference.recorded}, found {difference.found}"
            for difference in verdict.differences
        ]
    return lines
