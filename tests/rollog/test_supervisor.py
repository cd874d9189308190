import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from rollog.supervisor import Backoff, Command, Supervisor

DEADLINE_S = 20.0
QUICK = Backoff(first_s=0.01, max_s=0.05)
NOTE = "import os, sys; open(sys.argv[1], 'w').write(f'{sys.argv[2]} {os.getpid()}\\n')"
ENDS_AT_ONCE = f"{NOTE}; sys.exit(3)"
STAYS = f"{NOTE}; import signal; signal.sigwait([signal.SIGUSR1])"
"""Ends by SIGTERM's default action, and says nothing."""
SAYS_GOODBYE = f"""{NOTE}
import signal
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
open(sys.argv[1], 'w').write(f'ready {{sys.argv[2]}}\\n')
signal.sigwait([signal.SIGTERM])
open(sys.argv[1], 'w').write(f'end {{sys.argv[2]}}\\n')
"""
"""Waits for the signal rather than handling it: a handler may run while the pipe is closed, where its exit is lost."""
DEAF = f"""{NOTE}
import signal, subprocess
signal.signal(signal.SIGTERM, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()'])
open(sys.argv[1], 'w').write(f'ready {{child.pid}}\\n')
while True:
    signal.pause()
"""


class Notes:
    """What children say through a named pipe, line by line."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.lines = folder, folder / "notes", list[list[str]]()
        os.mkfifo(self.path)
        # Open for both, so that there is no end while no child has it open.
        self._pipe = open(self.path, "r+b", buffering=0)  # noqa: SIM115 closed with the pipe's transport
        self._reader = asyncio.StreamReader()

    async def open(self) -> asyncio.ReadTransport:
        protocol = asyncio.StreamReaderProtocol(self._reader)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, self._pipe)
        return transport

    def command(self, name: str, program: str, *, stop_s: float = DEADLINE_S) -> Command:
        arguments = (sys.executable, "-c", program, str(self.path), name)
        log = self.folder / f"{name}.log"
        return Command(name=name, arguments=arguments, environ=dict(os.environ), log=log, stop_s=stop_s)

    def by(self, word: str) -> list[str]:
        return [line[1] for line in self.lines if line[0] == word]

    async def wait(self, word: str, count: int = 1) -> list[str]:
        """Return what followed the word, once so many lines began with it."""
        async with asyncio.timeout(DEADLINE_S):
            while len(self.by(word)) < count:
                self.lines.append((await self._reader.readline()).decode().split())
        return self.by(word)


@pytest.fixture
async def notes(tmp_path: Path) -> AsyncIterator[Notes]:
    made = Notes(tmp_path)
    transport = await made.open()
    yield made
    transport.close()


async def test_a_child_that_ends_is_started_again(notes: Notes) -> None:
    ends: list[tuple[str, int]] = []
    supervisor = Supervisor(
        [notes.command("a", ENDS_AT_ONCE)], backoff=QUICK, on_exit=lambda name, code: ends.append((name, code))
    )
    supervisor.start()

    await notes.wait("a", 3)
    await supervisor.stop()

    assert supervisor.restarts["a"] >= 2
    assert set(ends) == {("a", 3)}


async def test_a_killed_child_is_started_again_and_others_go_on(notes: Notes) -> None:
    supervisor = Supervisor([notes.command("a", STAYS), notes.command("b", STAYS)], backoff=QUICK)
    supervisor.start()
    await notes.wait("a")
    await notes.wait("b")
    other = supervisor.processes["b"].pid

    os.kill(supervisor.processes["a"].pid, signal.SIGKILL)
    await notes.wait("a", 2)

    assert supervisor.restarts == {"a": 1, "b": 0}
    assert supervisor.processes["b"].pid == other
    await supervisor.stop()


async def test_children_are_stopped_one_after_the_other_in_order(notes: Notes) -> None:
    names = ["c", "a", "b"]
    supervisor = Supervisor([notes.command(name, SAYS_GOODBYE) for name in names], backoff=QUICK)
    supervisor.start()
    await notes.wait("ready", 3)

    await supervisor.stop()

    await notes.wait("end", 3)
    assert notes.by("end") == names
    assert all(process.returncode == 0 for process in supervisor.processes.values())
    assert supervisor.restarts == dict.fromkeys(names, 0)


async def test_a_deaf_child_is_killed_at_its_deadline_with_all_it_started(notes: Notes) -> None:
    supervisor = Supervisor([notes.command("a", DEAF, stop_s=0.1)], backoff=QUICK)
    supervisor.start()
    await notes.wait("ready")
    grandchild = int(notes.by("ready")[0])

    await supervisor.stop()

    assert supervisor.processes["a"].returncode == -signal.SIGKILL
    psutil.wait_procs([psutil.Process(grandchild)] if psutil.pid_exists(grandchild) else [], timeout=DEADLINE_S)
    assert not psutil.pid_exists(grandchild) or psutil.Process(grandchild).status() == psutil.STATUS_ZOMBIE


async def test_stopping_before_anything_runs_starts_nothing_more(notes: Notes) -> None:
    supervisor = Supervisor([notes.command(name, STAYS) for name in "abc"], backoff=QUICK)
    supervisor.start()

    async with asyncio.timeout(DEADLINE_S):
        await supervisor.stop()

    assert all(process.returncode is not None for process in supervisor.processes.values())


async def test_what_cannot_be_started_at_all_is_an_error(tmp_path: Path) -> None:
    missing = Command(name="a", arguments=(str(tmp_path / "none"),), environ={}, log=tmp_path / "a.log")
    supervisor = Supervisor([missing], backoff=QUICK)
    supervisor.start()

    with pytest.raises(FileNotFoundError):
        await supervisor.failed()
    await supervisor.stop()


async def test_output_of_a_child_is_in_its_log(notes: Notes, tmp_path: Path) -> None:
    supervisor = Supervisor([notes.command("a", f"print('hello', flush=True); {NOTE}")], backoff=QUICK)
    supervisor.start()
    await notes.wait("a")
    await supervisor.stop()

    assert "hello" in (tmp_path / "a.log").read_text()


def test_backoff_doubles_up_to_its_limit() -> None:
    backoff = Backoff(first_s=0.5, factor=2.0, max_s=3.0)

    assert [backoff.delay_s(failures) for failures in (1, 2, 3, 4, 5)] == [0.5, 1.0, 2.0, 3.0, 3.0]
