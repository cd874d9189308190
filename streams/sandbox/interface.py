"""What a sandbox is to those who use one. Blocking; the wiring gives each caller a thread."""

from typing import Protocol, Self

from schemas.executions import Action, Outcome


class Session(Protocol):
    """One sandbox whose turns share state: Python variables, files, background processes. For one thread at a time.

    A turn that passes its deadline, and a cell that ends the interpreter, lose all of it: the outcome says
    `state_lost`, and the next turn starts from nothing.
    """

    def run_cell(self, code: str, wall_s: float) -> Outcome:
        """Run Python in the session's interpreter, and print the value of a last expression as a prompt would."""
        ...

    def run_command(self, line: str, wall_s: float) -> Outcome:
        """Run a line by `sh -c` in the session's working directory."""
        ...

    def put(self, path: str, content: bytes) -> None:
        """Write a file below the working directory.

        Raises:
            SandboxError: the path leads elsewhere, or there is no space.
        """
        ...

    def get(self, path: str) -> bytes:
        """Read a regular file below the working directory.

        Raises:
            SandboxError: no such file, not a regular one, too large, or the path leads elsewhere.
        """
        ...

    def close(self) -> None:
        """End everything in it."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...


class Sandbox(Protocol):
    """Runs actions. `run` may be called by many threads; `num_slots` of them run at once, the others wait."""

    num_slots: int
    image_digest: str
    """sha256 of the root file system, empty where there is none."""

    def run(self, action: Action) -> Outcome:
        """Run one action in a fresh place and wait for it. The sandbox's own trouble is an outcome too, `infra_error`.

        Raises:
            SandboxError: the sandbox was closed.
        """
        ...

    def open_session(self) -> Session:
        """Open a fresh place of its own, beside the slots.

        Raises:
            SandboxError: it could not be started, or this backend has none.
        """
        ...

    def close(self) -> None:
        """End everything that runs."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(self, *exc_info: object) -> None: ...
