"""Follows a run while it goes: the log for what is true, the services' /metrics for how it goes. Changes nothing."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

from consumers.reader import Reader
from rollog.accounting import Accounts
from rollog.figures import Figures, Usage, scrape, usage_of
from rollog.up import Up
from schemas.alerts import AlertRaised
from schemas.steps import StepTaken

TOPICS_FOLLOWED = ("tasks", "batches", "decisions", "deadletters", "steps", "evals", "alerts")
SCRAPE_S = 3.0


class Observer:
    """A run's state so far. `run` it as a task; read it from the same event loop."""

    def __init__(self, up: Up) -> None:
        settings = up.settings
        self.up = up
        self.accounts = Accounts(settings.run)
        self.last_step: StepTaken | None = None
        self.last_alert: AlertRaised | None = None
        self.figures: dict[str, Figures] = {}
        self.rates: dict[str, tuple[float, float]] = {}
        """Events taken and written a second, by instance."""
        self.peak_rss_mb = 0.0
        self._scraped_s = time.monotonic()
        self._used: dict[tuple[str, int], Usage] = {}
        self._reader = Reader(
            settings.log,
            TOPICS_FOLLOWED,
            blob_dir=up.home / "blobs",
            start="beginning",
            on_undecodable=lambda raw, error: None,
        )

    async def run(self, on_look: Callable[[], None], *, until: Callable[[], bool] = lambda: False) -> None:
        """Follow until `until` holds or until cancelled; `on_look` is called about twice a second."""
        try:
            while not until():
                await self.look()
                on_look()
        finally:
            self._reader.close()

    async def look(self) -> None:
        """Take what is new on the log, waiting half a second at most for something; scrape when it is time."""
        for event in await asyncio.to_thread(self._reader.poll, max_events=2000, timeout_s=0.5):
            self.accounts.add(event)
            if isinstance(event.record, StepTaken) and event.record.run_id == self.accounts.run_id:
                self.last_step = event.record
            if isinstance(event.record, AlertRaised) and event.record.run_id == self.accounts.run_id:
                self.last_alert = event.record
        if time.monotonic() - self._scraped_s >= SCRAPE_S:
            await asyncio.to_thread(self._scrape, self.up.run_dir)

    def _scrape(self, run_dir: Path) -> None:
        elapsed_s, self._scraped_s = time.monotonic() - self._scraped_s, time.monotonic()
        found = scrape(run_dir)
        for instance, now in found.items():
            before = self.figures.get(instance, Figures())
            taken, written = now.num_in - before.num_in, now.num_out - before.num_out
            self.rates[instance] = (max(0, taken) / elapsed_s, max(0, written) / elapsed_s)
        self.figures.update(found)
        self._measure()

    def _measure(self) -> None:
        """Take what every process of the run uses now; a killed one keeps what it was last seen to have used."""
        names = {process.pid: name for name, process in self.up.supervisor.processes.items()}
        names[os.getpid()] = "conductor"
        if self.up.broker is not None:
            names[self.up.broker.pid] = "broker"
        now = usage_of(names)
        self._used.update({(names.get(pid, "other"), pid): used for pid, used in now.items()})
        self.peak_rss_mb = max(self.peak_rss_mb, sum(used.rss_mb for used in now.values()))

    @property
    def cpu_s(self) -> dict[str, float]:
        """Return processor seconds by process name, all its restarts together."""
        seconds: dict[str, float] = {}
        for (name, _), used in self._used.items():
            seconds[name] = seconds.get(name, 0.0) + used.cpu_s
        return {name: round(value, 1) for name, value in sorted(seconds.items())}

    @property
    def busy(self) -> dict[str, float]:
        """Return the share of time with work in hand, by service instance, as last seen."""
        return {instance: round(figures.busy, 3) for instance, figures in sorted(self.figures.items())}

    def is_done(self) -> bool:
        """Return whether the last step was taken, first and last version were evaluated, and no task is open."""
        steps = self.up.settings.learner.steps
        domains = set(self.up.settings.tasks.domains)
        evaluated = all(domains <= set(self.accounts.solve_rates.get(version, ())) for version in (0, steps))
        reached = self.last_step is not None and self.last_step.step >= steps > 0
        return reached and evaluated and not self.accounts.open
