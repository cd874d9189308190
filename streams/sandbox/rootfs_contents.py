"""What goes into the root file system: the host's interpreter, its standard library, a shell, tools, their libraries.

The interpreter moves to /usr/local, where it finds its library by itself; shared libraries lie in one flat folder to
which every default search path leads, so no loader cache is needed and nothing tells where the host keeps them.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

from schemas.errors import SandboxError

_TOOL_NAMES = """
sh bash awk base64 basename cat chmod cmp comm cp cut date dd df diff dirname du echo env expr false find fold git
grep gzip head hostname id join kill ln ls md5sum mkdir mkfifo mktemp mv nl nproc od paste printenv printf ps
pwd readlink realpath rev rm rmdir sed seq sha256sum shuf sleep sort split stat tac tail tar tee test timeout
touch tr true tsort uname uniq wc which whoami xargs yes
"""
TOOLS = tuple(_TOOL_NAMES.split())
"""Copied where the host has them; only `sh` must be there."""

DEVICES = ("null", "zero", "full", "random", "urandom")
"""Empty files in the tree, for the host's devices to be bound on: so `/dev` itself needs no writable file system."""

_LEFT_OUT_NAMES = """
__pycache__ site-packages dist-packages test tests idlelib tkinter turtledemo ensurepip lib2to3 pydoc_data
idle_test
"""
_LEFT_OUT = frozenset(_LEFT_OUT_NAMES.split())
_LOADED_AT_RUN_TIME = ("libgcc_s.so.1", "libnss_files.so.2")
"""Opened by libc by name, so no file's header names them."""
_ETC = {
    "passwd": "root:x:0:0:root:/:/bin/false\njob:x:1000:1000:job:/box/work:/bin/sh\n",
    "group": "root:x:0:\njob:x:1000:\n",
    "hosts": "127.0.0.1 localhost\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
}


def base_interpreter() -> Path:
    """Return the interpreter below any virtual environment."""
    return Path(getattr(sys, "_base_executable", sys.executable)).resolve()


def python_path() -> str:
    """Return the interpreter's path inside."""
    return f"/usr/local/bin/{base_interpreter().name}"


def lay_out(root: Path) -> None:
    """Fill an empty folder.

    Raises:
        SandboxError: the host lacks a shell, `ldd`, or a library that something needs.
    """
    for folder in ("usr/bin", "usr/lib", "usr/local/bin", "etc", "proc", "dev", "box", "opt/inside", "var", "run"):
        (root / folder).mkdir(parents=True)
    links = {
        "bin": "usr/bin",
        "sbin": "usr/bin",
        "lib": "usr/lib",
        "lib64": "usr/lib",
        "usr/lib64": "lib",
        "usr/sbin": "bin",
    }
    links |= {"app": "box/work", "tests": "box/tests", "logs": "box/logs"}  # where Harbor's tasks expect them
    links |= {"tmp": "box/tmp", "var/tmp": "../box/tmp", "dev/shm": "../box/shm", "dev/fd": "/proc/self/fd"}
    links |= {f"dev/{name}": f"/proc/self/fd/{fd}" for fd, name in enumerate(("stdin", "stdout", "stderr"))}
    for name, target in links.items():
        (root / name).symlink_to(target)
    for name in DEVICES:
        (root / "dev" / name).touch()
    multiarch = sysconfig.get_config_var("MULTIARCH")
    if multiarch:
        (root / "usr/lib" / multiarch).symlink_to(".")
    for name, text in _ETC.items():
        (root / "etc" / name).write_text(text)
    binaries = [*_copy_interpreter(root), *_copy_tools(root)]
    _copy_libraries(root, binaries)
    _set_modes(root)


def _copy_interpreter(root: Path) -> list[Path]:
    """Copy the executable and the library; return what of them is machine code."""
    executable = base_interpreter()
    target = root / "usr/local/bin" / executable.name
    shutil.copy(executable, target)
    for name in {"python", "python3"} - {executable.name}:
        (target.parent / name).symlink_to(executable.name)
        (root / "usr/bin" / name).symlink_to(f"../local/bin/{executable.name}")
    binaries = [executable]
    for key in dict.fromkeys(("stdlib", "platstdlib")):
        source = Path(sysconfig.get_path(key, vars={"base": sys.base_prefix, "platbase": sys.base_exec_prefix}))
        source = Path(str(source).replace(sys.prefix, sys.base_prefix, 1))
        inside = root / "usr/local" / source.relative_to(sys.base_prefix)
        if not inside.exists():
            shutil.copytree(source, inside, symlinks=False, ignore=_ignore, ignore_dangling_symlinks=True)
            binaries += inside.rglob("*.so")
    return binaries


def _ignore(folder: str, names: list[str]) -> set[str]:
    return {
        name
        for name in names
        if name in _LEFT_OUT or name.endswith((".a", ".pyc", ".exe", ".whl")) or name.startswith("config-")
    }


def _copy_tools(root: Path) -> list[Path]:
    """Each program once, under its own name; further names of it (busybox, alternatives) are links."""
    binaries = []
    for name in TOOLS:
        found = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin:" + os.defpath)
        if found is None:
            if name == "sh":
                msg = "sandbox: this host has no `sh` to put into the root file system; install one"
                raise SandboxError(msg)
            continue
        source = Path(found).resolve()
        target = root / "usr/bin" / source.name
        if not target.exists():
            shutil.copy(source, target)
            if _is_machine_code(source):
                binaries.append(source)
        if name != source.name:
            (root / "usr/bin" / name).symlink_to(source.name)
    return binaries


def _is_machine_code(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(4) == b"\x7fELF"


def _copy_libraries(root: Path, binaries: list[Path]) -> None:
    for source in sorted(_needed_libraries(binaries)):
        target = root / "usr/lib" / source.name
        if not target.exists():
            shutil.copy(source.resolve(), target)
        if (
            "ld-" in source.name and not (root / source.relative_to("/")).exists()
        ):  # the loader is named by its full path
            (root / source.relative_to("/")).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(source.resolve(), root / source.relative_to("/"))


def _needed_libraries(binaries: list[Path]) -> set[Path]:
    if shutil.which("ldd") is None:
        msg = "sandbox: `ldd` is needed to find the interpreter's libraries; install the C library's tools (libc-bin)"
        raise SandboxError(msg)
    command = ["ldd", *map(str, binaries)]
    listed = subprocess.run(
        command, capture_output=True, text=True, check=False, env={"PATH": os.environ.get("PATH", os.defpath)}
    )
    libraries: set[Path] = set()
    for line in listed.stdout.splitlines():
        words = line.split()
        if "=> not found" in line:
            continue  # an extension module whose library this host lacks: it would not import here either
        paths = [word for word in words if word.startswith("/") and not word.endswith(":")]
        libraries.update(map(Path, paths[:1]))
    if not libraries:
        msg = f"sandbox: ldd found no libraries for {binaries[0]}: {listed.stderr.strip()[:300]}"
        raise SandboxError(msg)
    beside_libc = {path.parent for path in libraries if path.name.startswith("libc.")}
    libraries.update(
        folder / name for folder in beside_libc for name in _LOADED_AT_RUN_TIME if (folder / name).exists()
    )
    return libraries


def _set_modes(root: Path) -> None:
    """Readable by all, executable where the owner may, and nothing else: no set-user-id, no writers."""
    for folder, _, names in os.walk(root):
        Path(folder).chmod(0o755)
        for path in (Path(folder, name) for name in names):
            if not path.is_symlink():
                path.chmod(0o755 if path.stat().st_mode & 0o100 else 0o644)
