"""What goes wrong with the sandbox itself: it is tried again, told as such, repaired in the background, swept up."""

import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from schemas.errors import SandboxError
from schemas.executions import Action, ExecutionLimits
from streams.sandbox import bubblewrap as bubblewrap_module
from streams.sandbox import bwrap, preflight
from streams.sandbox import slot as slot_module
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.cgroups import find_parent
from streams.sandbox.enforcement import Enforcement, _counts_by_namespace
from streams.sandbox.seccomp import build_filter
from tests.streams.sandbox.isolation import ROOT

HELLO = Action(code='print("hello")')
_HOST = """
import sys, threading
from pathlib import Path
from schemas.executions import Action
from streams.sandbox.bubblewrap import BubblewrapSandbox
sandbox = BubblewrapSandbox(num_slots=2, home=Path(sys.argv[1]))
session = sandbox.open_session()
session.run_cell("import subprocess; p = subprocess.Popen(['sleep', '600'])", 5.0)
code = "import os, time\\nos.fork()\\nos.setsid() if os.getpid() == 3 else None\\ntime.sleep(600)"
threading.Thread(target=sandbox.run, args=(Action(code=code),), daemon=True).start()
slots = [sandbox._pool.take(), session._slot]
print(sandbox._name.text, *(slot._child_pid for slot in slots), flush=True)
threading.Event().wait()
"""


def fork_servers(sandbox: BubblewrapSandbox) -> list[int]:
    slots = [sandbox._pool.take() for _ in range(sandbox.num_slots)]
    for slot in slots:
        sandbox._pool.give_back(slot, is_sound=True)
    return [slot._child_pid or 0 for slot in slots]


def wait_until_gone(pids: list[int]) -> None:
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        assert select.select([pidfd], [], [], 30.0)[0], pid
        os.close(pidfd)


def test_a_dead_fork_server_costs_an_attempt_not_an_answer(home: Path) -> None:
    with BubblewrapSandbox(num_slots=2, home=home) as sandbox:
        first, second = fork_servers(sandbox)
        os.kill(first, signal.SIGKILL)
        wait_until_gone([first])
        outcomes = [sandbox.run(HELLO) for _ in range(3)]
        assert [outcome.status for outcome in outcomes] == ["ok"] * 3
        assert sorted(outcome.attempt for outcome in outcomes) == [1, 1, 2]
        assert second in fork_servers(sandbox)
        assert first not in fork_servers(sandbox)


