"""Old records on the way to their present shape, one version at a time.

A version is raised only where a field goes or gets another name; new fields come last, with defaults, and need none. A
field that changes its meaning gets another name: who reads only some fields of a record goes by their names alone.
"""

from collections.abc import Callable, Mapping
from typing import Any

from schemas.errors import DecodeError

Fields = dict[str, Any]
Upcast = Callable[[Fields], Fields]

VERSIONS: dict[str, int] = {}
"""Present version by record name; 1 where it is not listed."""

UPCASTS: dict[tuple[str, int], Upcast] = {}
"""How fields of (record name, version) become those of the next version."""


def current_version(name: str) -> int:
    """Return the version that is written today."""
    return VERSIONS.get(name, 1)


def upcast(
    name: str,
    version: int,
    fields: Fields,
    *,
    target: int | None = None,
    upcasts: Mapping[tuple[str, int], Upcast] = UPCASTS,
) -> Fields:
    """Return `fields` as the present version has them. Raises DecodeError for a version that has no way there."""
    wanted = current_version(name) if target is None else target
    if not 1 <= version <= wanted:
        raise DecodeError(f"{name}: got version {version}, wanted 1 to {wanted}; a newer rollog may have written it")
    for step in range(version, wanted):
        if (name, step) not in upcasts:
            raise DecodeError(f"{name}: no upcast from version {step} to {step + 1}")
        fields = upcasts[name, step](fields)
    return fields
