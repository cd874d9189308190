"""Plain child processes, for programs that one trusts where nothing can isolate them. Every outcome says so.

Resource limits, a deadline and a bounded output, and that is all: a program reads what its user reads, talks to the
network, and can leave processes behind that left its process group. Never chosen by itself, never for root.
"""

import contextlib
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NoReturn, Self

from schemas.errors import ConfigError, SandboxError
from schemas.executions import Action, ExecutionLimits, Outcome
from streams.sandbox.inside import tree, wire
from streams.sandbox.inside.capture import Capture
from streams.sandbox.inside.watch import Watch
from streams.sandbox.outcomes import Labels
from streams.sandbox.paths import check_relative
from streams.sandbox.slot import Answer

_LABELS = Labels(
    backend="unsafe-subprocess",
    isolation="none",
    image_digest="",
    limits_enforced=("wall_s", "cpu_s", "memory_bytes", "num_files", "output_bytes", "keep_bytes"),
)
_LIMITED = """
ulimit -S -t {cpu_s}; ulimit -H -t {hard_cpu_s}; ulimit -n {num_files}; ulimit -f {file_blocks}; ulimit -c 0
ulimit -v {memory_kib} 2>/dev/null
exec "$@"
"""


class UnsafeSandbox:
    """See `Sandbox`; has no sessions.

    Raises:
        ConfigError: not explicitly allowed, or this is root.
    """

    def __init__(self, *, num_slots: int, allow_unsafe: bool) -> None:
        if not allow_unsafe:
            msg = (
                "executor.sandbox: 'unsafe-subprocess' isolates nothing, programs run as you; set "
                "executor.allow_unsafe = true if you trust every program, or use 'bubblewrap'"
            )
            raise ConfigError(msg)
        if os.geteuid() == 0:
            msg = (
                "executor.sandbox: 'unsafe-subprocess' never runs as root; start the executor as another user, or use "
                "'bubblewrap'"
            )
            raise ConfigError(msg)
        self.num_slots = num_slots
        self.image_digest = ""
        self._slots = threading.BoundedSemaphore(num_slots)
        self._is_closed = False

    def run(self, action: Action) -> Outcome:
        """Run it in a process group and a temporary folder of its own."""
        try:
            for path in action.files:
                check_relative(path)
        except SandboxError as error:
            return _LABELS.infra_error(str(error))
        with self._slots, tempfile.TemporaryDirectory(prefix="rollog-", ignore_cleanup_errors=True) as folder:
            if self._is_closed:
                msg = "sandbox: it was closed"
                raise SandboxError(msg)
            try:
                return _run(action, Path(folder))
            except (OSError, ValueError) as error:  # no place, or a working directory that is none
                return _LABELS.infra_error(str(error))

    def open_session(self) -> NoReturn:
        """Refuse.

        Raises:
            SandboxError: always.
        """
        msg = "sandbox: 'unsafe-subprocess' has no sessions; use 'bubblewrap'"
        raise SandboxError(msg)

    def close(self) -> None:
        """Refuse from now on; what runs ends by its deadline."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class _Waiter(threading.Thread):
    """Waits for a process, whose end makes `fd` readable."""

    def __init__(self, process: "subprocess.Popen[bytes]") -> None:
        super().__init__(name="unsafe-wait", daemon=True)
        self.fd, self._end = os.pipe()
        self._process = process
        self.wait_status = wire.NO_STATUS
        self.usage: resource.struct_rusage | None = None
        self.start()

    def run(self) -> None:
        """Until the process is over."""
        _, self.wait_status, self.usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(self.wait_status)
        os.close(self._end)


def _run(action: Action, folder: Path) -> Outcome:
    limits = action.limits
    started_s = time.monotonic()
    process = _start(action, folder)
    assert process.stdout is not None
    assert process.stderr is not None
    with process.stdout, process.stderr:
        captures = []
        for fd in (process.stdout.fileno(), process.stderr.fileno()):
            os.set_blocking(fd, False)
            captures.append(Capture(fd, memoryview(bytearray(max(2, limits.keep_bytes)))))
        waiter = _Waiter(process)
        watch = Watch(_bounds(limits), captures, [waiter.fd], None, lambda: 0.0)
        reason = watch.until_over(started_s)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)  # also what the program left behind in its group
        waiter.join()
        os.close(waiter.fd)
        for capture in captures:
            capture.drain(limits.output_bytes)
    kept, error = _keep_tree(action, folder, reason)
    assert waiter.usage is not None
    answer = Answer(
        reason=reason,
        is_last=0,
        wait_status=waiter.wait_status,
        num_leftover=0,
        stdout_bytes=captures[0].num_bytes,
        stderr_bytes=captures[1].num_bytes,
        wall_s=time.monotonic() - started_s,
        cpu_s=waiter.usage.ru_utime + waiter.usage.ru_stime,
        max_rss_bytes=waiter.usage.ru_maxrss << 10,
        stdout=b"".join(captures[0].kept()),
        stderr=b"".join(captures[1].kept()),
        error=error,
        tree=kept,
    )
    return _LABELS.outcome_of(answer, limits, num_oom_kills=0, keeps_tree=action.keep_tree_bytes > 0)


def _keep_tree(action: Action, folder: Path, reason: int) -> tuple[bytes | None, str]:
    if not action.keep_tree_bytes or reason != wire.ENDED:
        return None, ""
    try:
        return tree.read(str(folder / "work"), action.keep_tree_bytes), ""
    except (tree.TooLargeError, OSError) as error:
        return None, str(error)


def _bounds(limits: ExecutionLimits) -> wire.Request:
    """Return what `Watch` sees to; the rest is the shell's."""
    return wire.Request(
        kind=wire.JOB,
        payload_bytes=0,
        wall_s=limits.wall_s,
        cpu_s=0.0,
        file_bytes=0,
        num_files=0,
        output_bytes=limits.output_bytes,
        keep_bytes=limits.keep_bytes,
        address_space_bytes=0,
        num_processes=0,
    )


