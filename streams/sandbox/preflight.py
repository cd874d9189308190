"""Whether this host can isolate programs, and what to do where it cannot."""

import platform
import re
import sys
from pathlib import Path

from schemas.errors import SandboxError

_FIRST_KERNEL = (5, 6)
_OTHERS = (
    "Or run the executor on another host, or choose 'unsafe-subprocess' with allow_unsafe for programs that you trust."
)
_REMEDIES = (
    # (setting under /proc/sys, value that denies, what to do)
    (
        "kernel/apparmor_restrict_unprivileged_userns",
        "1",
        "AppArmor denies user namespaces to unprivileged programs (Ubuntu 23.10 and later). Install the distribution's "
        "`bubblewrap` with an AppArmor profile that allows `userns` for bwrap, or "
        "`sysctl kernel.apparmor_restrict_unprivileged_userns=0`.",
    ),
    (
        "kernel/unprivileged_userns_clone",
        "0",
        "The kernel denies user namespaces to users (older Debian). `sysctl kernel.unprivileged_userns_clone=1`.",
    ),
    (
        "user/max_user_namespaces",
        "0",
        "User namespaces are off (RHEL hardening). `sysctl user.max_user_namespaces=15000`.",
    ),
)
_IN_CONTAINER = (
    "This looks like a container, whose default profile denies new namespaces or hides parts of /proc. Start it with "
    "`--security-opt seccomp=unconfined --security-opt apparmor=unconfined --security-opt systempaths=unconfined` "
    "(docker, podman), or in Kubernetes with `procMount: Unmasked` and `seccompProfile: Unconfined`."
)


def check_platform() -> None:
    """Raise `SandboxError` where it is of no use to try."""
    found = re.match(r"(\d+)\.(\d+)", platform.release())
    if sys.platform != "linux":
        msg = f"sandbox: backend 'bubblewrap' needs Linux, this is {sys.platform}. {_OTHERS}"
        raise SandboxError(msg)
    if found is None or (int(found[1]), int(found[2])) < _FIRST_KERNEL:
        msg = f"sandbox: backend 'bubblewrap' needs Linux 5.6 or later, this is {platform.release()}. {_OTHERS}"
        raise SandboxError(msg)


def explain(failure: str, root: Path = Path("/")) -> str:
    """Find the words for a slot that did not start: what happened, what this host denies, what to do."""
    remedies = [remedy for setting, value, remedy in _REMEDIES if _read(root / "proc/sys" / setting) == value]
    if not remedies and any((root / path).exists() for path in (".dockerenv", "run/.containerenv")):
        remedies = [_IN_CONTAINER]
    if not remedies:
        remedies = ["Try `bwrap --unshare-user --unshare-pid --ro-bind / / --proc /proc true`: it must succeed."]
    return " ".join((f"sandbox: a slot {failure}.", *remedies, _OTHERS))


def _read(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""
