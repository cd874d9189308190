"""Process 1 of a session: serves turn after turn in the same namespaces, until a deadline passes or the host hangs up.

It runs as the job's user without capabilities, so a path that it follows leads nowhere that the session's own programs
could not go.
"""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import marshal
import os
import stat
import time

from . import job, kernel, linux, wire
from .capture import Capture
from .report import Report
from .watch import Watch, cpu_of_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

_CANNOT_RUN = 126


def run_session(opening: wire.Request, control: int, seccomp: linux.Filter) -> NoReturn:
    """Be process 1 for its whole life."""
    try:
        job.enter_box(opening)
        os.write(control, b"ready")
        server = _SessionServer(control, seccomp, opening.keep_bytes)
        while True:
            header = job.read_exactly(control, wire.REQUEST.size)
            request = wire.Request(*wire.REQUEST.unpack(header))
            server.serve(request, job.read_exactly(control, request.payload_bytes))
    except EOFError:
        os._exit(0)
    except BaseException as error:  # noqa: BLE001  the last frame of this process; its stderr is the slot's log
        os.write(2, repr(error).encode()[:500])
    finally:
        os._exit(1)


class _Turn:
    """One request with the clock and the processor time at its start."""

    def __init__(self, request: wire.Request, buffers: tuple[memoryview, memoryview]) -> None:
        self.request = request
        self.report = Report(wire.ENDED, time.monotonic(), 0.0, 0)
        self.captures = [Capture(-1, buffer) for buffer in buffers]
        self._cpu_before_s = _cpu_used()

    def watch(self, fds: tuple[int, int], ends: list[int], control: int) -> bool:
        """Read both streams until one of the ends; whether that came before a limit."""
        for capture, fd in zip(self.captures, fds, strict=True):
            capture.fd = fd
        watch = Watch(self.request, self.captures, ends, control, lambda: _cpu_used() - self._cpu_before_s)
        self.report.reason = watch.until_over(self.report.started_s)
        for capture in self.captures:
            capture.drain(self.request.output_bytes)
        return self.report.reason == wire.ENDED

    def send(self, control: int, *, is_last: bool) -> None:
        """Answer the host."""
        self.report.cpu_s = _cpu_used() - self._cpu_before_s
        self.report.send(control, self.captures, is_last=is_last)


class _Child:
    """A process of the session with its two output pipes."""

    def __init__(self, seccomp: linux.Filter, main: Callable[[], NoReturn], extra_fds: tuple[int, ...] = ()) -> None:
        self.out, out_w = os.pipe2(os.O_CLOEXEC)
        self.err, err_w = os.pipe2(os.O_CLOEXEC)
        import fcntl  # only here: it would lie in every job's memory

        stdin = os.open("/dev/null", os.O_RDONLY | os.O_CLOEXEC)
        theirs = (stdin, out_w, err_w, *extra_fds)
        try:
            self.pid = linux.fork()
            if not self.pid:
                job.become_job(tuple(fcntl.fcntl(fd, fcntl.F_DUPFD, len(theirs)) for fd in theirs), seccomp)
                main()
        except OSError:
            os.close(self.out)
            os.close(self.err)
            raise
        finally:
            for fd in theirs:
                os.close(fd)
        os.set_blocking(self.out, False)
        os.set_blocking(self.err, False)
        self.pidfd = os.pidfd_open(self.pid)

    def close(self) -> None:
        """Once it is reaped."""
        for fd in (self.out, self.err, self.pidfd):
            os.close(fd)