def _start(action: Action, folder: Path) -> "subprocess.Popen[bytes]":
    work = folder / "work"
    work.mkdir()
    tree.lay(action.tree, str(work))
    for path, content in action.files.items():
        (work / path).parent.mkdir(parents=True, exist_ok=True)
        (work / path).write_bytes(content)
    (folder / "stdin").write_bytes(action.stdin)
    environment = {"PATH": os.defpath, "HOME": str(work), "LANG": "C.UTF-8", "TMPDIR": str(folder)}
    if action.setup:
        nowhere = subprocess.DEVNULL
        subprocess.run(
            ["/bin/sh", "-c", action.setup],
            cwd=work,
            env=environment,
            stdin=nowhere,
            stdout=nowhere,
            stderr=nowhere,
            check=False,
            timeout=action.limits.wall_s,
        )
    limits = action.limits
    cpu_s = math.ceil(limits.cpu_s)
    script = _LIMITED.format(
        cpu_s=cpu_s,
        hard_cpu_s=cpu_s + 1,
        num_files=limits.num_files,
        file_blocks=math.ceil(limits.file_bytes / 512),
        memory_kib=limits.memory_bytes >> 10,
    )
    with (folder / "stdin").open("rb") as stdin:
        return subprocess.Popen(
            ["/bin/sh", "-c", script, "sh", *_command(action, folder)],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=work,
            env=environment,
            start_new_session=True,
        )


def _command(action: Action, folder: Path) -> list[str]:
    """Return the program as a file; with a prelude, a program that runs both in one namespace."""
    if action.kind == "command":
        return ["/bin/sh", "-c", action.code]
    main = folder / "main.py"
    main.write_text(action.code, errors="surrogatepass")
    command = [sys.executable, "-E", "-s", "-B", "-X", "utf8"]
    if not action.prelude:
        return [*command, str(main)]
    prelude = folder / "prelude.py"
    prelude.write_text(action.prelude, errors="surrogatepass")
    run_both = "import sys\nfor path in sys.argv[1:]: exec(compile(open(path).read(), path, 'exec'))"
    return [*command, "-c", run_both, str(prelude), str(main)]
