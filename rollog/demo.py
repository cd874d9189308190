"""The demo: one short training run from nothing to its report, on a fresh namespace of the log.

It is `rollog up` to a set number of steps with somebody watching: nothing here takes part in the loop.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from rollog.accounting import read_accounts
from rollog.disk import log_bytes
from rollog.exit_codes import ExitCode
from rollog.live import Lines
from rollog.observer import Observer
from rollog.report import account_tree, bytes_per_token, print_report
from rollog.resolve import home_dir, resolve
from rollog.up import Up, child_environ, first_of, running, told_to_stop
from schemas.config import Settings
from schemas.errors import ConfigError, StuckError

CONFIG = Path("demo/demo.toml")
DEADLINE_S = 900.0
BEFORE_MAX, AFTER_MIN = 0.30, 0.90
Tree = dict[str, Any]
R = TypeVar("R")


def run_demo(seed: int, files: Sequence[Path], flags: Sequence[str], *, home: Path | None) -> ExitCode:
    """Run it all, print the report, and last the path of report.json. Raises RollogError where it cannot be done."""
    console, places = Console(), home_dir(home)
    settings = fresh_run(demo_settings(seed, files, flags), places, prefix=f"demo-{seed}")
    report = asyncio.run(with_signals(demo(settings, home=places, console=console)))
    path = places / "runs" / settings.run / "report.json"
    path.write_text(json.dumps(report, indent=2) + "\n")
    print_report(report, console)
    console.print(str(path), soft_wrap=True, highlight=False)
    return ExitCode.FELL_SHORT if report["findings"] else ExitCode.OK


def demo_settings(seed: int, files: Sequence[Path], flags: Sequence[str]) -> Settings:
    """Return demo.toml, under what the command line says. Raises ConfigError."""
    if not CONFIG.is_file():
        raise ConfigError(f"{CONFIG.absolute()} is not there: run this from the top of a clone of rollog")
    settings = resolve([CONFIG, *files], [f"seed={seed}", *flags])
    if settings.learner.steps < 1 or settings.evaluation.every < 1:
        raise ConfigError("learner.steps and evaluation.every must be more than 0: a demo ends, and shows what changed")
    return settings


def fresh_run(settings: Settings, home: Path, *, prefix: str) -> Settings:
    """Return the settings with a run name that was never used here, and a namespace of the log by that name."""
    number = 1
    while True:
        run = f"{prefix}-{number}"
        try:
            (home / "runs" / run).mkdir(parents=True)
        except FileExistsError:
            number += 1
            continue
        log = msgspec.structs.replace(settings.log, namespace=f"{run}.")
        return msgspec.structs.replace(settings, run=run, log=log)


async def with_signals(work: Coroutine[Any, Any, R]) -> R:
    """Return what the work returns; SIGINT or SIGTERM cancels it, and it stops in order."""
    result: list[R] = []

    async def keep() -> None:
        result.append(await work)

    await first_of(keep(), told_to_stop())
    if not result:
        raise StuckError("told to stop before the end; all services were stopped in order")
    return result[0]


async def demo(settings: Settings, *, home: Path, console: Console) -> Tree:
    """Run everything until it is done, stop the services, and return the report."""
    started_s = time.monotonic()
    async with running(settings, home=home, say=console.print) as up:
        console.print(f"run {settings.run}: {up.run_dir}", soft_wrap=True, highlight=False)
        observer = await asyncio.to_thread(Observer, up)
        await watch(up, observer, console)
        await up.supervisor.stop()
        console.print("recomputing a step from the log")
        recompute = await asyncio.to_thread(recompute_middle, up, observer)
        return await asyncio.to_thread(compile_report, up, observer, recompute, started_s)


async def watch(up: Up, observer: Observer, console: Console, *, deadline_s: float = DEADLINE_S) -> None:
    """Return when the run is done. Raises StuckError at the deadline."""
    with shown(observer, console) as show:
        try:
            following = observer.run(show, until=observer.is_done)
            await asyncio.wait_for(first_of(following, up.failed()), deadline_s)
        except TimeoutError as error:
            accounts, step = observer.accounts, observer.last_step.step if observer.last_step else 0
            raise StuckError(
                f"not done after {deadline_s:.0f} s: step {step} of {up.settings.learner.steps}, {len(accounts.open)} "
                f"tasks open, versions evaluated: {sorted(accounts.solve_rates)}; see {up.run_dir / 'logs'}"
            ) from error


@contextmanager
def shown(observer: Observer, console: Console) -> Iterator[Callable[[], None]]:
    """Yield what shows progress: a bar in a terminal, lines elsewhere."""
    if not console.is_terminal:
        yield Lines(observer, console)
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[note]}"), console=console) as progress:
        steps = progress.add_task("steps", total=observer.up.settings.learner.steps, note="starting")
        tasks = progress.add_task("tasks ended", total=None, note="")

        def show() -> None:
            accounts, step = observer.accounts, observer.last_step
            rewards = sorted(step.by_domain.items()) if step else []
            note = "  ".join(f"{domain} {stats.reward_mean:.2f}" for domain, stats in rewards)
            progress.update(steps, completed=step.step if step else 0, note=note and f"reward: {note}")
            progress.update(tasks, completed=len(accounts.issued) - len(accounts.open), total=len(accounts.issued))

        yield show


def recompute_middle(up: Up, observer: Observer) -> Tree:
    """Recompute a step about the middle of the run in a process of its own, and return what it says."""
    step = middle_step(observer.last_step.step if observer.last_step else 1, every=up.settings.learner.keep_every)
    places = ("--config", str(up.run_dir / "settings.json"), "--home", str(up.home), "--json")
    done = subprocess.run(
        (sys.executable, "-m", "rollog.cli", "recompute", str(step), *places),
        env=child_environ(os.environ, up.settings),
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode not in (ExitCode.OK, ExitCode.FELL_SHORT):
        return {"step": step, "match": False, "error": done.stderr.strip()[-2000:]}
    found: Tree = json.loads(done.stdout)
    return found


def middle_step(last: int, *, every: int) -> int:
    """Return the step after the last checkpoint of the first half that is kept: one that need not begin far before."""
    return min(last, last // 2 // every * every + 1)


def compile_report(up: Up, observer: Observer, recompute: Tree, started_s: float) -> Tree:
    """Return the report; `findings` names every goal that was missed."""
    settings = up.settings
    accounts = read_accounts(settings.log, settings.run, blob_dir=up.home / "blobs")
    report = account_tree(accounts)
    on_disk = log_bytes(settings.log, up.home)
    report |= bytes_per_token(on_disk or dict(accounts.event_bytes), accounts.num_tokens)
    report |= {
        "bytes_counted": "segment files" if on_disk else "events before compression",
        "seed": settings.seed,
        "recompute": recompute,
        "busy": observer.busy,
        "cpu_s": observer.cpu_s,
        "restarts": up.supervisor.restarts,
        "peak_rss_mb": round(observer.peak_rss_mb, 1),
        "wall_s": round(time.monotonic() - started_s, 1),
        "log": {"bootstrap": settings.log.bootstrap, "namespace": settings.log.namespace},
        "log_dir": str(up.broker.broker.directory.data) if up.broker else "",
        "checkpoints": str(up.run_dir / "checkpoints"),
        "settings": str(up.run_dir / "settings.json"),
    }
    report["findings"] += goals_missed(report, domains=settings.tasks.domains)
    return report


def goals_missed(report: Tree, *, domains: Collection[str]) -> list[str]:
    """Return what the demo promises and this run did not do."""
    before, after = report["solve_rate"]["before"], report["solve_rate"]["after"]
    missed = []
    for domain in sorted(domains):
        if before.get(domain, 1.0) > BEFORE_MAX:
            missed.append(f"{domain} solved {before.get(domain)} before; wanted at most {BEFORE_MAX}")
        if after.get(domain, 0.0) < AFTER_MIN:
            missed.append(f"{domain} solved {after.get(domain)} after; wanted at least {AFTER_MIN}")
    if not report["recompute"]["match"]:
        missed.append(f"step {report['recompute']['step']} recomputed differs from the log")
    return missed
