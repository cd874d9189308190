"""A working directory as bytes: what a turn leaves, for the next one and for verifiers.

An entry is a header, a path and a content; entries are sorted by path, so that equal directories are equal bytes.
Times, owners and hard links are not kept. Nothing that is read here is trusted: a path that leads elsewhere is refused.
"""

from __future__ import annotations  # `typing` and what it loads would lie in every job's memory

import os
import stat
from struct import Struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

ENTRY = Struct("<BHII")
"""kind, mode, bytes of the path, bytes of the content."""
FILE, FOLDER, LINK = 1, 2, 3
MOST_ENTRIES = 2048
"""Half of what the sandbox's file system has room for: what is laid beside them next must find some."""


class Entry:
    """One thing below the working directory."""

    __slots__ = ("content", "mode", "target")

    def __init__(self, mode: int, content: bytes | None = None, target: str | None = None) -> None:
        self.mode = mode
        """Permission bits."""
        self.content = content
        """None unless it is a file."""
        self.target = target
        """Where a link leads; None unless it is one."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Entry):
            return NotImplemented
        return (self.mode, self.content, self.target) == (other.mode, other.content, other.target)

    def __hash__(self) -> int:
        return hash((self.mode, self.content, self.target))


class TooLargeError(Exception):
    """The directory has more in it than may be kept."""


def pack(entries: dict[str, Entry]) -> bytes:
    """Return the bytes of a directory."""
    return b"".join(_encode(path, entry) for path, entry in sorted(entries.items()))


def _encode(path: str, entry: Entry) -> bytes:
    name = os.fsencode(path)
    if entry.content is not None:
        kind, content = FILE, entry.content
    elif entry.target is not None:
        kind, content = LINK, os.fsencode(entry.target)
    else:
        kind, content = FOLDER, b""
    return ENTRY.pack(kind, entry.mode, len(name), len(content)) + name + content


def unpack(tree: bytes) -> dict[str, Entry]:
    """Return the entries by path. Raises ValueError where it is no directory's bytes."""
    return dict(_decode(tree))


def _decode(tree: bytes) -> Iterator[tuple[str, Entry]]:
    place = 0
    while place < len(tree):
        if place + ENTRY.size > len(tree):
            raise ValueError(f"byte {place}: a directory's bytes end within an entry")
        kind, mode, num_path, num_content = ENTRY.unpack_from(tree, place)
        place += ENTRY.size
        end = place + num_path + num_content
        if end > len(tree) or kind not in (FILE, FOLDER, LINK) or mode > 0o777:
            raise ValueError(f"byte {place}: no entry of a directory (kind {kind}, mode {mode:o}, ends at {end})")
        path = os.fsdecode(tree[place : place + num_path])
        content = bytes(tree[place + num_path : end])
        if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
            raise ValueError(f"path {path!r} leads out of the working directory")
        place = end
        if kind == FILE:
            yield path, Entry(mode, content)
        elif kind == LINK:
            yield path, Entry(mode, target=os.fsdecode(content))
        else:
            yield path, Entry(mode)


def lay(tree: bytes, root: str = ".") -> None:
    """Make the directory's entries below `root`, an empty one. Modes of folders come last, they may forbid writing."""
    folders = []
    for path, entry in _decode(tree):
        place = os.path.join(root, path)
        if entry.content is not None:
            fd = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            try:
                left = memoryview(entry.content)
                while left:
                    left = left[os.write(fd, left) :]
                os.fchmod(fd, entry.mode)
            finally:
                os.close(fd)
        elif entry.target is not None:
            os.symlink(entry.target, place)
        else:
            os.mkdir(place, 0o700)
            folders.append((place, entry.mode))
    for place, mode in reversed(folders):
        os.chmod(place, mode)


def read(root: str, max_bytes: int) -> bytes:
    """Return the bytes of the directory `root`; what is no file, folder or link is passed over.

    Raises:
        TooLargeError: they are more than `max_bytes`, or of more than `MOST_ENTRIES` entries.
    """
    if os.path.islink(root):
        raise ValueError("the working directory is a link")
    found: dict[str, bytes] = {}
    left = max_bytes
    folders = [""]
    while folders:
        folder = folders.pop()
        for name in os.listdir(os.path.join(root, folder)):
            path = os.path.join(folder, name)
            entry = _entry_at(os.path.join(root, path), left)
            if entry is None:
                continue
            if entry.content is None and entry.target is None:
                folders.append(path)
            found[path] = _encode(path, entry)
            if len(found) > MOST_ENTRIES:
                raise TooLargeError(f"the working directory has more than {MOST_ENTRIES} files and folders")
            left -= len(found[path])
            if left < 0:
                raise TooLargeError(f"the working directory has more than {max_bytes} bytes")
    return b"".join(found[path] for path in sorted(found))


def _entry_at(place: str, max_bytes: int) -> Entry | None:
    status = os.lstat(place)
    mode = stat.S_IMODE(status.st_mode) & 0o777
    if stat.S_ISLNK(status.st_mode):
        return Entry(0o777, target=os.readlink(place))
    if stat.S_ISDIR(status.st_mode):
        os.chmod(place, mode | 0o700)  # the owner's own folder, which would not be listed else
        return Entry(mode)
    if not stat.S_ISREG(status.st_mode):
        return None
    if status.st_size > max_bytes:
        raise TooLargeError(f"the working directory has more bytes than may be kept: {status.st_size} in one file")
    os.chmod(place, mode | 0o400)
    fd = os.open(place, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        parts = []
        while part := os.read(fd, 1 << 20):
            parts.append(part)
            if sum(map(len, parts)) > max_bytes:
                raise TooLargeError("a file of the working directory grows while it is read")
        return Entry(mode, b"".join(parts))
    finally:
        os.close(fd)
