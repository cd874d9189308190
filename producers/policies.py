"""Which versions of this run's policy exist, and which of them cannot be used."""

from typing import Any

from producers.samplers.interface import Weights
from schemas.config import Settings
from schemas.policies import PolicyPublished


class Policies:
    """The published versions of one policy of one run."""

    def __init__(self, settings: Settings) -> None:
        self._run_id, self._policy = settings.run, settings.policy.name
        self._versions: dict[int, Weights] = {}
        self._unusable: set[int] = set()

    def take(self, record: Any) -> None:
        """Take what stands on `policies`; other runs' and other policies' versions are passed over."""
        if isinstance(record, PolicyPublished) and (record.run_id, record.policy) == (self._run_id, self._policy):
            weights = Weights(version=record.version, address=record.address, digest=record.digest)
            self._versions[record.version] = weights
            self._unusable.discard(record.version)

    def get(self, version: int) -> Weights | None:
        """Return a version, None where it was not published yet."""
        return self._versions.get(version)

    def newer_than(self, version: int | None) -> Weights | None:
        """Return the newest usable version if it is newer than `version`, None otherwise."""
        newest = max(self._versions.keys() - self._unusable, default=None)
        if newest is None or (version is not None and newest <= version):
            return None
        return self._versions[newest]

    def refuse(self, version: int) -> None:
        """Never offer this version again, unless it is published again."""
        self._unusable.add(version)
