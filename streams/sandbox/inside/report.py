"""A run's reply, on its way to the host."""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import os
import time

from . import wire

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .capture import Capture


class Report:
    """The facts of a run, `wire.REPLY` field by field."""

    __slots__ = ("cpu_s", "error", "max_rss_bytes", "num_leftover", "reason", "started_s", "wait_status")

    def __init__(self, reason: int, started_s: float, cpu_s: float, max_rss_bytes: int) -> None:
        self.reason = reason
        self.started_s = started_s
        self.cpu_s = cpu_s
        self.max_rss_bytes = max_rss_bytes
        self.wait_status = wire.NO_STATUS
        self.num_leftover = 0
        self.error = b""

    def fail(self, error: bytes) -> None:
        """Say that the sandbox could not run it."""
        self.reason, self.error = wire.FAILED, error

    def send(self, control: int, captures: list[Capture], *, is_last: bool, tree: int | None = None) -> None:
        """With what was kept of both streams, and the working directory that a memory file holds."""
        num_tree = wire.NO_TREE if tree is None else os.fstat(tree).st_size
        out, err = captures[0].kept(), captures[1].kept()
        reply = wire.REPLY.pack(
            self.reason,
            is_last,
            self.wait_status,
            self.num_leftover,
            captures[0].num_bytes,
            captures[1].num_bytes,
            time.monotonic() - self.started_s,
            self.cpu_s,
            self.max_rss_bytes,
            sum(map(len, out)),
            sum(map(len, err)),
            len(self.error),
            num_tree,
        )
        _write_all(control, [memoryview(reply), *out, *err, memoryview(self.error)])
        place = 0
        while tree is not None and place < num_tree:  # by the kernel: no output of a job enters this process' memory
            place += os.sendfile(control, tree, place, num_tree - place)


def _write_all(fd: int, parts: list[memoryview]) -> None:
    """All parts in order, whatever a single write takes."""
    parts = [part for part in parts if len(part)]
    while parts:
        num_written = os.writev(fd, parts)
        while parts and num_written >= len(parts[0]):
            num_written -= len(parts.pop(0))
        if num_written:
            parts[0] = parts[0][num_written:]
