"""A set of weights that samplers may use."""

from collections.abc import Iterable

import msgspec


class PolicyPublished(msgspec.Struct, frozen=True, kw_only=True):
    """A policy version exists, durably."""

    policy: str
    version: int
    """0 is the base."""
    parent: int | None
    run_id: str
    step: int
    address: str
    """Folder of the Hugging Face files, as a path that samplers can read."""
    digest: str
    """sha256 of `model.safetensors`; a sampler checks it before it loads."""
    num_bytes: int
    held: str = ""
    """Why it is for this run's training alone, and nobody else is to use it; empty where there is no reason."""


def newest_for_use(policies: Iterable[PolicyPublished]) -> PolicyPublished | None:
    """Return the newest version that is not held, None where all are."""
    return max((one for one in policies if not one.held), key=lambda one: one.version, default=None)
