"""Sessions: turns share what they leave, a limit or a crash takes it away, and the next turn starts afresh."""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import SandboxError
from schemas.executions import ExecutionLimits
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.session import BubblewrapSession


@pytest.fixture
def session(sandbox: BubblewrapSandbox) -> Iterator[BubblewrapSession]:
    with sandbox.open_session() as opened:
        yield opened


def test_cells_share_variables_and_show_the_last_value(session: BubblewrapSession) -> None:
    assert session.run_cell("x = 20\ndef f(y):\n    return x + y", 5.0).stdout == b""
    outcome = session.run_cell("print('a')\nf(22)", 5.0)
    assert (outcome.status, outcome.stdout, outcome.exit_code, outcome.state_lost) == ("ok", b"a\n42\n", 0, False)
    assert session.run_cell("_", 5.0).stdout == b"42\n"
    assert session.run_cell("", 5.0).status == "ok"


def test_an_error_in_a_cell_ends_the_cell_only(session: BubblewrapSession) -> None:
    session.run_cell("x = 1", 5.0)
    outcome = session.run_cell("x = 2\n1 / 0\nx = 3", 5.0)
    assert (outcome.status, outcome.exit_code) == ("nonzero", 1)
    assert b"line 2" in outcome.stderr
    assert b"1 / 0" in outcome.stderr
    assert outcome.stderr.endswith(b"ZeroDivisionError: division by zero\n")
    assert session.run_cell("import sys; sys.exit(4)", 5.0).exit_code == 4
    assert b"SyntaxError" in session.run_cell("def", 5.0).stderr
    assert session.run_cell("x", 5.0).stdout == b"2\n"


def test_commands_and_cells_share_files_and_processes(session: BubblewrapSession) -> None:
    outcome = session.run_command("echo data > file; sleep 60 & echo $!", 5.0)
    assert outcome.status == "ok"
    pid = int(outcome.stdout)
    assert session.run_cell("open('file').read()", 5.0).stdout == b"'data\\n'\n"
    assert session.run_command(f"kill -0 {pid} && cat /proc/{pid}/comm", 5.0).stdout == b"sleep\n"
    assert session.run_command("exit 9", 5.0).exit_code == 9


def test_a_turn_that_passes_its_deadline_loses_the_state_and_says_so(session: BubblewrapSession) -> None:
    session.run_cell("x = 1", 5.0)
    session.put("file", b"x")
    outcome = session.run_cell("print('partial')\nwhile True: pass", 0.5)
    assert (outcome.status, outcome.state_lost, outcome.stdout) == ("timed_out", True, b"partial\n")
    after = session.run_cell("x", 5.0)
    assert (after.status, after.state_lost) == ("nonzero", False)
    assert b"NameError" in after.stderr
    with pytest.raises(SandboxError, match="No such file"):
        session.get("file")
    assert session.run_command("sleep 60", 0.3).status == "timed_out"


def test_an_interpreter_that_ends_is_told_by_its_own_cell(session: BubblewrapSession) -> None:
    for code, expected in (
        ("import os; os._exit(3)", ("nonzero", 3, None)),
        ("import os; os.kill(os.getpid(), 11)", ("signaled", None, 11)),
    ):
        outcome = session.run_cell(code, 5.0)
        assert (outcome.status, outcome.exit_code, outcome.signal) == expected
        assert outcome.state_lost
    session.run_cell("import os; pid = os.getpid(); open('pid', 'w').write(str(pid))", 5.0)
    session.run_command("kill -9 $(cat pid); sleep 0.1", 5.0)
    outcome = session.run_cell("1", 5.0)
    assert (outcome.status, outcome.signal, outcome.state_lost) == ("signaled", 9, True)
    assert session.run_cell("1", 5.0).stdout == b"1\n"


def test_each_turn_has_its_own_processor_time_and_output(sandbox: BubblewrapSandbox) -> None:
    limits = ExecutionLimits(cpu_s=0.4, output_bytes=1 << 16, keep_bytes=100)
    with sandbox.open_session(limits) as session:
        burn = "import time\nend = time.process_time() + 0.2\nwhile time.process_time() < end: pass"
        assert [session.run_cell(burn, 10.0).status for _ in range(4)] == ["ok"] * 4
        assert session.run_cell("while True: pass", 10.0).status == "cpu_limit"
        outcome = session.run_cell("print('x' * 1000)", 10.0)
        assert (outcome.status, outcome.stdout_bytes, len(outcome.stdout)) == ("ok", 1001, 100)
        outcome = session.run_cell("while True: print('x' * 1000)", 10.0)
        assert (outcome.status, outcome.state_lost) == ("output_limit", True)


def test_memory_that_a_session_may_not_have_ends_it(sandbox: BubblewrapSandbox) -> None:
    with sandbox.open_session(ExecutionLimits(memory_bytes=64 << 20)) as session:
        outcome = session.run_cell("x = bytearray(1 << 30)", 10.0)
        assert outcome.status in {"oom", "nonzero"}
        assert outcome.state_lost == (outcome.status == "oom")
        assert session.run_cell("1", 5.0).stdout == b"1\n"


def test_files_go_in_and_out_whole(session: BubblewrapSession) -> None:
    data = bytes(range(256)) * 4096
    session.put("a/b/c", data)
    assert session.get("a/b/c") == data
    session.put("a/b/c", b"")
    assert session.get("a/b/c") == b""
    with pytest.raises(SandboxError, match=r"No space left|File too large"):
        session.put("big", bytes(40 << 20))
    with pytest.raises(SandboxError, match="must be relative"):
        session.put("../x", b"")


def test_a_session_without_room_for_a_cell_says_so_as_the_programs_error(sandbox: BubblewrapSandbox) -> None:
    with sandbox.open_session(ExecutionLimits(file_bytes=1 << 16)) as session:
        assert session.run_command("head -c 200000 /dev/zero > fill", 5.0).status != "infra_error"
        outcome = session.run_cell("1", 5.0)
        assert (outcome.status, outcome.exit_code) == ("nonzero", 126)
        assert b"No space left" in outcome.stderr


def test_sessions_are_apart_and_close(sandbox: BubblewrapSandbox) -> None:
    with sandbox.open_session() as one, sandbox.open_session() as other:
        one.put("f", b"1")
        with pytest.raises(SandboxError):
            other.get("f")
    with pytest.raises(SandboxError, match="closed"):
        one.run_cell("1", 1.0)


def test_a_session_whose_slot_dies_is_an_infra_error_and_goes_on(session: BubblewrapSession) -> None:
    assert session._slot is not None
    os.kill(session._slot._child_pid or 0, signal.SIGKILL)
    outcome = session.run_cell("1", 5.0)
    assert (outcome.status, outcome.state_lost) == ("infra_error", True)
    assert session.run_cell("1", 5.0).stdout == b"1\n"


def test_home_is_where_everything_lies(home: Path) -> None:
    assert {path.name.split("-")[0] for path in (home / "sandbox").iterdir()} == {"rootfs", "rootfs.lock", "pools"}
