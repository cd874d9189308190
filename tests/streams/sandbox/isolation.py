"""Runs pytest files where it can do no harm, or as somebody else, and tells what became of each test.

`python isolation.py USER_ID FOLDER -- COMMAND...`, as root, becomes that user in a mount namespace where interpreter,
repository and folder can be entered even if they lie in root's home.
"""

import ctypes
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

ROOT = Path(__file__).parents[3]
USER_ID = 54321
_CLONE_NEWNS = 0x00020000
_MS_BIND, _MS_REC, _MS_PRIVATE = 0x1000, 0x4000, 0x40000


def run_isolated(files: list[Path], folder: Path, *, environment: dict[str, str] | None = None) -> dict[str, str]:
    """Run them in new mount, ipc and pid namespaces; test name to "" or what went wrong."""
    as_root = [] if os.geteuid() == 0 else ["--user", "--map-root-user"]
    command = ["unshare", *as_root, "--mount", "--ipc", "--pid", "--fork", "--mount-proc", "--kill-child"]
    return _run(command, files, folder, environment or {})


def run_as_user(file: Path, folder: Path) -> dict[str, str]:
    """Run it as a user without any privilege; must be called by root."""
    folder.chmod(0o777)
    command = [sys.executable, __file__, str(USER_ID), str(folder), "--"]
    return _run(command, [file], folder, {"HOME": str(folder), "TMPDIR": str(folder)})


def _run(command: list[str], files: list[Path], folder: Path, environment: dict[str, str]) -> dict[str, str]:
    report = folder / "report.xml"
    pytest = [
        sys.executable,
        "-B",
        "-m",
        "pytest",
        "-p",
        "no:cacheprovider",
        "-x",
        "--maxfail=100",
        f"--junitxml={report}",
    ]
    finished = subprocess.run(
        [*command, *pytest, f"--basetemp={folder}/inner", *map(str, files)],
        cwd=ROOT,
        env=os.environ | environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if not report.exists():
        raise AssertionError(finished.stdout[-3000:] + finished.stderr[-3000:])
    results = {}
    for case in ET.parse(report).iter("testcase"):
        problems = [part for part in case if part.tag in {"failure", "error", "skipped"}]
        texts = [f"{part.tag}: {part.get('message')}\n{part.text}" for part in problems]
        results[str(case.get("name"))] = "\n".join(texts)
    return results


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()):
        raise OSError(ctypes.get_errno(), f"mount on {target}")


def _open_up(paths: list[Path]) -> None:
    """Cover each folder that others may not enter by an empty one with only the wanted paths in it."""
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):
        raise OSError(ctypes.get_errno(), "unshare")
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    closed: dict[Path, list[Path]] = {}
    for path in paths:
        above = next((folder for folder in reversed(path.parents) if not folder.stat().st_mode & 0o001), None)
        if above is not None and path not in closed.setdefault(above, []):
            closed[above].append(path)
    for above, wanted in closed.items():
        held = {path: os.open(path, os.O_PATH) for path in wanted}
        _mount("tmpfs", str(above), "tmpfs", 0, "mode=755")
        for path, fd in held.items():
            path.mkdir(parents=True, exist_ok=True)
            _mount(f"/proc/self/fd/{fd}", str(path), "", _MS_BIND | _MS_REC)


if __name__ == "__main__":
    user_id, command = int(sys.argv[1]), sys.argv[sys.argv.index("--") + 1 :]
    _open_up([Path(sys.base_prefix), Path(sys.prefix), ROOT, Path(sys.argv[2])])
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)
    os.execv(command[0], command)
