"""What a hostile program may use up, each as a test. Run by `test_hostile_probes.py` in namespaces of its own.

Not to be run otherwise: what a broken sandbox lets through would hit the machine.
"""

import threading
from pathlib import Path

import pytest

from streams.sandbox.bubblewrap import BubblewrapSandbox
from tests.streams.sandbox.probe_tools import (
    MEBIBYTE,
    assert_next_is_sound,
    cgroup_of,
    fork_server,
    host_processes,
    run,
    sandbox_of_probes,
)

__all__ = ["sandbox_of_probes"]


def test_a_fork_bomb_is_capped_and_gone_before_the_next(sandbox: BubblewrapSandbox) -> None:
    before = host_processes()
    code = """
import os, time
num = 0
while True:
    try:
        if os.fork() == 0:
            time.sleep(60)
        num += 1
    except OSError:
        print(num, flush=True)
        break
while True:
    try:
        os.fork()
    except OSError:
        pass
"""
    outcome = run(sandbox, code, wall_s=1.0, num_processes=20)
    assert outcome.status == "timed_out"
    assert 15 <= int(outcome.stdout) < 20
    assert host_processes() == before
    assert_next_is_sound(sandbox)


def test_one_process_gets_no_more_memory_than_allowed(sandbox: BubblewrapSandbox) -> None:
    outcome = run(sandbox, "x = bytearray(1 << 30); print(len(x))", memory_bytes=64 * MEBIBYTE)
    assert outcome.status == "oom" if "rollog" in cgroup_of(sandbox) else outcome.status == "nonzero"
    assert outcome.max_rss_bytes < 96 * MEBIBYTE
    assert_next_is_sound(sandbox)


def test_many_processes_get_no_more_memory_than_allowed_together(sandbox: BubblewrapSandbox) -> None:
    if "rollog" not in cgroup_of(sandbox):
        pytest.skip("without cgroups each process is bounded, not all together")
    code = """
import os
pids = []
for _ in range(6):
    pid = os.fork()
    if pid == 0:
        x = bytearray(60 << 20)
        for i in range(0, len(x), 4096):
            x[i] = 1
        os.kill(os.getpid(), 19)
    pids.append(pid)
survivors = [os.waitpid(pid, os.WUNTRACED)[1] for pid in pids]
print(sum(os.WIFSTOPPED(status) for status in survivors))
os._exit(7)
"""
    outcome = run(sandbox, code, memory_bytes=150 * MEBIBYTE)
    assert outcome.status == "oom"
    assert outcome.stdout in {b"", b"0\n", b"1\n", b"2\n"}
    assert_next_is_sound(sandbox)


def test_many_small_processes_do_not_take_the_fork_server_with_them(sandbox: BubblewrapSandbox) -> None:
    if "rollog" not in cgroup_of(sandbox):
        pytest.skip("nothing kills for memory without cgroups")
    server = fork_server(sandbox)
    assert run(sandbox, "print(open('/proc/self/oom_score_adj').read())").stdout == b"1000\n\n"
    assert int(Path("/proc", str(server), "oom_score_adj").read_text()) < 1000
    code = """
import os
while True:
    try:
        os.fork()
        x = bytearray(8 << 20)
    except OSError:
        pass
"""
    outcome = run(sandbox, code, memory_bytes=48 * MEBIBYTE, num_processes=64, wall_s=2.0)
    assert outcome.status in {"oom", "timed_out"}
    assert fork_server(sandbox) == server
    assert_next_is_sound(sandbox)


def test_an_endless_loop_ends_by_either_clock(sandbox: BubblewrapSandbox) -> None:
    by_wall = run(sandbox, "while True: pass", wall_s=0.3)
    assert (by_wall.status, by_wall.exit_code) == ("timed_out", None)
    by_cpu = run(sandbox, "while True: pass", cpu_s=0.2)
    assert by_cpu.status == "cpu_limit"
    deaf = run(sandbox, "import signal\nsignal.signal(signal.SIGXCPU, signal.SIG_IGN)\nwhile True: pass", cpu_s=0.2)
    assert deaf.status == "cpu_limit"


