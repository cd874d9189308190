"""Which domain comes next, at which level, by a mix. Pure: a function of the mix and of the tasks issued before.

Each group that is issued under a mix earns every domain its weight and costs the chosen one a whole; chosen is who has
most left, less what it has in flight. All of it is counted in millionths, in whole numbers, so that a sum over the log
in any order is what the issuer had when it was killed. Tasks under no mix cost and earn nothing.
"""

import math
from collections.abc import Mapping

import msgspec

from schemas.mixes import MILLION, DomainMix, MixRevised
from schemas.tasks import SamplingParams

GOLDEN = (math.sqrt(5) - 1) / 2
"""Multiples of it, modulo 1, spread most evenly: of a level between two, both are issued in proportion."""


class Choice(msgspec.Struct, frozen=True, kw_only=True):
    """What a mix says of the next task."""

    domain: str
    level: int
    mix_version: int
    num_samples: int = 0
    """0 as the settings say."""
    sampling: SamplingParams | None = None


def level_at(level: float, num_issued: int) -> int:
    """Return the whole level of a domain's task number `num_issued`."""
    below = math.floor(level)
    return below + (num_issued * GOLDEN % 1 < level - below)


class Dispatch:
    """What one run's domains have earned and cost."""

    def __init__(self) -> None:
        self.charged: dict[str, int] = {}
        """Groups issued under a mix, by domain."""
        self.issued: dict[str, int] = {}
        """Groups issued, under a mix or under none."""
        self._earned: dict[str, int] = {}
        """In millionths, under earlier mixes than `_mix`."""
        self._mix: MixRevised | None = None
        self._num_under = 0
        """Groups issued under `_mix`, whose weights are not in `_earned` yet."""
        self._weighted: list[tuple[str, DomainMix]] = []
        """Its domains that have a weight, by name."""

    def choose(self, mix: MixRevised) -> Choice | None:
        """Return what comes next under a mix; None where no domain has a weight."""
        self._go_to(mix)
        best, most = "", 0
        earned, charged, issued, times = self._earned.get, self.charged.get, self.issued.get, self._num_under + 1
        for name, one in self._weighted:
            in_flight = issued(name, 0) - one.ended
            whole = one.refunded - charged(name, 0) - (in_flight if in_flight > 0 else 0)
            left = one.weight * times + earned(name, 0) + MILLION * whole
            if not best or left > most:
                best, most = name, left
        if not best:
            return None
        chosen = mix.domains[best]
        return Choice(
            domain=best,
            level=level_at(chosen.level, self.issued.get(best, 0)),
            mix_version=mix.version,
            num_samples=chosen.num_samples,
            sampling=chosen.sampling,
        )

    def note(self, domain: str, mix: MixRevised | None) -> None:
        """Count a task of the domain that was issued under the mix, or under none."""
        self.issued[domain] = self.issued.get(domain, 0) + 1
        if mix is not None:
            self._go_to(mix)
            self.charged[domain] = self.charged.get(domain, 0) + 1
            self._num_under += 1

    def note_many(self, issued: Mapping[str, int], charged: Mapping[str, int]) -> None:
        """Count tasks by domain, all of them and those under a mix; what those earned is still to be said."""
        for counts, more in ((self.issued, issued), (self.charged, charged)):
            for domain, count in more.items():
                counts[domain] = counts.get(domain, 0) + count

    def earn(self, mix: MixRevised, num_tasks: int) -> None:
        """Credit every domain of the mix for tasks that were issued under it."""
        for name, one in mix.domains.items():
            if one.weight and num_tasks:
                self._earned[name] = self._earned.get(name, 0) + one.weight * num_tasks

    def _go_to(self, mix: MixRevised) -> None:
        if self._mix is None or mix.version != self._mix.version:
            if self._mix is not None:
                self.earn(self._mix, self._num_under)
            self._mix, self._num_under = mix, 0
            self._weighted = [(name, one) for name, one in sorted(mix.domains.items()) if one.weight > 0]
