"""What a hostile program may try to reach, each as a test. Run by `test_hostile_probes.py` in namespaces of its own.

Not to be run otherwise: what a broken sandbox lets through would hit the machine.
"""

import os
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from schemas.errors import SandboxError
from schemas.executions import Action
from streams.sandbox.bubblewrap import BubblewrapSandbox
from tests.streams.sandbox.probe_tools import SECRET, assert_next_is_sound, fork_server, run, sandbox_of_probes

__all__ = ["sandbox_of_probes"]


@pytest.fixture
def listeners() -> Iterator[tuple[int, str, str]]:
    """A loopback port, an abstract name and a path on which the host answers."""
    path = Path(os.environ["PROBE_HOME"], "socket")
    path.unlink(missing_ok=True)
    sockets = [socket.socket(), socket.socket(socket.AF_UNIX), socket.socket(socket.AF_UNIX)]
    sockets[0].bind(("127.0.0.1", 0))
    sockets[1].bind("\0rollog-probe")
    sockets[2].bind(str(path))
    for listener in sockets:
        listener.listen()
    yield sockets[0].getsockname()[1], "\0rollog-probe", str(path)
    for listener in sockets:
        listener.close()


def test_no_socket_leads_out(sandbox: BubblewrapSandbox, listeners: tuple[int, str, str]) -> None:
    port, abstract, path = listeners
    code = f"""
import errno, socket
def attempt(family, kind, address):
    try:
        with socket.socket(family, kind) as s:
            s.settimeout(1)
            s.connect(address)
        return "OPEN"
    except OSError as error:
        return errno.errorcode.get(error.errno, "no")
print(attempt(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", {port})))
print(attempt(socket.AF_INET, socket.SOCK_DGRAM, ("192.0.2.1", 9)))
print(attempt(socket.AF_UNIX, socket.SOCK_STREAM, {abstract!r}))
print(attempt(socket.AF_UNIX, socket.SOCK_STREAM, {path!r}))
print(attempt(socket.AF_UNIX, socket.SOCK_STREAM, "/var/run/docker.sock"))
try:
    socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)
except PermissionError:
    print("EPERM")
for family in (16, 17, 38, 40, 44):  # netlink, packet, alg, vsock, xdp
    print(attempt(family, socket.SOCK_DGRAM, b""))
devices = sorted(line.split(":")[0].strip() for line in open("/proc/net/dev").readlines()[2:])
print(devices, open("/proc/net/route").read().count("\\n"))
"""
    for address, family in ((("127.0.0.1", port), socket.AF_INET), (abstract, socket.AF_UNIX), (path, socket.AF_UNIX)):
        with socket.socket(family) as own:
            own.connect(address)  # the host itself gets through, so a refusal inside means something
    lines = run(sandbox, code).stdout.decode().splitlines()
    assert lines[:6] == ["ECONNREFUSED", "ENETUNREACH", "ECONNREFUSED", "ENOENT", "ENOENT", "EPERM"]
    assert lines[6:11] == ["EACCES"] * 5
    assert lines[11] == "['lo'] 1"


def test_the_hosts_files_are_not_there(sandbox: BubblewrapSandbox, tmp_path: Path) -> None:
    private, public = tmp_path / "private", tmp_path / "public"
    for file, mode in ((private, 0o600), (public, 0o644)):
        file.write_text(SECRET)
        file.chmod(mode)
    code = f"""
hosts = ({str(private)!r}, {str(public)!r}, {str(Path.cwd())!r})
for path in (*hosts, "/etc/shadow", "/root", "/home", "/proc/1/root/etc/shadow"):
    try:
        open(path)
        print("READ", path)
    except OSError as error:
        print(type(error).__name__)
"""
    names = run(sandbox, code).stdout.decode().split()
    assert names == ["FileNotFoundError"] * 6 + ["PermissionError"]


def test_no_secret_of_the_environment_is_in_reach(sandbox: BubblewrapSandbox) -> None:
    code = """
import os
found = dict(os.environ)
for pid in filter(str.isdigit, os.listdir("/proc")):
    for name in ("environ", "cmdline"):
        try:
            found[pid + name] = open(f"/proc/{pid}/{name}").read()
        except OSError as error:
            found[pid + name] = type(error).__name__
print(found)
"""
    outcome = run(sandbox, code)
    assert outcome.status == "ok", outcome.stderr
    assert SECRET not in outcome.stdout.decode()
    assert "PROBE" not in outcome.stdout.decode()
    assert "'1environ': 'PermissionError'" in outcome.stdout.decode()


