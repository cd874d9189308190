"""Processes that score, each killed and replaced where it hangs or dies.

Jobs go to a process several ahead, since a round trip costs more than a cheap scoring; answers come one by one, so that
the job at the head is known to be the one that hangs. Only that one is charged an attempt; those behind go to the next
process as if nothing had been. What must hold: no answer, however hostile, holds up the event loop or another job for
longer than `attempts` deadlines.
"""

import asyncio
import os
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import MappingProxyType

import msgspec

from schemas.errors import StuckError
from streams.scoring import Finding, Job

LENGTH = struct.Struct(">I")
NUM_AHEAD = 16
"""Jobs that a process has at once, where they are cheap."""
START_S = 60.0
"""Seconds that a process may take to start."""
CLOSE_S = 5.0
COMMAND = (sys.executable, "-m", "streams.verifiers.worker")


async def end(process: asyncio.subprocess.Process) -> None:
    """Kill a process, by its id, and close its pipes."""
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
    with suppress(TimeoutError):  # a pipe that something else holds open is left to itself
        async with asyncio.timeout(CLOSE_S):
            await process.communicate()


class Pending:
    """A job and who waits for it."""

    def __init__(self, job: Job, then: Callable[[Finding], None]) -> None:
        body = msgspec.msgpack.encode(job)
        self.frame = LENGTH.pack(len(body)) + body
        self.then = then
        self.num_attempts = 0


class ScoringPool:
    """`num_processes` verifier processes. One event loop owns it; nothing starts before the first job."""

    def __init__(
        self,
        *,
        num_processes: int,
        timeout_s: float,
        attempts: int,
        on_error: Callable[[BaseException], None],
        command: tuple[str, ...] = COMMAND,
        environment: Mapping[str, str] = MappingProxyType({}),
        num_ahead: int = NUM_AHEAD,
    ) -> None:
        """Take what processes get.

        `on_error` hears why the pool gave up: StuckError where no process can be started. `environment` is laid on this
        process' own. With `num_ahead` 1 no job waits behind another while a process is free.
        """
        self._timeout_s, self._attempts, self._on_error = timeout_s, attempts, on_error
        self._num_processes, self._command, self._environment = num_processes, command, dict(environment)
        self._num_ahead = num_ahead
        self._queue: asyncio.Queue[Pending] = asyncio.Queue()
        self._decoder = msgspec.msgpack.Decoder(Finding)
        self._servers: list[asyncio.Task[None]] = []
        self.num_replaced = 0
        """Processes that hung or died."""

    def submit(self, job: Job, then: Callable[[Finding], None]) -> None:
        """Queue a job; `then` gets a finding, however the verifier behaves."""
        if not self._servers:
            self._servers = [asyncio.create_task(self._serve()) for _ in range(self._num_processes)]
            for server in self._servers:
                server.add_done_callback(self._report)
        self._queue.put_nowait(Pending(job, then))

    async def close(self) -> None:
        """Kill the processes; open jobs stay unanswered."""
        for server in self._servers:
            server.cancel()
        await asyncio.gather(*self._servers, return_exceptions=True)

    def _report(self, server: asyncio.Task[None]) -> None:
        if not server.cancelled() and (error := server.exception()) is not None:
            self._on_error(error)

    async def _serve(self) -> None:
        """Keep one process busy, and have another when it hangs or dies."""
        mine: deque[Pending] = deque()
        while True:
            process = await self._start()
            try:
                await self._feed(process, mine)
            except (TimeoutError, asyncio.IncompleteReadError, OSError, msgspec.MsgspecError) as error:
                self.num_replaced += 1
                await end(process)
                self._charge(mine, error, process.returncode)
            finally:
                await end(process)

    async def _feed(self, process: asyncio.subprocess.Process, mine: deque[Pending]) -> None:
        """Give jobs and take answers until the process fails."""
        assert process.stdin is not None
        process.stdin.writelines(pending.frame for pending in mine)  # what its predecessor left
        while True:
            while len(mine) < self._num_ahead and not (mine and self._queue.empty()):
                pending = await self._queue.get()
                mine.append(pending)
                process.stdin.write(pending.frame)
            finding = self._decoder.decode(await self._read(process, self._timeout_s))
            head = mine[0]
            head.num_attempts += 1
            if finding.score is None and head.num_attempts < self._attempts:
                mine.rotate(-1)
                process.stdin.write(head.frame)
                continue
            mine.popleft()
            head.then(msgspec.structs.replace(finding, attempts=head.num_attempts))

    def _charge(self, mine: deque[Pending], error: Exception, exit_code: int | None) -> None:
        """Count an attempt against the job at the head, and settle it where that was the last."""
        if not mine:
            return
        head = mine[0]
        head.num_attempts += 1
        if head.num_attempts < self._attempts:
            return
        mine.popleft()
        if isinstance(error, TimeoutError):
            reason, detail = "verifier_timeout", f"no answer within {self._timeout_s} s"
        else:
            reason, detail = "verifier_error", f"the verifier's process failed (exit code {exit_code}): {error!r}"
        head.then(Finding(invalid_reason=reason, detail=detail, attempts=head.num_attempts))

    async def _start(self) -> asyncio.subprocess.Process:
        """Return a process that is ready. Raises StuckError."""
        root = str(Path(__file__).parents[1])
        path = os.pathsep.join(part for part in (root, os.environ.get("PYTHONPATH", "")) if part)
        process = await asyncio.create_subprocess_exec(
            *self._command,
            str(self._timeout_s),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | self._environment | {"PYTHONPATH": path},
        )
        try:
            await self._read(process, START_S)
        except (TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            await end(process)
            raise StuckError(
                f"verifier process {' '.join(self._command)} did not start within {START_S} s ({error!r}); "
                "its own words are on the error stream above"
            ) from error
        return process

    async def _read(self, process: asyncio.subprocess.Process, timeout_s: float) -> bytes:
        assert process.stdout is not None
        async with asyncio.timeout(timeout_s):
            header = await process.stdout.readexactly(LENGTH.size)
            return await process.stdout.readexactly(LENGTH.unpack(header)[0])
