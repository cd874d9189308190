"""What the probes share: one slot, in a process namespace that nobody else is in."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.executions import Action, ExecutionLimits, Outcome
from streams.sandbox.bubblewrap import BubblewrapSandbox

SECRET = "correct-horse-battery-staple"
MEBIBYTE = 1 << 20


@pytest.fixture(name="sandbox", scope="module")
def sandbox_of_probes() -> Iterator[BubblewrapSandbox]:
    assert os.getpid() < 10, "run this through test_hostile_probes.py"
    os.environ["PROBE_SECRET"] = SECRET
    with BubblewrapSandbox(num_slots=1, home=Path(os.environ["PROBE_HOME"])) as opened:
        yield opened


def run(sandbox: BubblewrapSandbox, code: str, **limits: float) -> Outcome:
    return sandbox.run(Action(code=code, limits=ExecutionLimits(**limits)))  # type: ignore[arg-type]


def host_processes() -> set[str]:
    return {name for name in os.listdir("/proc") if name.isdigit()}


def assert_next_is_sound(sandbox: BubblewrapSandbox) -> None:
    outcome = run(sandbox, "import subprocess; print(subprocess.run(['echo', 'hi'], capture_output=True).stdout)")
    assert (outcome.status, outcome.stdout, outcome.num_leftover) == ("ok", b"b'hi\\n'\n", 0)


def cgroup_of(sandbox: BubblewrapSandbox) -> str:
    return Path("/proc", str(fork_server(sandbox)), "cgroup").read_text()


def fork_server(sandbox: BubblewrapSandbox) -> int | None:
    slot = sandbox._pool.take()
    sandbox._pool.give_back(slot, is_sound=True)
    return slot._child_pid
