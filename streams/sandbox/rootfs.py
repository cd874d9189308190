"""One read-only root file system, built once from the host's interpreter, kept under its digest and used by every slot.

The digest is the sha256 of the tree as a tar with sorted names and no times or owners, so the same interpreter and
tools give the same digest wherever it is built, and an event that names it says exactly what a program ran in. A
fingerprint of the host's files leads to the digest, so that finding an existing tree reads a few file times only.
"""

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import IO, cast

import msgspec

from schemas.errors import SandboxError
from streams.sandbox import rootfs_contents


class RootFs(msgspec.Struct, frozen=True, kw_only=True):
    """A finished tree."""

    path: Path
    digest: str
    """sha256, 64 hexadecimal digits."""
    python: str
    """The interpreter's path inside."""


def open_rootfs(home: Path) -> RootFs:
    """Return the tree for this interpreter under `home/sandbox`; the first call builds it (4 to 15 s, 60 to 90 MB).

    Raises:
        SandboxError: it cannot be built here; says what is missing.
    """
    folder = home.absolute() / "sandbox"
    folder.mkdir(parents=True, exist_ok=True)
    index = folder / f"rootfs-{_fingerprint()}.digest"
    with (folder / "rootfs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        found = _look_up(folder, index)
        if found is None:
            digest = _build(folder)
            temporary = index.with_suffix(f".{os.getpid()}")
            temporary.write_text(digest)
            temporary.replace(index)
            found = _look_up(folder, index)
    if found is None:
        msg = f"sandbox: {folder} lost the root file system that was just built there; does something clean it?"
        raise SandboxError(msg)
    return found


def _look_up(folder: Path, index: Path) -> RootFs | None:
    digest = index.read_text() if index.exists() else ""
    path = folder / f"rootfs-{digest}"
    return RootFs(path=path, digest=digest, python=rootfs_contents.python_path()) if digest and path.is_dir() else None


def _fingerprint() -> str:
    """Identify the interpreter, its library, the shell and this builder, so that replacing one builds anew."""
    interpreter = rootfs_contents.base_interpreter()
    shell = Path("/bin/sh").resolve()
    states = [
        (str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in (interpreter, Path(os.__file__), shell)
    ]
    builder = [Path(file).read_text() for file in (__file__, rootfs_contents.__file__)]
    facts = [sys.version, sys.base_prefix, states, builder]
    return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]


def _build(folder: Path) -> str:
    for stale in folder.glob("building-*"):  # the lock is held, so nobody is at work in there
        shutil.rmtree(stale)
    work = Path(tempfile.mkdtemp(prefix="building-", dir=folder))
    root = work / "root"
    root.mkdir()
    rootfs_contents.lay_out(root)
    _compile_library(root)
    digest = tree_digest(root)
    target = folder / f"rootfs-{digest}"
    if not target.exists():
        root.rename(target)
    shutil.rmtree(work)
    return digest


_COMPILE = """
import importlib.util, marshal, os, sys
share, num_shares = int(sys.argv[2]), int(sys.argv[3])
root = sys.argv[1]
paths = sorted(os.path.join(f, n) for f, _, ns in os.walk(root + "/usr/local") for n in ns if n.endswith(".py"))
for path in paths[share::num_shares]:
    source = open(path, "rb").read()
    try:
        code = compile(source, path[len(root):], "exec", dont_inherit=True)
    except (SyntaxError, ValueError):
        continue
    cached = importlib.util.cache_from_source(path, optimization="")
    os.makedirs(os.path.dirname(cached), exist_ok=True)
    header = importlib.util.MAGIC_NUMBER + (1).to_bytes(4, "little") + importlib.util.source_hash(source)
    open(cached, "wb").write(header + marshal.dumps(code))
"""


def _compile_library(root: Path) -> None:
    """Write byte code that is never checked against its source.

    In a fixed number of shares: what marshal writes hangs on what the process compiled before.
    """
    num_shares = 2
    environment = {"PYTHONHASHSEED": "0", "PATH": os.defpath}
    interpreter = str(rootfs_contents.base_interpreter())
    running = [
        subprocess.Popen(
            [interpreter, "-S", "-c", _COMPILE, str(root), str(share), str(num_shares)],
            env=environment,
            stderr=subprocess.PIPE,
        )
        for share in range(num_shares)
    ]
    for process in running:
        _, error = process.communicate()
        if process.returncode:
            msg = f"sandbox: compiling the standard library failed: {error.decode(errors='replace')[-500:]}"
            raise SandboxError(msg)


class _Hasher:
    """A file to `tarfile`."""

    def __init__(self) -> None:
        self.hash = hashlib.sha256()

    def write(self, data: bytes) -> int:
        """Count it in."""
        self.hash.update(data)
        return len(data)


def tree_digest(root: Path) -> str:
    """Return sha256 of the tree as a canonical tar: sorted names, no times, no owners."""
    hasher = _Hasher()
    with tarfile.open(fileobj=cast("IO[bytes]", hasher), mode="w|", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(root.rglob("*")):
            info = tar.gettarinfo(path, arcname=str(path.relative_to(root)))
            info.mtime = info.uid = info.gid = 0
            info.uname = info.gname = ""
            if info.islnk():
                msg = f"sandbox: {path} is a hard link; the root file system has none"
                raise SandboxError(msg)
            if info.isreg():
                with path.open("rb") as file:
                    tar.addfile(info, file)
            else:
                tar.addfile(info)
    return hasher.hash.hexdigest()
