"""A sandbox that runs nothing: scripted outcomes for tests of what stands around one."""

import threading
from collections.abc import Callable, Mapping
from typing import Self

import msgspec

from schemas.errors import SandboxError
from schemas.executions import Action, Outcome
from streams.sandbox.paths import check_relative

Script = Mapping[str, Outcome] | Callable[[Action], Outcome]


class FakeSandbox:
    r"""Answers by an action's code, or by a function of the action; `ok` without output where there is no script.

    Example: `FakeSandbox({"print(1)": Outcome(status="ok", exit_code=0, stdout=b"1\n", stdout_bytes=2)})`.
    """

    def __init__(self, script: Script | None = None, *, num_slots: int = 1) -> None:
        self.num_slots = num_slots
        self.image_digest = ""
        self.actions: list[Action] = []
        """All that were run, in order."""
        self._script = script
        self._lock = threading.Lock()
        self._is_closed = False

    def run(self, action: Action) -> Outcome:
        """Answer from the script.

        Raises:
            SandboxError: the script has no answer for it, or the sandbox was closed.
        """
        with self._lock:
            if self._is_closed:
                msg = "sandbox: it was closed"
                raise SandboxError(msg)
            self.actions.append(action)
        if self._script is None:
            outcome = Outcome(status="ok", exit_code=0)
        elif callable(self._script):
            outcome = self._script(action)
        elif action.code in self._script:
            outcome = self._script[action.code]
        else:
            msg = f"fake sandbox: no answer for {action.code!r}; the script has {sorted(self._script)}"
            raise SandboxError(msg)
        return msgspec.structs.replace(outcome, backend="fake", isolation="fake")

    def open_session(self) -> "FakeSession":
        """Open a session that answers from the same script."""
        return FakeSession(self)

    def close(self) -> None:
        """Refuse from now on."""
        self._is_closed = True

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()


class FakeSession:
    """Cells and commands by the sandbox's script, files in a dictionary."""

    def __init__(self, sandbox: FakeSandbox) -> None:
        self._sandbox = sandbox
        self._files: dict[str, bytes] = {}

    def run_cell(self, code: str, wall_s: float) -> Outcome:
        """Answer for this code."""
        del wall_s
        return self._sandbox.run(Action(code=code))

    def run_command(self, line: str, wall_s: float) -> Outcome:
        """Answer for this line."""
        del wall_s
        return self._sandbox.run(Action(kind="command", code=line))

    def put(self, path: str, content: bytes) -> None:
        """Keep the content."""
        check_relative(path)
        self._files[path] = content

    def get(self, path: str) -> bytes:
        """Return what was put.

        Raises:
            SandboxError: nothing was, or the path is not a relative one.
        """
        check_relative(path)
        if path not in self._files:
            msg = f"sandbox: file {path!r}: no such file"
            raise SandboxError(msg)
        return self._files[path]

    def close(self) -> None:
        """Forget the files."""
        self._files.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