def test_a_sandbox_that_fails_twice_is_an_infra_error(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with BubblewrapSandbox(num_slots=1, home=home) as sandbox:
        run = slot_module.Slot.run

        def die_first(self: slot_module.Slot, *arguments: object) -> object:
            os.kill(self._child_pid or 0, signal.SIGKILL)
            return run(self, *arguments)  # type: ignore[arg-type]

        monkeypatch.setattr(slot_module.Slot, "run", die_first)
        outcome = sandbox.run(HELLO)
        assert (outcome.status, outcome.attempt, outcome.exit_code) == ("infra_error", 2, None)
        assert "died" in outcome.error
        monkeypatch.undo()
        assert sandbox.run(HELLO).stdout == b"hello\n"


def test_a_fork_server_that_hangs_is_given_up(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_module, "_GRACE_S", 0.1)
    monkeypatch.setattr(slot_module, "_STOP_S", 5.0)
    with BubblewrapSandbox(num_slots=1, home=home) as sandbox:
        (server,) = fork_servers(sandbox)
        os.kill(server, signal.SIGSTOP)
        outcome = sandbox.run(Action(code=HELLO.code, limits=ExecutionLimits(wall_s=2.0)))
        assert (outcome.status, outcome.attempt) == ("ok", 2)
        wait_until_gone([server])


def test_a_fork_server_is_replaced_after_its_share_of_jobs(home: Path) -> None:
    with BubblewrapSandbox(num_slots=1, home=home, jobs_per_slot=3) as sandbox:
        sandbox.run(HELLO)
        (first,) = fork_servers(sandbox)
        outcomes = [sandbox.run(HELLO) for _ in range(4)]
        assert {(outcome.status, outcome.attempt) for outcome in outcomes} == {("ok", 1)}
        assert fork_servers(sandbox) != [first]
        wait_until_gone([first])


def test_one_action_may_have_a_sandbox_of_its_own(sandbox: BubblewrapSandbox) -> None:
    outcome = sandbox.run_fresh(Action(kind="command", code="echo $$; exit 3"))
    assert (outcome.stdout, outcome.exit_code, outcome.isolation) == (b"2\n", 3, "namespaces")


def test_files_that_do_not_fit_are_the_sandboxs_error(sandbox: BubblewrapSandbox) -> None:
    action = Action(code="1", files={"big": bytes(1 << 20)}, limits=ExecutionLimits(file_bytes=1 << 16))
    outcome = sandbox.run(action)
    assert outcome.status == "infra_error"
    assert "No space left" in outcome.error or "File too large" in outcome.error


def test_a_deadline_before_the_program_was_even_read_leaves_the_pool_whole(sandbox: BubblewrapSandbox) -> None:
    action = Action(code="1", stdin=bytes(32 << 20), limits=ExecutionLimits(wall_s=0.001))
    assert sandbox.run(action).status in {"infra_error", "timed_out"}
    assert [sandbox.run(HELLO).stdout for _ in range(4)] == [b"hello\n"] * 4


def test_large_inputs_and_much_kept_output_come_through(sandbox: BubblewrapSandbox) -> None:
    data = bytes(range(256)) * (1 << 12)
    action = Action(
        code="from sys import *\nstdout.buffer.write(stdin.buffer.read())\nstderr.buffer.write(open('f', 'rb').read())",
        stdin=data,
        files={"f": data},
        limits=ExecutionLimits(keep_bytes=2 << 20),
    )
    outcome = sandbox.run(action)
    assert (outcome.stdout, outcome.stderr) == (data, data)


def test_without_cgroups_resource_limits_hold(sandbox_without_cgroups: BubblewrapSandbox) -> None:
    sandbox = sandbox_without_cgroups
    limits = ExecutionLimits(memory_bytes=64 << 20, num_processes=10)
    outcome = sandbox.run(Action(code="x = bytearray(1 << 30)", limits=limits))
    assert outcome.stderr.endswith(b"MemoryError\n")
    code = "import os, time\nn = 0\ntry:\n while os.fork(): n += 1\n time.sleep(60)\nexcept OSError: print(n)"
    outcome = sandbox.run(Action(code=code, limits=limits))
    assert 7 <= int(outcome.stdout) <= 10
    assert outcome.num_leftover >= 7
    assert sandbox.run(HELLO).num_leftover == 0


def test_a_killed_host_leaves_no_process_and_the_next_sweeps_its_groups(home: Path) -> None:
    host = subprocess.Popen([sys.executable, "-c", _HOST, str(home)], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert host.stdout is not None
    with host, host.stdout:
        name, *pids = host.stdout.readline().split()
        host.kill()
        host.wait()
    assert len(pids) == 2
    wait_until_gone([int(pid) for pid in pids])
    lock = home / "sandbox" / "pools" / name
    assert lock.exists()
    with BubblewrapSandbox(num_slots=1, home=home) as sandbox:
        assert not lock.exists()
        parent = find_parent()
        if parent is not None:
            assert list(parent.memory.glob(f"rollog-{name}-*")) == []
            assert len(list(parent.memory.glob(f"rollog-{sandbox._name.text}-*"))) == 1
        own = sandbox._name.text
    if parent is not None:
        assert list(parent.memory.glob(f"rollog-{own}-*")) == []


def test_a_host_without_bwrap_is_told_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bwrap.shutil, "which", lambda name: None)
    monkeypatch.setattr(bwrap.util, "find_spec", lambda name: None)
    with pytest.raises(SandboxError, match=r"bubblewrap.*pip install 'rollog\[sandbox\]'"):
        bwrap.find_bwrap()


def test_a_set_user_id_bwrap_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    system = tmp_path / "bwrap"
    system.touch()
    monkeypatch.setattr(bwrap.shutil, "which", lambda name: str(system))
    system.chmod(0o755)
    assert bwrap.find_bwrap() == system
    system.chmod(0o4755)
    assert bwrap.find_bwrap() != system


def test_a_host_that_denies_namespaces_is_explained(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    denier = tmp_path / "package" / "bin" / "bwrap"
    denier.parent.mkdir(parents=True)
    denier.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    denier.chmod(0o755)
    tmp_path.chmod(0o755)
    monkeypatch.setattr(bubblewrap_module, "find_bwrap", lambda: denier)
    with pytest.raises(SandboxError, match=r"No permissions to create new namespace.*unsafe-subprocess"):
        BubblewrapSandbox(num_slots=1, home=home)


def test_a_host_where_jobs_cannot_run_is_found_out_at_once(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_all = build_filter()[:40] + b"\x06\x00\x00\x00\x01\x00\x05\x00"
    monkeypatch.setattr(bubblewrap_module, "build_filter", lambda: refuse_all)
    with pytest.raises(SandboxError, match="could not run a program"):
        BubblewrapSandbox(num_slots=1, home=home)


@pytest.mark.parametrize(
    ("setting", "value", "remedy"),
    [
        ("kernel/apparmor_restrict_unprivileged_userns", "1", "AppArmor"),
        ("kernel/unprivileged_userns_clone", "0", "unprivileged_userns_clone=1"),
        ("user/max_user_namespaces", "0", "max_user_namespaces=15000"),
    ],
)
def test_each_way_to_deny_has_its_remedy(setting: str, value: str, remedy: str, tmp_path: Path) -> None:
    file = tmp_path / "proc/sys" / setting
    file.parent.mkdir(parents=True)
    file.write_text(value + "\n")
    assert remedy in preflight.explain("did not start: x", tmp_path)
    file.write_text("7\n")
    assert remedy not in preflight.explain("did not start: x", tmp_path)
    (tmp_path / ".dockerenv").touch()
    assert "seccomp=unconfined" in preflight.explain("did not start: x", tmp_path)


def test_other_systems_and_old_kernels_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    preflight.check_platform()
    monkeypatch.setattr(preflight.platform, "release", lambda: "4.18.0-513.el8")
    with pytest.raises(SandboxError, match=r"5\.6"):
        preflight.check_platform()
    monkeypatch.setattr(preflight.sys, "platform", "darwin")
    with pytest.raises(SandboxError, match="darwin"):
        preflight.check_platform()


def test_old_kernels_count_a_users_processes_everywhere() -> None:
    assert [_counts_by_namespace(release) for release in ("5.13.9", "5.14.0-1", "6.18.44", "?")] == [
        False,
        True,
        True,
        False,
    ]
    assert "memory_bytes" in Enforcement(use_cgroups=False).names
