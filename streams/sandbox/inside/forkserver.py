"""The fork server, process 1 of a slot's sandbox: takes a request, runs it in its own namespaces, watches, answers.

It holds CAP_SYS_ADMIN in the slot's own user namespace, and never a program, an input or an output in its heap, from
which the next job is forked. It ends when the host closes the connection.
"""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import gc
import marshal
import os
import time

from . import job, linux, wire
from .capture import Capture
from .report import Report
from .session import run_session
from .watch import Watch, cpu_of_others, largest_rss_of_others

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn


class ForkServer:
    """One connection to the host; runs one request at a time."""

    def __init__(self, control: int) -> None:
        self._control = control
        (size,) = wire.LENGTH.unpack(job.read_exactly(control, wire.LENGTH.size))
        hello = marshal.loads(job.read_exactly(control, size))  # noqa: S302  the host's
        self._seccomp = linux.Filter(hello["seccomp"])
        self._oom_score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
        self._status = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._buffers = (linux.private_memory(hello["keep_bytes"]), linux.private_memory(hello["keep_bytes"]))

    def serve(self) -> None:
        """Until the host is gone."""
        os.write(self._control, b"ready")
        while True:
            try:
                header = job.read_exactly(self._control, wire.REQUEST.size)
            except EOFError:
                return
            request = wire.Request(*wire.REQUEST.unpack(header))
            if request.kind == wire.SESSION:
                self._host_session(request)
            self._run(request)

    def _run(self, request: wire.Request) -> None:
        started_s = time.monotonic()
        if request.keep_bytes > len(self._buffers[0]):
            self._buffers = (linux.private_memory(request.keep_bytes), linux.private_memory(request.keep_bytes))
        out_r, out_w = os.pipe2(os.O_CLOEXEC)
        err_r, err_w = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(out_r, False)
        os.set_blocking(err_r, False)
        tree = os.memfd_create("tree") if request.keep_tree_bytes else None
        pid, pidfd = self._clone()
        if not pid:
            job.run_init(request, self._control, self._status[1], (out_w, err_w), self._seccomp, tree)
        os.close(out_w)
        os.close(err_w)
        captures = [
            Capture(fd, buffer[: request.keep_bytes]) for fd, buffer in zip((out_r, err_r), self._buffers, strict=True)
        ]
        watch = Watch(request, captures, [pidfd], self._control, cpu_of_others)
        reason = watch.until_over(started_s)
        cpu_s, rss_bytes = 0.0, 0
        if reason:
            cpu_s, rss_bytes = (
                cpu_of_others(),
                largest_rss_of_others(),
            )  # the kernel forgets what it kills with process 1
            os.kill(pid, linux.SIGKILL)
        usage = os.wait4(pid, 0)[2]
        for capture in captures:
            capture.drain(request.output_bytes)
        cpu_s = max(cpu_s, usage.ru_utime + usage.ru_stime)
        report = Report(reason, started_s, cpu_s, max(rss_bytes, usage.ru_maxrss << 10))
        is_taken, is_kept = self._read_status(report)
        report.send(self._control, captures, is_last=not is_taken, tree=tree if is_kept else None)
        if not is_taken:
            os._exit(0)  # the rest of the payload may still lie in the connection
        for fd in (out_r, err_r, pidfd):
            os.close(fd)
        if tree is not None:
            os.close(tree)

    def _clone(self) -> tuple[int, int]:
        """Clone so that the child inherits being killed for memory before all others, this process among them."""
        os.pwrite(self._oom_score, b"1000", 0)
        pid, pidfd = linux.clone_into_new_namespaces()
        if pid:
            os.pwrite(self._oom_score, b"0", 0)
        return pid, pidfd

    def _read_status(self, report: Report) -> tuple[bool, bool]:
        """Put down what process 1 told of the job, if it lived to.

        Whether the job read its payload to the end, and whether its working directory was kept.
        """
        try:
            told = os.read(self._status[0], 1024)
        except BlockingIOError:
            return False, False
        if not told.startswith(job.TAKEN):
            report.fail(told[1:])
            return False, False
        told = told[1:]
        if told.startswith(job.FAILED):
            report.fail(told[1:])
        elif told:
            facts, _, report.error = told.partition(b"\n")
            report.wait_status, report.num_leftover, is_kept = map(int, facts.split())
            return True, bool(is_kept)
        return True, False

    def _host_session(self, request: wire.Request) -> NoReturn:
        """From here on the session's process 1 speaks with the host; when it is gone, so is the slot."""
        pid, _ = self._clone()
        if not pid:
            run_session(request, self._control, self._seccomp)
        os.waitpid(pid, 0)
        os._exit(0)


def main(control: int) -> NoReturn:
    """Serve the host on this descriptor."""
    gc.disable()
    os.environ["PWD"] = job.WORK  # bwrap wrote its own there
    import resource  # noqa: F401  for `os.wait4`, which would import it after the freeze

    linux.disable_huge_pages()
    linux.no_new_privileges()
    server = ForkServer(control)
    gc.collect()
    gc.freeze()
    server.serve()
    os._exit(0)
