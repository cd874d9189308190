"""Memory and process limits by cgroup, version 1 or 2, where this process may make groups; None where it may not.

One group per slot, kept for the slot's life: making and removing one costs more than a whole job. The fork server lives
in it too, so the limits are raised by what it alone uses, and jobs are the first to be killed (their `oom_score_adj` is
the highest).
"""

import contextlib
import os
import re
import select
import signal
from pathlib import Path

import msgspec

_SLACK_BYTES = 4 << 20
_EXIT_S = 5.0
_PREFIX = "rollog-"


class CgroupParent(msgspec.Struct, frozen=True, kw_only=True):
    """Where groups are made: one folder for version 2, one for each of memory and pids for version 1."""

    version: int
    memory: Path
    pids: Path

    def folders(self, name: str) -> list[Path]:
        """Return the folders of a group of that name."""
        return list(dict.fromkeys((self.memory / name, self.pids / name)))


def find_parent(proc: Path = Path("/proc/self")) -> CgroupParent | None:
    """Return the nearest place that works, by trying: what a container or service manager permits shows in no mode."""
    own = _own_cgroups(proc)
    if "memory" in own and "pids" in own:
        candidates = [CgroupParent(version=1, memory=own["memory"], pids=own["pids"])]
    else:
        unified = own.get("")
        above = [unified, *unified.parents] if unified else []
        candidates = [CgroupParent(version=2, memory=path, pids=path) for path in above if _delegates(path)]
    return next((parent for parent in candidates if _is_writable(parent)), None)


def _own_cgroups(proc: Path) -> dict[str, Path]:
    """Return controller to folder; the empty name is version 2's only hierarchy."""
    mounts: dict[str, tuple[str, str]] = {}
    for line in (proc / "mountinfo").read_text().splitlines():
        before, _, after = line.partition(" - ")
        root, mount_point = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind == "cgroup":
            mounts |= dict.fromkeys(options.split(","), (root, mount_point))
        elif kind == "cgroup2":
            mounts[""] = (root, mount_point)
    own = {}
    for line in (proc / "cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        for controller in controllers.split(","):
            root, mount_point = mounts.get(controller, ("", ""))
            if mount_point and os.path.commonpath((root, path)) == root:
                own[controller] = Path(mount_point, os.path.relpath(path, root))
    return {name: Path(os.path.normpath(path)) for name, path in own.items()}


def _delegates(path: Path) -> bool:
    control = path / "cgroup.subtree_control"
    return control.exists() and {"memory", "pids"} <= set(control.read_text().split())


def _is_writable(parent: CgroupParent) -> bool:
    folders = parent.folders(f"{_PREFIX}probe-{os.getpid()}")
    try:
        for folder in folders:
            folder.mkdir()
            if not os.access(folder / "cgroup.procs", os.W_OK):
                return False
    except OSError:
        return False
    finally:
        for folder in folders:
            if folder.exists():
                folder.rmdir()
    return os.access(parent.memory / "cgroup.procs", os.W_OK)  # moving into a group asks for the common ancestor's


def remove_groups(parent: CgroupParent, pool: str) -> bool:
    """Kill what a pool that is gone left, and remove its groups; whether none remains."""
    folders = [path for root in dict.fromkeys((parent.memory, parent.pids)) for path in root.glob(f"{_PREFIX}{pool}-*")]
    for folder in folders:
        _remove(folder)
    return not any(folder.exists() for folder in folders)


def _remove(folder: Path) -> None:
    """Try to: a group that cannot be emptied stays for the next sweep."""
    with contextlib.suppress(OSError):
        for pid in map(int, (folder / "cgroup.procs").read_text().split()):
            _kill(pid)
        folder.rmdir()


def _kill(pid: int) -> None:
    """Kill it and wait until it is gone: a group with a process on its way out is busy."""
    try:
        pidfd = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
        ended = select.poll()  # unlike select, of any descriptor: a service may have thousands open
        ended.register(pidfd, select.POLLIN)
        ended.poll(_EXIT_S * 1000)
    finally:
        os.close(pidfd)


class SlotCgroup:
    """The group of one slot."""

    def __init__(self, parent: CgroupParent, pool: str, slot: int) -> None:
        self._is_v1 = parent.version == 1
        self._folders = parent.folders(f"{_PREFIX}{pool}-{slot}")
        for folder in self._folders:
            folder.mkdir(exist_ok=True)
        self._memory, self._pids = self._folders[0], self._folders[-1]
        self._events_fd = os.open(
            self._memory / ("memory.oom_control" if self._is_v1 else "memory.events"), os.O_RDONLY
        )
        self._base_bytes = self._base_processes = 0
        self._set: tuple[int, int] = (-1, -1)

    @property
    def procs_files(self) -> list[str]:
        """Where a process writes 0 to join."""
        return [str(folder / "cgroup.procs") for folder in self._folders]

    def measure_base(self) -> None:
        """Take what is in the group now for the fork server's own, on top of which a job has its limits."""
        self._base_bytes = int(
            (self._memory / ("memory.usage_in_bytes" if self._is_v1 else "memory.current")).read_text()
        )
        self._base_processes = int((self._pids / "pids.current").read_text())

    def limit(self, memory_bytes: int, num_processes: int) -> None:
        """Set both for the next job; nothing to write where they are as the last one's."""
        if (memory_bytes, num_processes) == self._set:
            return
        total_bytes = memory_bytes + self._base_bytes + _SLACK_BYTES
        (self._pids / "pids.max").write_text(str(num_processes + self._base_processes + 1))  # and the job's process 1
        if self._is_v1:
            self._limit_v1(total_bytes)
        else:
            (self._memory / "memory.max").write_text(str(total_bytes))
            swap = self._memory / "memory.swap.max"
            if swap.exists():
                swap.write_text("0")
        self._set = (memory_bytes, num_processes)

    def _limit_v1(self, total_bytes: int) -> None:
        """Memory with swap may never be below memory alone, so the order depends on the direction."""
        memory, with_swap = self._memory / "memory.limit_in_bytes", self._memory / "memory.memsw.limit_in_bytes"
        files = [path for path in (memory, with_swap) if path.exists()]
        if total_bytes > int(memory.read_text()):
            files.reverse()
        for path in files:
            path.write_text(str(total_bytes))

    def num_oom_kills(self) -> int:
        """Since the group was made."""
        found = re.search(rb"^oom_kill (\d+)", os.pread(self._events_fd, 512, 0), re.MULTILINE)
        return int(found[1]) if found else 0

    def close(self) -> None:
        """Remove it; its processes must have been killed."""
        os.close(self._events_fd)
        for folder in self._folders:
            _remove(folder)
