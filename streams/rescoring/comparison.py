"""A comparison of two scorings over any number of groups."""

import msgspec

from consumers.history.rollouts import OpenGroup
from streams.rescoring.groups import GroupTally
from streams.rescoring.tallies import DomainTally, Reward

MOST_PENDING = 4096


class Scored(msgspec.Struct, frozen=True, gc=False):
    """What is kept of a new reward until its group is closed."""

    value: float | None
    reason: str | None
    detail: str = ""


class Comparison(msgspec.Struct, kw_only=True):
    """Sums by domain, and over groups."""

    domains: dict[str, DomainTally] = {}
    groups: GroupTally = msgspec.field(default_factory=GroupTally)
    pending: dict[tuple[str, Reward, Reward], int] = {}
    """Pairs of rewards, by domain, that `settle` has yet to count: many are alike."""

    def add_group(self, group: OpenGroup, *, min_valid: int) -> None:
        """Take a closed group: the rewards it had, and what was found."""
        task = group.task
        assert task is not None
        found: dict[int, Scored] = group.found
        if not found:
            return
        domain, pending = task.domain, self.pending
        for sample, scored in found.items():
            reward = group.rewards.get(sample)
            if reward is None:
                self.domain(domain).fresh.add(scored.value, scored.reason)
                continue
            was, is_now = reward.value, scored.value
            pair = (domain, (was, reward.invalid_reason), (is_now, scored.reason))
            pending[pair] = pending.get(pair, 0) + 1
            if was != is_now:
                self.domain(domain).show(f"{task.task_id}/{sample}", was, is_now, scored.detail)
        if len(pending) > MOST_PENDING:
            self.settle()
        if task.split == "train" and len(group.rewards) >= task.num_samples:
            before = {sample: reward.value for sample, reward in group.rewards.items()}
            after = before | {sample: scored.value for sample, scored in found.items()}
            self.groups.add(task.task_id, before, after, min_valid=min_valid)

    def settle(self) -> None:
        """Have everything in the sums."""
        for (domain, before, after), num in self.pending.items():
            self.domain(domain).add(before, after, num)
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
