import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from rollog.supervisor import Backoff, Command, Supervisor
from rollog.template import Template

DEADLINE_S = 60.0
OWNER = """
import asyncio, os, sys
from pathlib import Path
from rollog.supervisor import Command
from rollog.template import Template

async def own():
    arguments = (sys.executable, "-m", "tests.rollog.forked_program", "wait")
    command = Command(name="a", arguments=arguments, environ=dict(os.environ), log=Path(sys.argv[1]))
    child = await Template().spawn(command)
    print(child.pid, flush=True)
    await child.wait()

if __name__ == "__main__":
    asyncio.run(own())
"""


def command(log: Path, *arguments: str, **environ: str) -> Command:
    program = (sys.executable, "-m", "tests.rollog.forked_program", *arguments)
    return Command(name="verifier-0", arguments=program, environ=environ, log=log)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


def facts(log: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(log.read_text())
    return found


async def test_a_child_has_its_own_arguments_environment_session_and_log(log: Path) -> None:
    child = await Template().spawn(command(log, "x", "--y", ONLY="this"))

    assert await child.wait() == 5

    found = facts(log)
    assert (found["arguments"], found["environ"]) == (["x", "--y"], {"ONLY": "this"})
    assert found["pid"] == found["session"] == child.pid
    assert child.returncode == 5


async def test_a_child_has_the_modules_and_no_thread_but_its_own(log: Path) -> None:
    child = await Template().spawn(command(log))
    await child.wait()

    found = facts(log)
    assert found["modules"] == ["torch", "faust", "transformers"]
    assert (found["num_threads"], found["num_tasks"]) == (1, 1)
    assert psutil.Process(found["parent"]).num_threads() == 1


async def test_a_killed_child_says_by_which_signal(log: Path) -> None:
    child = await Template().spawn(command(log, "wait"))
    child.send_signal(signal.SIGKILL)

    assert await child.wait() == -signal.SIGKILL
    child.send_signal(signal.SIGTERM)


async def test_a_killed_template_is_made_anew_with_the_children_that_died_with_it(log: Path) -> None:
    os.mkfifo(log)
    supervisor = Supervisor([command(log, "wait")], spawn=Template().spawn, backoff=Backoff(first_s=0.01, max_s=0.05))
    with log.open("r+b", buffering=0) as said:
        supervisor.start()
        first = json.loads(await asyncio.to_thread(said.readline))
        os.kill(first["parent"], signal.SIGKILL)
        again = json.loads(await asyncio.to_thread(said.readline))
        await supervisor.stop()

    assert again["pid"] != first["pid"]
    assert again["parent"] != first["parent"]
    assert supervisor.restarts["verifier-0"] >= 1


async def test_what_is_no_module_is_refused(log: Path) -> None:
    with pytest.raises(ValueError, match="verifier-0: wanted a module"):
        await Template().spawn(Command(name="verifier-0", arguments=("/bin/true", "-m", "x"), environ={}, log=log))


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux ends a process with its parent")
def test_children_die_with_a_killed_owner(log: Path) -> None:
    script = log.with_name("owner.py")
    script.write_text(OWNER)
    environ = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    owner = subprocess.Popen([sys.executable, str(script), str(log)], stdout=subprocess.PIPE, env=environ)
    assert owner.stdout is not None
    child = psutil.Process(int(owner.stdout.readline()))

    owner.kill()
    owner.wait()

    psutil.wait_procs([child], DEADLINE_S)
    assert not child.is_running() or child.status() == psutil.STATUS_ZOMBIE