class _SessionServer:
    def __init__(self, control: int, seccomp: linux.Filter, keep_bytes: int) -> None:
        self._control = control
        self._seccomp = seccomp
        self._buffers = (linux.private_memory(keep_bytes), linux.private_memory(keep_bytes))
        self._kernel: tuple[_Child, int, int] | None = None
        self._dead_status: int | None = None
        self._num_cells = 0

    def serve(self, request: wire.Request, payload: bytes) -> None:
        """One turn. A limit that was passed, and an interpreter that is gone, end the session."""
        turn = _Turn(request, self._buffers)
        is_lost = False
        try:
            if request.kind == wire.CELL:
                is_lost = not self._run_cell(turn, payload)
            elif request.kind == wire.COMMAND:
                is_lost = not self._run_command(turn, payload.decode(errors="surrogatepass"))
            elif request.kind == wire.PUT:
                _put(*marshal.loads(payload))  # noqa: S302  the host's
            else:
                turn.captures[0] = _get(payload.decode(), request.output_bytes)
        except (OSError, ValueError) as error:
            turn.report.error = str(error).encode()
            turn.report.wait_status = _CANNOT_RUN << 8
        turn.send(self._control, is_last=is_lost)
        if is_lost:
            os._exit(0)
        self._reap()

    def _reap(self) -> None:
        """Orphans that are over, and perhaps the interpreter: the next cell tells of that."""
        try:
            while (over := os.waitpid(-1, os.WNOHANG))[0]:
                if self._kernel is not None and over[0] == self._kernel[0].pid:
                    self._dead_status = over[1]
        except ChildProcessError:
            return

    def _run_cell(self, turn: _Turn, code: bytes) -> bool:
        """Whether the interpreter lives on."""
        if self._dead_status is not None:
            turn.report.wait_status = self._dead_status
            return False
        self._num_cells += 1
        job.put_file(kernel.cell_path(self._num_cells), code)
        if self._kernel is None:
            self._kernel = self._start_kernel()
        child, cells, done = self._kernel
        os.write(cells, wire.LENGTH.pack(self._num_cells))
        if not turn.watch((child.out, child.err), [done, child.pidfd], self._control):
            return False
        turn.report.max_rss_bytes = _peak_rss_bytes(child.pid)
        told = _read_now(done)
        if len(told) < wire.LENGTH.size:  # the interpreter is at its end, or a cell closed the descriptor
            os.kill(child.pid, linux.SIGKILL)
            _, turn.report.wait_status = os.waitpid(child.pid, 0)
            return False
        turn.report.wait_status = (wire.LENGTH.unpack(told)[0] & 0xFF) << 8
        return True

    def _start_kernel(self) -> tuple[_Child, int, int]:
        cells_r, cells_w = os.pipe2(os.O_CLOEXEC)
        done_r, done_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(done_r, False)
        return _Child(self._seccomp, kernel.run_kernel, (cells_r, done_w)), cells_w, done_r

    def _run_command(self, turn: _Turn, line: str) -> bool:
        """Whether it ended before a limit."""
        child = _Child(self._seccomp, lambda: job.run_command(line))
        if not turn.watch((child.out, child.err), [child.pidfd], self._control):
            return False
        _, turn.report.wait_status, usage = os.wait4(child.pid, 0)
        turn.report.max_rss_bytes = usage.ru_maxrss << 10
        child.close()
        return True


def _cpu_used() -> float:
    times = os.times()
    return cpu_of_others() + times.children_user + times.children_system


def _read_now(fd: int) -> bytes:
    try:
        return os.read(fd, wire.LENGTH.size)
    except BlockingIOError:
        return b""


def _peak_rss_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/status", "rb") as file:
        found = [line.split()[1] for line in file if line.startswith(b"VmHWM:")]
    return int(found[0]) << 10 if found else 0


def _put(path: str, content: bytes) -> None:
    folder = os.path.dirname(path)
    if folder:
        os.makedirs(folder, exist_ok=True)
    fd = linux.open_beneath(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        _check_regular(fd, path)
        job.write_all(fd, content)
    finally:
        os.close(fd)


def _get(path: str, max_bytes: int) -> Capture:
    fd = linux.open_beneath(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        size = _check_regular(fd, path)
        if size > max_bytes:
            raise ValueError(f"{path} has {size} bytes, more than {max_bytes}")
        content = Capture(fd, memoryview(bytearray(max(2, 2 * size))))
        content.drain(size)
        return content
    finally:
        os.close(fd)


def _check_regular(fd: int, path: str) -> int:
    status = os.fstat(fd)
    if not stat.S_ISREG(status.st_mode):
        raise ValueError(f"{path} is not a regular file")
    return status.st_size
