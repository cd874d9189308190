"""Identities that do not depend on who computes them or how often.

The same cause, type, index and maker give the same id, so work that is done twice makes one event.
"""

import hashlib
from collections.abc import Callable


def derive_id(cause: str, type_name: str, index: int | str, maker: str = "") -> str:
    """Return the 32 hex digits that identify what `maker` made of `cause`."""
    place = str(index)
    joined = f"{len(cause)}:{cause}{len(type_name)}:{type_name}{len(place)}:{place}{len(maker)}:{maker}"
    return hashlib.sha256(joined.encode()).hexdigest()[:32]


def deriver(type_name: str, index: int | str, maker: str = "") -> Callable[[str], str]:
    """Return `derive_id` for one type, index and maker and many causes."""
    place = str(index)
    rest = f"{len(type_name)}:{type_name}{len(place)}:{place}{len(maker)}:{maker}"
    begun = hashlib.sha256().copy  # a copy costs less than looking the algorithm up again

    def derive(cause: str) -> str:
        digest = begun()
        digest.update(f"{len(cause)}:{cause}{rest}".encode())
        return digest.hexdigest()[:32]

    return derive


def derive_seed(*parts: int | str) -> int:
    """Return a seed in [0, 2**63) that depends on all parts and their order."""
    joined = "".join(f"{len(str(part))}:{part}" for part in parts)
    return int.from_bytes(hashlib.sha256(joined.encode()).digest()[:8], "big") >> 1


def digest_of(content: bytes) -> str:
    """Return `sha256:` and the hex digest."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def task_id(run_id: str, split: str, index: int, generation: str = "") -> str:
    """Return the id of a run's task; `generation` sets apart evaluations of several policy versions."""
    return derive_id(run_id, "task_issued", f"{split}/{index}", generation)


def rollout_id(task_id: str, sample: int) -> str:
    """Return the id of one sample of a task."""
    return f"{task_id}/{sample}"
