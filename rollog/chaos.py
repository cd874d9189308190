"""The demo's run while its processes are killed, and whether the log shows any trace of it.

Every service is killed with SIGKILL, ten kills in all, and the broker once, at moments that the seed and the run's own
progress decide. The verdict is the log's: who ended each task, which step trained on what, when output came again.
"""

import asyncio
import json
import math
import os
import random
import signal
import time
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
from rich.console import Console

from rollog.accounting import Accounts, read_accounts
from rollog.demo import demo_settings, fresh_run, shown, with_signals
from rollog.exit_codes import ExitCode
from rollog.observer import Observer
from rollog.resolve import home_dir
from rollog.services import SERVICES, services_of
from rollog.up import Up, first_of, running
from schemas.config import LogSettings
from schemas.errors import StuckError

NUM_KILLS = 10
SETTINGS = (
    "learner.steps=240",
    # Small steps say soon that the learner is back; as much is in flight as in the demo.
    "learner.groups_per_step=8",
    "tasks.num_samples=8",
    "admission.max_staleness=8",
    # A policy that hardly learns: what each service writes a second would change with what is solved.
    "learner.learning_rate=2e-5",
    "evaluation.every=80",
)
DEADLINE_S = 840.0
RECOVERY_BAR_S = 10.0
FULL_RATE = 0.8
"""Share of the rate before a kill that counts as full: rates vary from step to step."""
BEFORE_S, AFTER_S = 10.0, 5.0
"""Seconds before a kill, and from a moment after it, over which output is counted."""
WITNESS = dict.fromkeys(("evaluator", "alerts", "sealer", "curriculum", "broker"), "learner")
"""Whose output tells, for what has none of its own or only now and then."""
Figure = dict[str, Any]


