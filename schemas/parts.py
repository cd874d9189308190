"""One part of a verifier's spec: what it looks at, what it wants to find there, and what that counts for."""

from typing import Any, Literal

import msgspec

Role = Literal["credit", "gate", "veto", "penalty"]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """One part of kind `parts`.

    - `credit`: the value is the mean of these parts' values, by weight.
    - `gate`: below `at_least` the whole is worth nothing, and what comes after it is not looked at.
    - `veto`: from `at_least` on the whole is worth nothing.
    - `penalty`: `weight` times its value is taken away, down to nothing.

    Example: `Part(kind="numeric", expected=12.5, options={"relative": 0.01})`.
    """

    kind: str
    """Name among the kinds of parts."""
    name: str = ""
    """Under which its value stands in the reward; empty is its kind."""
    of: str = "answer"
    """What it looks at: `answer` (text of the last turn), `text` (of all turns), `stdout`, `stderr` and `status` of the
    last execution, `cases` (of its cases), `calls` (of tools), or `file:PATH` in the last working directory."""
    extract: str = ""
    """What of that: all of it, or `last_line`, `fenced`, `boxed`, `json`, `tag:NAME`."""
    expected: Any = None
    """JSON value."""
    options: dict[str, Any] = {}
    """Of the kind."""
    weight: float = 1.0
    role: Role = "credit"
    at_least: float = 1.0
    after: float = 0.0
    """It is looked at only where the credit of the parts before it is at least this; else it is worth 0. So a dear part
    waits for the cheap ones."""

    @property
    def label(self) -> str:
        """Return the name under which its value stands in the reward."""
        return self.name or self.kind