def test_nobody_else_can_be_killed_or_looked_into(sandbox: BubblewrapSandbox) -> None:
    server = fork_server(sandbox)
    code = """
import ctypes, os, resource, signal
libc = ctypes.CDLL(None, use_errno=True)
print(sorted(filter(str.isdigit, os.listdir("/proc"))), os.getppid())
os.kill(1, signal.SIGKILL)
os.kill(1, signal.SIGSTOP)
reached = 0
for pid in range(3, 2000):
    try:
        os.kill(pid, signal.SIGKILL)
        reached += 1
    except ProcessLookupError:
        pass
print(reached)
print(libc.ptrace(16, 1, 0, 0), ctypes.get_errno())
print(libc.ptrace(0, 0, 0, 0), ctypes.get_errno())
print(libc.process_vm_readv(1, 0, 0, 0, 0, 0), ctypes.get_errno())
for path in ("/proc/1/mem", "/proc/1/fd/0", "/proc/1/maps", "/proc/1/root/box"):
    try:
        open(path)
        print("READ")
    except PermissionError:
        print("denied")
try:
    resource.prlimit(1, resource.RLIMIT_CPU, (0, 0))
    print("SET")
except PermissionError:
    print("denied")
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    print("alone")
"""
    outcome = run(sandbox, code)
    lines = outcome.stdout.decode().splitlines()
    assert lines[0] == "['1', '2'] 1"
    assert lines[1] == "0"
    assert lines[2:5] == ["-1 1"] * 3
    assert lines[5:10] == ["denied"] * 5
    assert lines[10:] == ["alone"]
    assert fork_server(sandbox) == server
    assert_next_is_sound(sandbox)


def test_interfaces_of_the_kernel_are_refused(sandbox: BubblewrapSandbox) -> None:
    code = """
import ctypes, errno
libc = ctypes.CDLL(None, use_errno=True)
def attempt(name, *arguments):
    result = getattr(libc, name)(*arguments)
    print(name, errno.errorcode[ctypes.get_errno()] if result == -1 else "ALLOWED")
attempt("mount", b"tmpfs", b"/box", b"tmpfs", 0, None)
attempt("umount2", b"/proc", 2)
attempt("chroot", b"/box")
for flag in (0x10000000, 0x20000000, 0x00020000, 0x40000000, 0x02000000):
    attempt("unshare", flag)
attempt("setns", 0, 0)
attempt("sethostname", b"x", 1)
attempt("shmget", 1, 4096, 0o1600)
attempt("semget", 1, 1, 0o1600)
attempt("msgget", 1, 0o1600)
attempt("klogctl", 3, None, 0)
attempt("personality", 0xffffffff)
"""
    lines = dict(line.rsplit(" ", 1) for line in run(sandbox, code).stdout.decode().splitlines())
    assert lines.pop("personality") == "ALLOWED"  # the probe can tell
    assert set(lines.values()) == {"EPERM"}
    assert len(lines) == 10


def test_interfaces_without_a_libc_name_are_refused(sandbox: BubblewrapSandbox) -> None:
    code = """
import ctypes, errno, os
libc = ctypes.CDLL(None, use_errno=True)
names = "io_uring_setup keyctl add_key userfaultfd perf_event_open bpf mq_open kcmp open_by_handle_at fsopen open_tree"
names = names.split() + ["clone_newuser", "clone3", "getpid"]
numbers = {
    "x86_64": (425, 250, 248, 323, 298, 321, 240, 312, 304, 430, 428, 56, 435, 39),
    "aarch64": (425, 219, 217, 282, 241, 280, 180, 272, 265, 430, 428, 220, 435, 172),
}
for name, number in zip(names, numbers[os.uname().machine], strict=True):
    first = 0x10000000 if name == "clone_newuser" else 0
    result = libc.syscall(number, first, 0, 0, 0, 0, 0)
    print(name, errno.errorcode[ctypes.get_errno()] if result == -1 else "ALLOWED")
"""
    lines = dict(line.split() for line in run(sandbox, code).stdout.decode().splitlines())
    assert lines.pop("getpid") == "ALLOWED"
    assert lines.pop("clone3") == "ENOSYS"
    assert set(lines.values()) == {"EPERM"}
    assert len(lines) == 12


def test_no_privilege_is_left_or_can_be_had(sandbox: BubblewrapSandbox) -> None:
    code = """
import os
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(*(status[name].strip() for name in ("CapPrm", "CapEff", "CapInh", "CapAmb", "NoNewPrivs", "Seccomp")))
for attempt in (
    lambda: os.setuid(0),
    lambda: os.setgroups([0]),
    lambda: open("/proc/self/oom_score_adj", "w"),
    lambda: open("/proc/self/uid_map", "w"),
    lambda: os.mknod("/box/null", 0o20666, os.makedev(1, 3)),
    lambda: os.chmod("/usr/bin", 0o777),
    lambda: os.open("/dev/tty", os.O_RDWR),
    lambda: open("/proc/sysrq-trigger", "w"),
):
    try:
        attempt()
        print("DONE")
    except OSError:
        print("no")
paths = [os.path.join(folder, name) for folder, _, names in os.walk("/usr") for name in names]
print(len(paths) > 100, [path for path in paths if os.lstat(path).st_mode & 0o6000])
"""
    lines = run(sandbox, code).stdout.decode().splitlines()
    assert lines[0] == "0000000000000000 " * 3 + "0000000000000000 1 2"
    assert lines[1:9] == ["no"] * 8
    assert lines[9] == "True []"


