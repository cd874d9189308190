"""The live view of a run: a table in a terminal, a line now and then elsewhere."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rollog.alerting import line_of
from rollog.figures import Figures
from rollog.observer import Observer
from rollog.services import services_of
from rollog.up import first_of, running, told_to_stop
from schemas.config import Settings

LINE_S = 5.0
BAR = "▁▂▃▄▅▆▇█"


@contextmanager
def view(observer: Observer, console: Console) -> Iterator[Callable[[], None]]:
    """Yield what shows the observer's state when it is called."""
    if console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda: live.update(table(observer), refresh=True)
    else:
        yield Lines(observer, console)


class Lines:
    """Prints a line every few seconds, at most."""

    def __init__(self, observer: Observer, console: Console) -> None:
        self._observer, self._console, self._printed_s = observer, console, 0.0

    def __call__(self) -> None:
        """Print the line if it is time."""
        if time.monotonic() - self._printed_s >= LINE_S:
            self._printed_s = time.monotonic()
            self._console.print(line(self._observer), soft_wrap=True, highlight=False)


def line(observer: Observer) -> str:
    """Return the state in one line."""
    accounts, step = observer.accounts, observer.last_step
    parts = [f"tasks {len(accounts.issued)} issued {len(accounts.open)} open", f"step {step.step if step else 0}"]
    if step is not None:
        parts.append(f"staleness {step.stats.staleness_mean:.2f}")
        parts += [f"{domain} reward {stats.reward_mean:.2f}" for domain, stats in sorted(step.by_domain.items())]
    if observer.last_alert is not None:
        parts.append(f"{observer.accounts.counts['AlertRaised']} alerts, last: {observer.last_alert.signal}")
    solved = latest_evaluation(observer)
    parts += [f"{domain} solved {rate:.0%}" for domain, rate in solved.items()]
    return " · ".join(parts)


def latest_evaluation(observer: Observer) -> dict[str, float]:
    """Return the newest evaluated version's solve rate by domain."""
    rates = observer.accounts.solve_rates
    return dict(sorted(rates[max(rates)].items())) if rates else {}


def table(observer: Observer) -> Group:
    """Return the state as tables: services, then domains, then one line of the whole."""
    services = Table("service", "in/s", "out/s", "in flight", "lag", "busy", "restarts", box=None, pad_edge=False)
    for name in services_of(observer.up.settings):
        instance = f"{name}-0"
        figures, (taken, written) = observer.figures.get(instance), observer.rates.get(instance, (0.0, 0.0))
        restarts = str(observer.up.supervisor.restarts.get(instance, 0))
        if figures is None:
            services.add_row(name, "", "", "", "", Text("starting", style="dim"), restarts)
        else:
            services.add_row(name, *service_cells(figures, taken, written), restarts)
    parts: list[RenderableType] = [services, Text(), domain_table(observer), Text(), Text(line(observer), style="dim")]
    if observer.last_alert is not None:
        parts.append(Text(f"alert: {line_of(observer.last_alert)}", style="red"))
    return Group(*parts)


def service_cells(figures: Figures, taken: float, written: float) -> tuple[str, str, str, str, str]:
    """Return one service's figures as text."""
    bar = BAR[min(len(BAR) - 1, int(figures.busy * len(BAR)))]
    return f"{taken:.0f}", f"{written:.0f}", str(figures.in_flight), str(figures.lag), f"{bar} {figures.busy:.0%}"


def domain_table(observer: Observer) -> Table:
    """Return what training sees of each domain, and how it does on tasks that are never trained on."""
    domains = Table("domain", "reward", "staleness", "ess", "solved, held out", box=None, pad_edge=False)
    step, rates = observer.last_step, observer.accounts.solve_rates
    for domain in sorted(observer.up.settings.tasks.domains):
        stats = step.by_domain.get(domain) if step else None
        seen = (stats.reward_mean, stats.staleness_mean, stats.ess) if stats else ()
        trained = [f"{value:.2f}" for value in seen] or [""] * 3
        course = [f"{rates[version][domain]:.0%}" for version in sorted(rates) if domain in rates[version]]
        domains.add_row(domain, *trained, " → ".join(course[-6:]))
    return domains


def run_live(settings: Settings, *, home: Path) -> None:
    """Run everything and show it until told to stop; then stop in order. Raises what keeps a part from running."""
    asyncio.run(show_until_stopped(settings, home=home, console=Console()))


async def show_until_stopped(settings: Settings, *, home: Path, console: Console) -> None:
    """Run everything and show it on the console until SIGINT or SIGTERM."""
    told = asyncio.create_task(told_to_stop())
    async with running(settings, home=home, say=console.print) as up:
        observer = await asyncio.to_thread(Observer, up)
        console.print(f"run {settings.run}: {up.run_dir}")
        with view(observer, console) as show:
            await first_of(observer.run(show), up.failed(), wait_for_task(told))
        console.print("stopping, in order; nothing is lost")


async def wait_for_task(task: asyncio.Task[None]) -> None:
    """Return once the task is over, and leave it alone when cancelled."""
    await asyncio.shield(task)
