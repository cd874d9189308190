"""Who sees to which limit on this host: a cgroup, a resource limit inside, or the fork server."""

import os
import platform
import re

from schemas.executions import ExecutionLimits
from streams.sandbox.cgroups import CgroupParent, SlotCgroup, find_parent
from streams.sandbox.inside import wire
from streams.sandbox.slot import Slot

_OWN_PROCESSES = 2
"""The fork server and a job's process 1, which RLIMIT_NPROC counts too."""
_BY_FORK_SERVER = ("wall_s", "cpu_s", "memory_bytes", "file_bytes", "num_files", "output_bytes", "keep_bytes")
_FIRST_KERNEL_THAT_COUNTS_BY_NAMESPACE = (5, 14)


class Enforcement:
    """What this host has. Without cgroups, memory is bounded for each process rather than for all of a job."""

    def __init__(self, *, use_cgroups: bool = True) -> None:
        self.cgroups: CgroupParent | None = find_parent() if use_cgroups else None
        self._limits_processes = (
            self.cgroups is not None or os.geteuid() == 0 or _counts_by_namespace(platform.release())
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The fields of `ExecutionLimits` that hold here."""
        return (*_BY_FORK_SERVER, *(("num_processes",) if self._limits_processes else ()))

    def group(self, pool: str, slot: int) -> SlotCgroup | None:
        """Make a group for a slot, where there are groups."""
        return SlotCgroup(self.cgroups, pool, slot) if self.cgroups else None

    def limit(self, slot: Slot, limits: ExecutionLimits) -> None:
        """Set the slot's group for its next job."""
        if slot.cgroup is not None:
            slot.cgroup.limit(limits.memory_bytes, limits.num_processes)

    def num_oom_kills(self, slot: Slot) -> int:
        """How many processes the kernel has killed in the slot's group so far."""
        return slot.cgroup.num_oom_kills() if slot.cgroup is not None else 0

    def request(
        self, kind: int, payload_bytes: int, limits: ExecutionLimits, *, keep_tree_bytes: int = 0
    ) -> wire.Request:
        """Return the limits that are to be seen to inside."""
        by_rlimit = self.cgroups is None
        return wire.Request(
            kind=kind,
            payload_bytes=payload_bytes,
            wall_s=limits.wall_s,
            cpu_s=limits.cpu_s,
            file_bytes=limits.file_bytes,
            num_files=limits.num_files,
            output_bytes=limits.output_bytes,
            keep_bytes=max(2, limits.keep_bytes),
            address_space_bytes=limits.memory_bytes if by_rlimit else 0,
            num_processes=limits.num_processes + _OWN_PROCESSES if by_rlimit and self._limits_processes else 0,
            keep_tree_bytes=keep_tree_bytes,
        )


def _counts_by_namespace(release: str) -> bool:
    """Tell whether RLIMIT_NPROC counts a user's processes by namespace; older kernels count all that the user has."""
    found = re.match(r"(\d+)\.(\d+)", release)
    return found is not None and (int(found[1]), int(found[2])) >= _FIRST_KERNEL_THAT_COUNTS_BY_NAMESPACE
