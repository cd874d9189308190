"""What a killed process leaves behind, and how the next finds it: cgroups named after a pool whose lock is free."""

import fcntl
import secrets
from pathlib import Path
from typing import IO

from streams.sandbox.cgroups import CgroupParent, remove_groups


class PoolName:
    """A name for this pool's groups, claimed by a locked file for as long as this process lives or until `release`.

    A lock rather than a process id: ids mean nothing across process namespaces.
    """

    def __init__(self, home: Path) -> None:
        folder = home / "sandbox" / "pools"
        folder.mkdir(parents=True, exist_ok=True)
        self.text = secrets.token_hex(6)
        self._path = folder / self.text
        self._lock: IO[str] = self._path.open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def release(self, parent: CgroupParent | None) -> None:
        """Remove what groups there still are, and give the name up; or leave both to the next sweep."""
        if parent is None or remove_groups(parent, self.text):
            self._path.unlink(missing_ok=True)
        self._lock.close()


def sweep(home: Path, parent: CgroupParent | None) -> int:
    """Kill and remove what pools under this home left that are no longer there; how many."""
    num_swept = 0
    for path in (home / "sandbox" / "pools").glob("*"):
        try:
            with path.open("r+") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if parent is None or remove_groups(parent, path.name):
                    path.unlink(missing_ok=True)
                    num_swept += 1
        except (BlockingIOError, FileNotFoundError):
            continue
    return num_swept
