"""From a backend's name to a sandbox."""

from pathlib import Path

from schemas.errors import ConfigError
from streams.sandbox.bubblewrap import BubblewrapSandbox
from streams.sandbox.fake import FakeSandbox
from streams.sandbox.interface import Sandbox
from streams.sandbox.unsafe import UnsafeSandbox


def open_sandbox(backend: str, *, num_slots: int, home: Path, allow_unsafe: bool = False) -> Sandbox:
    """Open "bubblewrap", "unsafe-subprocess" (only with `allow_unsafe`) or "fake".

    Args:
        backend: there is no default and no silent fallback from one to another.
        num_slots: actions that run at once.
        home: where the root file system is kept, under `sandbox/`.
        allow_unsafe: programs may run as this user, isolated from nothing.

    Raises:
        ConfigError: no such backend, or not allowed.
        SandboxError: this host cannot isolate programs; says why and what to do.
    """
    if num_slots < 1:
        msg = f"executor.num_slots: got {num_slots}, need at least 1"
        raise ConfigError(msg)
    if backend == "bubblewrap":
        return BubblewrapSandbox(num_slots=num_slots, home=home)
    if backend == "unsafe-subprocess":
        return UnsafeSandbox(num_slots=num_slots, allow_unsafe=allow_unsafe)
    if backend == "fake":
        return FakeSandbox(num_slots=num_slots)
    msg = f"executor.sandbox: got {backend!r}, want 'bubblewrap', 'unsafe-subprocess' or 'fake'"
    raise ConfigError(msg)
