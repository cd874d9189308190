"""Paths that a caller gives for files in a sandbox's working directory."""

from pathlib import PurePosixPath

from schemas.errors import SandboxError


def check_relative(path: str) -> None:
    """Raise `SandboxError` for a path that does not stay below the working directory, whatever links there are."""
    pure = PurePosixPath(path)
    if not pure.parts or pure.is_absolute() or ".." in pure.parts or "\0" in path:
        msg = f"sandbox: file path {path!r} must be relative, without '..', to a file below the working directory"
        raise SandboxError(msg)
