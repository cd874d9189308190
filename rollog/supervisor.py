"""Keeps child processes running: one process group each, restarted with exponential backoff, stopped in order.

What must hold: no child outlives `stop`; none is started once it has begun; a child that stayed up for `healthy_s`
starts from the smallest backoff again. Nothing sleeps: every wait is for a process to end or for the word to stop.
"""

import asyncio
import ctypes
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import msgspec

PR_SET_PDEATHSIG = 1


class Backoff(msgspec.Struct, frozen=True, kw_only=True):
    """How long to wait before the next start."""

    first_s: float = 0.2
    factor: float = 2.0
    max_s: float = 10.0
    healthy_s: float = 10.0
    """Time up after which the next failure counts as the first."""

    def delay_s(self, num_failures: int) -> float:
        """Return the wait after that many failures in a row, from 1."""
        return float(min(self.max_s, self.first_s * self.factor ** (num_failures - 1)))


class Command(msgspec.Struct, frozen=True, kw_only=True):
    """One child: what to run, under which name."""

    name: str
    arguments: tuple[str, ...]
    environ: Mapping[str, str]
    log: Path
    """Both its output streams are appended here."""
    stop_s: float = 15.0
    """Seconds from SIGTERM to SIGKILL."""


class Child(Protocol):
    """A process of ours; `asyncio.subprocess.Process` is one."""

    @property
    def pid(self) -> int:
        """Return its id, which is its group's too."""

    @property
    def returncode(self) -> int | None:
        """Return how it ended: its status, or the negative of the signal that did it; None while it runs."""

    async def wait(self) -> int:
        """Return how it ended, once it has."""

    def send_signal(self, signal: signal.Signals, /) -> None:
        """Send it a signal."""


Spawn = Callable[[Command], Awaitable[Child]]
"""Starts a command. ConnectionError means that another try may succeed; any other error that none will."""


async def execute(command: Command) -> Child:
    """Start a command as a new program."""
    with command.log.open("ab") as log:
        return await asyncio.create_subprocess_exec(
            *command.arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=dict(command.environ),
            start_new_session=True,
        )


class Supervisor:
    """Runs commands until stopped. Used from one event loop."""

    def __init__(
        self,
        commands: Sequence[Command],
        *,
        spawn: Spawn = execute,
        backoff: Backoff | None = None,
        on_exit: Callable[[str, int], None] = lambda name, code: None,
    ) -> None:
        """Take the commands in the order of stopping; `on_exit` hears of every end that was not asked for."""
        self.commands = tuple(commands)
        self.restarts: dict[str, int] = dict.fromkeys((command.name for command in commands), 0)
        self.processes: dict[str, Child] = {}
        self._spawn, self._backoff, self._on_exit = spawn, backoff or Backoff(), on_exit
        self._stopping = {command.name: asyncio.Event() for command in commands}
        self._keepers: dict[str, asyncio.Task[None]] = {}

    def start(self) -> None:
        """Start every child."""
        for command in self.commands:
            self._keepers[command.name] = asyncio.create_task(self._keep(command), name=command.name)

    async def failed(self) -> None:
        """Return never, or raise what a keeper raised: a command that cannot be started at all, say."""
        done, _ = await asyncio.wait(self._keepers.values(), return_when=asyncio.FIRST_EXCEPTION)
        for keeper in done:
            keeper.result()

    async def stop(self) -> None:
        """Stop all children, one after the other in order; SIGTERM, then SIGKILL to the group at its deadline."""
        for command in self.commands:
            await self._stop(command)

    async def _stop(self, command: Command) -> None:
        self._stopping[command.name].set()
        keeper = self._keepers.get(command.name)
        if keeper is None:
            return
        self._signal(command.name, signal.SIGTERM)
        done, _ = await asyncio.wait({keeper}, timeout=command.stop_s)
        if not done:
            self._signal(command.name, signal.SIGKILL)
            await asyncio.wait({keeper})

    def _signal(self, name: str, number: signal.Signals) -> None:
        process = self.processes.get(name)
        if process is not None and process.returncode is None:
            process.send_signal(number)

    async def _keep(self, command: Command) -> None:
        """Run one child again and again until it is to stop."""
        num_failures, stopping = 0, self._stopping[command.name]
        while not stopping.is_set():
            started_s = time.monotonic()
            command.log.parent.mkdir(parents=True, exist_ok=True)
            try:
                process = self.processes[command.name] = await self._spawn(command)
            except ConnectionError:
                num_failures += 1
                await wait_or_timeout(stopping, self._backoff.delay_s(num_failures))
                continue
            if stopping.is_set():
                process.send_signal(signal.SIGTERM)
            code = await process.wait()
            end_group(process.pid)
            if stopping.is_set():
                return
            self.restarts[command.name] += 1
            self._on_exit(command.name, code)
            healthy = time.monotonic() - started_s >= self._backoff.healthy_s
            num_failures = 1 if healthy else num_failures + 1
            await wait_or_timeout(stopping, self._backoff.delay_s(num_failures))


async def wait_or_timeout(flag: asyncio.Event, timeout_s: float) -> bool:
    """Return whether the flag was set within the time."""
    try:
        await asyncio.wait_for(flag.wait(), timeout_s)
    except TimeoutError:
        return False
    return True


def end_group(pid: int) -> None:
    """Kill what a child that ended left behind in its process group."""
    try:
        os.killpg(pid, signal.SIGKILL)
    except ProcessLookupError:
        return


def die_with(parent: int) -> None:
    """Ask the kernel for SIGKILL when the parent, or the thread of it that made us, ends. Only on Linux."""
    if not sys.platform.startswith("linux"):
        return
    ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(f"the parent {parent} is gone")
