"""Started by the host's interpreter as a script, once per slot: joins the slot's cgroup, gives up root, becomes bwrap.

Standard library only; `python -I -S launcher.py JSON`. The real root must not be the user behind the sandbox's user
namespace, so root takes a user id that owns nothing; since that one may not enter root's folders, what bwrap needs is
first bound below /tmp in a mount namespace of this process.
"""

import ctypes
import json
import os
import sys

_CLONE_NEWNS = 0x00020000
_MS_NOSUID, _MS_NODEV, _MS_BIND, _MS_REC, _MS_PRIVATE = 2, 4, 0x1000, 0x4000, 0x40000
STAGE = "/tmp"  # noqa: S108  nobody else sees this one
"""Where `binds` appear: their targets lie below it."""


def _mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), options.encode()):
        number = ctypes.get_errno()
        raise OSError(number, f"mount {kind or 'bind'} {source} on {target}: {os.strerror(number)}")


def _stage(binds: dict[str, str]) -> None:
    if ctypes.CDLL(None, use_errno=True).unshare(_CLONE_NEWNS):
        number = ctypes.get_errno()
        raise OSError(number, f"unshare mount namespace: {os.strerror(number)}")
    _mount("none", "/", "", _MS_REC | _MS_PRIVATE)
    sources = {target: os.open(source, os.O_PATH) for target, source in binds.items()}  # before STAGE covers some
    _mount("tmpfs", STAGE, "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=755,size=64k")
    for target, fd in sources.items():
        os.mkdir(target)
        _mount(f"/proc/self/fd/{fd}", target, "", _MS_BIND)


def _become(user_id: int) -> None:
    os.setgroups([])
    os.setresgid(user_id, user_id, user_id)
    os.setresuid(user_id, user_id, user_id)


def main(arguments: str) -> None:
    """Never returns."""
    plan = json.loads(arguments)
    for path in plan["cgroups"]:
        with open(path, "w") as procs:
            procs.write("0")
    if plan["user_id"] is not None:
        _stage(plan["binds"])
        _become(plan["user_id"])
    command = plan["command"]
    os.execve(command[0], command, plan["environment"])  # noqa: S606  there is no shell to want


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except OSError as error:
        sys.exit(f"launcher: {error}")