class Kill(msgspec.Struct, frozen=True, kw_only=True):
    """One kill that was done."""

    victim: str
    """A service, or `broker`."""
    time_s: float
    """Wall clock."""
    step: int
    """The learner's, then."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """One kill that is due once the learner has taken so many steps, and a moment later."""

    victim: str
    step: int
    delay_s: float


def plan_kills(seed: int, *, steps: int, services: Sequence[str]) -> list[Plan]:
    """Return every service in turn, more up to the number wanted, and the broker among them; spread over the run."""
    rng = random.Random(seed)
    victims = list(services)
    rng.shuffle(victims)
    victims += rng.sample(victims, NUM_KILLS - len(victims))
    victims.insert(rng.randrange(2, NUM_KILLS), "broker")
    span = 0.9 * steps / (len(victims) + 1)
    return [
        Plan(victim=victim, step=round(span * (index + 1 + rng.uniform(-0.15, 0.15))), delay_s=rng.uniform(0.0, 1.0))
        for index, victim in enumerate(victims)
    ]


def run_chaos(seed: int, files: Sequence[Path], flags: Sequence[str], *, home: Path | None) -> ExitCode:
    """Run it all and print one line of JSON per figure. Raises RollogError where it cannot be done."""
    console, places = Console(stderr=True), home_dir(home)
    settings = demo_settings(seed, files, [*SETTINGS, *flags])
    settings = fresh_run(settings, places, prefix=f"chaos-{seed}")
    plans = plan_kills(seed, steps=settings.learner.steps, services=services_of(settings))

    async def work() -> list[Figure]:
        async with running(settings, home=places, say=console.print) as up:
            observer = await asyncio.to_thread(Observer, up)
            kills = await let_loose(up, observer, plans, console)
            await up.supervisor.stop()
            accounts = read_accounts(up.settings.log, settings.run, blob_dir=places / "blobs")
            times = output_times(up.settings.log, places / "blobs")
            return figures_of(accounts, kills, times, observer, num_planned=len(plans))

    figures = asyncio.run(with_signals(work()))
    for figure in figures:
        print(json.dumps(figure), flush=True)  # noqa: T201 this is what the verb is for
    return ExitCode.OK if all(figure["holds"] for figure in figures) else ExitCode.FELL_SHORT


async def let_loose(up: Up, observer: Observer, plans: Sequence[Plan], console: Console) -> list[Kill]:
    """Kill as planned, until the run is done. Raises StuckError at the deadline."""
    kills: list[Kill] = []
    with shown(observer, console) as show:

        def on_look() -> None:
            show()
            step = observer.last_step.step if observer.last_step else 0
            if len(kills) + len(pending) < len(plans) and step >= plans[len(kills)].step and not pending:
                pending.append(asyncio.get_running_loop().call_later(plans[len(kills)].delay_s, kill))

        def kill() -> None:
            pending.clear()
            victim = plans[len(kills)].victim
            os.kill(pid_of(up, victim), signal.SIGKILL)
            step = observer.last_step.step if observer.last_step else 0
            kills.append(Kill(victim=victim, time_s=time.time(), step=step))
            console.print(f"killed {victim} at step {step}")

        pending: list[asyncio.TimerHandle] = []
        try:
            following = observer.run(on_look, until=observer.is_done)
            await asyncio.wait_for(first_of(following, up.failed()), DEADLINE_S)
        except TimeoutError as error:
            raise StuckError(f"not done after {DEADLINE_S:.0f} s and {len(kills)} kills; see {up.run_dir}") from error
    return kills


def pid_of(up: Up, victim: str) -> int:
    """Return the process to kill."""
    if victim != "broker":
        return up.supervisor.processes[f"{victim}-0"].pid
    if up.broker is None or not up.broker.pid:
        raise StuckError("the broker cannot be killed: it is not the embedded one; unset log.bootstrap")
    return up.broker.pid


def output_times(log: LogSettings, blob_dir: Path) -> dict[str, list[float]]:
    """Return when each service wrote, by service, in order."""
    from consumers.reader import Reader

    times: dict[str, list[float]] = {name: [] for name in SERVICES}
    topics = ["tasks", "rollouts", "executions", "rewards", "batches", "decisions", "steps", "evals"]
    reader = Reader(log, topics, blob_dir=blob_dir, start="beginning", bounded=True, headers_only=True)
    for event in reader:
        service = event.source.removeprefix("rollog/").rpartition("-")[0]
        # A learner's publications and decisions follow its steps; only these are its output.
        if service in times and (service != "learner" or (event.position and event.position.topic == "steps")):
            times[service].append(event.time_s)
    reader.close()
    return {name: sorted(found) for name, found in times.items()}


def recovery_s(times: Sequence[float], kill_s: float) -> float:
    """Return the seconds from the kill to the first output that begins a stretch at full rate; else infinity.

    Full is the rate just before, but no more than the usual one: an evaluation's tasks come in a burst.
    """
    before = min(count_between(times, kill_s - BEFORE_S, kill_s) / BEFORE_S, usual_rate(times))
    for moment in times[bisect_left(times, kill_s) :]:
        if count_between(times, moment, moment + AFTER_S) / AFTER_S >= FULL_RATE * before:
            return moment - kill_s
    return float("inf")


def usual_rate(times: Sequence[float]) -> float:
    """Return the median over the run of the outputs a second; 0 where it is too short to tell."""
    num_windows = int((times[-1] - times[0]) / BEFORE_S) if times else 0
    starts = (times[0] + index * BEFORE_S for index in range(num_windows))
    counts = [count_between(times, start, start + BEFORE_S) for start in starts]
    return median(counts) / BEFORE_S if counts else 0.0


def count_between(times: Sequence[float], start_s: float, end_s: float) -> int:
    """Return how many of the sorted times are in [start, end)."""
    return bisect_left(times, end_s) - bisect_left(times, start_s)


def figure(name: str, value: float | None, unit: str, bar: float, *, holds: bool) -> Figure:
    """Return one line of the verdict."""
    return {"name": name, "value": value, "unit": unit, "bar": bar, "holds": holds}


def figures_of(
    accounts: Accounts, kills: Iterable[Kill], times: dict[str, list[float]], observer: Observer, *, num_planned: int
) -> list[Figure]:
    """Return the verdict."""
    kills, steps = list(kills), observer.up.settings.learner.steps
    zero = {
        "tasks_open": accounts.tasks.open,
        "tasks_ended_twice": len(accounts.ended_twice),
        "tasks_not_adding_up": int(not accounts.tasks.add_up),
        "batches_trained_twice": len(accounts.trained_twice),
        "steps_with_two_results": len(accounts.forked_steps),
    }
    figures = [
        figure("chaos_kills", len(kills), "kills", num_planned, holds=len(kills) >= num_planned),
        figure("chaos_steps", len(accounts.steps), "steps", steps, holds=len(accounts.steps) == steps),
        figure("chaos_tasks", accounts.tasks.issued, "tasks", 1, holds=accounts.tasks.issued > 0),
        *(figure(name, value, "count", 0, holds=value == 0) for name, value in zero.items()),
    ]
    for kill in kills:
        seconds = recovery_s(times[WITNESS.get(kill.victim, kill.victim)], kill.time_s)
        name, holds = f"recovery_{kill.victim}_at_step_{kill.step}", seconds <= RECOVERY_BAR_S
        value = round(seconds, 2) if math.isfinite(seconds) else None
        figures.append(figure(name, value, "s", RECOVERY_BAR_S, holds=holds))
    return figures
