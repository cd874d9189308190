"""A set of weights that samplers may use."""

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
