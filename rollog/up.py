"""All of a run on this machine: broker if need be, topics, services as processes; and all of it stopped in order.

    up (this process, one event loop)
     |-- broker    only where no cluster is configured and none runs yet; started first, stopped last
     |-- issuer, curriculum, evaluator, generator, executor, verifier, assembler, learner, sealer    one process each,
     |   stopped in this order

What must hold: whatever ends unasked is started again; whatever is stopped loses nothing; no process is left.
"""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import msgspec

from rollog.broker import EmbeddedBroker
from rollog.resolve import client_to_environ, save
from rollog.services import services_of
from rollog.supervisor import Backoff, Command, Supervisor, wait_or_timeout
from rollog.template import ONE_THREAD, Template
from rollog.topics import check_topics, create_topics
from schemas.config import Settings
from schemas.errors import BrokerError, ConfigError

Say = Callable[[str], None]
NOT_INHERITED = ("PYTHONDONTWRITEBYTECODE",)


class BrokerKeeper:
    """The embedded broker as long as a run needs it: uses one that runs, else starts one, restarts it, and stops it."""

    def __init__(self, broker: EmbeddedBroker, *, say: Say, on_start: Callable[[], None] = lambda: None) -> None:
        """`on_start` is called after every start."""
        self.broker = broker
        self.restarts = 0
        self._say, self._on_start = say, on_start
        self._stopping = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="broker")

    async def start(self) -> str:
        """Return the address to dial. Raises BrokerError."""
        status = self.broker.status()
        if status.running:
            return status.bootstrap
        self._say("starting the embedded broker")
        bootstrap = await self._start()
        self._keeper = asyncio.create_task(self._keep(bootstrap), name="broker")
        return bootstrap

    async def stop(self) -> None:
        """Stop the broker if this keeper started it."""
        self._stopping.set()
        if self._keeper is not None:
            await asyncio.to_thread(self.broker.stop)
            await self._keeper
        self._thread.shutdown()

    async def failed(self) -> None:
        """Return never, or raise what keeps the broker from running where it was."""
        # Shielded: who waits here may be cancelled, the broker is kept on.
        await (asyncio.shield(self._keeper) if self._keeper is not None else asyncio.Event().wait())

    @property
    def pid(self) -> int:
        """Return the process id, 0 where it does not run."""
        return self.broker.status().pid

    async def _start(self) -> str:
        loop = asyncio.get_running_loop()
        bootstrap = await loop.run_in_executor(self._thread, lambda: self.broker.start(say=self._say))
        self._on_start()
        return bootstrap

    async def _keep(self, bootstrap: str) -> None:
        loop, backoff, num_failures = asyncio.get_running_loop(), Backoff(), 0
        while True:
            if self.broker.process is not None:
                await loop.run_in_executor(self._thread, self.broker.process.wait)
            if self._stopping.is_set():
                return
            self.restarts += 1
            self._say("the broker ended; starting it again")
            try:
                again, num_failures = await self._start(), 0
            except BrokerError as error:
                num_failures += 1
                self._say(str(error))
                if await wait_or_timeout(self._stopping, backoff.delay_s(num_failures)):
                    return
                continue
            if again != bootstrap:
                raise BrokerError(f"the broker came back at {again}, no longer at {bootstrap}: restart `rollog up`")


class Up(msgspec.Struct, kw_only=True):
    """What runs now."""

    settings: Settings
    """With the log's address."""
    home: Path
    run_dir: Path
    supervisor: Supervisor
    broker: BrokerKeeper | None

    async def failed(self) -> None:
        """Return never, or raise what keeps a part from being started again."""
        await first_of(self.supervisor.failed(), *([self.broker.failed()] if self.broker else []))


@asynccontextmanager
async def running(settings: Settings, *, home: Path, say: Say) -> AsyncIterator[Up]:
    """Run everything within the block; leaving it, by whatever way, stops all in order."""
    run_dir = home / "runs" / settings.run
    keeper = None if settings.log.bootstrap else BrokerKeeper(EmbeddedBroker(home=home), say=say)
    saved, template = save(settings, run_dir), Template()
    template.start()
    try:
        if keeper is not None:
            log = msgspec.structs.replace(settings.log, bootstrap=await keeper.start())
            settings = msgspec.structs.replace(settings, log=log)
        await asyncio.to_thread(prepare_topics, settings)
        supervisor = Supervisor(
            [service_command(name, settings, saved, home=home) for name in services_of(settings)],
            spawn=template.spawn,
            on_exit=lambda name, code: say(f"{name} ended with status {code}; see {run_dir / 'logs'}"),
        )
        supervisor.start()
        try:
            yield Up(settings=settings, home=home, run_dir=run_dir, supervisor=supervisor, broker=keeper)
        finally:
            await supervisor.stop()
    finally:
        if keeper is not None:
            await keeper.stop()


async def first_of(*parts: Coroutine[Any, Any, object]) -> None:
    """Run all until one is over, cancel the others, and raise what that one raised."""
    tasks = [asyncio.ensure_future(part) for part in parts]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    for task in done:
        task.result()


async def told_to_stop() -> None:
    """Return at the first SIGINT or SIGTERM; a second SIGINT is Python's own again."""
    told, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, told.set)
    await told.wait()


def prepare_topics(settings: Settings) -> None:
    """Create the topics that are missing. Raises ConfigError where those that are there cannot be used."""
    create_topics(settings.log)
    wrong = [drift for drift in check_topics(settings.log) if drift.setting == "partitions"]
    if wrong:
        raise ConfigError(f"{wrong[0]}; set log.partitions to what the log has, or log.namespace to start another log")


def service_command(name: str, settings: Settings, saved: Path, *, home: Path) -> Command:
    """Return how a service's process is started."""
    instance = f"{name}-0"
    arguments = (sys.executable, "-m", "rollog.cli", "run", name, "--instance", instance)
    places = ("--config", str(saved), "--home", str(home))
    return Command(
        name=instance,
        arguments=arguments + places,
        environ=child_environ(os.environ, settings),
        log=saved.parent / "logs" / f"{instance}.log",
    )


def child_environ(environ: Mapping[str, str], settings: Settings) -> dict[str, str]:
    """Return the environment of a service: one thread per library, and what must not stand in a file."""
    kept = {name: value for name, value in environ.items() if name not in NOT_INHERITED}
    return kept | ONE_THREAD | client_to_environ(settings.log.client) | {"ROLLOG_BOOTSTRAP": settings.log.bootstrap}