def test_nothing_is_left_for_the_next(sandbox: BubblewrapSandbox) -> None:
    leave = """
import os, sys, builtins
for folder in ("/tmp", "/var/tmp", "/dev/shm", ".", "/box"):
    open(folder + "/left", "w").write("x")
builtins.left = sys.left = os.environ["LEFT"] = "x"
os.chmod("/box/tmp", 0)
os.umask(0o777)
os.set_blocking(1, False)
"""
    look = """
import os, sys, builtins
print([folder for folder in ("/tmp", "/var/tmp", "/dev/shm", ".", "/box") if os.path.exists(folder + "/left")])
print(hasattr(builtins, "left"), hasattr(sys, "left"), "LEFT" in os.environ)
print(os.listdir("/tmp"), os.umask(0), os.get_blocking(1))
"""
    assert run(sandbox, leave).status == "ok"
    assert run(sandbox, look).stdout == b"[]\nFalse False False\n[] 18 True\n"


def test_what_one_was_given_and_printed_is_not_in_the_next_ones_memory(sandbox: BubblewrapSandbox) -> None:
    marker = SECRET.encode() * 3
    first = Action(
        code=f"# {marker.decode()}\nprint({marker.decode()!r} * 100)",
        prelude=f"P = {marker.decode()!r}",
        stdin=marker,
        files={"f": marker},
    )
    scan = """
import re
own = others = 0
with open("/proc/self/mem", "rb", buffering=0) as memory:
    for line in open("/proc/self/maps").readlines():
        bounds, mode = line.split()[:2]
        start, end = (int(bound, 16) for bound in bounds.split("-"))
        if "w" in mode:
            memory.seek(start)
            data = memory.read(end - start)
            own += len(re.findall(b"tery.{0,3}re.{0,3}mory", data))
            others += len(re.findall(b"[s]taple[c]orrect", data))
            del data
print(own > 0, others)
"""
    for _ in range(3):
        assert sandbox.run(first).stdout == marker * 100 + b"\n"
    outcome = run(sandbox, "# tery re mory\n" + scan)
    assert outcome.stdout == b"True 0\n", outcome.stderr


def test_no_descriptor_of_the_supervisor_is_in_reach(sandbox: BubblewrapSandbox) -> None:
    code = """
import os
held = []
for fd in range(3, 256):
    try:
        os.write(fd, b"P0 0")
        held.append(fd)
    except OSError:
        pass
print(held, len(os.listdir("/proc/self/fd")))
os._exit(5)
"""
    outcome = run(sandbox, code)
    assert outcome.stdout == b""  # `os._exit` flushes nothing
    assert (outcome.status, outcome.exit_code) == ("nonzero", 5)
    assert run(sandbox, code.replace("os._exit(5)", "")).stdout == b"[] 4\n"


def test_a_file_fetched_from_a_session_is_one_of_its_own(sandbox: BubblewrapSandbox) -> None:
    with sandbox.open_session() as session:
        line = (
            "ln -s /etc/passwd absolute; ln -s ../../etc/passwd up; ln -s /proc/self/root/etc/hostname magic; "
            "ln -s /etc folder; mkfifo pipe; echo good > file; ln -s file beside"
        )
        assert session.run_command(line, 5.0).status == "ok"
        for path in ("absolute", "up", "magic", "folder/passwd", "pipe", ".", "missing", "../main.py", "/etc/passwd"):
            with pytest.raises(SandboxError):
                session.get(path)
        for path in ("absolute", "up", "folder/new", "pipe"):
            with pytest.raises(SandboxError):
                session.put(path, b"x")
        assert session.get("beside") == b"good\n"


def test_a_cell_that_breaks_its_own_kernel_hurts_only_itself(sandbox: BubblewrapSandbox) -> None:
    for code in ("os.close(4)\nwhile True: pass", "os.close(3)", "os.write(4, b'\\0' * 999)"):
        with sandbox.open_session() as session:
            outcomes = [session.run_cell(text, 1.0) for text in ("import os\n" + code, "print('next')", "1")]
            assert "infra_error" not in {outcome.status for outcome in outcomes}, code
    assert_next_is_sound(sandbox)
