"""The embedded broker's life: start, stop, status, logs, reset.

One broker owns a data directory. Its ports stay what they were, so that clients reconnect after any restart, unless
somebody took them meanwhile. What was acknowledged outlives every way of ending, kill -9 included.
"""

import os
import shutil
import signal
import subprocess
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import msgspec

from rollog.broker.directory import BrokerDirectory, Record
from rollog.broker.launch import launch, write_files
from rollog.broker.readiness import PortTakenError, await_ready, tail
from rollog.broker.runtime import Runtime, Say, prepare
from rollog.broker.waiting import wait_for
from rollog.resolve import home_dir
from schemas.errors import BrokerError

READY_S = 60.0
GRACE_S = 10.0
KILL_S = 5.0
ATTEMPTS = 3
"""Starts, each with ports chosen anew, where somebody took one between the choice and the start."""


class BrokerStatus(msgspec.Struct, frozen=True, kw_only=True):
    """How a data directory's broker is."""

    directory: str
    running: bool
    bootstrap: str
    """What clients dial; empty where no broker was ever started here."""
    pid: int
    """Of the JVM; 0 where it does not run."""
    disk_bytes: int
    """Taken by its data; index files are preallocated and mostly holes, which do not count."""


class EmbeddedBroker:
    """A broker on a data directory. As a context manager it starts, and is stopped at the end.

    Example: `with EmbeddedBroker(Path("data")) as broker: connect(broker.bootstrap)`.
    """

    def __init__(
        self, directory: Path | None = None, *, home: Path | None = None, runtime: Runtime | None = None
    ) -> None:
        """`directory` defaults to `broker/data` in `home`, that to ROLLOG_HOME, and `runtime` to what is kept there."""
        self.home = home_dir(home)
        self.directory = BrokerDirectory(directory or self.home / "broker" / "data")
        self.runtime = runtime
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def bootstrap(self) -> str:
        """What clients dial; empty where no broker was ever started here."""
        record = self.directory.record()
        return record.bootstrap if record else ""

    def start(self, *, detached: bool = False, deadline_s: float = READY_S, say: Say = lambda _: None) -> str:
        """Start and return what clients dial, once the broker answers.

        Detached, it lives on after this process; else it ends with it (on Linux also when this process is killed, where
        the calling thread has to live as long as the process). Raises BrokerError where the directory is owned, or the
        broker does not come up; its log's end is in the message.
        """
        self.reap()
        runtime = self.runtime or prepare(self.home, say=say)
        for attempt in range(ATTEMPTS):
            try:
                return self.run(runtime, detached=detached, deadline_s=deadline_s, keep_ports=attempt == 0)
            except PortTakenError:
                if attempt == ATTEMPTS - 1:
                    raise
        raise AssertionError("every attempt returns or raises")

    def run(self, runtime: Runtime, *, detached: bool, deadline_s: float, keep_ports: bool) -> str:
        """Start the JVM and return once it answers; on failure none is left."""
        record, process = self.spawn(runtime, detached=detached, keep_ports=keep_ports)
        try:
            await_ready(self.directory, record.bootstrap, process, deadline_s=deadline_s)
        except BaseException:
            process.kill()
            process.wait()
            raise
        return record.bootstrap

    def spawn(self, runtime: Runtime, *, detached: bool, keep_ports: bool) -> tuple[Record, subprocess.Popen[bytes]]:
        """Claim the directory, make it ready, and start the JVM, which from then on is what holds the claim."""
        lock = self.directory.claim()
        try:
            record = self.directory.prepare(runtime.template, keep_ports=keep_ports)
            write_files(self.directory, record)
            archive = f"-XX:AOTCache={runtime.archive}"
            self.process = launch(runtime.java, self.directory, options=[archive], lock=lock, detached=detached)
            owner_pid = 0 if detached else os.getpid()
            self.directory.save(msgspec.structs.replace(record, pid=self.process.pid, owner_pid=owner_pid))
            return record, self.process
        finally:
            os.close(lock)

    def stop(self, *, grace_s: float = GRACE_S) -> bool:
        """Stop the directory's broker, whoever started it: SIGTERM, and SIGKILL after `grace_s`.

        Returns whether one ran. Raises BrokerError where it does not end.
        """
        record = self.directory.record()
        if not self.directory.owned() or record is None:
            self.reap()
            return False
        if not record.pid:
            raise BrokerError(f"{self.directory.path}: its broker is being started; try again once it runs")
        for name, wait_s in ((signal.SIGTERM, grace_s), (signal.SIGKILL, KILL_S)):
            with suppress(ProcessLookupError):
                os.kill(record.pid, name)
            if wait_for(lambda: not self.directory.owned(), deadline_s=wait_s):
                self.reap()
                return True
        raise BrokerError(f"{self.directory.path}: pid {record.pid} did not end, not even by SIGKILL")

    def reap(self) -> None:
        """Collect a broker of ours that has ended."""
        if self.process is not None and not self.directory.owned():
            self.process.wait()

    def status(self) -> BrokerStatus:
        """Return how the broker is, whoever started it."""
        record = self.directory.record()
        running = self.directory.owned() and not self.directory.orphaned()
        return BrokerStatus(
            directory=str(self.directory.path),
            running=running,
            bootstrap=record.bootstrap if record else "",
            pid=record.pid if record and running else 0,
            disk_bytes=self.directory.disk_bytes(),
        )

    def logs(self, *, num_lines: int = 100) -> str:
        """Return the end of the log since the last start."""
        return "\n".join(tail(self.directory, num_bytes=1 << 20).splitlines()[-num_lines:])

    def reset(self, *, yes: bool = False) -> list[Path]:
        """Delete the broker's whole log, only if `yes`; returns what is, or would be, deleted.

        Raises BrokerError while a broker runs.
        """
        if not self.directory.path.exists():
            return []
        lock = self.directory.claim()
        try:
            doomed = [path for path in sorted(self.directory.path.iterdir()) if path != self.directory.lock_path]
            for path in doomed if yes else []:
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            return doomed
        finally:
            os.close(lock)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
