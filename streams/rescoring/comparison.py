"""A comparison of two scorings over any number of groups."""

from collections import Counter
from zlib import crc32

import msgspec

from consumers.history.rollouts import OpenGroup
from streams.rescoring.groups import Effect, GroupTally, effect_of
from streams.rescoring.tallies import Direction, DomainTally, Reward, direction_of

MOST_ALIKE = 4096
"""Kinds of groups that wait to be counted."""
Rewards = tuple[tuple[int, float | None, str | None], ...]
"""Sample, value and reason."""
Look = tuple[str, bool, int, Rewards, Rewards]
"""Of a group: domain, whether its advantages are compared, how many valid rewards train, rewards before and after."""


class Scored(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a new reward until its group is closed."""

    value: float | None
    reason: str | None
    detail: str = ""


class Alike(msgspec.Struct, kw_only=True):
    """Groups that look the same."""

    num: int = 0
    flips: tuple[tuple[int, bytes, Direction], ...]
    """Samples whose value is another, their digits, and which way it went."""
    effect: Effect | None


class Comparison(msgspec.Struct, kw_only=True):
    """Sums by domain, and over groups."""

    domains: dict[str, DomainTally] = {}
    groups: GroupTally = msgspec.field(default_factory=GroupTally)
    pending: dict[Look, Alike] = {}
    """Groups that `settle` has yet to count: many are alike."""

    def add_group(self, group: OpenGroup, *, min_valid: int) -> None:
        """Take a closed group: the rewards it had, and what was found."""
        task, rewards, found = group.task, group.rewards, group.found
        assert task is not None
        if not found:
            return
        before = tuple([(sample, reward.value, reward.invalid_reason) for sample, reward in rewards.items()])
        after = tuple([(sample, scored.value, scored.reason) for sample, scored in found.items()])
        is_whole = task.split == "train" and len(rewards) >= task.num_samples
        look = (task.domain, is_whole, min_valid, before, after)
        alike = self.pending.get(look)
        if alike is None:
            if len(self.pending) == MOST_ALIKE:
                self.settle()
            alike = self.pending[look] = alike_of(look)
        alike.num += 1
        if alike.effect is not None:
            self.groups.show(task.task_id, alike.effect)
        if alike.flips:
            self._show(group, alike)

    def settle(self) -> None:
        """Have everything in the sums."""
        pairs: Counter[tuple[str, Reward | None, Reward]] = Counter()
        for (domain, _, _, before, after), alike in self.pending.items():
            rewards = {sample: (value, reason) for sample, value, reason in before}
            for sample, value, reason in after:
                pairs[domain, rewards.get(sample), (value, reason)] += alike.num
            if alike.effect is not None:
                self.groups.count(alike.effect, alike.num)
        for (domain, was, is_now), num in pairs.items():
            if was is None:
                self.domain(domain).fresh.add(*is_now, num)
            else:
                self.domain(domain).add(was, is_now, num)
        self.pending.clear()

    def domain(self, name: str) -> DomainTally:
        """Return the sums of a domain; all that was compared is in them after `settle`."""
        if name not in self.domains:
            self.domains[name] = DomainTally()
        return self.domains[name]

    def merge(self, other: "Comparison") -> None:
        """Take all of another's."""
        self.settle()
        other.settle()
        for name, tally in other.domains.items():
            self.domain(name).merge(tally)
        self.groups.merge(other.groups)

    def _show(self, group: OpenGroup, alike: Alike) -> None:
        """Consider the flips as examples."""
        task = group.task
        assert task is not None
        tally, start = self.domain(task.domain), crc32(group.key + b"/")
        for sample, digits, direction in alike.flips:
            # The checksum of the rollout's id, without making the id.
            if tally.would_show(direction, crc32(digits, start)):
                was, scored = group.rewards[sample].value, group.found[sample]
                tally.show(f"{task.task_id}/{sample}", was, scored.value, scored.detail)


def alike_of(look: Look) -> Alike:
    """Return what is the same in all groups of that look."""
    _, is_whole, min_valid, before, after = look
    was, is_now = ({sample: value for sample, value, _ in rewards} for rewards in (before, after))
    flips = tuple(
        (sample, b"%d" % sample, direction_of(was[sample], value))
        for sample, value in is_now.items()
        if sample in was and was[sample] != value
    )
    effect = effect_of(tuple(was.items()), tuple((was | is_now).items()), min_valid) if is_whole else None
    return Alike(flips=flips, effect=effect)
