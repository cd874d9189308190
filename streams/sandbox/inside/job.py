"""Process 1 of a job's namespaces, and the job itself.

`run_init` owns the mounts, drops every capability, starts the job and waits for it; with it dies everything else in the
namespace.
"""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import _signal  # type: ignore[import-not-found]  # `signal` would bring `enum` along
import marshal
import os

from . import linux, program, tree
from .wire import Request

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn

BOX = "/box"
WORK = "/box/work"
TAKEN, FAILED = b"P", b"E"
"""What the status pipe begins with: the payload was read to its end; the job could not be set up, and why."""
_NUM_INODES = 4096
_EXIT_NOT_RUN = 70
"""Of a process that can tell nobody else: one that failed between its last setting and its program."""
_EVERY_FD = 1 << 20


def run_init(  # noqa: PLR0917  what a fork takes along
    request: Request, control: int, status: int, output: tuple[int, int], seccomp: linux.Filter, kept: int | None
) -> NoReturn:
    """Be process 1 for its whole life. A failure to set up is told to the fork server as text on `status`.

    `kept` is the memory file that the working directory is to be written to at the end.
    """
    try:
        enter_box(request)
        job = linux.fork()
        if not job:
            _run_job(request, control, status, output, seccomp)
        exit_code = _wait_for(job)
        num_leftover = _num_leftover()
        is_kept, error = (False, b"") if kept is None else _keep_tree(kept, request.keep_tree_bytes)
        os.write(status, b"%d %d %d\n%s" % (exit_code, num_leftover, is_kept, error))
    except BaseException as error:  # noqa: BLE001  the last frame of this process: nobody else can tell
        os.write(status, FAILED + repr(error).encode()[:500])
    finally:
        os._exit(_EXIT_NOT_RUN)


def enter_box(request: Request) -> None:
    """Fresh `/proc` and `/box`, limits, no capabilities."""
    linux.die_with_parent()
    linux.mount_proc()
    linux.mount_tmpfs(BOX.encode(), request.file_bytes, _NUM_INODES)
    for folder in (WORK, "/box/tmp", "/box/shm", "/box/tests", "/box/logs"):
        os.mkdir(folder, 0o777)
    os.chdir(WORK)
    _limit(request)
    linux.drop_capabilities()
    linux.set_dumpable(False)


def _limit(request: Request) -> None:
    cpu_s = max(1, int(-(-request.cpu_s // 1))) if request.cpu_s else 0
    for name, value, slack in (
        (linux.RLIMIT_CPU, cpu_s, 1),  # the soft one first: SIGXCPU says what happened, SIGKILL does not
        (linux.RLIMIT_FSIZE, request.file_bytes, 0),
        (linux.RLIMIT_NOFILE, request.num_files, 0),
        (linux.RLIMIT_AS, request.address_space_bytes, 0),
        (linux.RLIMIT_NPROC, request.num_processes, 0),
    ):
        if value:
            linux.set_limit(name, value, value + slack)
    linux.set_limit(linux.RLIMIT_CORE, 0, 0)


def _keep_tree(kept: int, max_bytes: int) -> tuple[bool, bytes]:
    """Write the working directory down, once nothing can change it any more; whether, and else why not."""
    try:
        os.kill(-1, linux.SIGKILL)
        while True:
            os.waitpid(-1, 0)
    except (ProcessLookupError, ChildProcessError):  # nobody else is left
        pass
    try:
        write_all(kept, tree.read(WORK, max_bytes))
    except (tree.TooLargeError, OSError, ValueError) as error:
        return False, str(error).encode(errors="replace")[:300]
    return True, b""


def become_job(streams: tuple[int, ...], seccomp: linux.Filter) -> None:
    """From here on this process is the program's: these as its descriptors from 0 on and no others, the filter."""
    os.setsid()
    for target, fd in enumerate(streams):
        os.dup2(fd, target)
    os.closerange(len(streams), _EVERY_FD)
    linux.set_dumpable(True)
    seccomp.install()


def run_command(line: str) -> NoReturn:
    """Replace this process by a shell that runs the line."""
    _signal.signal(_signal.SIGPIPE, _signal.SIG_DFL)
    _signal.signal(_signal.SIGXFSZ, _signal.SIG_DFL)
    try:
        os.execv("/bin/sh", ["sh", "-c", line])  # noqa: S606  it is the shell
    except (OSError, ValueError) as error:
        os.write(2, b"sh: %s\n" % str(error).encode())
    os._exit(126)


def _run_job(request: Request, control: int, status: int, output: tuple[int, int], seccomp: linux.Filter) -> NoReturn:
    kind, prelude, code, stdin, files, laid, setup = marshal.loads(  # noqa: S302  the host's
        read_exactly(control, request.payload_bytes)
    )
    os.write(status, TAKEN)
    tree.lay(laid)
    for path, content in files.items():
        put_file(path, content)
    if setup:
        _set_up(setup, seccomp)
    become_job((_open_stdin(stdin), *output), seccomp)
    if kind == "command":
        run_command(code)
    program.run_program(prelude, code)
    os._exit(1)


def _set_up(line: str, seccomp: linux.Filter) -> None:
    """Run a line as the job would, without input and output, and wait for it."""
    pid = linux.fork()
    if not pid:
        nowhere = os.open("/dev/null", os.O_RDWR)
        become_job((nowhere, nowhere, nowhere), seccomp)
        run_command(line)
    os.waitpid(pid, 0)


def read_exactly(fd: int, num_bytes: int) -> bytes:
    """Exactly so many, or EOFError."""
    parts = []
    while num_bytes:
        part = os.read(fd, min(num_bytes, 1 << 20))
        if not part:
            raise EOFError("the host closed the connection")
        parts.append(part)
        num_bytes -= len(part)
    return b"".join(parts)


def put_file(path: str, content: bytes) -> None:
    """Write a file below the working directory, folders included."""
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK, 0o644)
    try:
        write_all(fd, content)
    finally:
        os.close(fd)


def write_all(fd: int, content: bytes) -> None:
    """However little a single write takes."""
    left = memoryview(content)
    while left:
        left = left[os.write(fd, left) :]


def _open_stdin(content: bytes) -> int:
    if not content:
        return os.open("/dev/null", os.O_RDONLY)
    fd = os.memfd_create("stdin")
    write_all(fd, content)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def _wait_for(job: int) -> int:
    while True:
        pid, status = os.waitpid(-1, 0)
        if pid == job:
            return status


def _num_leftover() -> int:
    """Every process of the namespace is a descendant of this one, so a missing child says that nothing is left."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        return 0
    return sum(name.isdigit() for name in os.listdir("/proc")) - 1
