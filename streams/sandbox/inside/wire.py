"""The bytes between the host and the fork server: fixed structs, so that neither side parses what the other made up.

A request is a `REQUEST` and then `payload_bytes` of marshal data, which only the job's own process reads: what one job
was given never enters the memory that the next job is forked from. A reply is a `REPLY`, then the kept stdout, stderr,
error text and working directory (tree.py).
"""

from struct import Struct

LENGTH = Struct("<I")
REQUEST = Struct("<BIddQQQQQQQ")
REPLY = Struct("<BBiIQQddQIIIi")
"""reason, is_last (the connection may be out of step, so the fork server ends), wait_status, num_leftover,
stdout_bytes, stderr_bytes, wall_s, cpu_s, max_rss_bytes, and the sizes of what follows: kept stdout, kept
stderr, error, working directory (`NO_TREE` where none was kept)."""

JOB, SESSION = 1, 2
CELL, COMMAND, PUT, GET = 3, 4, 5, 6

ENDED, WALL, OUTPUT, CPU = 0, 1, 2, 3
FAILED = 4
"""Reasons why a run is over: by itself, by a limit, or because the sandbox could not run it."""

NO_TREE = -1
NO_STATUS = -1
"""A `wait_status` for a run whose main process left none: its whole process namespace was killed."""


class Request:
    """What the fork server must know of a run; zero in a limit means that something else enforces it."""

    __slots__ = (
        "address_space_bytes",
        "cpu_s",
        "file_bytes",
        "keep_bytes",
        "keep_tree_bytes",
        "kind",
        "num_files",
        "num_processes",
        "output_bytes",
        "payload_bytes",
        "wall_s",
    )

    def __init__(  # noqa: PLR0917  in the order of `REQUEST`, from which it is unpacked
        self,
        kind: int,
        payload_bytes: int,
        wall_s: float,
        cpu_s: float,
        file_bytes: int,
        num_files: int,
        output_bytes: int,
        keep_bytes: int,
        address_space_bytes: int,
        num_processes: int,
        keep_tree_bytes: int = 0,
    ) -> None:
        self.kind = kind
        self.payload_bytes = payload_bytes
        self.wall_s = wall_s
        self.cpu_s = cpu_s
        self.file_bytes = file_bytes
        self.num_files = num_files
        self.output_bytes = output_bytes
        self.keep_bytes = keep_bytes
        self.address_space_bytes = address_space_bytes
        self.num_processes = num_processes
        self.keep_tree_bytes = keep_tree_bytes

    def pack(self) -> bytes:
        """In the order of the constructor."""
        return REQUEST.pack(
            self.kind,
            self.payload_bytes,
            self.wall_s,
            self.cpu_s,
            self.file_bytes,
            self.num_files,
            self.output_bytes,
            self.keep_bytes,
            self.address_space_bytes,
            self.num_processes,
            self.keep_tree_bytes,
        )
