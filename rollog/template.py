"""Starts services by forking a process that has imported what they import, so that one is back in a moment.

Loading torch, transformers and Faust costs seconds of processor time; forking a process that has them, next to nothing.
The template is the standard library's fork server. What must hold: it has one thread; it dies with the process that it
serves, and so do the services forked from it; no service gets anything else from it than modules.
"""

import asyncio
import gc
import importlib
import multiprocessing
import os
import signal
import sys
from collections.abc import Mapping
from multiprocessing import forkserver
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from rollog.supervisor import Child, Command, die_with

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
PRELOADED = (
    "rollog.cli",
    "rollog.services",
    "producers.issuer",
    "producers.generator",
    "producers.samplers.transformers",
    "streams.transport",
    "streams.executor",
    "streams.verifier",
    "streams.assembler",
    "streams.evaluator",
    "streams.alerts",
    "learner.loop",
    "transformers.models.llama.modeling_llama",
)
PR_SET_NAME = 15


class Forked:
    """A child made by the template."""

    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process

    @property
    def returncode(self) -> int | None:
        """Return how it ended, as `subprocess` has it; None while it runs."""
        return self._process.exitcode

    async def wait(self) -> int:
        """Return how it ended, once it has."""
        ended, loop = asyncio.Event(), asyncio.get_running_loop()
        loop.add_reader(self._process.sentinel, ended.set)
        try:
            await ended.wait()
        finally:
            loop.remove_reader(self._process.sentinel)
        self._process.join()
        code = self._process.exitcode
        assert code is not None
        return code

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.returncode is None:
            os.kill(self.pid, number)


class Template:
    """Makes children. Used from the main thread, whose life theirs are tied to."""

    def __init__(self) -> None:
        self._context = multiprocessing.get_context("forkserver")

    def start(self) -> None:
        """Begin to load; returns at once. Harmless when done before."""
        self._context.set_forkserver_preload(["rollog.preloaded"])
        # Here and not in the thread that `spawn` uses: the template dies with the thread that started it.
        forkserver.ensure_running()

    async def spawn(self, command: Command) -> Child:
        """Start a command of this program, `sys.executable -m MODULE ...`, as soon as the template has loaded.

        Raises ConnectionError where the template has just ended: it is made anew once the system knows its end.
        """
        interpreter, flag, module, *arguments = command.arguments
        if (interpreter, flag) != (sys.executable, "-m"):
            raise ValueError(f"{command.name}: wanted a module of this interpreter, got {command.arguments[:3]}")
        args = (command.name, module, tuple(arguments), dict(command.environ), command.log)
        self.start()
        process = self._context.Process(target=become, name=command.name, args=args)
        try:
            await asyncio.to_thread(process.start)
        except EOFError as error:
            raise ConnectionError(f"{command.name}: the template ended before it could fork") from error
        return Forked(process)


def preload() -> None:
    """Make this process a template: import, and note that it is to end with the process that it serves."""
    os.environ.update(ONE_THREAD)
    die_with(os.getppid())
    for module in PRELOADED:
        importlib.import_module(module)
    # Otherwise every collection of a child would write to, and so copy, the pages that it shares.
    gc.collect()
    gc.freeze()


def become(name: str, module: str, arguments: tuple[str, ...], environ: Mapping[str, str], log: Path) -> None:
    """Be the command, in a fork: what a new process would have of its own is made its own."""
    os.setsid()
    die_with(os.getppid())
    with log.open("ab") as file:
        os.dup2(file.fileno(), sys.stdout.fileno())
        os.dup2(file.fileno(), sys.stderr.fileno())
    os.environ.clear()
    os.environ.update(environ)
    set_name(name)
    sys.argv = [module, *arguments]
    importlib.import_module(module).main()


def set_name(name: str) -> None:
    """Have `ps` and `top` show the name rather than the template's."""
    import ctypes

    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(PR_SET_NAME, name.encode()[:15], 0, 0, 0)
