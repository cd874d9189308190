"""Every domain by name: those of the families here, and those that installed packages bring.

A package brings its own by an entry point of the group `rollog.domains` that names a module; what the module decorates
with `domain` is in the catalogue. Names are unique; a second owner of one is refused.
"""

import importlib
import pkgutil
import random
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points

from producers.domains.interface import Domain, Draw, Item, Tier
from schemas.errors import ConfigError

ENTRY_POINTS = "rollog.domains"
PACKAGES = (
    "producers.domains.demo",
    "producers.domains.code",
    "producers.domains.terminal",
    "producers.domains.data",
    "producers.domains.documents",
    "producers.domains.finance",
    "producers.domains.solids",
    "producers.domains.agent",
    "producers.domains.puzzles",
)
"""Families here. Each of their modules may hold domains."""
_known: dict[str, Domain] = {}
_is_complete = False


def domain(
    *, family: str, levels: int = 1, max_tokens: int = 0, tier: Tier = "downstream", source: str = "rollog"
) -> Callable[[Draw], Draw]:
    """Put a function `(rng, level) -> Item` into the catalogue, under its own name.

    Example::

        @domain(family="arithmetic", levels=3, max_tokens=16)
        def arithmetic_sum(rng: random.Random, level: int) -> Item:
            ...
    """

    def register(draw: Draw) -> Draw:
        add(
            Domain(
                name=draw.__name__,
                family=family,
                tier=tier,
                draw=draw,
                levels=levels,
                max_tokens=max_tokens,
                source=source,
                summary=summary_of(draw),
            )
        )
        return draw

    return register


def split_domain(
    *, family: str, tier: Tier
) -> Callable[[Callable[[random.Random, int, bool], Item]], Callable[[random.Random, int, bool], Item]]:
    """Put a function `(rng, level, held_out) -> Item` into the catalogue, which knows by itself what is held out."""

    def register(draw: Callable[[random.Random, int, bool], Item]) -> Callable[[random.Random, int, bool], Item]:
        add(
            Domain(
                name=draw.__name__,
                family=family,
                tier=tier,
                draw=lambda rng, level: draw(rng, level, False),
                draw_split=draw,
                levels=8,
                source="rollog",
                summary=summary_of(draw),
            )
        )
        return draw

    return register


def summary_of(draw: Callable[..., Item]) -> str:
    """Return the first line of what a function says of itself."""
    return (draw.__doc__ or "").strip().partition("\n")[0]


def add(found: Domain) -> None:
    """Put a domain into the catalogue. Raises ConfigError where another one has its name."""
    present = _known.get(found.name)
    if present is not None and module_of(present) != module_of(found):
        raise ConfigError(
            f"domain {found.name!r} of {module_of(found)} has the name of one of {module_of(present)}; "
            "rename the function"
        )
    _known[found.name] = found


def module_of(found: Domain) -> str:
    """Return where a domain's function is defined."""
    draw = found.draw
    return str((draw.func if isinstance(draw, partial) else draw).__module__)


def all_domains() -> dict[str, Domain]:
    """Return every domain by name, in order. Raises ConfigError where a package's module cannot be loaded."""
    return dict(sorted(complete().items()))


def complete() -> dict[str, Domain]:
    """Return the catalogue once all is in it. Raises ConfigError where a package's module cannot be loaded."""
    global _is_complete  # noqa: PLW0603  the catalogue is filled once in a process
    if not _is_complete:
        for package in PACKAGES:
            load(package)
        for entry in entry_points(group=ENTRY_POINTS):
            try:
                entry.load()
            except Exception as error:  # the boundary to somebody else's package
                raise ConfigError(
                    f"entry point {entry.name!r} of group {ENTRY_POINTS} ({entry.value}) cannot be loaded: {error!r}"
                ) from error
        _is_complete = True
    return _known


def load(package: str) -> None:
    """Import every module of a package, so that what they decorate is known."""
    found = importlib.import_module(package)
    for module in pkgutil.iter_modules(found.__path__, f"{package}."):
        importlib.import_module(module.name)


def get_domain(name: str) -> Domain:
    """Return the domain of that name.

    Raises:
        ConfigError: nothing is known by it.
    """
    found = complete().get(name)
    if found is None:
        known = ", ".join(all_domains())
        raise ConfigError(f"domain {name!r} is not known; known are: {known}; see `rollog domains list`")
    return found