def test_processor_time_is_summed_over_processes(sandbox: BubblewrapSandbox) -> None:
    code = "import os\nfor _ in range(3): os.fork()\nwhile True: pass"
    outcome = run(sandbox, code, cpu_s=0.4, wall_s=20.0)
    assert outcome.status == "cpu_limit"


def test_endless_output_is_counted_cut_and_ended(sandbox: BubblewrapSandbox) -> None:
    code = "import os\nos.write(1, b'HEAD')\nfor i in range(1 << 14): os.write(1, b'x' * (1 << 16))"
    outcome = run(sandbox, code, output_bytes=4 * MEBIBYTE, keep_bytes=1000)
    assert outcome.status == "output_limit"
    assert 4 * MEBIBYTE < outcome.stdout_bytes < 6 * MEBIBYTE
    assert outcome.stdout == b"HEAD" + b"x" * 996
    assert outcome.stdout_truncated


def test_no_place_takes_more_than_the_limit(sandbox: BubblewrapSandbox) -> None:
    code = """
import os
total = 0
skipped = ("/proc", "/usr/local/lib/python", "/usr/share")
folders = [folder for folder, _, _ in os.walk("/") if not folder.startswith(skipped)]
folders += ["/proc", "/proc/self", "/dev/shm", "/var/tmp", "/tmp", "/sys"]
for folder in folders:
    try:
        with open(folder + "/fill", "wb", buffering=0) as file:
            while True:
                total += file.write(b"x" * (1 << 16))
    except OSError:
        pass
print(len(folders) > 10, total)
"""
    outcome = run(sandbox, code, file_bytes=8 * MEBIBYTE)
    assert outcome.status == "ok", outcome.stderr
    is_many, total = outcome.stdout.split()
    assert is_many == b"True"
    assert 4 * MEBIBYTE < int(total) <= 8 * MEBIBYTE


def test_files_are_bounded_in_number(sandbox: BubblewrapSandbox) -> None:
    code = (
        "n = 0\ntry:\n    while True:\n        open(str(n), 'w').close()\n        n += 1\nexcept OSError:\n    print(n)"
    )
    assert 1000 < int(run(sandbox, code).stdout) < 4096


def test_background_processes_end_with_the_program(sandbox: BubblewrapSandbox) -> None:
    before = host_processes()
    code = """
import os, time
for session in (False, True):
    if os.fork() == 0:
        if session:
            os.setsid()
        if os.fork() == 0:
            time.sleep(60)
        os._exit(0)
os.wait(); os.wait()
print("done")
"""
    outcome = run(sandbox, code)
    assert (outcome.status, outcome.stdout, outcome.num_leftover) == ("ok", b"done\n", 2)
    assert outcome.wall_ms < 10_000
    assert host_processes() == before


def test_bytes_come_through_as_they_are(sandbox: BubblewrapSandbox) -> None:
    code = "import sys\nsys.stdout.buffer.write(bytes(range(256)))\nsys.stderr.buffer.write(b'\\xff\\x00\\xfe')"
    outcome = run(sandbox, code)
    assert outcome.stdout == bytes(range(256))
    assert outcome.stderr == b"\xff\x00\xfe"


def test_a_crash_reads_as_the_signal(sandbox: BubblewrapSandbox) -> None:
    for code, number in (
        ("import os; os.kill(os.getpid(), 11)", 11),
        ("import ctypes; ctypes.string_at(0)", 11),
        ("import os; os.abort()", 6),
        ("import os; os.kill(os.getpid(), 9)", 9),
        ("import signal; signal.raise_signal(15)", 15),
    ):
        outcome = run(sandbox, code)
        assert (outcome.status, outcome.signal, outcome.exit_code) == ("signaled", number, None), code


def test_threads_of_programs_do_not_see_each_other(sandbox: BubblewrapSandbox) -> None:
    outputs: list[bytes] = []
    code = "import threading\nfor n in range(4): threading.Thread(target=print, args=(n,)).start()"
    workers = [threading.Thread(target=lambda: outputs.append(run(sandbox, code).stdout)) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert outputs == [b"0\n1\n2\n3\n"] * 4
