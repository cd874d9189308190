"""What a kind of part is: a pure function from what is looked at, what is wanted there and options to a value.

It reads nothing but its arguments. What stands in an answer is never an error, only worth nothing, or `TooMuchError`;
a kind raises where the spec cannot be judged by, or the machine fails it, and `AbstainError` where it has not what it
needs to judge.
"""

from collections.abc import Callable
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

import msgspec

from schemas.errors import ConfigError
from schemas.parts import Role

CostClass = Literal["cheap", "dear"]
Content = Literal["text", "stream", "cases", "steps", "rollout"]
"""What a kind is given: text; an `Outcome` whose stream is looked at; outcomes by case; turns; the whole trajectory."""
ANY_ROLE: frozenset[Role] = frozenset({"credit", "gate", "veto", "penalty"})


class AbstainError(Exception):
    """The part has not what it needs to judge: it counts for nothing either way."""


class TooMuchError(Exception):
    """There is more than is looked at: it is worth 0, except to a veto or a penalty, which then applies in full."""


class Found(msgspec.Struct, frozen=True):
    """What a part is worth, and on what that rests."""

    value: float
    """In [0, 1]."""
    why: str = ""
    parts: dict[str, float] = {}
    """Of what it is made, each in [0, 1]."""


class NoOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A kind without options."""


def nothing_to_check(_expected: Any, _options: Any) -> None:
    """Accept whatever has the right types."""


def nothing_to_load() -> None:
    """Need no library."""


@lru_cache(maxsize=64)
def version_of(library: str) -> str:
    """Return the version of a library that is installed. Raises ConfigError where it is not."""
    try:
        return version(library)
    except PackageNotFoundError:
        raise ConfigError(
            f"{library} is not installed; it comes with the extra: pip install 'rollog[domains]'"
        ) from None


class PartKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of part under its name."""

    name: str
    version: int
    """To be raised with every change that can change a value."""
    cost: CostClass = "cheap"
    """`dear`: a scoring may take as long as a hundred string comparisons, so it has processes of its own."""
    content: Content = "text"
    expects: Any
    """Type of `Part.expected`, as msgspec reads it from JSON."""
    options: type[msgspec.Struct] = NoOptions
    score: Callable[[Any, Any, Any], Found]
    """From content, expected and options."""
    check: Callable[[Any, Any], None] = nothing_to_check
    """From expected and options, when a spec is admitted; raises ValueError."""
    roles: frozenset[Role] = ANY_ROLE
    library: str = ""
    """Distribution whose version can change a value too; it comes with the extra `domains`."""
    load: Callable[[], object] = nothing_to_load
    """Imports what is heavy; its time does not count."""
    limit_s: float = 3.0
    """Seconds after which a scoring is given up, which is an invalid reward and says nothing about the answer."""

    @property
    def maker(self) -> str:
        """Return the name and version of what finds a value. Raises ConfigError where its library is not installed."""
        return f"{self.name}@{self.version}" + (f" {self.library} {version_of(self.library)}" if self.library else "")
