"""One outer sandbox with its fork server, and the connection to it: a request goes out, a reply comes back.

A slot runs one job at a time and is used by one thread at a time. Whatever goes wrong here is the sandbox's fault, not
the job's.
"""

import contextlib
import marshal
import os
import re
import signal
import socket
import struct
import subprocess
from pathlib import Path
from typing import NamedTuple

import msgspec

from streams.sandbox.bwrap import launch_command, slot_plan
from streams.sandbox.cgroups import SlotCgroup
from streams.sandbox.inside import wire
from streams.sandbox.rootfs import RootFs

_START_S = 30.0
_STOP_S = 5.0
_GRACE_S = 10.0
"""How long after a job's own deadline the fork server may take to answer, on a machine with more to do than it can."""
_MAX_READ_BYTES = 1 << 18
_MAX_LOG_BYTES = 4096


class SlotFailedError(Exception):
    """The slot did not answer, or answered nonsense. It must be replaced."""


class SlotSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What all slots of a pool have in common."""

    bwrap: Path
    rootfs: RootFs
    seccomp: bytes
    keep_bytes: int


class Answer(NamedTuple):
    """A `wire.REPLY`, field by field, with its bytes in the place of their sizes."""

    reason: int
    is_last: int
    """The fork server ends after this one."""
    wait_status: int
    """The main process's, as `os.wait` gives it, or `wire.NO_STATUS`."""
    num_leftover: int
    stdout_bytes: int
    stderr_bytes: int
    wall_s: float
    cpu_s: float
    max_rss_bytes: int
    stdout: bytes
    stderr: bytes
    error: str
    tree: bytes | None = None
    """The working directory, where it was to be kept and could be."""


class Slot:
    """A started slot, ready for its first job once the constructor returns.

    Start it in a thread that lives as long as the slot: `--die-with-parent` means the thread that started it.

    Raises:
        SlotFailedError: it did not come up; with what it printed.
    """

    def __init__(self, settings: SlotSettings, number: int, cgroup: SlotCgroup | None) -> None:
        self.number = number
        self.cgroup = cgroup
        self.num_jobs = 0
        self._child_pid: int | None = None
        self._timeout_s = 0.0
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
        info_r, info_w = os.pipe()
        self._log_fd, log_w = os.pipe()
        os.set_blocking(self._log_fd, False)
        procs = cgroup.procs_files if cgroup else []
        plan = slot_plan(
            settings.bwrap, settings.rootfs, slot=number, cgroups=procs, control_fd=theirs.fileno(), info_fd=info_w
        )
        try:
            self._process = subprocess.Popen(
                launch_command(plan),
                stdin=subprocess.DEVNULL,
                stdout=log_w,
                stderr=log_w,
                env={},
                cwd="/",
                pass_fds=(theirs.fileno(), info_w),
                start_new_session=True,
            )
        finally:
            theirs.close()
            os.close(info_w)
            os.close(log_w)
        try:
            self._greet(settings, info_r)
        except BaseException:
            self.kill()
            raise
        finally:
            os.close(info_r)

    def _greet(self, settings: SlotSettings, info_fd: int) -> None:
        hello = marshal.dumps({"seccomp": settings.seccomp, "keep_bytes": settings.keep_bytes})
        self._set_timeout(_START_S)
        try:
            self._control.sendall(wire.LENGTH.pack(len(hello)) + hello)
            self._receive(len(b"ready"))
        except (OSError, EOFError) as error:
            msg = f"did not start: {self.log() or error!r}"
            raise SlotFailedError(msg) from error
        found = re.search(rb'"child-pid":\s*(\d+)', os.read(info_fd, 4096))
        self._child_pid = int(found[1]) if found else None
        if self.cgroup:
            self.cgroup.measure_base()

    def run(self, request: wire.Request, payload: bytes) -> Answer:
        """Send and wait.

        Raises:
            SlotFailedError: no answer, within the job's deadline and some.
        """
        self.num_jobs += 1
        self._set_timeout(request.wall_s + _GRACE_S)
        try:
            self._control.sendall(request.pack() + payload)
            return self._receive_answer()
        except BlockingIOError as error:
            msg = f"no answer within {request.wall_s:g} s + {_GRACE_S:g} s"
            raise SlotFailedError(msg) from error
        except (OSError, EOFError) as error:
            msg = f"died: {self.log() or error!r}"
            raise SlotFailedError(msg) from error

    def start_session(self, opening: wire.Request) -> None:
        """Give the slot to a session: from now on it takes that session's turns, and ends with it.

        Raises:
            SlotFailedError: it did not start.
        """
        self._set_timeout(_START_S)
        try:
            self._control.sendall(opening.pack())
            self._receive(len(b"ready"))
        except (OSError, EOFError) as error:
            msg = f"did not start: {self.log() or error!r}"
            raise SlotFailedError(msg) from error

    def _receive_answer(self) -> Answer:
        """Read one reply from the connection."""
        data = self._receive(wire.REPLY.size)
        *facts, num_out, num_err, num_error, num_tree = wire.REPLY.unpack_from(data)
        num_bytes = wire.REPLY.size + num_out + num_err + num_error + max(0, num_tree)
        data += self._receive(num_bytes - len(data))
        out_end = wire.REPLY.size + num_out
        err_end = out_end + num_err
        error_end = err_end + num_error
        error = data[err_end:error_end].decode(errors="replace")
        tree = None if num_tree == wire.NO_TREE else bytes(data[error_end:num_bytes])
        return Answer._make((*facts, bytes(data[wire.REPLY.size : out_end]), bytes(data[out_end:err_end]), error, tree))

    def _receive(self, num_bytes: int) -> bytearray:
        """At least so many bytes: one reply is all that the other side ever has to say."""
        data = bytearray()
        while len(data) < num_bytes:
            part = self._control.recv(_MAX_READ_BYTES)
            if not part:
                msg = "the connection was closed"
                raise EOFError(msg)
            data += part
        return data

    def _set_timeout(self, timeout_s: float) -> None:
        """By the kernel rather than by Python's socket: no poll before each call."""
        if timeout_s != self._timeout_s:
            value = struct.pack("ll", int(timeout_s), int(timeout_s % 1 * 1e6))
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, value)
            self._control.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, value)
            self._timeout_s = timeout_s

    def log(self) -> str:
        """Return what bwrap or the fork server printed, which both do only when something is wrong."""
        try:
            return os.read(self._log_fd, _MAX_LOG_BYTES).decode(errors="replace").strip()
        except BlockingIOError:
            return ""

    def close(self) -> None:
        """End the fork server by hanging up; kill it if it does not."""
        self._control.close()
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._signal()
        self._clean_up()

    def kill(self) -> None:
        """End everything now."""
        self._control.close()
        self._signal()
        self._clean_up()

    def _signal(self) -> None:
        """Kill its process 1, with which the namespace goes before bwrap ends; or bwrap, where it is not known."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(self._child_pid or self._process.pid, signal.SIGKILL)

    def _clean_up(self) -> None:
        try:
            self._process.wait(_STOP_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._log_fd)
        if self.cgroup:
            self.cgroup.close()
