"""What runs in a sandbox, what came of it, and the fact that says so.

`Action` is asked for by a turn, `Outcome` is what a sandbox answers, `ExecutionFinished` is the event. A sandbox's
trouble is `infra_error`: it is retried, says nothing about the program, and never becomes a reward.
"""

from typing import Literal

import msgspec

Status = Literal["ok", "nonzero", "signaled", "timed_out", "cpu_limit", "oom", "output_limit", "infra_error"]
Isolation = Literal["namespaces", "container", "none", "fake"]


class ExecutionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds on one sandbox run."""

    wall_s: float = 10.0
    """Wall-clock seconds until everything that the action started is killed."""
    cpu_s: float = 5.0
    """Processor seconds, summed over the action's processes where a cgroup counts them."""
    memory_bytes: int = 256 << 20
    num_processes: int = 32
    file_bytes: int = 32 << 20
    """Bytes that the action may have on disk at once; also the largest single file."""
    num_files: int = 256
    """Open files of a process."""
    output_bytes: int = 16 << 20
    """Bytes on one stream after which the action is killed."""
    keep_bytes: int = 64 << 10
    """Bytes of a stream that are kept: the head and the tail in equal parts."""


class Case(msgspec.Struct, frozen=True, kw_only=True):
    """One input that a program is run with. What it should make of it is not here: no program may see that.

    Example: `Case(name="empty", stdin=b"[]")`.
    """

    name: str
    stdin: bytes = b""
    prelude: str = ""
    """Python between the action's prelude and the program."""
    epilogue: str = ""
    """Python after the program, in its namespace."""
    files: dict[str, bytes] = {}
    """Besides the action's."""


class Action(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to run.

    Example: `Action(code="print(add(3,4))", prelude="def add(a, b): return a + b")`.
    """

    kind: Literal["python", "command", "call", "refusal"] = "python"
    """`python`: `code` is a program; `command`: a line for `sh -c`; `call`: a `ToolCall` as JSON of a function of the
    prelude; `refusal`: what is wrong with the call of a turn, which runs nothing and is all that comes of it."""
    code: str
    """What the policy wrote."""
    prelude: str = ""
    """Python that the task puts before `code`; it does not count as the policy's."""
    stdin: bytes = b""
    files: dict[str, bytes] = {}
    """Relative path to content, laid in the working directory first."""
    limits: ExecutionLimits = ExecutionLimits()
    cases: tuple[Case, ...] = ()
    """Inputs to run it with, each on its own."""
    setup: str = ""
    """Line for `sh -c` that is run before it; what that prints is not kept."""
    tree: bytes = b""
    """A working directory as an earlier outcome kept it, laid before `files`."""
    keep_tree_bytes: int = 0
    """Bytes up to which the working directory is kept in the outcome; 0 keeps none."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What a sandbox saw of one `Action`."""

    status: Status
    exit_code: int | None = None
    """None where a signal or the sandbox ended it."""
    signal: int | None = None
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_bytes: int = 0
    """Bytes written in all; more than `len(stdout)` where it was cut."""
    stderr_bytes: int = 0
    wall_ms: float = 0.0
    cpu_ms: float = 0.0
    max_rss_bytes: int = 0
    num_leftover: int = 0
    """Processes that were still running when the main one ended, and were killed."""
    state_lost: bool = False
    """A session's timeout killed its sandbox: variables and files are gone."""
    backend: str = ""
    isolation: Isolation = "none"
    image_digest: str = ""
    """sha256 of the root file system that it ran in."""
    limits_enforced: tuple[str, ...] = ()
    """Names of the `ExecutionLimits` fields that this backend can enforce on this host."""
    attempt: int = 1
    error: str = ""
    """What went wrong with the sandbox itself, for `infra_error`; what was not kept, and why."""
    tree: bytes | None = None
    """The working directory at the end; None where it was not asked for, too large, or lost to a limit: then the next
    turn starts from where this one did."""

    @property
    def stdout_truncated(self) -> bool:
        """Whether some of stdout was not kept."""
        return self.stdout_bytes > len(self.stdout)

    @property
    def stderr_truncated(self) -> bool:
        """Whether some of stderr was not kept."""
        return self.stderr_bytes > len(self.stderr)


class ExecutionFinished(msgspec.Struct, frozen=True, kw_only=True):
    """A turn's action ran, or could not be run."""

    task_id: str
    rollout_id: str
    turn: int
    """Index of the turn that asked for it, from 0."""
    domain: str
    outcome: Outcome
    queued_s: float = 0.0
    """Seconds between taking the turn from the log and starting the run."""
    copied_from: str = ""
    """The rollout of the task that ran the same program, whose outcome this is; empty where it ran for this turn."""
    cases: tuple[Outcome, ...] = ()
    """What came of each of the action's cases, in their order, the last ones missing where several had used up their
    time; `outcome` then is the first that was not `ok`, else the first."""

    def __post_init__(self) -> None:
        """Refuse a rollout that is not one of the task's samples."""
        task, _, sample = self.rollout_id.rpartition("/")
        if task != self.task_id or not sample.isdecimal():
            raise ValueError(f"rollout_id {self.rollout_id!r} is not a sample of task {self.task_id!r}")
